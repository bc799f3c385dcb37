//! Jupyter, frozen by its user and at a notice, and going on.

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use super::is_taken;
use crate::session::life::{address, notebook};
use crate::session::site::{SESSION, Site};
use crate::session::terminal::ends;
use harness::{Pty, eventually_within};

/// The output of a cell in the kernel that Jupyter has.
fn cell(url: &str, code: &str, how: &str) -> String {
    let ran = notebook(url, code, &[how]);
    format!(
        "{}{}",
        String::from_utf8_lossy(&ran.stdout),
        String::from_utf8_lossy(&ran.stderr)
    )
}

/// The status of the answer to a browser with these cookies.
fn tab(jar: &Path, url: &str) -> String {
    let jar = jar.to_str().unwrap();
    let words = [
        "-s",
        "-m",
        "60",
        "-o",
        "/dev/null",
        "-w",
        "%{http_code}",
        "-b",
        jar,
        "-c",
        jar,
    ];
    let answer = Command::new("curl").args(words).arg(url).output();
    String::from_utf8(answer.unwrap().stdout).unwrap()
}

/// Waits for a prompt; Jupyter's address.
fn prompt(pty: &Pty) -> String {
    pty.see_within(SESSION, "/work#");
    address(pty)
}

#[test]
#[ignore = "needs root (namespaces, loop devices), the machine tree, criu and the Jupyter image"]
fn a_notebook_goes_on_with_its_variables_for_its_next_session_and_after_a_notice() {
    let site = Site::new();
    // A port that no other test uses while this session is between two instances.
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port().to_string();
    drop(free);
    let words = ["connect", "demo", "--freeze", "--resume", "--port", &port];
    let mut pty = site.in_terminal(&words);
    let url = prompt(&pty);
    assert_eq!(cell(&url, "x = 41", "new"), "");
    pty.type_in("\r~f");
    assert_eq!(pty.wait_within(SESSION), 0, "{}", pty.contents());
    pty.see("froze the notebook server (");
    site.is_saved("demo", 1);

    let mut back = site.in_terminal(&words);
    back.see_within(SESSION, "the notebook server goes on where it was");
    let url = prompt(&back);
    assert_eq!(cell(&url, "x += 1; print(x)", "same"), "42\n");
    let jar = site.home().join("jar");
    assert_eq!(tab(&jar, &url), "200", "with its token");
    is_taken(&site, &back, "the notebook server");
    // A tab that was left open has its cookie, and the port.
    let is_there = || tab(&jar, url.split("?token=").next().unwrap()) == "200";
    eventually_within(SESSION, || back.contents(), is_there);
    let shown = back.contents();
    let (_, again) = shown.rsplit_once("http://127.0.0.1:").unwrap();
    let again = format!("http://127.0.0.1:{}", again.lines().next().unwrap());
    assert_eq!(cell(&again, "x += 1; print(x)", "same"), "43\n");
    back.type_in("exit 4\r");
    ends(back, &site, 4, 3);
    let listed = site.run(&["ls", "demo:/v1/xdrive/frozen"]);
    assert_eq!(listed.stdout, "");
}
