//! The scripts as text, without a host: syntax, quoting, the bundle.

use std::io::Write as _;
use std::process::{Command, Stdio};

use super::*;

fn shells() -> Vec<(&'static str, &'static str)> {
    let boot = ("boot", include_str!("../../../shell/host/boot"));
    SCRIPTS
        .into_iter()
        .filter(|(name, _)| !name.contains('.'))
        .chain([boot])
        .collect()
}

fn feed(mut command: Command, text: &str) -> std::process::Output {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(text.as_bytes())
        .unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn dash_and_bash_can_read_every_script() {
    for (name, text) in shells() {
        for (shell, mode) in [("dash", "-n"), ("bash", "-n")] {
            let mut command = Command::new(shell);
            command.arg(mode);
            let output = feed(command, text);
            assert!(output.status.success(), "{shell} {name}: {output:?}");
        }
    }
}

#[test]
fn no_script_ends_the_bundle_early() {
    for (name, text) in SCRIPTS {
        assert!(!text.contains(END), "{name}");
        assert!(text.ends_with('\n'), "{name} must end its last line");
    }
}

/// A bundle that a lost connection cut anywhere must do nothing; a whole one unpacks every script
/// byte for byte and asks for contact.
#[test]
fn a_bundle_unpacks_whole_or_not_at_all() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().to_str().unwrap();
    let here = |text: &str| {
        text.replace("/run/xdrive", &format!("{root}/run"))
            .replace("/var/lib/xdrive", &format!("{root}/lib"))
    };
    let text = here(&bundle());
    let main = text.len() - "main\n".len();
    for cut in [100, text.len() / 2, main] {
        feed(Command::new("sh"), &text[..cut]);
        assert_eq!(
            std::fs::read_dir(dir.path()).unwrap().count(),
            0,
            "cut at {cut}"
        );
    }
    let output = feed(Command::new("sh"), &text);
    let scripts = here(&DIRECTORY);
    for (name, script) in SCRIPTS {
        let there = std::fs::read_to_string(format!("{scripts}/{name}")).unwrap();
        assert_eq!(there, here(script), "{name}");
    }
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("xdrive: booted="), "{said}");
}

#[test]
fn inputs_are_quoted() {
    assert_eq!(
        call("close", &[("XDRIVE_REASON", "it's over"), ("XDRIVE_X", "")]),
        format!(
            r"XDRIVE_REASON='it'\''s over' XDRIVE_X='' sh {}/close",
            *DIRECTORY
        )
    );
}
