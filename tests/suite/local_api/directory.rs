//! The state directory: shared, damaged, left behind by the killed.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use xdrive::clock::Clock;
use xdrive::local::{Local, Settings};

use super::{call, launch_params, pass, text, texts};
use crate::folder::{Folder, open};

#[test]
fn two_handles_share_one_world() {
    // The machine's own clock, since threads do not use tokio's.
    let folder = tempfile::tempdir().unwrap();
    let open = || system(folder.path());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let local = open();
                for _ in 0..25 {
                    let zone = [("AvailabilityZone", "us-east-1a"), ("Size", "1")];
                    call(&local, "CreateVolume", &zone).unwrap();
                    call(&local, "DescribeVolumes", &[]).unwrap();
                }
            });
        }
    });
    let all = call(&open(), "DescribeVolumes", &[]).unwrap();
    assert_eq!(texts(&all, "volumeId").len(), 100);
}

#[tokio::test(start_paused = true)]
async fn a_later_process_finds_what_an_earlier_one_made() {
    let folder = Folder::aws();
    let id = folder.launch();
    pass(20.0).await;
    let other = folder.reopen().unwrap();
    let answer = call(&other, "DescribeInstances", &[("InstanceId.1", &id)]).unwrap();
    assert_eq!(text(&answer, "instanceId"), id);
    assert_eq!(other.credentials(), folder.local.credentials());
    let mode = std::fs::metadata(folder.path("credentials.json"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let message = format!("{:?}", other.credentials());
    assert!(!message.contains(&other.credentials().secret_access_key));
}

#[tokio::test(start_paused = true)]
async fn a_damaged_state_file_is_an_error_that_says_what_to_do_and_is_left_alone() {
    let folder = Folder::aws();
    folder.launch();
    let path = folder.path("state.json");
    let whole = std::fs::read_to_string(&path).unwrap();
    let newer = whole.replacen("\"version\":1", "\"version\":2", 1);
    let other = "{\"version\":7,\"worlds\":[]}".to_owned();
    let older = "{\"version\":0,\"machines\":[]}".to_owned();
    for (text, expected) in [
        (String::new(), "damaged"),
        (whole[..whole.len() / 2].to_owned(), "damaged"),
        ("[]".to_owned(), "damaged"),
        (newer, "update xdrive"),
        (other, "update xdrive"),
        (
            older,
            "written by an older xdrive (format 0, this one knows 1)",
        ),
    ] {
        std::fs::write(&path, &text).unwrap();
        let opening = format!("{:#}", folder.reopen().unwrap_err());
        let calling = folder
            .try_call("DescribeInstances", &[])
            .unwrap_err()
            .message;
        let changing = folder
            .try_call("RunInstances", &launch_params("us-east-1a"))
            .unwrap_err();
        for message in [&opening, &calling, &changing.message] {
            assert!(
                message.contains(expected) && message.contains("state.json"),
                "{message}"
            );
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
    std::fs::remove_file(&path).unwrap();
    let lost = format!("{:#}", folder.reopen().unwrap_err());
    assert!(lost.contains("is missing"), "{lost}");
    assert!(!path.exists());
    std::fs::write(&path, whole).unwrap();
    folder.call("DescribeInstances", &[]);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_killed_is_completed_or_undone_by_the_next() {
    let folder = Folder::aws();
    let instance = folder.launch();
    let (held, free) = (folder.volume(), folder.volume());
    pass(20.0).await;
    let params = [
        ("VolumeId", held.as_str()),
        ("InstanceId", &instance),
        ("Device", "/dev/sdf"),
    ];
    folder.call("AttachVolume", &params);
    pass(5.0).await;
    let path = folder.path("state.json");
    let leave = |intent: &str| {
        let state = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, state.replacen("\"unfinished\":null", intent, 1)).unwrap();
        std::fs::write(folder.path(".new-left"), "half").unwrap();
    };
    let is_clean = || {
        assert!(
            std::fs::read_to_string(&path)
                .unwrap()
                .contains("\"unfinished\":null")
        );
    };
    // Killed in the middle of detaching: the volume is detached.
    leave(&format!(
        "\"unfinished\":{{\"detach\":{{\"volume\":\"{held}\",\"instance\":\"{instance}\"}}}}"
    ));
    folder.reopen().unwrap();
    is_clean();
    assert!(!folder.path(".new-left").exists());
    assert_eq!(folder.volume_state(&held), "available");
    // Killed in the middle of attaching: the volume is not attached. A read recovers, too.
    leave(&format!(
        "\"unfinished\":{{\"attach\":{{\"volume\":\"{free}\",\"instance\":\"{instance}\"}}}}"
    ));
    assert_eq!(folder.volume_state(&free), "available");
    is_clean();
    // Killed in the middle of making something that has no record yet.
    leave("\"unfinished\":\"sweep\"");
    folder.call("DescribeVolumes", &[]);
    is_clean();
}

#[tokio::test(start_paused = true)]
async fn a_directory_stays_what_it_was_made_as() {
    let folder = Folder::aws();
    let open_in = |region: &str| {
        folder.reopen_with(&Settings {
            region: Some(region.to_owned()),
            ..Settings::default()
        })
    };
    let error = open_in("eu-central-1").unwrap_err().to_string();
    assert!(
        error.contains("eu-central-1") && error.contains("us-east-1"),
        "{error}"
    );
    assert!(open_in("mars-1").is_err());
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_was_set_back_hides_and_stops_nothing() {
    let folder = Folder::aws();
    let id = folder.launch();
    pass(2.0).await;
    let hour = jiff::SignedDuration::from_hours(1);
    let clock = Clock::tokio(folder.clock.now() - hour);
    let set_back = open(&folder.path(""), &clock, &folder.settings).unwrap();
    let state = || {
        let seen = call(&set_back, "DescribeInstances", &[("InstanceId.1", &id)]).unwrap();
        text(super::find(&seen, "instanceState").unwrap(), "name")
    };
    assert_eq!(state(), "pending");
    call(
        &set_back,
        "CreateVolume",
        &[("AvailabilityZone", "us-east-1a"), ("Size", "1")],
    )
    .unwrap();
    pass(20.0).await;
    assert_eq!(state(), "running");
    assert_eq!(folder.instance_state(&id), "running");
}

/// Not a test: the process that `a_killed_writer_loses_nothing_that_was_answered` runs and kills.
#[test]
#[ignore = "the other process of a_killed_writer_loses_nothing_that_was_answered"]
fn writer() {
    let Some(dir) = std::env::var_os("XDRIVE_TEST_WRITER") else {
        return;
    };
    let local = system(std::path::Path::new(&dir));
    let mut out = std::io::stdout();
    loop {
        let params = [("AvailabilityZone", "us-east-1a"), ("Size", "1")];
        let made = call(&local, "CreateVolume", &params).unwrap();
        writeln!(out, "made {}", text(&made, "volumeId")).unwrap();
    }
}

#[test]
fn a_killed_writer_loses_nothing_that_was_answered() {
    let dir = tempfile::tempdir().unwrap();
    let mut answered = Vec::new();
    for _ in 0..5 {
        let mut writers: Vec<_> = (0..2)
            .map(|_| {
                Command::new(std::env::current_exe().unwrap())
                    .args([test_name!(writer), "--exact", "--ignored", "--nocapture"])
                    .env("XDRIVE_TEST_WRITER", dir.path())
                    .stdout(Stdio::piped())
                    .spawn()
                    .unwrap()
            })
            .collect();
        let mut outputs: Vec<_> = writers
            .iter_mut()
            .map(|writer| BufReader::new(writer.stdout.take().unwrap()).lines())
            .collect();
        // Both are writing when they are killed.
        for output in &mut outputs {
            let lines = output.by_ref().map(Result::unwrap);
            let lines: Vec<_> = lines.filter(|line| made(line)).take(8).collect();
            assert_eq!(lines.len(), 8, "the writer ended: {lines:?}");
            answered.extend(lines);
        }
        for writer in &mut writers {
            writer.kill().unwrap();
            writer.wait().unwrap();
        }
        for output in outputs {
            answered.extend(output.map(Result::unwrap).filter(|line| made(line)));
        }
    }
    let local = system(dir.path());
    let all = texts(&call(&local, "DescribeVolumes", &[]).unwrap(), "volumeId");
    // The last line may be cut off by the kill.
    for line in answered
        .iter()
        .filter(|line| line.len() == "made vol-".len() + 17)
    {
        assert!(
            all.iter().any(|id| line.ends_with(id)),
            "{line} was answered and is not there"
        );
    }
    // At most one call for each killed process was carried out and not answered.
    assert!(
        all.len() <= answered.len() + 10,
        "{} {}",
        all.len(),
        answered.len()
    );
    let names = std::fs::read_dir(dir.path()).unwrap();
    let mut names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["credentials.json", "lock", "state.json"]);
}

fn made(line: &str) -> bool {
    line.starts_with("made vol-")
}

/// The EC2 in `dir` on the machine's own clock: for threads and processes.
fn system(dir: &std::path::Path) -> Local {
    open(dir, &Clock::system(), &Settings::default()).unwrap()
}
