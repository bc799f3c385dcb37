//! Sessions with `--idle`: their host closes once nothing was done for so long, and the drive is saved.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::site::{SESSION, Site};
use super::terminal::{ends, has_words, write};
use super::transfers::{echoing, free};
use super::tree::inside;
use harness::{Pty, eventually_within};

/// How long a session is watched while something is done: longer than `--idle 10s`, and than the host's pause
/// between two samples, five seconds, with it.
const WATCHED: Duration = Duration::from_secs(20);

const CLOSED: &str = "error: the host closed the drive: idle for 10 s: CPU ";

/// Does something again and again while a session is watched.
fn meanwhile(mut does: impl FnMut()) {
    let end = Instant::now() + WATCHED;
    while Instant::now() < end {
        does();
        sleep(Duration::from_millis(500));
    }
}

/// Checks that the session ends by itself, since nothing is done in it any more, and is saved.
fn closes(pty: Pty, site: &Site, snapshots: usize) {
    pty.see_within(SESSION, CLOSED);
    pty.see(" %, no input, ");
    ends(pty, site, 255, snapshots);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_shell_in_which_nothing_is_typed_any_more_is_saved() {
    let site = Site::with_a_drive();
    let mut pty = site.in_terminal(&["connect", "demo", "--idle", "10s"]);
    pty.see_within(SESSION, "# ");
    write(&mut pty, "idle");
    // Typed, and nothing else: the shell shows it once it is asked to.
    pty.type_in("read -rs typed\r");
    meanwhile(|| pty.type_in("x"));
    pty.type_in("\recho kept-$((6*7))\r");
    pty.see("kept-42");
    closes(pty, &site, 2);
    has_words(&site, &["idle"]);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn what_streams_through_a_forward_keeps_a_session() {
    let site = Site::with_a_drive();
    site.configure("idle = \"10s\"\n");
    let (here, port) = (echoing(), free());
    let back = format!("7001:127.0.0.1:{here}");
    let there = format!("{port}:127.0.0.1:7001");
    let pty = site.in_terminal(&["connect", "demo", "-R", &back, "-L", &there]);
    pty.see_within(SESSION, "# ");
    pty.see_within(SESSION, "leads to port 7001 in the container");
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    meanwhile(|| {
        let mut bytes = [7; 8192];
        stream.write_all(&bytes).unwrap();
        stream.read_exact(&mut bytes).unwrap();
    });
    closes(pty, &site, 2);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_run_is_never_idle_and_a_command_is() {
    let site = Site::new();
    let image = site.image();
    let begin = |verb, seconds| {
        let words = ["demo", "--no-jupyter", "--image", &image, "--idle", "10s"];
        let script = format!("echo begun; sleep {seconds}; exit 3");
        let command = ["--", "sh", "-c", &script];
        site.run(&[&[verb], &words[..], &command].concat())
    };
    begin("run", 30).is(3).reports("demo is saved");
    let ended = begin("connect", 300);
    ended.is(255).reports(CLOSED).reports("demo is saved");
    assert_eq!(ended.stdout, "begun\n");
    site.is_saved("demo", 2);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn an_idle_host_whose_xdrive_was_killed_ends_long_before_its_lease() {
    let site = Site::with_a_drive();
    let words = ["connect", "demo", "--idle", "10s", "--keep", "3d"];
    let mut pty = site.in_terminal(&words);
    pty.see_within(SESSION, "# ");
    write(&mut pty, "killed");
    pty.signal(Signal::KILL);
    let is_off = || site.drive("demo")["state"] == "volume";
    let state = || format!("a volume, but {}", site.drive("demo"));
    eventually_within(SESSION, state, is_off);
    has_words(&site, &["killed"]);
    site.is_saved("demo", 2);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn an_hour_of_an_idle_gpu_is_printed_once_in_a_shell() {
    let site = Site::with_settings("[gpu]\ndriver = \"ready\"\n");
    let image = site.image();
    let words = ["connect", "demo", "--type", "g4dn.xlarge", "--image"];
    let mut pty = site.in_terminal(&[&words[..], &[&image]].concat());
    pty.see_within(SESSION, "# ");
    let shorter = "printf 'sample=1\\ngpu_hour=1\\n' >> /etc/xdrive";
    inside(&site, shorter);
    let line = "the GPU has been idle for 0 min; --idle 30m ends such an instance";
    pty.see_within(SESSION, line);
    let events = || inside(&site, "grep -c idle_gpu /run/xdrive/events || :");
    let told = |events: &str| events.trim().parse::<usize>().unwrap() >= 3;
    eventually_within(SESSION, events, || told(&events()));
    pty.type_in("exit\r");
    pty.wait_within(SESSION);
    assert_eq!(pty.sent("the GPU has been idle"), 1, "{}", pty.contents());
    site.is_saved("demo", 1);
}

#[test]
#[ignore = "needs root (namespaces, loop devices), the machine tree and criu"]
fn a_shell_that_may_be_frozen_goes_on_where_it_was_when_nothing_was_done_in_it() {
    let site = Site::with_a_drive();
    let words = ["connect", "demo", "--freeze", "--no-jupyter", "--idle"];
    let words = |time| [&words[..], &[time]].concat();
    let mut pty = site.in_terminal(&words("10s"));
    pty.see_within(SESSION, "# ");
    pty.type_in("WORD=$((6*7))-is-kept; echo begun-$((6*7))\r");
    pty.see_within(SESSION, "begun-42");
    pty.see_within(SESSION, "froze the shell (");
    closes(pty, &site, 2);
    let mut back = site.in_terminal(&words("none"));
    back.see_within(SESSION, "the shell goes on where it was");
    back.type_in("echo \"and $WORD\"\r");
    back.see_within(SESSION, "and 42-is-kept");
    back.type_in("exit 4\r");
    ends(back, &site, 4, 3);
}
