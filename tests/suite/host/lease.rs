//! A machine whose clients are gone closes its drive and switches itself off, even if other parts
//! of it have died.

use std::time::Duration;

use tokio::time::Instant;
use xdrive::host::boot::Watch;
use xdrive::host::scripts::Image;
use xdrive::host::{Mounted, Role};

use super::machine::{Disk, Machine, soon};

const FIRST_SIGN: Duration = Duration::from_mins(30);

/// How long from the end of the wait until the machine is off: close, shutdown, a busy computer.
const ENDING: Duration = Duration::from_mins(1);

/// A machine with a drive whose container runs, and the drive.
async fn at_work(margin: u64) -> (Machine, Disk) {
    let watch = Watch {
        poll: Duration::from_secs(1),
        margin: Duration::from_secs(margin),
    };
    let disk = Disk::new(1024);
    let mut machine = Machine::boot_with(FIRST_SIGN, watch).await;
    machine.attach(&disk);
    machine.mount_blank(&disk).await;
    let image = Image::Loaded(machine.load_image().await);
    machine.start(image, &[]).await;
    machine
        .sh("docker exec -d xdrive-demo sh -c 'while sleep 0.1; do date >> /work/log; done'")
        .await;
    assert!(!disk.is_clean());
    (machine, disk)
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn a_lease_lasts_while_it_is_refreshed_and_then_the_drive_is_closed_and_the_machine_off() {
    let (machine, disk) = at_work(300).await;
    let hold = machine.hold("s t me", Role::Lead, 12).await.unwrap();
    let end = Instant::now() + Duration::from_secs(15);
    while Instant::now() < end {
        assert!(hold.refresh(Duration::from_secs(12)));
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let contact = machine.host.look().await.unwrap();
    assert_eq!(contact.closing, None);
    assert!(matches!(contact.mounted, Mounted::Volume(_)));

    // Ended without a message: it does not count any more, nor refreshes the lease.
    drop(hold);
    soon(async { while !machine.host.look().await.unwrap().clients.is_empty() {} }).await;
    let took = machine.until_off(Duration::from_secs(12) + ENDING).await;
    println!("off {:.1} s after the client was gone", took.as_secs_f64());
    assert!(disk.is_clean());
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn a_watch_that_was_killed_comes_back_and_closes() {
    let (machine, disk) = at_work(300).await;
    machine.host.lease(Duration::from_secs(5)).await.unwrap();
    machine
        .sh("systemctl kill --signal=KILL xdrive-watch.service")
        .await;
    machine.until_off(Duration::from_secs(5) + ENDING).await;
    assert!(disk.is_clean());
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn without_any_watch_the_machine_switches_itself_off_all_the_same() {
    for ending in [
        "systemctl mask --runtime --now xdrive-watch.service",
        "systemctl kill --signal=STOP xdrive-watch.service",
    ] {
        let (machine, disk) = at_work(4).await;
        machine.host.lease(Duration::from_mins(10)).await.unwrap();
        machine.sh(ending).await;
        let began = Instant::now();
        machine.host.lease(Duration::from_secs(4)).await.unwrap();
        machine.until_off(Duration::from_secs(8) + ENDING).await;
        let took = began.elapsed();
        println!(
            "off {:.1} s after a lease of 4 s, 4 s behind it: {ending}",
            took.as_secs_f64()
        );
        assert!(took > Duration::from_secs(7));
        assert!(disk.is_clean());
    }
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn the_switch_behind_the_lease_works_after_systemd_has_read_its_units_again() {
    let (machine, disk) = at_work(4).await;
    machine
        .sh("systemctl mask --runtime --now xdrive-watch.service")
        .await;
    machine.host.lease(Duration::from_secs(4)).await.unwrap();
    machine.sh("systemctl daemon-reload").await;
    machine.until_off(Duration::from_secs(8) + ENDING).await;
    assert!(disk.is_clean());
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn a_dead_or_stuck_dockerd_does_not_keep_the_machine_up() {
    for signal in ["KILL", "STOP"] {
        let (machine, disk) = at_work(300).await;
        machine
            .sh(&format!(
                "systemctl mask --runtime docker.service; pkill --signal {signal} dockerd"
            ))
            .await;
        machine.host.lease(Duration::from_secs(2)).await.unwrap();
        let took = machine.until_off(Duration::from_mins(3)).await;
        println!(
            "off {:.1} s after a lease of 2 s, dockerd {signal}",
            took.as_secs_f64()
        );
        assert!(disk.is_clean());
    }
}

/// A sync that waits for its volume, as long as the power-off is at work, and hears no signal. Without the
/// watch no other part of the machine closes the drive.
const STUCK: &str = r"systemctl mask --runtime --now xdrive-watch.service
{ echo '#!/bin/sh' && cat; } > /root/sync << 'END'
trap '' TERM
while pgrep -f 'poweroff --force' > /dev/null; do sleep 0.2; done
END
chmod 755 /root/sync
mv /root/sync /usr/bin/sync";

/// A manager that switches nothing off. The kernel still does.
const NO_MANAGER: &str = r#"mv /usr/bin/systemctl /usr/bin/systemctl.real
ln -sf /usr/bin/systemctl.real /usr/sbin/poweroff
{ echo '#!/bin/sh' && cat; } > /usr/bin/systemctl << 'END'
case "$*" in *poweroff*) exit ;; esac
exec /usr/bin/systemctl.real "$@"
END
chmod 755 /usr/bin/systemctl"#;

/// The fault: the power-off waited for the sync, and systemctl's own for another one.
#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn a_volume_that_does_not_answer_does_not_keep_the_machine_up() {
    for (manager, seconds) in [("true", 20), (NO_MANAGER, 60)] {
        let (machine, disk) = at_work(4).await;
        machine.sh(STUCK).await;
        machine.sh(manager).await;
        // The lease begins between here and the answer to its call.
        let began = Instant::now();
        machine.host.lease(Duration::from_secs(4)).await.unwrap();
        let limit = Duration::from_secs(8 + seconds) + ENDING;
        machine.until_off(limit).await;
        let took = began.elapsed();
        println!("off {:.1} s after a lease of 4 s", took.as_secs_f64());
        assert!(took > Duration::from_secs(8 + seconds - 1));
        assert!(disk.is_clean() || manager == NO_MANAGER);
    }
}

/// The fault: once a command had ended, a host whose last client was lost was off a minute later, and not
/// after a quarter of an hour.
#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn only_shortly_after_a_run_the_lease_ends_within_a_minute() {
    let watch = Watch {
        poll: Duration::from_secs(1),
        ..Watch::default()
    };
    let machine = Machine::boot_with(FIRST_SIGN, watch).await;
    let lease = async || machine.lease_left().await.unwrap();
    let long = Duration::from_hours(2);
    machine.host.lease(long).await.unwrap();
    let run = "python3 -I -S /var/lib/xdrive/scripts/*/command.py \
               begin 1f 4096 label 'run-1f now me' '3600 30' '' '' true";
    machine.sh(run).await;
    soon(async { while lease().await > Duration::from_mins(1) {} }).await;
    machine
        .sh("touch -d '3 minutes ago' /run/xdrive/run-ended")
        .await;
    machine.host.lease(long).await.unwrap();
    soon(async { while lease().await > Duration::from_mins(15) {} }).await;
    assert!(lease().await > Duration::from_mins(14));
}
