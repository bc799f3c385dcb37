//! The close of a drive on its host, and the programs that use the drive until then.

mod wide;

use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use xdrive::host::container::Came;
use xdrive::host::facts::ScriptError;
use xdrive::host::scripts::{Host, Image};
use xdrive::host::{Committed, Mounted, Role};
use xdrive::ids::SessionId;

use harness::DEADLINE;

use super::machine::{Disk, Machine, hold, order, soon};

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn a_drive_moves_from_host_to_host_and_is_committed_only_when_it_changed() {
    let disk = Disk::new(2048);
    let machine = Machine::with_container(&disk).await;
    machine
        .sh("docker exec xdrive-demo sh -c 'echo hello > /note'")
        .await;
    let closed = machine.host.close("test").await.unwrap();
    assert_eq!((closed.committed, closed.unmounted), (Committed::Yes, true));
    let steps: Vec<&str> = closed
        .timings
        .iter()
        .map(|(step, _)| step.as_str())
        .collect();
    assert_eq!(
        steps,
        [
            "lock", "programs", "stop", "commit", "dockerd", "sync", "reserve", "unmount"
        ]
    );
    drop(machine);

    let mut machine = Machine::boot().await;
    machine.attach(&disk);
    let mounted = machine.host.mount(&disk.order(2, false)).await.unwrap();
    assert_eq!(mounted.source.as_deref(), Some("small"));
    assert_eq!(machine.start(Image::Kept, &[]).await.came, Came::Started);
    let note = machine.sh("docker exec xdrive-demo cat /note").await;
    assert_eq!(note, "hello\n");
    let closed = machine.host.close("test").await.unwrap();
    assert_eq!(
        (closed.committed, closed.unmounted),
        (Committed::Unchanged, true)
    );
    drop(machine);

    // A deletion is a change too, and a program may write when it ends.
    let mut machine = Machine::boot().await;
    machine.attach(&disk);
    machine.host.mount(&disk.order(3, false)).await.unwrap();
    machine.start(Image::Kept, &[]).await;
    machine
        .sh("docker exec -d xdrive-demo bash -c 'trap \"echo end > /end; exit\" TERM; echo > /work/on; while :; do sleep 0.1; done'")
        .await;
    machine
        .sh("docker exec xdrive-demo rm /note; until [ -e /v1/work/on ]; do sleep 0.02; done")
        .await;
    let closed = machine.host.close("test").await.unwrap();
    assert_eq!(closed.committed, Committed::Yes);
    drop(machine);
    let mut machine = Machine::boot().await;
    machine.attach(&disk);
    machine.host.mount(&disk.order(4, false)).await.unwrap();
    // With another environment: from the committed image.
    machine.start(Image::Kept, &[("A", "1")]).await;
    let left = machine
        .sh("docker exec xdrive-demo sh -c 'cat /end; ls /note 2>/dev/null || echo gone'")
        .await;
    assert!(
        left.starts_with("end\n") && left.ends_with("gone\n"),
        "{left}"
    );
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn a_host_that_began_to_close_does_nothing_else_and_says_what_it_unmounted() {
    let disk = Disk::new(1024);
    let machine = Machine::with_drive(&disk).await;
    // A program that uses the drive outside the container does not stop the close.
    machine
        .sh("cd /v1/work; sleep 600 > file 2>&1 < /dev/null &")
        .await;
    let closed = machine.host.close("it's over").await.unwrap();
    assert_eq!(
        (closed.committed, closed.unmounted),
        (Committed::Nothing, true)
    );
    let volume = Some(&disk.volume);
    assert_eq!(closed.whole.as_ref(), volume);

    let closing = |answer: Result<(), ScriptError>| match answer {
        Err(ScriptError::Closing(reason)) => assert_eq!(reason, "it's over"),
        other => panic!("{other:?}"),
    };
    closing(machine.host.mount(&disk.order(2, false)).await.map(drop));
    closing(
        machine
            .host
            .container(&order(Image::Kept, &[]))
            .await
            .map(drop),
    );
    closing(machine.host.load_image("x", &b"x"[..]).await.map(drop));
    closing(
        machine
            .host
            .jupyter(None, &SessionId("one".into()), "token", false)
            .await
            .map(drop),
    );
    closing(hold(&machine.host, "me", Role::Lead, 900).await.map(drop));
    closing(machine.host.lease(Duration::from_hours(1)).await);
    let again = machine.host.close("another reason").await.unwrap();
    assert!(again.unmounted);
    assert_eq!(again.whole.as_ref(), volume);
    let (_, contact) = Host::contact(machine.ssh.clone()).await.unwrap();
    assert_eq!(contact.closing.as_deref(), Some("it's over"));
    assert_eq!(contact.mounted, Mounted::Nothing);
    assert!(machine.is_unmounted().await);
    assert_eq!(contact.whole.as_ref(), volume);
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn a_load_that_never_ends_does_not_stop_a_close() {
    let disk = Disk::new(1024);
    let machine = Machine::with_drive(&disk).await;
    let mut archive = machine.archive("sh").await;
    archive.truncate(100_000);
    let (mut laptop, sleeps) = tokio::io::duplex(1 << 20);
    laptop.write_all(&archive).await.unwrap();
    let loader = Host::contact(machine.login().await).await.unwrap().0;
    let load = tokio::spawn(async move { loader.load_image("x", sleeps).await });
    let begun = async {
        while machine
            .ssh
            .run("pgrep -x docker", b"")
            .await
            .unwrap()
            .status
            != 0
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(DEADLINE, begun).await.unwrap();
    let closed = machine.host.close("test").await.unwrap();
    assert!(closed.unmounted);
    drop(laptop);
    assert!(load.await.unwrap().is_err());
}

/// The fault: dash has no `kill -KILL -- -GROUP`, so that a close went on beside the other script.
#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn a_script_that_is_at_work_is_ended_with_its_children_before_a_close_goes_on() {
    let disk = Disk::new(1024);
    let machine = Machine::with_drive(&disk).await;
    // Under a notice it has two seconds.
    machine
        .sh(
            "echo \"terminate $(date -u -d '2 minutes' +%FT%TZ)\" > /run/xdrive/notice; \
             setsid sh -c 'exec 9>> /run/xdrive/lock; flock 9; echo $$ > /run/xdrive/lock.owner; \
             sleep 1001; sleep 1002' > /dev/null 2>&1 < /dev/null & \
             until pgrep -x -f 'sleep 1001'; do sleep 0.02; done",
        )
        .await;
    let closed = machine.host.close("test").await.unwrap();
    assert!(closed.unmounted);
    machine.sh("! pgrep -x -f 'sleep 100[12]'").await;
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn a_close_goes_on_when_its_caller_is_gone_and_is_taken_up_when_it_was_killed() {
    for kill in [None, Some("pkill -KILL -f '/close$'")] {
        let disk = Disk::new(1024);
        let mut machine = Machine::boot().await;
        machine.attach(&disk);
        machine.mount_blank(&disk).await;
        let image = Image::Loaded(machine.load_image().await);
        machine.start(image, &[]).await;
        // A program that ignores signals delays the close for ten seconds.
        machine
            .sh("docker exec -d xdrive-demo sh -c 'trap \"\" TERM HUP; echo > /work/on; while :; do sleep 1; done'; \
                 until [ -e /v1/work/on ]; do sleep 0.02; done")
            .await;
        let caller = Host::contact(machine.login().await).await.unwrap().0;
        let close = tokio::spawn(async move { caller.close("test").await.map(drop) });
        soon(async { while machine.host.look().await.unwrap().closing.is_none() {} }).await;
        close.abort();
        if let Some(kill) = kill {
            machine.sh(kill).await;
        }
        assert!(!machine.is_unmounted().await);
        let unmounted = async {
            while !machine.is_unmounted().await {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(Duration::from_mins(1), unmounted)
            .await
            .expect("nobody closes");
        assert!(disk.is_clean());
    }
}
