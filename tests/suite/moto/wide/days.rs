//! Bad days at moto: its own refusals lead to errors as clear as AWS's.

use crate::moto::server::Moto;

/// `xdrive connect demo` with these flags: exit code and standard error. No launched instance is
/// reached: nothing leaves this computer.
fn connect(moto: &Moto, flags: &[&str]) -> (Option<i32>, String) {
    let image = moto.home().join("no.tar");
    std::fs::write(&image, "").unwrap();
    let output = moto
        .command(env!("CARGO_BIN_EXE_xdrive").as_ref())
        .args(["connect", "demo", "--image"])
        .arg(image)
        .args(["--proxy-command", "exit 127"])
        .args(flags)
        .args(["--", "true"])
        .output()
        .unwrap();
    (
        output.status.code(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

/// Checks that nothing is left there.
fn is_bare(moto: &Moto) {
    let mut list = moto.command(env!("CARGO_BIN_EXE_xdrive").as_ref());
    let listed = list.arg("list").output().unwrap();
    assert_eq!(String::from_utf8(listed.stdout).unwrap(), "no drives\n");
}

#[test]
#[ignore = "needs python3 with moto"]
fn types_subnets_and_images_that_moto_does_not_know_are_refused_with_a_hint() {
    let moto = Moto::start_strict();
    for (flags, code, why, hint) in [
        (
            &["--type", "t3.medum"],
            2,
            "error: DescribeInstanceTypes: InvalidInstanceType: ",
            "hint: there are t3.",
        ),
        (
            &["--subnet", "subnet-0123456789abcdef0"],
            2,
            "error: there is no subnet-0123456789abcdef0 in us-east-1",
            "hint: `aws ec2 describe-subnets`",
        ),
        (
            &["--ami", "ami-0123456789abcdef0"],
            2,
            "error: RunInstances: InvalidAMIID.NotFound: ",
            "hint: --ami names an image of this region",
        ),
    ] {
        let (ended, report) = connect(&moto, flags);
        assert_eq!(ended, Some(code), "{report}");
        assert!(report.contains(why) && report.contains(hint), "{report}");
        is_bare(&moto);
    }
    // An instance that runs and cannot be reached.
    let (ended, report) = connect(&moto, &["--ami", "ami-12c6146b"]);
    assert_eq!(ended, Some(69), "{report}");
    let error = "the proxy command ended with exit status 127";
    assert!(
        report.contains("error: no way in to demo's instance (i-") && report.contains(error),
        "{report}"
    );
    is_bare(&moto);
}
