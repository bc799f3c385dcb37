//! A command between pipes: its standard streams are the local ones.

mod wide;

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::client::{Task, report};
use super::{DEADLINE, eventually};
use harness::sshd::Sshd;

/// A client that is killed when a test fails.
pub(super) struct Client(pub(super) Child);

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Client {
    pub(super) fn start(task: &Task) -> Self {
        Self(task.piped().spawn().unwrap())
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.0);
        kill_process(pid, signal).unwrap();
    }
}

/// libtest prints this much before a test of ours runs.
pub(super) fn after_banner(output: &[u8]) -> &[u8] {
    let banner = b"\nrunning 1 test\n";
    output.strip_prefix(banner).expect("libtest's first lines")
}

#[test]
#[ignore = "needs root and sshd"]
fn standard_streams_are_the_commands_own_byte_for_byte() {
    let sshd = Sshd::start();
    let task = Task::new(&sshd, "cat; printf 'to error\\n' >&2; exit 37");
    let mut client = Client::start(&task);
    let all: Vec<u8> = (0..=255).cycle().take(3 << 20).collect();
    let mut stdin = client.0.stdin.take().unwrap();
    let sent = all.clone();
    let writer = std::thread::spawn(move || stdin.write_all(&sent).unwrap());
    let mut output = Vec::new();
    let mut stdout = client.0.stdout.take().unwrap();
    stdout.read_to_end(&mut output).unwrap();
    writer.join().unwrap();
    let mut errors = String::new();
    let mut stderr = client.0.stderr.take().unwrap();
    stderr.read_to_string(&mut errors).unwrap();
    client.0.wait().unwrap();
    assert_eq!(report(&sshd), "Status(37) 37");
    assert_eq!(errors, "to error\n");
    let got = &after_banner(&output)[..all.len()];
    assert!(got == all, "the output differs from the input");
}

#[test]
#[ignore = "needs root and sshd"]
fn a_command_that_a_signal_ended_has_128_and_its_number() {
    let sshd = Sshd::start();
    let mut client = Client::start(&Task::new(&sshd, "kill -KILL $$"));
    eventually("the client ends", || client.0.try_wait().unwrap().is_some());
    assert_eq!(report(&sshd), "Status(137) 137");
}

#[test]
#[ignore = "needs root and sshd"]
fn input_that_is_not_read_waits_and_fills_no_memory() {
    let sshd = Sshd::start();
    let (over, length) = (sshd.path("over"), 96 << 20);
    let command = format!(
        "until [ -e {} ]; do sleep 0.05; done; wc -c",
        over.display()
    );
    let mut client = Client::start(&Task::new(&sshd, &command));
    let mut stdin = client.0.stdin.take().unwrap();
    let writer = std::thread::spawn(move || {
        let chunk = vec![0; 1 << 20];
        (0..length >> 20).for_each(|_| stdin.write_all(&chunk).unwrap());
    });
    std::thread::sleep(Duration::from_millis(500));
    let memory = peak_memory(client.0.id());
    assert!(memory < 64 << 20, "{memory} bytes");
    assert!(!writer.is_finished());
    std::fs::write(over, "").unwrap();
    let mut output = Vec::new();
    let mut stdout = client.0.stdout.take().unwrap();
    stdout.read_to_end(&mut output).unwrap();
    writer.join().unwrap();
    let counted = format!("{length}\n");
    assert!(after_banner(&output).starts_with(counted.as_bytes()));
}

#[test]
#[ignore = "needs root and sshd"]
fn a_slow_reader_holds_the_command_back_and_loses_nothing() {
    let sshd = Sshd::start();
    let length = 96 << 20;
    let command = format!("head -c {length} /dev/zero; echo written >&2");
    let task = Task::new(&sshd, &command);
    let mut client = Client::start(&task);
    let mut stdout = client.0.stdout.take().unwrap();
    let mut stderr = client.0.stderr.take().unwrap();
    let mut banner = [0; 16];
    stdout.read_exact(&mut banner).unwrap();
    assert_eq!(after_banner(&banner), b"");

    // While the output is not read, it must not all come into this side's memory.
    std::thread::sleep(Duration::from_millis(500));
    let memory = peak_memory(client.0.id());
    assert!(memory < 64 << 20, "{memory} bytes");
    let mut got = vec![1; length];
    stdout.read_exact(&mut got).unwrap();
    assert!(got.iter().all(|byte| *byte == 0));
    let mut written = String::new();
    drop(stdout);
    stderr.read_to_string(&mut written).unwrap();
    assert_eq!(written, "written\n");
}

/// The most memory a process ever had, in bytes (`VmHWM` in proc(5)).
fn peak_memory(pid: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes: usize = line
        .unwrap()
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .unwrap();
    kibibytes << 10
}

#[test]
#[ignore = "needs root and sshd"]
fn input_still_flows_while_the_output_is_not_read() {
    let sshd = Sshd::start();
    let command = "cat /dev/zero & read word; kill $!; echo \"got $word\" >&2; exit 4";
    let mut client = Client::start(&Task::new(&sshd, command));
    let mut stdin = client.0.stdin.take().unwrap();
    std::thread::sleep(Duration::from_millis(500));
    stdin.write_all(b"stop\n").unwrap();
    // The answer comes after all unread output, as in any pipe.
    let mut stdout = client.0.stdout.take().unwrap();
    let reader = std::thread::spawn(move || std::io::copy(&mut stdout, &mut std::io::sink()));
    let mut errors = String::new();
    let mut stderr = client.0.stderr.take().unwrap();
    stderr.read_to_string(&mut errors).unwrap();
    assert_eq!(errors, "got stop\n");
    reader.join().unwrap().unwrap();
    assert_eq!(report(&sshd), "Status(4) 4");
}

#[test]
#[ignore = "needs root and sshd"]
fn a_reader_that_goes_away_ends_an_endless_command() {
    let sshd = Sshd::start();
    let mut client = Client::start(&Task::new(&sshd, "yes"));
    let mut stdout = client.0.stdout.take().unwrap();
    let mut some = [0; 100];
    stdout.read_exact(&mut some).unwrap();
    drop(stdout);
    eventually("the client ends", || client.0.try_wait().unwrap().is_some());
    assert_eq!(report(&sshd), "Signal { number: 13 } 141");
}

#[test]
#[ignore = "needs root and sshd"]
fn a_closed_standard_error_changes_nothing() {
    let sshd = Sshd::start();
    let task = Task::new(
        &sshd,
        "sleep 0.2; echo lost >&2; sleep 0.2; echo lost >&2; exit 6",
    );
    let mut client = Client::start(&task);
    drop(client.0.stderr.take());
    eventually("the client ends", || client.0.try_wait().unwrap().is_some());
    assert_eq!(report(&sshd), "Status(6) 6");
}

#[test]
#[ignore = "needs root and sshd"]
fn a_process_ends_although_its_input_stays_open() {
    let sshd = Sshd::start();
    let mut client = Client::start(&Task::new(&sshd, "exit 0"));
    let start = Instant::now();
    let _open = client.0.stdin.take();
    eventually("the client ends", || client.0.try_wait().unwrap().is_some());
    assert!(start.elapsed() < DEADLINE / 2);
    assert_eq!(report(&sshd), "Status(0) 0");
}

#[test]
#[ignore = "needs root and sshd"]
fn a_host_that_vanishes_is_a_lost_connection() {
    let mut sshd = Sshd::start();
    let mut client = Client::start(&Task::new(&sshd, "echo ready >&2; sleep 1000"));
    let mut ready = [0; 6];
    client
        .0
        .stderr
        .take()
        .unwrap()
        .read_exact(&mut ready)
        .unwrap();
    sshd.kill();
    eventually("the client ends", || client.0.try_wait().unwrap().is_some());
    let report = report(&sshd);
    assert!(report.starts_with("Lost("), "{report}");
}

#[test]
#[ignore = "needs root and sshd"]
fn a_signal_that_was_ignored_from_the_start_stays_ignored() {
    let sshd = Sshd::start();
    let task = Task::new(&sshd, "echo ready >&2; read word; exit 9");
    let direct = task.piped();
    let mut nohup = Command::new("sh");
    nohup.args(["-c", "trap '' HUP; exec \"$0\" \"$@\""]);
    nohup.arg(direct.get_program()).args(direct.get_args());
    for (name, value) in direct.get_envs() {
        nohup.env(name, value.unwrap());
    }
    nohup.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut client = Client(nohup.stderr(Stdio::piped()).spawn().unwrap());
    let mut ready = [0; 6];
    let mut stderr = client.0.stderr.take().unwrap();
    stderr.read_exact(&mut ready).unwrap();
    client.signal(Signal::HUP);
    let mut stdin = client.0.stdin.take().unwrap();
    stdin.write_all(b"on\n").unwrap();
    eventually("the client ends", || client.0.try_wait().unwrap().is_some());
    assert_eq!(report(&sshd), "Status(9) 9");
}
