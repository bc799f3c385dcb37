//! `xdrive selftest` against moto, which has no hosts.

use crate::moto::server::Moto;

#[test]
#[ignore = "needs python3 with moto"]
fn selftest_asks_moto_what_needs_no_host_and_says_why_it_asks_no_more() {
    let moto = Moto::start_bare();
    let report = moto.home().join("report.json");
    let mut command = moto.command(env!("CARGO_BIN_EXE_xdrive").as_ref());
    command.args(["selftest", "--json"]).arg(&report);
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
    for line in [
        "ok         account",
        "ok         network",
        "ok         rights",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let why = "need not have hosts: --hosts asks all the same";
    assert!(text.contains(why), "{text}");
    let report: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(report).unwrap()).unwrap();
    assert_eq!(report["place"], "endpoint");
    let left = moto
        .command(env!("CARGO_BIN_EXE_xdrive").as_ref())
        .arg("list")
        .output()
        .unwrap();
    assert_eq!(String::from_utf8(left.stdout).unwrap(), "no drives\n");
}
