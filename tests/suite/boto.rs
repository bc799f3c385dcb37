//! boto3, an independent client, against `xdrive local serve`.

mod wide;

use std::path::Path;
use std::process::{Command, Output};

use rustix::process::Signal;

use crate::session::served::ServedSite;
use harness::python;

/// Runs `script` of this folder with the environment that `xdrive local env` prints, and no other.
pub(crate) fn run(python: &Path, script: &str, environment: &str) -> Output {
    let script = format!("{}/tests/suite/{script}", env!("CARGO_MANIFEST_DIR"));
    // A Python that a version manager installed finds itself through these.
    let kept = ["PATH", "HOME", "PYTHONPATH"]
        .into_iter()
        .filter_map(|name| Some((name, std::env::var_os(name)?)));
    Command::new("sh")
        .env_clear()
        .envs(kept)
        .env("AWS_CONFIG_FILE", "/dev/null")
        .env("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .args(["-c", &format!("{environment}\nexec \"$@\""), "sh"])
        .args([python.as_os_str(), script.as_ref()])
        .output()
        .unwrap()
}

#[test]
#[ignore = "needs python3 with boto3"]
fn boto3_lives_a_whole_life() {
    live(&mut ServedSite::paper(""));
}

fn live(served: &mut ServedSite) {
    let python = python("boto3");
    let environment = String::from_utf8(served.environment().stdout).unwrap();
    let output = run(&python, "life.py", &environment);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(String::from_utf8_lossy(&output.stdout), "life: lived\n");
    assert_eq!(served.end(Signal::TERM).code(), Some(0));
}
