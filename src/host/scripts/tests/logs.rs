//! The output of runs, by `runs.py`: of those on record, and of one whose keeper is a stand-in.

use std::fs;
use std::thread::JoinHandle;

use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketType};

use super::{Folders, PYTHON};

/// A record of a run that wrote these many bytes to both streams, and has the end of them.
fn recorded(host: &Folders, written: [usize; 2], ends: [&str; 2]) {
    let folder = host.path("drive/xdrive/runs/1f");
    fs::create_dir_all(&folder).unwrap();
    for (name, end) in ["output", "errors"].iter().zip(ends) {
        fs::write(folder.join(name), end).unwrap();
    }
    let record = serde_json::json!({
        "run": "1f", "command": "x", "began": 1.5, "ended": 2.5, "status": 3,
        "bound": 4 << 20, "kept": [0, 0], "written": written, "since": [0, 0],
    });
    fs::write(folder.join("record"), record.to_string()).unwrap();
}

/// The frames: letter, place, payload.
fn frames(host: &Folders, from: &str) -> Vec<(char, u64, String)> {
    let output = host.run(&PYTHON, "runs.py", &["logs", "1f", from, "follow"]);
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
    recorded(&host, [1008, 12], ["12345678", "first\nsecond"]);
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

/// A keeper of a run, which answers with one state after the other.
fn keep(host: &Folders, states: [serde_json::Value; 2]) -> JoinHandle<()> {
    let folder = host.path("run/commands");
    fs::create_dir_all(&folder).unwrap();
    let listener = net::socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
    let address = SocketAddrUnix::new(folder.join("1f")).unwrap();
    net::bind(&listener, &address).unwrap();
    net::listen(&listener, 2).unwrap();
    std::thread::spawn(move || {
        for state in states {
            let asked = net::accept(&listener).unwrap();
            net::recv(&asked, &mut [0; 16], RecvFlags::empty()).unwrap();
            let answer = state.to_string();
            net::send(&asked, answer.as_bytes(), SendFlags::empty()).unwrap();
        }
    })
}

#[test]
fn what_was_written_over_before_it_was_read_is_missing() {
    let host = Folders::new();
    let spool = host.path("lib/commands/1f");
    fs::create_dir_all(&spool).unwrap();
    fs::write(spool.join("output"), "abcd456789").unwrap();
    let state = |kept: usize, written: usize| {
        serde_json::json!({
            "run": "1f", "status": 3, "bound": 10, "kept": [kept, 0], "written": [written, 0],
            "since": [0, 0],
        })
    };
    let keeper = keep(&host, [state(0, 10), state(4, 14)]);
    let kept = [('o', 0, ""), ('e', 0, ""), ('o', 4, "456789"), ('x', 0, "")];
    assert_eq!(frames(&host, "0"), expected(&kept));
    keeper.join().unwrap();
}
