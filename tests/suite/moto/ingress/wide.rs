//! Variants of `ingress`, which `shell/test.sh --all` runs.

use super::opens_and_shuts;
use crate::moto::server::against_moto;

#[test]
#[ignore = "needs python3 with moto"]
fn moto_has_ingress_rules() {
    against_moto(test_name!(moto_has_ingress_rules), async |ec2| {
        opens_and_shuts(&ec2, true).await;
    });
}
