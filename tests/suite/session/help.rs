//! The help is true.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use super::site::{Ended, Site};

/// The rows of a terminal of 24, without the prompt that follows.
const ROWS: usize = 23;

/// Every command, and the program itself.
const COMMANDS: [&str; 48] = [
    "",
    "connect",
    "run",
    "attach",
    "logs",
    "containers",
    "freeze",
    "ports",
    "ps",
    "list",
    "delete",
    "rename",
    "resize",
    "diff",
    "log",
    "cost",
    "note",
    "stop",
    "fork",
    "copy",
    "adopt",
    "cat",
    "cp",
    "sync",
    "code",
    "ssh-config",
    "proxy",
    "prices",
    "gc",
    "share",
    "share create",
    "share list",
    "share delete",
    "share manifest",
    "tend",
    "doctor",
    "selftest",
    "policy",
    "local",
    "local serve",
    "local env",
    "local interrupt",
    "local rebalance",
    "local setup",
    "local connect",
    "help",
    "man",
    "completions",
];

/// The output of xdrive in a terminal of 80 columns.
fn printed(words: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xdrive"));
    command.args(words).env_clear().env("COLUMNS", "80");
    let ended = command.output().unwrap();
    let errors = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{words:?}: {errors}");
    String::from_utf8(ended.stdout).unwrap()
}

fn words<'a>(command: &'a str, flag: &'a str) -> Vec<&'a str> {
    command.split_whitespace().chain([flag]).collect()
}

/// The long flags that a text begins a line with.
fn flags(help: &str) -> BTreeSet<String> {
    let lines = help.lines().map(str::trim_start);
    let lines = lines.filter(|line| line.starts_with('-'));
    let flags = lines.filter_map(|line| line.split("--").nth(1));
    let flags = flags.map(|flag| {
        flag.split([' ', '=', '.', ',', '['])
            .next()
            .unwrap()
            .to_owned()
    });
    flags.collect()
}

/// Each flag of a long help, and the first paragraph of what it says about it.
fn sentences(help: &str) -> Vec<(String, String)> {
    let lines: Vec<&str> = help.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        if !(line.starts_with("  -") || line.starts_with("      -")) {
            continue;
        }
        let below = lines[at + 1..].iter();
        let text =
            below.take_while(|line| line.starts_with("          ") && !line.trim().is_empty());
        let words: Vec<&str> = text.map(|line| line.trim()).collect();
        found.extend(flags(line).into_iter().map(|flag| (flag, words.join(" "))));
    }
    found
}

/// A manual page without roff's escapes.
fn unescaped(page: &str) -> String {
    let escapes = [
        ("\\-", "-"),
        ("\\*(Aq", "'"),
        ("\\fB", ""),
        ("\\fI", ""),
        ("\\fR", ""),
    ];
    let unescaped = |page: String, (escape, text): (&str, &str)| page.replace(escape, text);
    escapes.into_iter().fold(page.to_owned(), unescaped)
}

#[test]
fn without_a_command_the_short_help_is_printed_whatever_else_is_given() {
    // It sets a variable of xdrive's, which clap counts as a flag.
    let site = Site::new();
    for (words, short) in [
        (&[][..], &["-h"][..]),
        (&["--local", "-q"], &["-h"]),
        (&["local"], &["local", "-h"]),
        (&["-v", "local", "-y"], &["local", "-h"]),
    ] {
        let mut command = site.words(words);
        let ended = Ended::from_output(command.env("COLUMNS", "80").output().unwrap());
        ended.is(2);
        assert_eq!((&*ended.stdout, &*ended.stderr), ("", &*printed(short)));
    }
    assert_eq!(printed(&["--local", "-h"]), printed(&["-h"]));
    let rest = "All commands and flags: xdrive --help";
    assert!(printed(&["-h"]).contains(rest));
    assert!(printed(&["--help"]).contains("\n  selftest "));
}

#[test]
fn the_short_help_of_every_command_fits_one_screen() {
    for command in COMMANDS {
        let help = printed(&words(command, "-h"));
        let rows = help.lines().count();
        assert!(rows <= ROWS, "{command}: {rows} rows\n{help}");
        let long: Vec<&str> = help
            .lines()
            .filter(|line| line.chars().count() > 80)
            .collect();
        assert!(long.is_empty(), "{command}: {long:#?}");
        assert!(
            help.contains("--help"),
            "{command} says where more is\n{help}"
        );
    }
    let shown = flags(&printed(&["connect", "-h"]));
    let first_day = [
        "dry-run",
        "gpu",
        "image",
        "keep",
        "local",
        "on-demand",
        "resume",
        "size",
        "type",
    ];
    assert_eq!(shown, first_day.map(str::to_owned).into());
}

#[test]
fn the_long_help_has_every_flag_in_groups_and_the_manual_has_all_of_it() {
    let page = unescaped(&printed(&["man"]));
    let lines: Vec<&str> = page.lines().collect();
    let entries: Vec<_> = lines
        .windows(2)
        .map(|two| (flags(two[0]), two[1]))
        .collect();
    for command in COMMANDS {
        let help = printed(&words(command, "--help"));
        // OpenSSH calls `proxy`: it is in no manual.
        let all = sentences(&help).into_iter().filter(|_| command != "proxy");
        for (flag, text) in all {
            let is_it = |(flags, about): &(BTreeSet<String>, &str)| {
                flags.contains(&flag) && !text.is_empty() && about.starts_with(&text)
            };
            assert!(
                entries.iter().any(is_it),
                "{command}: the manual has no --{flag}: {text}"
            );
        }
        for group in ["Which EC2:", "What is printed and asked:"] {
            assert!(help.contains(group), "{command}: no {group}\n{help}");
        }
    }
    let connect = printed(&["connect", "--help"]);
    for group in [
        "What to launch:",
        "The drive:",
        "The session:",
        "How hosts are reached:",
    ] {
        assert!(connect.contains(group), "{group}\n{connect}");
    }
}

#[test]
fn the_topic_of_exit_codes_names_every_command_that_prints_json() {
    let topics = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cli/topics");
    let topic = fs::read_to_string(topics.join("exit-codes.md")).unwrap();
    let list = topic.split("With `--json` (of ").nth(1).unwrap();
    let list = list.split(')').next().unwrap();
    let named: BTreeSet<&str> = list.split('`').skip(1).step_by(2).collect();
    // Those of the EC2 in a folder are the same.
    let commands = COMMANDS
        .into_iter()
        .filter(|command| !command.starts_with("local "));
    let prints_json = |command: &&str| {
        let help = printed(&words(command, "--help"));
        help.lines().any(|line| line.trim() == "--json")
    };
    let printing: BTreeSet<&str> = commands.filter(prints_json).collect();
    assert_eq!(named, printing);
}

#[test]
fn every_flag_of_connect_is_configured_by_its_name() {
    // Choices of one session, and of how it is printed.
    const OF_ONE_SESSION: [&str; 27] = [
        "address",
        "budget",
        "color",
        "discard",
        "dry-run",
        "from",
        "help",
        "ingress",
        "json",
        "no-address",
        "no-docker",
        "no-ingress",
        "no-join",
        "no-mounts",
        "no-shares",
        "no-terminal",
        "note",
        "on-demand",
        "quiet",
        "reservation",
        "shared",
        "spot",
        "tag",
        "terminal",
        "verbose",
        "yes",
        "local",
    ];
    // Keys without a flag of their name: an EC2 and a market have several flags, and tags are a table
    // here.
    const WITHOUT_FLAG: [&str; 6] = ["address_service", "cloud", "hot", "market", "spool", "tags"];
    let site = Site::new();
    site.configure("nonsense = 1\n");
    let refused = site.run(&["connect", "demo", "--", "true"]);
    refused.is(78).reports("unknown field `nonsense`");
    let known = refused.stderr.split("expected one of").nth(1).unwrap();
    let keys: BTreeSet<String> = known
        .split('`')
        .skip(1)
        .step_by(2)
        .filter(|key| *key != "port")
        .map(str::to_owned)
        .collect();
    let topic = printed(&["help", "config"]);
    for key in &keys {
        assert!(topic.contains(&format!("`{key}`")), "help config: {key}");
    }
    let which = ["local-dir", "profile", "region"];
    let named: BTreeSet<String> = flags(&printed(&["connect", "--help"]))
        .into_iter()
        .filter(|flag| !OF_ONE_SESSION.contains(&&**flag) && !which.contains(&&**flag))
        .map(|flag| flag.replace('-', "_"))
        .collect();
    let keys: BTreeSet<String> = keys
        .into_iter()
        .filter(|key| !WITHOUT_FLAG.contains(&&**key))
        .collect();
    assert_eq!(keys, named);
}

#[test]
fn every_variable_that_is_documented_is_read_and_the_other_way_round() {
    let help = printed(&["--help"]);
    let listed = help.split("Environment:").nth(1).unwrap();
    let listed = listed.split("\n\n").next().unwrap();
    let names: BTreeSet<&str> = listed
        .split_whitespace()
        .filter(|word| word.starts_with("XDRIVE_"))
        .collect();
    assert!(names.len() >= 4, "{listed}");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let of_table = fs::read_to_string(source.join("config/environment.rs")).unwrap();
    let constants: BTreeSet<&str> = of_table
        .split('"')
        .filter(|text| text.starts_with("XDRIVE_") && !text.contains(' '))
        .collect();
    assert_eq!(names, constants);
    let mut folders = vec![source];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            let by_name = [
                "var(\"XDRIVE_",
                "var_os(\"XDRIVE_",
                "try_from_env(\"XDRIVE_",
                "env = \"XDRIVE_",
            ];
            // The table, and what the fuzzer's build and that of the tests alone have.
            let may_read = ["config/environment.rs", "fuzzing.rs", "report/schema.rs"];
            let may_read = may_read.iter().any(|file| path.ends_with(file));
            for way in by_name.iter().filter(|_| !may_read) {
                assert!(!text.contains(way), "{}: {way}", path.display());
            }
        }
    }
}

#[test]
fn topics_are_listed_shown_and_made_into_manual_pages() {
    let site = Site::new();
    let list = printed(&["help"]);
    let topics = list.split("Topics of xdrive help:").nth(1).unwrap();
    let names: Vec<&str> = topics
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert_eq!(names.len(), 16, "{list}");
    let pages = site.path("pages");
    let written = site
        .words(&["man", "--dir", pages.to_str().unwrap()])
        .output();
    assert!(written.unwrap().status.success());
    for name in &names {
        let text = printed(&["help", name]);
        assert!(text.lines().count() > 10, "{name}");
        let page = fs::read_to_string(pages.join(format!("xdrive-{name}.7"))).unwrap();
        assert_eq!(page, printed(&["man", name]));
    }
    assert_eq!(
        fs::read_to_string(pages.join("xdrive.1")).unwrap(),
        printed(&["man"])
    );
    assert_eq!(
        printed(&["help", "connect"]),
        printed(&["connect", "--help"])
    );
    site.run(&["help", "moony"])
        .is(2)
        .reports("error: there is no topic or command \"moony\"\n\nhint: xdrive help lists them");
}
