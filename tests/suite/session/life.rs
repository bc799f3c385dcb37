//! The life of a drive over several instances, in a terminal and without one.

use std::process::{Command, Output};

use harness::{DEADLINE, Pty, eventually_within};

use super::site::{SESSION, Site};

/// Begins a hyperlink, and ends one (*Hyperlinks in terminal emulators*, OSC 8).
const LINK: &str = "\x1b]8;;";

/// Jupyter's address on the screen, which is too short to be wrapped.
pub(super) fn address(pty: &Pty) -> String {
    let shown = pty.contents();
    let start = shown.find("http://127.0.0.1:").unwrap();
    shown[start..].split_whitespace().next().unwrap().to_owned()
}

/// The status of the answer. Jupyter takes half a minute to start on a busy computer, and longer on a
/// slow one; what is forwarded to it waits for that.
pub(super) fn fetch(url: &str) -> String {
    let arguments = [
        "-s",
        "-o",
        "/dev/null",
        "-m",
        "150",
        "-w",
        "%{http_code}",
        url,
    ];
    let output = Command::new("curl").args(arguments).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

pub(super) fn notebook(url: &str, code: &str, how: &[&str]) -> Output {
    let script = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/suite/session/notebook.py"
    );
    Command::new("python3")
        .args([script, url, code])
        .args(how)
        .output()
        .unwrap()
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_file_in_the_containers_layer_crosses_two_instances() {
    let site = Site::new();
    site.session("demo", &["sh", "-c", "echo hello >/root-note"])
        .is(0)
        .reports("demo is saved: its snapshot (snap-");
    site.is_saved("demo", 1);
    let second = site.run(&["connect", "demo", "--", "cat", "/root-note"]);
    assert_eq!(second.is(0).stdout, "hello\n");
    site.is_saved("demo", 2);
    assert_eq!(site.drive("demo")["generation"], 2);
    for line in second.stderr.lines() {
        assert!(line.chars().count() <= 80, "longer than a terminal: {line}");
        // People read names before ids, which stand in brackets.
        let is_bare = |word: &str| {
            let kinds = ["i-", "vol-", "snap-", "sg-"];
            kinds.iter().any(|kind| word.starts_with(kind))
        };
        assert!(!line.split_whitespace().any(is_bare), "a bare id: {line}");
    }
    second
        .reports("logged in to demo's instance (i-")
        .reports("attached demo's volume (vol-")
        .reports("verified demo's snapshot (snap-");
}

#[test]
#[ignore = "needs root (namespaces, loop devices), the machine tree and the Jupyter image"]
fn a_shell_in_a_terminal_with_jupyter_beside_it() {
    let site = Site::new();
    let identity = "[user]\n\temail = jane@example.com\n";
    std::fs::write(site.home().join(".gitconfig"), identity).unwrap();
    let mut pty = site.in_terminal(&["connect", "demo"]);
    pty.see_within(SESSION, "/work#");
    let shown = pty.contents();
    let spinner = shown
        .lines()
        .find(|line| line.contains(['⠋', '⠙', '⠹', '⠸', '⠼', '⠴']));
    assert_eq!(spinner, None, "a spinner was left in\n{shown}");
    assert!(!pty.modes_are_as_before(), "raw mode is on");

    let url = address(&pty);
    assert_eq!(pty.sent(LINK), 0, "this terminal has no hyperlinks");
    let (base, token) = url.split_once("?token=").unwrap();
    assert_eq!(fetch(&url), "200");
    assert_eq!(fetch(base), "403");
    let shorter = &token[1..];
    assert_eq!(fetch(&format!("{base}?token={shorter}")), "403");
    let ran = notebook(
        &url,
        "open('from-a-notebook', 'w').write('x'); print(6 * 7)",
        &[],
    );
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "42\n", "{ran:?}");
    // Git in a kernel has this laptop's identity a moment after the shell opened.
    let names = "import os; print('jane@' in open(os.environ['GIT_CONFIG_SYSTEM']).read())";
    let has_names = || notebook(&url, names, &[]).stdout == b"True\n";
    eventually_within(
        SESSION,
        || "Git's identity in a kernel".to_owned(),
        has_names,
    );

    pty.type_in("ls\r");
    pty.see("from-a-notebook");
    pty.type_in("clear; echo size $(stty size) $((6*7))\r");
    pty.see("size 24 80 42");
    pty.resize(30, 100);
    pty.type_in("until [ \"$(stty size)\" = '30 100' ]; do :; done; echo grown$((1+1))\r");
    pty.see("grown2");
    // Printed by what Ctrl-C is to end: between a shell's line and its next program it ends neither.
    pty.type_in("sh -c 'echo before$((1+1)); exec sleep 1000'; echo not${}reached\r");
    pty.see("before2");
    pty.type_in("\x03");
    pty.type_in("\recho code$?-$((1+1))\r");
    pty.see("code130-2");
    // A full-screen program that never leaves its screen.
    pty.type_in("printf '\\033[?1049h\\033[?25l'; exit 7\r");
    assert_eq!(pty.wait_within(SESSION), 7, "{}", pty.contents());
    assert!(pty.modes_are_as_before(), "the terminal's modes are back");
    let back = || pty.screen(|screen| !screen.alternate_screen() && !screen.hide_cursor());
    eventually_within(DEADLINE, || pty.contents(), back);
    pty.see("demo is saved: its snapshot (snap-");
    site.is_saved("demo", 1);
}

#[test]
#[ignore = "needs root (namespaces, loop devices), the machine tree and the Jupyter image"]
fn jupyter_answers_where_docker_gave_up_its_own_range_for_the_vpcs() {
    let site = Site::with_settings("secondary-cidrs = [\"172.17.0.0/16\"]\n");
    let xdrive = env!("CARGO_BIN_EXE_xdrive");
    let words = [
        "env",
        "FORCE_HYPERLINK=1",
        xdrive,
        "--local",
        "connect",
        "demo",
    ];
    let mut pty = site.program_in_terminal(&words);
    pty.see_within(SESSION, "/work#");
    let url = address(&pty);
    assert_eq!(pty.sent(&format!("{LINK}{url}\x1b\\{url}{LINK}\x1b\\")), 1);
    assert_eq!(fetch(&url), "200");
    pty.type_in("echo $(cut -d . -f 1,2 /etc/hosts | grep 172)-$((6*7))\r");
    pty.see("172.18-42");
    pty.type_in("exit\r");
    assert_eq!(pty.wait_within(SESSION), 0, "{}", pty.contents());
    site.is_saved("demo", 1);
}
