//! EC2 interrupts the instance in the middle of a session.

mod wide;

use std::net::TcpListener;
use std::process::Command;
use std::time::{Duration, Instant};

use super::site::{SESSION, Site};
use harness::{Pty, eventually_within};

/// Jupyter's port, once its address was printed so many times.
fn port(pty: &Pty, times: usize) -> String {
    const ADDRESS: &str = "http://127.0.0.1:";
    let is_printed = || pty.sent(ADDRESS) >= times && pty.contents().contains("/work#");
    eventually_within(SESSION, || pty.contents(), is_printed);
    let shown = pty.contents();
    let start = shown.rfind(ADDRESS).unwrap() + ADDRESS.len();
    let end = shown[start..].find('/').unwrap();
    shown[start..start + end].to_owned()
}

fn answers(port: &str) -> bool {
    let url = format!("http://127.0.0.1:{port}/lab");
    let fetched = Command::new("curl")
        .args(["-s", "-o", "/dev/null", "-m", "10", "-w", "%{http_code}"])
        .arg(url)
        .output()
        .unwrap();
    // Without the token Jupyter refuses.
    fetched.stdout.starts_with(b"403") || fetched.stdout.starts_with(b"302")
}

#[test]
#[ignore = "needs root (namespaces, loop devices), the machine tree and the Jupyter image"]
fn a_shell_goes_on_on_another_instance_with_its_files_and_its_port() {
    let site = Site::new();
    // A port that no other test uses while this session is between two instances.
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let wanted = free.local_addr().unwrap().port().to_string();
    drop(free);
    let mut pty = site.in_terminal(&["connect", "demo", "--resume", "--port", &wanted]);
    let before = port(&pty, 1);
    assert_eq!(before, wanted);
    pty.type_in("echo kept >/root/note; clear; echo on$((1+1))\r");
    pty.see("on2");
    let first = site.interrupt("demo", 120);
    let began = Instant::now();
    pty.see_within(
        SESSION,
        &format!("EC2 takes demo's instance ({first}) back"),
    );
    pty.see_within(SESSION, "container stopped");
    println!("from the notice to unmounted: {:?}", began.elapsed());
    assert!(
        began.elapsed() < Duration::from_mins(2),
        "{}",
        pty.contents()
    );
    assert!(
        pty.sent(&format!(
            "\x1b]2;xdrive: demo's instance ({first}) ends in "
        )) > 0
    );
    assert_eq!(port(&pty, 2), before);
    println!("from the notice to a shell: {:?}", began.elapsed());
    pty.type_in("cat /root/note; echo again$((1+1))\r");
    pty.see("again2");
    pty.see("kept\n");
    assert_ne!(site.instance("demo"), first);
    eventually_within(SESSION, || pty.contents(), || answers(&before));
    pty.type_in("exit 7\r");
    assert_eq!(pty.wait_within(SESSION), 7, "{}", pty.contents());
    assert!(pty.modes_are_as_before());
    site.is_saved("demo", 2);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn an_instance_that_is_gone_without_a_word_is_gone_on_without() {
    let site = Site::new();
    let image = site.image();
    let mut pty = site.in_terminal(&["connect", "demo", "--image", &image, "--resume"]);
    pty.see_within(SESSION, "bash-");
    // So that the next prompt is the next shell's.
    pty.type_in(
        "echo kept >/work/note; sync -f /work/note; PS1='first# '; clear; echo on$((1+1))\r",
    );
    pty.see("on2");
    let first = site.interrupt("demo", 0);
    pty.see_within(SESSION, "saving what was synced");
    pty.see_within(SESSION, "container");
    pty.see_within(SESSION, "bash-");
    pty.type_in("cat /work/note; echo again$((1+1))\r");
    pty.see("again2");
    pty.see("kept");
    assert_ne!(site.instance("demo"), first);
    pty.type_in("exit\r");
    assert_eq!(pty.wait_within(SESSION), 0, "{}", pty.contents());
    site.is_saved("demo", 2);
}
