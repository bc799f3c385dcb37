//! Elastic IP addresses of both clouds, through boto3.

use super::server::prints_the_same_in_both_clouds;

/// The lines in which the two differ: moto's and the folder's, which AWS agrees with.
const DIFFERENT: [(&str, &str); 3] = [
    // EC2 user guide, *Elastic IP addresses*: an instance that loses one gets one of EC2's own again.
    (
        "two has it True False ('two', 'eipassoc', 'vpc', [('Name', 'class')])",
        "two has it True True ('two', 'eipassoc', 'vpc', [('Name', 'class')])",
    ),
    // EC2 API reference, `ReleaseAddress`.
    (
        "released in use is done",
        "released in use InvalidIPAddress.InUse",
    ),
    // EC2 user guide, *Terminate an instance*: its Elastic IP address is disassociated.
    (
        "its instance is gone ('one', 'eipassoc', 'vpc', [('Name', 'class')])",
        "its instance is gone (None, '', 'vpc', [('Name', 'class')])",
    ),
];

#[test]
#[ignore = "needs python3 with moto and boto3"]
fn addresses_are_the_same_in_both_clouds() {
    prints_the_same_in_both_clouds("addresses.py", &DIFFERENT);
}
