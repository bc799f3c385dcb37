//! The house rules that a compiler does not check: who may use what, which way imports run, how
//! long a file may be.

mod orders;

use std::fs;
use std::path::{Path, PathBuf};

/// A crate or call, and the only places that may name it.
const ONLY: &[(&str, &[&str])] = &[
    ("aws_sdk_ec2", &["ec2/"]),
    ("aws_sdk_sts", &["ec2/"]),
    ("aws_config", &["ec2/"]),
    ("aws_smithy", &["ec2/", "local/wire/"]),
    ("russh", &["ssh/"]),
    ("crossterm", &["terminal.rs", "terminal/"]),
    ("indicatif", &["report.rs"]),
    ("signal_hook", &["signals.rs", "terminal.rs", "terminal/"]),
    ("println!", &["report.rs"]),
    ("process::exit", &[]),
    ("Timestamp::now()", &["clock.rs"]),
    ("SystemTime::now()", &["clock.rs"]),
];

/// A module, and the modules that it must not know.
const BLIND: &[(&str, &[&str])] = &[
    (
        "ec2/",
        &["cli", "config", "connect", "drive", "host", "report", "run"],
    ),
    (
        "host/",
        &[
            "cli", "config", "connect", "drive", "ec2", "local", "report", "run",
        ],
    ),
    (
        "drive/",
        &[
            "cli", "config", "connect", "local", "report", "run", "terminal", "signals",
        ],
    ),
    ("connect/", &["cli", "run", "selftest"]),
    (
        "local/",
        &[
            "cli", "config", "connect", "drive", "ec2", "host", "report", "run", "terminal",
        ],
    ),
];

/// The longest a file may be, in lines.
const LONGEST: usize = 500;

fn sources(root: &str, extension: &str) -> Vec<(String, String)> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join(root);
    let mut folders = vec![top.clone()];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).expect("a source folder can be read");
        for path in entries.map(|entry| entry.expect("an entry can be read").path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                found.push((name(&top, &path), fs::read_to_string(&path).expect("UTF-8")));
            }
        }
    }
    assert!(!found.is_empty(), "no {extension} files under {root}");
    found
}

fn name(top: &Path, path: &Path) -> String {
    let below: PathBuf = path.strip_prefix(top).expect("below the top").into();
    below.to_string_lossy().into_owned()
}

/// The code of a file without comments and without its own tests, line by line.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .take_while(|(_, line)| line.trim() != "#[cfg(test)]")
        .map(|(number, line)| (number + 1, line.split("//").next().unwrap_or_default()))
}

#[test]
fn every_outside_part_is_named_in_its_own_room_only() {
    let mut wrong = Vec::new();
    for (file, text) in sources("src", "rs") {
        if file.ends_with("tests.rs") {
            continue;
        }
        for (number, line) in code(&text) {
            for (word, rooms) in ONLY {
                if line.contains(word) && !rooms.iter().any(|room| file.starts_with(room)) {
                    wrong.push(format!("src/{file}:{number} names {word}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn imports_run_one_way() {
    let mut wrong = Vec::new();
    for (file, text) in sources("src", "rs") {
        for (room, unknown) in BLIND {
            if !file.starts_with(room) {
                continue;
            }
            for (number, line) in code(&text) {
                for module in *unknown {
                    if line.contains(&format!("crate::{module}::"))
                        || line.contains(&format!("crate::{module};"))
                    {
                        wrong.push(format!("src/{file}:{number} knows {module}"));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_file_is_longer_than_can_be_read_at_a_sitting() {
    let long: Vec<_> = [("src", "rs"), ("tests", "rs"), ("shell", "sh")]
        .iter()
        .flat_map(|(root, extension)| sources(root, extension))
        .filter(|(_, text)| text.lines().count() > LONGEST)
        .map(|(file, text)| format!("{file}: {} lines", text.lines().count()))
        .collect();
    assert!(long.is_empty(), "{}", long.join("\n"));
}

/// What only some distributions have.
const OF_ONE: &[&str] = &[
    "apt",
    "apt-get",
    "dnf",
    "dpkg",
    "ec2-user",
    "ecs.service",
    "rpm",
    "selinux",
    "ssh.service",
    "sshd.service",
    "sysconfig",
    "xfs",
    "yum",
];

#[test]
fn what_only_one_distribution_has_is_named_in_user_data_alone() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("shell/host");
    let mut wrong = Vec::new();
    for entry in fs::read_dir(folder).expect("the scripts can be read") {
        let path = entry.expect("an entry can be read").path();
        if path.ends_with("boot") {
            continue;
        }
        let text = fs::read_to_string(&path).expect("UTF-8");
        for (number, line) in text.lines().enumerate() {
            let code = line.split('#').next().unwrap_or_default();
            let ends = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '.'));
            for word in code.split(ends).filter(|word| OF_ONE.contains(word)) {
                wrong.push(format!("{}:{} names {word}", path.display(), number + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
