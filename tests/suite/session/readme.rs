//! The README: its console blocks, typed as they stand there; its length, its picture and its links.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use harness::home::PATH;
use harness::{Pty, eventually_within};

use super::site::{SESSION, Site};

const TOP: &str = env!("CARGO_MANIFEST_DIR");

/// The longest it may be, in lines: what a newcomer reads before the first command.
const LINES: usize = 150;

/// The largest its picture may be, in bytes.
const PICTURE: u64 = 300_000;

/// The prompt of a drive's shell.
const INSIDE: &str = "/work#";

/// More than the build of a program that the tests have built already takes.
const BUILD: Duration = Duration::from_mins(10);

/// Of the tester's environment, what Cargo needs to find all built: each variable, and where it
/// points below the home folder if it is not set.
const CARGO: [(&str, Option<&str>); 4] = [
    ("CARGO_HOME", Some(".cargo")),
    ("CARGO_INCREMENTAL", None),
    ("RUSTC_WORKSPACE_WRAPPER", None),
    ("RUSTUP_HOME", Some(".rustup")),
];

fn readme() -> String {
    fs::read_to_string(Path::new(TOP).join("README.md")).unwrap()
}

/// The text after each `begin` in `text`, as far as `end`.
fn between<'a>(text: &'a str, begin: &str, end: char) -> Vec<&'a str> {
    let parts = text.split(begin).skip(1);
    parts.map(|part| part.split(end).next().unwrap()).collect()
}

#[test]
fn the_readme_is_no_longer_than_is_read_and_its_picture_no_larger() {
    let lines = readme().lines().count();
    assert!(lines <= LINES, "{lines} lines");
    let picture = fs::metadata(Path::new(TOP).join("shell/session.svg")).unwrap();
    assert!(picture.len() < PICTURE, "{} bytes", picture.len());
}

#[test]
fn every_link_of_the_readme_leads_somewhere() {
    let readme = readme();
    let used: BTreeSet<_> = between(&readme, "][", ']').into_iter().collect();
    let labels = readme.lines().filter_map(|line| line.strip_prefix('['));
    let labels = labels.filter_map(|line| line.split_once("]: https://"));
    let labels: BTreeSet<_> = labels.map(|(label, _)| label).collect();
    assert!(!labels.is_empty());
    assert_eq!(used, labels);
    let links = between(&readme, "](", ')').into_iter();
    for link in links.filter(|link| !link.starts_with("https://")) {
        let file = link.split('#').next().unwrap();
        assert!(Path::new(TOP).join(file).exists(), "{link}");
    }
}

/// The commands of each console block, without their comments.
fn blocks(readme: &str) -> Vec<Vec<&str>> {
    let blocks = readme.split("\n```console\n").skip(1);
    let lines = blocks.map(|block| block.split("\n```").next().unwrap().lines());
    lines
        .map(|lines| {
            lines
                .map(|line| {
                    let command = line.strip_prefix("$ ").expect("a command a line");
                    command.split("  #").next().unwrap().trim_end()
                })
                .collect()
        })
        .collect()
}

/// A shell in a terminal.
struct Shell {
    pty: Pty,
    /// How many commands were typed.
    typed: usize,
}

impl Shell {
    /// Types `command`, and leaves the drive's shell that it may open, with a note on the drive.
    /// Returns what is on the screen at its end, which is to be a good one.
    fn run(&mut self, command: &str) -> String {
        self.typed += 1;
        let ended = format!("end {} with ", self.typed);
        let typed = format!("clear; {command}; echo 'end' \"{} with $?.\"\r", self.typed);
        let pty = &mut self.pty;
        pty.type_in(&typed);
        let is_over = || {
            let shown = pty.contents();
            shown.contains(&ended) || shown.trim_end().ends_with(INSIDE)
        };
        let what = || format!("the end of {command}\n{}", pty.contents());
        eventually_within(BUILD, what, is_over);
        if !pty.contents().contains(&ended) {
            pty.type_in("echo 'a month of work' > notes.txt; exit\r");
            pty.see_within(SESSION, &ended);
            pty.see("is saved: its snapshot (snap-");
        }
        pty.see(&format!("{ended}0."));
        pty.contents()
    }
}

#[test]
#[ignore = "needs root (namespaces, loop devices), the machine tree and the Jupyter image"]
fn every_console_block_of_the_readme_does_what_it_says() {
    let readme = readme();
    let blocks = blocks(&readme);
    assert!(blocks.len() >= 3, "{blocks:?}");
    let programs = tempfile::tempdir().unwrap();
    symlink(env!("CARGO_BIN_EXE_xdrive"), programs.path().join("xdrive")).unwrap();
    let home = std::env::var("HOME").unwrap();
    let cargo: Vec<(&str, String)> = CARGO
        .iter()
        .filter_map(|(name, folder)| {
            let default = || folder.map(|folder| format!("{home}/{folder}"));
            Some((*name, std::env::var(name).ok().or_else(default)?))
        })
        .collect();
    let path = [
        programs.path().to_str().unwrap(),
        &format!("{}/bin", cargo[0].1),
        PATH,
    ];
    let mut environment = vec![
        ("XDRIVE_LOCAL", "1".to_owned()),
        ("PAGER", "cat".to_owned()),
        ("PATH", path.join(":")),
    ];
    environment.extend(cargo);
    for commands in blocks {
        // Each block begins anew. Where it means AWS, the EC2 in a folder stands in.
        let site = Site::new();
        let mut shell = Shell {
            pty: site.program_in_terminal(&["bash", "--noprofile", "--norc"]),
            typed: 0,
        };
        for (name, value) in &environment {
            shell.run(&format!("export {name}='{value}'"));
        }
        shell.run(&format!("cd '{TOP}'"));
        for command in &commands {
            let shown = shell.run(command);
            if command.ends_with("cat notes.txt") {
                assert!(shown.contains("a month of work"), "{shown}");
            }
        }
    }
}
