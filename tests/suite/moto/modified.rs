//! Volumes that are modified in both clouds, through boto3.

use super::server::prints_the_same_in_both_clouds;

/// The lines in which the two differ: moto's and the folder's, which AWS agrees with.
const DIFFERENT: [(&str, &str); 1] = [
    // EBS user guide, *Modify a volume using Elastic Volumes operations*: no volume is made smaller.
    ("smaller is done", "smaller InvalidParameterValue"),
];

#[test]
#[ignore = "needs python3 with moto and boto3"]
fn volumes_are_modified_the_same_in_both_clouds() {
    prints_the_same_in_both_clouds("modified.py", &DIFFERENT);
}
