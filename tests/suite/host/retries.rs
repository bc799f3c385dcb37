//! Commands that fail by themselves, and are begun again on their host.

use std::time::{Duration, Instant};

use tokio::time::sleep;
use xdrive::host::container::CommandId;
use xdrive::host::runs::{Attempt, CommandOrder, Retry, Run};

use harness::DEADLINE;

use super::machine::{Disk, Machine};

/// Begins a command that has the number of its try as `$1`. Returns its id.
async fn begin(machine: &Machine, script: &str, retry: &Retry) -> CommandId {
    let id = CommandId::new().unwrap();
    let command = machine.host.command(&CommandOrder {
        id: &id,
        label: "it",
        client: "",
        limit: None,
        attempt: Some(Attempt { number: 1, retry }),
        freezes: false,
        command: &format!("sh -c '{script}' -e XDRIVE_TRY=1"),
        kept: 4096,
    });
    machine.host.begin(&command).await.unwrap();
    id
}

/// The record of a command on the drive; none if there is none.
pub(super) async fn record(machine: &Machine, id: &CommandId) -> Option<Run> {
    let record = format!("/v1/xdrive/runs/{}/record", id.as_str());
    let text = machine.sh(&format!("cat {record} 2>/dev/null || :")).await;
    serde_json::from_str(&text).ok()
}

/// Waits for a record of a command that `is_so`, and looks at nothing else: who asks the process that
/// keeps the command wakes it.
async fn state(machine: &Machine, id: &CommandId, is_so: impl Fn(&Run) -> bool) -> Run {
    let began = Instant::now();
    loop {
        let found = record(machine, id).await;
        if let Some(run) = found.clone().filter(&is_so) {
            return run;
        }
        assert!(began.elapsed() < DEADLINE, "{found:?}");
        sleep(Duration::from_millis(100)).await;
    }
}

fn is_over(run: &Run) -> bool {
    run.status.is_some()
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn a_command_that_fails_by_itself_is_begun_again_as_often_as_that_helps() {
    let disk = Disk::new(64);
    let mut machine = Machine::boot().await;
    machine.attach(&disk);
    machine.host.mount(&disk.order(1, true)).await.unwrap();
    let pause = |from: u32, to: u32| {
        format!("sed -i 's/^FIRST = {from} /FIRST = {to} /' /var/lib/xdrive/scripts/*/retry.py")
    };
    machine.sh(&pause(60, 1)).await;
    let on_record = async |id: &CommandId, files: &str| {
        let id = id.as_str();
        machine
            .sh(&format!("cd /v1/xdrive/runs/{id} && cat {files}"))
            .await
    };
    // Its last output is there after the record of its end.
    let has_last = async |id: &CommandId, files: &str, last: &str| {
        let began = Instant::now();
        loop {
            let words = on_record(id, files).await;
            if words.contains(last) {
                return;
            }
            assert!(began.elapsed() < DEADLINE, "{words}");
            sleep(Duration::from_millis(100)).await;
        }
    };
    let five = Retry {
        times: 5,
        codes: [3, 4].map(|code| code.try_into().unwrap()).into(),
    };

    // It helps: the third try would be the last short one.
    let fails_once = "echo $1; [ $1 = XDRIVE_TRY=2 ] || exit 4";
    let id = begin(&machine, fails_once, &five).await;
    let run = state(&machine, &id, is_over).await;
    assert_eq!((run.status, run.number), (Some(0), Some(2)), "{run:?}");
    let outputs = "XDRIVE_TRY=1\nXDRIVE_TRY=2\n";
    has_last(&id, "tries/1/output output", outputs).await;
    let words = on_record(&id, "tries/1/errors").await;
    assert_eq!(
        words,
        "xdrive: the command failed (exit code 4): try 2 begins in 1 s\n"
    );
    let tries = machine.host.tries(&id).await.unwrap();
    assert_eq!((tries.begun, tries.failed), (2, 1));

    // It fails at its start, whatever follows.
    let id = begin(&machine, "exit 3", &five).await;
    let run = state(&machine, &id, is_over).await;
    assert_eq!((run.status, run.number), (Some(3), Some(3)), "{run:?}");
    has_last(&id, "errors", "3 times in a row within 10 minutes").await;

    // Another exit code; and as often as it was allowed.
    let id = begin(&machine, "exit 5", &five).await;
    let run = state(&machine, &id, is_over).await;
    assert_eq!((run.status, run.number), (Some(5), Some(1)), "{run:?}");
    let once = Retry {
        times: 1,
        codes: Vec::new(),
    };
    let id = begin(&machine, "exit 5", &once).await;
    let run = state(&machine, &id, is_over).await;
    assert_eq!((run.status, run.number), (Some(5), Some(2)), "{run:?}");
    has_last(&id, "errors", "as often as --retry allows").await;

    // Ctrl-C is its user's, who may also end it in the pause.
    let any = Retry {
        times: 5,
        codes: Vec::new(),
    };
    let id = begin(&machine, "exit 130", &any).await;
    let run = state(&machine, &id, is_over).await;
    assert_eq!((run.status, run.number), (Some(130), Some(1)), "{run:?}");
    machine.sh(&pause(1, 60)).await;
    let id = begin(&machine, "exit 5", &any).await;
    state(&machine, &id, |run| run.number == Some(2)).await;
    machine.host.leave_command(&id, "").await.unwrap();
    let run = state(&machine, &id, is_over).await;
    assert_eq!((run.status, run.number), (Some(5), Some(2)), "{run:?}");

    // A host that closes in the pause begins none, and whoever reads the record goes on elsewhere.
    let id = begin(&machine, "exit 5", &once).await;
    state(&machine, &id, |run| run.number == Some(2)).await;
    // Nothing switches it off meanwhile.
    let watch = "systemctl mask --runtime --now xdrive-watch.service";
    machine
        .sh(&format!("{watch}; echo the end > /run/xdrive/closing"))
        .await;
    let run = state(&machine, &id, is_over).await;
    assert_eq!(run.closing.as_deref(), Some("the end"), "{run:?}");
    assert_eq!(run.finished(), None, "{run:?}");
}
