//! Sessions on the second tree, which differs from Debian in everything that xdrive could assume.

mod wide;

use harness::home::machine;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

use super::site::Site;

/// The image of the second tree.
pub(super) fn second() -> String {
    let (_, ami) = machine("second").unwrap();
    ami
}

/// The process 1 of the only instance that runs.
pub(super) fn init(site: &Site) -> String {
    let mut instances = fs::read_dir(site.dir().join("instances")).unwrap();
    let running = instances.find_map(|instance| {
        let record = fs::read(instance.unwrap().path().join("init.json")).ok()?;
        let record: Value = serde_json::from_slice(&record).unwrap();
        let pid = record["pid"].to_string();
        Path::new("/proc").join(&pid).exists().then_some(pid)
    });
    running.expect("an instance runs")
}

/// The output of `script` as root in the instance; the test fails if it does.
pub(super) fn inside(site: &Site, script: &str) -> String {
    let output = Command::new("nsenter")
        .args(["--target", &init(site), "--all", "--wd=/", "sh", "-c"])
        .arg(script)
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}
