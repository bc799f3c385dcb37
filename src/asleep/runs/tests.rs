use std::fs;
use std::path::Path;

use super::super::tree::tests::file_system;
use super::*;

fn id(text: &str) -> CommandId {
    CommandId::parse(text).unwrap()
}

/// Leaves a run of this record and these outputs on the drive.
fn leave(root: &Path, name: &str, record: &str, outputs: [Option<&[u8]>; 2]) {
    let folder = root.join("xdrive/runs").join(name);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("record"), record).unwrap();
    for (name, output) in ["output", "errors"].into_iter().zip(outputs) {
        if let Some(output) = output {
            fs::write(folder.join(name), output).unwrap();
        }
    }
}

/// The record of a run that began then and ended with 3.
fn record(began: u32, written: [usize; 2]) -> String {
    format!(
        r#"{{"run": "ffff", "command": "sh -c x", "container": "tools", "began": {began}.5,
            "ended": 90.0, "status": 3, "closing": null, "bound": 9, "kept": [0, 0],
            "written": {written:?}, "since": [0, 0], "is_settled": true}}"#
    )
}

#[test]
fn runs_are_listed_in_their_order_with_the_last_lines_that_their_host_would_name() {
    let fs = file_system(
        |root| {
            let lines = b"one\n  70%\r  90% \r\n \n";
            leave(root, "2b", &record(20, [20, 0]), [Some(lines), Some(b"e")]);
            let only_errors: [Option<&[u8]>; 2] = [Some(b" \n"), Some(b"x\nfailed: \xff\n")];
            leave(root, "1a", &record(10, [2, 12]), only_errors);
            let lost = record(30, [0, 0]).replace("\"status\": 3", "\"status\": null");
            leave(root, "3c", &lost.replace("90.0", "null"), [None, None]);
        },
        "",
    );
    let runs = on_record(&fs.unwrap()).unwrap();
    let seen: Vec<_> = runs.iter().map(|run| (&*run.id, &*run.last)).collect();
    let expected = [("1a", "failed: \u{fffd}"), ("2b", ""), ("3c", "")];
    assert_eq!(seen, expected);
    assert_eq!((runs[0].status, &*runs[0].container), (Some(3), "tools"));
    let lost: Vec<bool> = runs.iter().map(|run| run.is_lost).collect();
    assert_eq!(lost, [false, false, true]);
    assert!(runs.iter().all(|run| !run.is_kept && !run.runs()));
}

#[test]
fn an_output_has_its_place_and_no_more_than_a_record_keeps() {
    let most = usize::try_from(TAIL).unwrap();
    let long = [&b"cut"[..], &vec![b'x'; most]].concat();
    let fs = file_system(
        |root| {
            let written = [5_000_000, 4];
            leave(
                root,
                "1a",
                &record(10, written),
                [Some(&long), Some(b"ends")],
            );
            leave(root, "2b", &record(10, [7, 9]), [None, None]);
            // What former tries on its host wrote is theirs.
            let later = record(10, [50, 4]).replace("\"since\"", "\"first\": [46, 0], \"since\"");
            leave(root, "4d", &later, [Some(b"ends"), Some(b"ends")]);
        },
        "",
    )
    .unwrap();
    let found = outputs(&fs, &id("1a")).unwrap().remove(0);
    assert_eq!(found.len(), 2);
    assert!(found[0].is_output && !found[1].is_output);
    assert_eq!(found[0].place, 5_000_000 - TAIL);
    assert_eq!(found[0].bytes, long[3..]);
    assert_eq!((found[1].place, &*found[1].bytes), (0, &b"ends"[..]));
    let found = outputs(&fs, &id("4d")).unwrap().remove(0);
    assert_eq!((found[0].place, found[1].place), (0, 0));
    // Its outputs were not kept, and both are missing up to their ends.
    let found = outputs(&fs, &id("2b")).unwrap().remove(0);
    assert_eq!((found[0].place, found[1].place), (7, 9));
    assert!(outputs(&fs, &id("3c")).unwrap().is_empty());
}

#[test]
fn each_try_of_a_run_has_an_output_of_its_own() {
    let numbered = |number: u32| {
        let record = record(10, [1, 0]);
        record.replace("\"began\"", &format!("\"try\": {number}, \"began\""))
    };
    let fs = file_system(
        |root| {
            leave(root, "1a/tries/1", &numbered(1), [Some(b"a"), None]);
            // The second vanished before its record was written.
            fs::create_dir_all(root.join("xdrive/runs/1a/tries/2")).unwrap();
            leave(root, "1a/tries/3", &numbered(3), [Some(b"c"), None]);
            leave(root, "1a", &numbered(4), [Some(b"d"), None]);
        },
        "",
    )
    .unwrap();
    let found = outputs(&fs, &id("1a")).unwrap();
    let printed: Vec<&[u8]> = found.iter().map(|pieces| &*pieces[0].bytes).collect();
    assert_eq!(printed, [b"a", b"c", b"d"]);
    let runs = on_record(&fs).unwrap();
    assert_eq!((runs.len(), runs[0].number), (1, Some(4)));
}

#[test]
fn a_record_that_cannot_be_parsed_is_left_out_and_their_number_has_a_bound() {
    let nonsense = |root: &Path| {
        leave(root, "1a", "{", [None, None]);
        leave(root, "not-an-id", &record(10, [0, 0]), [None, None]);
        leave(root, "2b", &record(10, [0, 0]), [Some(b"good"), None]);
        fs::create_dir_all(root.join("xdrive/runs/3c/record")).unwrap();
        fs::write(root.join("xdrive/runs/4d"), "a file").unwrap();
    };
    let runs = on_record(&file_system(nonsense, "").unwrap()).unwrap();
    assert_eq!(runs.len(), 1, "{runs:?}");
    assert_eq!(runs[0].last, "good");
    let many = |root: &Path| {
        for run in 0..=2 * MOST {
            leave(root, &format!("{run:x}"), &record(10, [0, 0]), [None, None]);
        }
    };
    let runs = on_record(&file_system(many, "").unwrap()).unwrap();
    assert_eq!(runs.len(), MOST);
    assert_eq!(on_record(&file_system(|_| {}, "").unwrap()).unwrap(), []);
}

#[test]
fn hosts_keep_as_much_as_is_read() {
    let spool = include_str!("../../../shell/host/spool.py");
    assert!(spool.contains(&format!("\nMOST = {}  #", MOST / 2)));
    assert!(spool.contains("\nTAIL = 1 << 20  #"));
    let runs = include_str!("../../../shell/host/runs.py");
    assert!(runs.contains(&format!("\nLINE = {LINE}  #")));
}

#[test]
fn the_tries_of_a_run_are_read_as_its_host_has_them() {
    let order = r#"{"version":1,"words":["x"],"notice":30,"kept":9,"tries":1}"#;
    let fs = file_system(
        |root| {
            let run = |number: &str| format!("1a/tries/{number}");
            leave(root, &run("1"), &record(10, [0, 0]), [None, None]);
            let lost = record(20, [0, 0]).replace("\"status\": 3", "\"status\": null");
            leave(root, &run("2"), &lost, [None, None]);
            let closed = record(30, [0, 0]).replace("\"closing\": null", "\"closing\": \"x\"");
            leave(root, &run("3"), &closed, [None, None]);
            leave(root, &run("x"), "", [None, None]);
            leave(root, &run("4000000000"), "", [None, None]);
            leave(root, "1a", &record(40, [0, 0]), [None, None]);
            fs::write(root.join("xdrive/runs/1a/order"), order).unwrap();
            fs::create_dir(root.join("xdrive/runs/1a/tries/4")).unwrap();
            let newer = order.replace("\"version\":1", "\"version\":2");
            leave(root, "2b", &record(10, [0, 0]), [None, None]);
            fs::write(root.join("xdrive/runs/2b/order"), newer).unwrap();
        },
        "",
    )
    .unwrap();
    let found = tries(&fs, &id("1a")).unwrap();
    assert_eq!((found.begun, found.failed), (4, 1));
    // The first one failed by itself, which is none of those that lost their hosts.
    let order = found.order.clone().unwrap();
    assert_eq!(order.words, ["x"]);
    assert!(!found.may_begin(&order));
    for other in ["2b", "3c"] {
        let found = tries(&fs, &id(other)).unwrap();
        let expected = Tries {
            order: None,
            begun: 0,
            failed: 0,
        };
        assert_eq!(found, expected);
    }
}
