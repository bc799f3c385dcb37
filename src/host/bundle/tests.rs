//! The scripts as text, and the bundle as a shell unpacks it, without a host.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use super::{DIRECTORY, END, QUESTION, SCRIPTS, bundle, command, packed};

/// A script for the bundle to run.
const CONTACT: &str = "session contact";

fn shells() -> Vec<(&'static str, &'static str)> {
    let boot = ("boot", include_str!("../../../shell/host/boot"));
    SCRIPTS
        .into_iter()
        .filter(|(name, _)| !name.contains('.'))
        .chain([boot])
        .collect()
}

fn feed(mut command: Command, text: impl AsRef<[u8]>) -> std::process::Output {
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
        .write_all(text.as_ref())
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
fn every_script_that_another_one_runs_is_in_the_bundle() {
    let names = SCRIPTS.map(|(name, _)| name);
    for (name, text) in SCRIPTS {
        for rest in text.split("${0%/*}/").skip(1) {
            let is_name = |letter: &char| letter.is_ascii_alphanumeric() || "._".contains(*letter);
            let script: String = rest.chars().take_while(is_name).collect();
            assert!(names.contains(&script.as_str()), "{name} runs {script:?}");
        }
    }
}

#[test]
fn python_can_read_every_program() {
    for (name, text) in SCRIPTS {
        if Path::new(name).extension().is_some_and(|it| it == "py") {
            let mut command = Command::new("python3");
            command.args([
                "-I",
                "-S",
                "-c",
                "import ast, sys; ast.parse(sys.stdin.buffer.read())",
            ]);
            let output = feed(command, text);
            assert!(output.status.success(), "{name}: {output:?}");
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
    let text = here(&bundle(CONTACT));
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
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(printed.contains("xdrive: booted="), "{printed}");
}

/// The command asks for the bundle only if the scripts are missing.
#[test]
fn a_host_asks_for_the_scripts_once() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().to_str().unwrap();
    // A host of its own: the scripts are looked for, and unpacked, below this directory.
    let here = |text: &str| text.replace("/var/lib/xdrive", &format!("{root}/lib"));
    let asks = |stdin: &[u8]| {
        let mut shell = Command::new("sh");
        shell.args(["-c", &here(&command("prelude"))]);
        let output = feed(shell, stdin);
        assert!(output.status.success(), "{output:?}");
        let printed = String::from_utf8(output.stdout).unwrap();
        printed
            .lines()
            .any(|line| line.strip_prefix("xdrive: ") == Some(QUESTION))
    };
    let text = here(&bundle("prelude"));
    let mut gzip = Command::new("gzip");
    gzip.arg("-c");
    assert!(asks(&feed(gzip, text).stdout));
    assert!(!asks(b""));
    let there = std::fs::read_dir(here(&DIRECTORY)).unwrap().count();
    assert_eq!(there, SCRIPTS.len());
}

#[test]
fn a_bundle_cannot_be_unpacked_without_all_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("lib");
    let command = command(CONTACT).replace("/var/lib/xdrive", missing.to_str().unwrap());
    let whole = packed(CONTACT);
    // What is unpacked first comes of some of the first bytes, depending on all of them.
    let first = (60..160).step_by(3);
    for cut in first.chain([0, whole.len() / 2, whole.len() - 20]) {
        let mut shell = Command::new("sh");
        shell.args(["-c", &command]);
        let output = feed(shell, &whole[..cut]);
        assert!(!output.status.success(), "cut at {cut}: {output:?}");
        assert!(!missing.exists(), "cut at {cut}");
    }
}

#[test]
fn a_bundle_travels_in_a_third_of_its_size() {
    let (text, packed) = (bundle(CONTACT), packed(CONTACT));
    assert!(
        packed.len() * 3 < text.len(),
        "{} of {}",
        packed.len(),
        text.len()
    );
    let mut gzip = Command::new("gzip");
    gzip.arg("-dc");
    assert_eq!(String::from_utf8(feed(gzip, &packed).stdout).unwrap(), text);
}
