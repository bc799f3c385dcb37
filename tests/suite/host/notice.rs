//! EC2's announcements, from the metadata service to the attached clients, and their effects.

mod wide;

use std::time::Duration;

use tokio::time::Instant;
use xdrive::host::boot::Watch;
use xdrive::host::scripts::Image;
use xdrive::host::{ClientLock, HostEvent, Role};

use super::machine::{Disk, Machine, soon};

/// EC2 user guide, *Spot Instance interruption notices*: two minutes, less the time until a poll
/// sees the notice.
const LIMIT: Duration = Duration::from_secs(110);

async fn machine_with(disk: &Disk) -> Machine {
    let watch = Watch {
        poll: Duration::from_secs(1),
        ..Watch::default()
    };
    let mut machine = Machine::boot_with(Duration::from_mins(30), watch).await;
    machine.attach(disk);
    machine.mount_blank(disk).await;
    machine
}

/// The next event.
async fn next(hold: &mut ClientLock) -> HostEvent {
    soon(async { hold.event().await.expect("the hold is gone") }).await
}

/// Gives notice, and waits until the drive is unmounted; how long that took.
async fn notice(machine: &Machine, text: &str) -> Duration {
    let began = Instant::now();
    machine.announce("spot/instance-action", text);
    while !machine.is_unmounted().await {
        assert!(began.elapsed() < LIMIT, "still mounted");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    began.elapsed()
}

const NOTICE: &str = r#"{"action": "terminate", "time": "2030-01-02T03:04:05Z"}"#;

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn a_notice_closes_the_drive_and_every_client_receives_it() {
    let disk = Disk::new(1024);
    let machine = machine_with(&disk).await;
    let image = Image::Loaded(machine.load_image().await);
    machine.start(image, &[]).await;
    let mut lead = machine.hold("s1 t me", Role::Lead, 900).await.unwrap();
    let mut guest = machine.hold("s2 t you", Role::Guest, 900).await.unwrap();

    let recommended = r#"{"noticeTime": "2026-01-01T00:00:00Z"}"#;
    machine.announce("events/recommendations/rebalance", recommended);
    let at = "2026-01-01T00:00:00Z".parse().unwrap();
    assert_eq!(next(&mut lead).await, HostEvent::Rebalance { at });
    assert_eq!(next(&mut guest).await, HostEvent::Rebalance { at });
    let contact = machine.host.look().await.unwrap();
    assert_eq!((contact.closing, contact.notice), (None, None));

    // A program that ignores signals, and uncommitted work in the container.
    machine
        .sh("docker exec -d xdrive-demo sh -c 'trap \"\" TERM HUP; echo > /work/on; while :; do sleep 1; done'; \
             docker exec xdrive-demo sh -c 'echo kept > /note'; until [ -e /v1/work/on ]; do sleep 0.02; done")
        .await;
    let took = notice(&machine, NOTICE).await;
    println!(
        "unmounted {:.1} s after the notice, against SIGTERM",
        took.as_secs_f64()
    );
    assert!(took < Duration::from_secs(40), "{took:?}");
    let at = "2030-01-02T03:04:05Z".parse().unwrap();
    for hold in [&mut lead, &mut guest] {
        let action = "terminate".to_owned();
        assert_eq!(next(hold).await, HostEvent::Notice { action, at });
        assert!(matches!(next(hold).await, HostEvent::Closing(why) if why.contains("terminate")));
        assert_eq!(next(hold).await, HostEvent::Unmounted);
    }
    let contact = machine.host.look().await.unwrap();
    assert_eq!(contact.notice, Some(("terminate".to_owned(), at)));
    assert!(disk.is_clean());
    drop(machine);

    let mut machine = Machine::boot().await;
    machine.attach(&disk);
    machine.host.mount(&disk.order(2, false)).await.unwrap();
    machine.start(Image::Kept, &[]).await;
    assert_eq!(
        machine.sh("docker exec xdrive-demo cat /note").await,
        "kept\n"
    );
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn a_host_that_ec2_does_not_take_switches_itself_off() {
    let disk = Disk::new(1024);
    let machine = machine_with(&disk).await;
    let lead = machine.hold("s1 t me", Role::Lead, 36_000).await.unwrap();
    let over = r#"{"action": "terminate", "time": "2026-01-02T03:04:05Z"}"#;
    machine.announce("spot/instance-action", over);
    machine.until_off(LIMIT).await;
    assert!(disk.is_clean());
    drop(lead);
}
