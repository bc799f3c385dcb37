//! The house rules that a compiler does not check: who may use what, which way imports run, how
//! long a file may be.

mod circles;
mod debug;
mod fuzzing;
mod orders;
mod promises;
mod sentences;

use std::fs;
use std::path::{Path, PathBuf};

/// A crate or call, and the only places that may name it.
const ONLY: &[(&str, &[&str])] = &[
    ("aws_sdk_", &["ec2/"]),
    ("aws_config", &["ec2/"]),
    ("aws_credential_types", &["ec2/", "local/wire/"]),
    ("aws_runtime", &["ec2/"]),
    ("aws_sigv4", &["ec2/", "local/session.rs", "local/wire/"]),
    ("aws_smithy", &["ec2/", "local/wire/"]),
    ("aws_types", &["ec2/"]),
    ("ipnet", &["ec2/"]),
    // The calls: the drive is planned and tested without a connection.
    (
        "host::scripts",
        &["host/", "access", "attached", "session", "visit"],
    ),
    ("crossterm", &["ground/terminal"]),
    ("comfy_table", &["commands/list/table.rs"]),
    (
        "svg::",
        &[
            "commands/plot.rs",
            "commands/cost/plot.rs",
            "commands/prices/plot.rs",
        ],
    ),
    ("fuser::", &["local/plane/lazy/serve.rs"]),
    ("ignore::", &["launch/image/context.rs"]),
    ("indicatif", &["report.rs"]),
    ("parse_size", &["config/quantity.rs"]),
    ("pulldown_cmark", &["cli/topic.rs"]),
    ("supports_hyperlinks", &["report.rs"]),
    ("shlex", &["ground/quote.rs"]),
    (
        "subtle",
        &["local/session.rs", "local/wire/", "session/credentials.rs"],
    ),
    ("signal_hook", &["ground/signals.rs", "ground/terminal"]),
    // Nothing reaches the terminal around `report`, which makes it harmless. The other places are
    // raw: a shell's and a command's own output, what `cat` and `logs` print, clap's completions; or
    // they print nothing.
    (
        "io::stdout",
        &[
            "report.rs",
            "cli/pager.rs",
            "local/plane/lazy/serve.rs",
            "local/plane/supervisor.rs",
            "ssh/pipe.rs",
            "ssh/shell/",
            "ground/terminal.rs",
        ],
    ),
    (
        "io::stderr",
        &["report.rs", "ssh/pipe.rs", "ssh/shell/pipes.rs"],
    ),
    // What the library has of the crates below it, it has by one name.
    ("xdrive_ground", &["lib.rs", "local/", "ssh/"]),
    ("xdrive_local", &["lib.rs"]),
    ("xdrive_ssh", &["lib.rs"]),
    ("println!", &[]),
    ("print!(", &[]),
    ("dbg!", &[]),
    ("/dev/tty", &[]),
    ("/dev/stdout", &[]),
    ("/dev/stderr", &[]),
    ("Stdio::inherit", &[]),
    (
        "report::bytes",
        &["cli/complete.rs", "commands/cat.rs", "commands/logs.rs"],
    ),
    ("process::exit", &[]),
    ("Timestamp::now()", &["ground/clock.rs"]),
    ("SystemTime::now()", &["ground/clock.rs"]),
];

/// Every room, and the rooms that it may know. `main` starts `cli`.
const MAY_KNOW: &[(&str, &[&str])] = &[
    // In the fuzzer's build alone.
    (
        "fuzzing",
        &[
            "access", "asleep", "drive", "host", "launch", "report", "transfer",
        ],
    ),
    ("main", &["cli"]),
    (
        "cli",
        &[
            "cloud", "commands", "config", "ec2", "failure", "ids", "quote", "report",
        ],
    ),
    (
        "commands",
        &[
            "access", "cloud", "config", "drive", "ec2", "failure", "ids", "launch", "opener",
            "quote", "report", "saves", "session", "signals", "ssh", "transfer", "visit",
        ],
    ),
    // None of the three knows another: what two of them need is below.
    (
        "session",
        &[
            "access", "asleep", "attached", "clock", "cloud", "config", "drive", "ec2", "failure",
            "host", "ids", "launch", "opener", "report", "signals", "ssh", "terminal",
        ],
    ),
    (
        "saves",
        &[
            "cloud", "drive", "ec2", "failure", "host", "ids", "launch", "opener", "report",
            "signals",
        ],
    ),
    (
        "visit",
        &[
            "access", "asleep", "attached", "cloud", "config", "drive", "ec2", "failure", "host",
            "ids", "opener", "report", "signals", "ssh", "transfer",
        ],
    ),
    (
        "attached",
        &[
            "access", "clock", "cloud", "drive", "ec2", "failure", "host", "ids", "opener",
            "report", "ssh",
        ],
    ),
    (
        "opener",
        &[
            "access", "asleep", "clock", "cloud", "config", "drive", "ec2", "failure", "host",
            "ids", "launch", "report", "signals", "ssh", "terminal", "transfer",
        ],
    ),
    (
        "access",
        &[
            "clock", "config", "drive", "ec2", "host", "ids", "report", "retry", "ssh", "terminal",
        ],
    ),
    (
        "launch",
        &["cloud", "config", "drive", "ec2", "failure", "ids"],
    ),
    ("transfer", &["host", "ids"]),
    ("asleep", &["ec2", "host", "ids"]),
    (
        "cloud",
        &[
            "clock", "config", "drive", "ec2", "failure", "ids", "local", "quote",
        ],
    ),
    ("config", &["drive", "ec2", "failure", "host", "ids", "ssh"]),
    ("failure", &["drive", "ec2", "ids", "report", "signals"]),
    ("drive", &["clock", "ec2", "host", "ids", "quote"]),
    ("ec2", &["clock", "ids", "retry"]),
    ("host", &["ids", "quote", "ssh"]),
    ("report", &["terminal"]),
];

/// The crates below the library, by their folders, and the rooms that it has of each. Cargo holds that they
/// know nothing of it.
const CRATES: &[(&str, &[&str])] = &[
    (
        "ground",
        &["clock", "ids", "quote", "retry", "signals", "terminal"],
    ),
    ("local", &["local"]),
    ("ssh", &["ssh"]),
];

/// The longest a file may be, in lines.
const LONGEST: usize = 500;

/// The files of this extension below `root`, by their path from there, and their text.
fn sources(root: &str, extension: &str) -> Vec<(String, String)> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join(root);
    let mut folders = vec![top.clone()];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).expect("a source folder can be read");
        for path in entries.map(|entry| entry.expect("an entry can be read").path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().unwrap_or_default() == extension {
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

/// The rooms that a file names: `crate::room`, and all in `crate::{room::item, room}`.
fn known(text: &str) -> Vec<(usize, String)> {
    let lines: Vec<&str> = code(text).map(|(_, line)| line).collect();
    let whole = lines.join("\n");
    let mut found = Vec::new();
    for (at, _) in whole.match_indices("crate::") {
        let number = whole[..at].lines().count().max(1);
        let rest = &whole[at + "crate::".len()..];
        let first = |part: &str| -> String {
            let part = part.trim_start().chars();
            part.take_while(|c| c.is_alphanumeric() || *c == '_')
                .collect()
        };
        let Some(group) = rest.strip_prefix('{') else {
            found.push((number, first(rest)));
            continue;
        };
        let mut depth = 0;
        let mut part = 0;
        for (index, c) in group.char_indices() {
            let is_end = depth == 0 && c == '}';
            if is_end || (depth == 0 && c == ',') {
                found.push((number, first(&group[part..index])));
                part = index + 1;
            }
            match c {
                _ if is_end => break,
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
        }
    }
    found.retain(|(_, room)| !room.is_empty());
    found
}

#[test]
fn every_way_to_name_a_room_is_seen() {
    let text = "use crate::ec2;\nuse crate::{clock::Clock, drive::{plan, proof}, host};\n\
                let _ = crate::ssh::REACH; // crate::cli\n";
    let rooms: Vec<String> = known(text).into_iter().map(|(_, room)| room).collect();
    assert_eq!(rooms, ["ec2", "clock", "drive", "host", "ssh"]);
}

#[test]
fn imports_run_one_way() {
    let mut wrong = Vec::new();
    // Those above: who may know a room stands before it.
    for (index, (room, known)) in MAY_KNOW.iter().enumerate() {
        let below: Vec<&str> = MAY_KNOW[index..].iter().map(|(room, _)| *room).collect();
        let below = [
            below,
            CRATES
                .iter()
                .flat_map(|(_, rooms)| *rooms)
                .copied()
                .collect(),
        ]
        .concat();
        for other in known.iter().filter(|other| !below.contains(other)) {
            wrong.push(format!("{room} stands below {other}, and may not know it"));
        }
    }
    for (file, text) in sources("src", "rs") {
        if file == "lib.rs" || file.ends_with("tests.rs") || file.contains("/tests/") {
            continue;
        }
        let room = file.split(['/', '.']).next().unwrap_or_default();
        if CRATES.iter().any(|(folder, _)| *folder == room) {
            continue;
        }
        let Some((_, may)) = MAY_KNOW.iter().find(|(name, _)| *name == room) else {
            wrong.push(format!("src/{file} is in no room"));
            continue;
        };
        for (number, other) in known(&text) {
            if other != room && !may.contains(&other.as_str()) {
                wrong.push(format!("src/{file}:{number} knows {other}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_file_is_longer_than_can_be_read_at_a_sitting() {
    let roots = [
        ("src", "rs"),
        ("tests", "rs"),
        ("shell", "sh"),
        ("shell/host", ""),
        ("shell/host", "py"),
    ];
    let long: Vec<_> = roots
        .iter()
        .flat_map(|(root, extension)| sources(root, extension))
        .filter(|(_, text)| text.lines().count() > LONGEST)
        .map(|(file, text)| format!("{file}: {} lines", text.lines().count()))
        .collect();
    assert!(long.is_empty(), "{}", long.join("\n"));
}

/// Words that only some distributions have.
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
fn only_user_data_names_programs_that_one_distribution_alone_has() {
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
