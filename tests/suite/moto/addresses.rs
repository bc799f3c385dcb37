//! Elastic IP addresses of both clouds, through boto3.

use super::groups::{lines, with};
use super::server::Moto;
use crate::boto;
use crate::session::served::ServedSite;
use harness::python;

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
    let moto = Moto::start();
    let python = python("boto3");
    let script = format!("{}/tests/suite/addresses.py", env!("CARGO_MANIFEST_DIR"));
    let mut ask = moto.command(&python);
    // The name that boto3 knows the region by.
    ask.arg(script).env("AWS_DEFAULT_REGION", "us-east-1");
    let expected = with(lines(ask.output().unwrap()), &DIFFERENT);
    let served = ServedSite::paper("");
    let environment = String::from_utf8(served.environment().stdout).unwrap();
    let printed = boto::run(&python, "addresses.py", &environment);
    assert_eq!(lines(printed), expected);
}
