//! The output of runs that are on record: `runs.py` without a keeper.

use std::fs;

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
