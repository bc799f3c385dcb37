//! The output of runs, by `runs.py`: of those on record, and of one whose keeper is a stand-in.

use std::fs;
use std::thread::JoinHandle;

use rustix::net::{
    self, AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};

use super::{Folders, PYTHON};

/// The length of the files with the outputs of a running command, in bytes.
const BOUND: usize = 10;

/// The state of a run that wrote so many bytes to each stream, those from `kept` on still kept.
fn state(has_ended: bool, kept: [usize; 2], written: [usize; 2]) -> serde_json::Value {
    serde_json::json!({
        "run": "1f", "command": "x", "began": 1.5, "ended": has_ended.then_some(2.5),
        "status": has_ended.then_some(3), "bound": BOUND, "kept": kept, "written": written,
        "since": [0, 0],
    })
}

/// Puts a run on record, with its last state and the end of each output.
fn record(host: &Folders, state: &serde_json::Value, ends: [&str; 2]) {
    let folder = host.path("drive/xdrive/runs/1f");
    fs::create_dir_all(&folder).unwrap();
    for (name, end) in ["output", "errors"].iter().zip(ends) {
        fs::write(folder.join(name), end).unwrap();
    }
    fs::write(folder.join("record"), state.to_string()).unwrap();
}

/// The frames up to the run's end: letter, place, payload.
fn frames(host: &Folders, from: &str) -> Vec<(char, u64, String)> {
    frames_of(host, &[from, "follow"])
}

fn frames_of(host: &Folders, words: &[&str]) -> Vec<(char, u64, String)> {
    let words = [&["logs", "1f"][..], words].concat();
    let output = host.run_with_input(&PYTHON, "runs.py", &words);
    assert!(output.status.success(), "{output:?}");
    let (mut rest, mut frames) = (&output.stdout[..], Vec::new());
    while let Some((head, after)) = rest.split_at_checked(13) {
        let place = u64::from_be_bytes(head[1..9].try_into().unwrap());
        let length = u32::from_be_bytes(head[9..].try_into().unwrap());
        let (payload, after) = after.split_at(usize::try_from(length).unwrap());
        let payload = String::from_utf8(payload.to_vec()).unwrap();
        frames.push((char::from(head[0]), place, payload));
        rest = after;
    }
    assert!(rest.is_empty(), "{output:?}");
    frames
}

fn expected(frames: &[(char, u64, &str)]) -> Vec<(char, u64, String)> {
    let frames = frames.iter();
    frames
        .map(|(kind, place, payload)| (*kind, *place, (*payload).to_owned()))
        .collect()
}

#[test]
fn output_goes_on_at_the_byte_that_is_asked_for_or_at_the_first_that_is_kept() {
    let host = Folders::new();
    let ended = state(true, [0, 0], [1008, 12]);
    record(&host, &ended, ["12345678", "first\nsecond"]);
    let all = [
        ('o', 1000, ""),
        ('e', 0, ""),
        ('o', 1000, "12345678"),
        ('e', 0, "first\nsecond"),
        ('x', 0, ""),
    ];
    assert_eq!(frames(&host, "0"), expected(&all));
    let rest = [
        ('o', 1005, ""),
        ('e', 12, ""),
        ('o', 1005, "678"),
        ('x', 0, ""),
    ];
    assert_eq!(frames(&host, "1005:12"), expected(&rest));
    // What was not kept is missing, and its place says so.
    let late = [
        ('o', 1000, ""),
        ('e', 6, ""),
        ('o', 1000, "12345678"),
        ('e', 6, "second"),
        ('x', 0, ""),
    ];
    assert_eq!(frames(&host, "9:6"), expected(&late));
}

#[test]
fn a_run_that_ended_before_the_window_has_no_output_in_it() {
    let host = Folders::new();
    record(&host, &state(true, [0, 0], [3, 2]), ["abc", "de"]);
    let none = [('o', 3, ""), ('e', 2, ""), ('x', 0, "")];
    assert_eq!(frames(&host, "60"), expected(&none));
}

/// A keeper of a run, which answers with one state after the other, and is gone then.
fn keep(host: &Folders, states: Vec<serde_json::Value>) -> JoinHandle<()> {
    let folder = host.path("run/commands");
    fs::create_dir_all(&folder).unwrap();
    // A child that had it too would be a keeper that does not answer.
    let listener = net::socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )
    .unwrap();
    let address = SocketAddrUnix::new(folder.join("1f")).unwrap();
    net::bind(&listener, &address).unwrap();
    net::listen(&listener, 2).unwrap();
    std::thread::spawn(move || {
        for state in states {
            let asked = net::accept_with(&listener, SocketFlags::CLOEXEC).unwrap();
            net::recv(&asked, &mut [0; 16], RecvFlags::empty()).unwrap();
            let answer = state.to_string();
            net::send(&asked, answer.as_bytes(), SendFlags::empty()).unwrap();
        }
    })
}

/// Writes the file with the standard output of a running command.
fn write_spool(host: &Folders, output: &str) {
    let spool = host.path("lib/commands/1f");
    fs::create_dir_all(&spool).unwrap();
    fs::write(spool.join("output"), output).unwrap();
}

#[test]
fn output_that_was_overwritten_before_it_was_read_is_missing() {
    let host = Folders::new();
    write_spool(&host, "abcd456789");
    let states = vec![state(true, [0, 0], [10, 0]), state(true, [4, 0], [14, 0])];
    let keeper = keep(&host, states);
    let kept = [('o', 0, ""), ('e', 0, ""), ('o', 4, "456789"), ('x', 0, "")];
    assert_eq!(frames(&host, "0"), expected(&kept));
    keeper.join().unwrap();
}

#[test]
fn overwritten_output_is_missing_after_the_keeper_has_gone() {
    let host = Folders::new();
    write_spool(&host, "abcd456789");
    let ended = state(true, [4, 0], [14, 0]);
    record(&host, &ended, ["456789abcd", ""]);
    let keeper = keep(&host, vec![state(false, [0, 0], [10, 0])]);
    let kept = [
        ('o', 0, ""),
        ('e', 0, ""),
        ('o', 4, "456789"),
        ('o', 10, "abcd"),
        ('x', 0, ""),
    ];
    assert_eq!(frames(&host, "0"), expected(&kept));
    keeper.join().unwrap();
}

/// The spool went with the keeper, and the command wrote more than the keeper answered with.
#[test]
fn output_goes_on_with_the_record_after_the_keeper_has_gone() {
    let host = Folders::new();
    let ended = state(true, [0, 0], [0, 10]);
    record(&host, &ended, ["", "0123456789"]);
    let keeper = keep(&host, vec![state(false, [0, 0], [0, 4])]);
    let all = [
        ('o', 0, ""),
        ('e', 0, ""),
        ('e', 0, "0123"),
        ('e', 4, "456789"),
        ('x', 0, ""),
    ];
    assert_eq!(frames(&host, "0"), expected(&all));
    keeper.join().unwrap();
}

#[test]
fn bytes_that_are_missing_at_the_end_have_a_frame_without_any() {
    let host = Folders::new();
    let ended = state(true, [0, 10], [0, 20]);
    record(&host, &ended, ["", "abcdefghij"]);
    let keeper = keep(&host, vec![state(false, [0, 0], [0, 4])]);
    let none = [('o', 0, ""), ('e', 0, ""), ('e', 4, ""), ('x', 0, "")];
    assert_eq!(frames_of(&host, &["0"]), expected(&none));
    keeper.join().unwrap();
}

/// A command of three bytes and three more, which the host's disk has no room for.
const ON_A_FULL_DISK: &str = r#"
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from spool import Stream, record


def full(data):
    raise OSError("no space left")


streams = [Stream(kind, os.pipe(), f"/var/lib/xdrive/commands/1f/{kind}", 10) for kind in "oe"]
output = streams[0]
output.pipe, end = output.pipe
os.write(end, b"abc")
output.read()
output.keep = full
os.write(end, b"def")
output.read()
state = {
    "run": "1f", "command": "x", "began": 1.5, "ended": 2.5, "status": 3, "bound": 10,
    "kept": [stream.kept_in_file() for stream in streams],
    "written": [stream.written for stream in streams], "since": [0, 0],
}
assert state["kept"] == [6, 0], "others cannot read what the file lacks"
record(state, streams)
"#;

#[test]
fn a_record_has_the_end_of_an_output_for_which_the_hosts_disk_was_full() {
    let host = Folders::new();
    host.write("full.py", ON_A_FULL_DISK);
    let ended = host.run(&PYTHON, "full.py", &[]);
    assert!(ended.status.success(), "{ended:?}");
    let end = [('o', 3, ""), ('e', 0, ""), ('o', 3, "def"), ('x', 0, "")];
    assert_eq!(frames(&host, "0"), expected(&end));
}
