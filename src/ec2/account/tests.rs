use super::is_region;

#[test]
fn a_zone_or_a_half_name_is_no_region() {
    for name in [
        "us-east-1",
        "us-gov-west-1",
        "eusc-de-east-1",
        "ap-southeast-7",
    ] {
        assert!(is_region(name), "{name}");
    }
    for name in [
        "us-east-1a",
        "us-east1",
        "useast1",
        "us-east",
        "",
        "US-EAST-1",
        "us--1",
        "-1",
    ] {
        assert!(!is_region(name), "{name}");
    }
}
