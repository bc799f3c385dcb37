//! Delayed events, none before it is due: a machine's first boot, and devices.

use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use jiff::Timestamp;
use xdrive::clock::{BootTime, Clock};
use xdrive::local::plane::{Machine, PlaneError, Up};

use crate::local_instances::{Host, succeed, until};
use crate::session::site::Site;
use harness::{id, leaks};

const LATER: Duration = Duration::from_hours(1);

fn now() -> BootTime {
    Clock::system().boot()
}

/// A machine that boots so long from now.
fn machine_in(site: &Site, after: Duration) -> Machine {
    let mut machine = site.machine("");
    machine.boots = now() + after;
    machine
}

/// A file in the instance's folder.
fn file(site: &Site, instance: &str, name: &str) -> PathBuf {
    site.dir().join("instances").join(instance).join(name)
}

/// The instance's process 1 and when the kernel started it, rounded up: `proc_pid_stat(5)`.
fn init(site: &Site, instance: &str) -> Option<(u64, Duration)> {
    /// The kernel's clock ticks a second, as programs see them.
    const TICKS: u64 = 100;
    let json = std::fs::read(file(site, instance, "init.json")).ok()?;
    let init: serde_json::Value = serde_json::from_slice(&json).unwrap();
    let ticks = init["started"].as_u64().unwrap() + 1;
    Some((
        init["pid"].as_u64().unwrap(),
        Duration::from_millis(ticks * 1000 / TICKS),
    ))
}

/// Whether the volume has its names in the instance, seen from outside.
fn is_in(site: &Site, volume: &str, host: &Host) -> bool {
    let (init, _) = init(site, &host.id).unwrap();
    let serial = volume.replace('-', "");
    let link = format!("dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_{serial}");
    std::fs::symlink_metadata(format!("/proc/{init}/root/{link}")).is_ok()
}

/// Waits for the volume's device, which must not come before `due`.
fn until_in(site: &Site, volume: &str, host: &Host, due: BootTime) {
    until("a device", || {
        let is_there = is_in(site, volume, host);
        assert!(!is_there || now() >= due, "{volume} came early");
        is_there
    });
}

fn volume(site: &Site) -> String {
    let volume = id("vol");
    site.plane.create_volume(&volume, 1, None).unwrap();
    volume
}

#[test]
#[ignore = "needs root (namespaces) and the machine tree"]
fn a_machine_boots_when_it_is_due_and_not_before() {
    let site = Site::machines();
    let machine = machine_in(&site, Duration::from_secs(2));
    let up = site.plane.launch(&machine).unwrap();
    assert!(now() < machine.boots, "the launch waited for the boot");
    assert!(site.plane.is_up(&up));
    assert!(!site.plane.has_booted(&machine.instance).unwrap());
    let door = SocketAddr::from((up.address, 22));
    let (mut looked, mut is_open) = (0, false);
    until("sshd", || {
        is_open = is_open || TcpStream::connect_timeout(&door, Duration::from_millis(100)).is_ok();
        assert!(!is_open || now() >= machine.boots, "it answers early");
        looked += u32::from(!is_open);
        is_open
    });
    assert!(looked > 10, "only {looked} looks before it answered");
    let (_, started) = init(&site, &machine.instance).unwrap();
    assert!(started >= machine.boots.since_start(), "{started:?}");
    assert!(site.plane.has_booted(&machine.instance).unwrap());
    site.reach(machine.instance, up);
}

#[test]
#[ignore = "needs root (namespaces) and the machine tree"]
fn a_machine_that_is_due_when_it_is_ready_or_soon_runs_when_its_launch_returns() {
    let site = Site::machines();
    for after in [0, 40, 100].map(Duration::from_millis) {
        let machine = machine_in(&site, after);
        site.plane.launch(&machine).unwrap();
        let (_, started) = init(&site, &machine.instance).unwrap();
        assert!(started >= machine.boots.since_start(), "{started:?}");
    }
}

#[test]
#[ignore = "needs root (namespaces) and the machine tree"]
fn calls_about_a_machine_are_answered_before_its_boot() {
    let site = Site::machines();
    // As long as all that is asked may take on a busy computer.
    let machine = machine_in(&site, Duration::from_secs(8));
    let up = site.plane.launch(&machine).unwrap();
    let plane = &site.plane;
    // The metadata exist before their readers.
    plane
        .send_ssh_key(&machine.instance, "admin", "ssh-ed25519 AAAA")
        .unwrap();
    plane
        .recommend_rebalance(&machine.instance, Timestamp::now())
        .unwrap();
    let namespace = format!("xd-{}", &machine.instance[machine.instance.len() - 8..]);
    let token = Command::new("ip")
        .args(["netns", "exec", &namespace, "curl", "-sf", "-X", "PUT"])
        .args(["-H", "X-aws-ec2-metadata-token-ttl-seconds: 60"])
        .arg("http://169.254.169.254/latest/api/token")
        .output()
        .unwrap();
    assert!(token.status.success() && !token.stdout.is_empty());
    // A reboot has nothing to do yet, and one volume is detached before the boot.
    plane
        .reboot(&machine.instance, Duration::from_millis(10))
        .unwrap();
    let (stays, leaves) = (volume(&site), volume(&site));
    for (volume, device) in [(&stays, "/dev/sdf"), (&leaves, "/dev/sdg")] {
        site.attach(volume, &machine.instance, device).unwrap();
    }
    plane.detach(&leaves, &machine.instance).unwrap();
    assert!(now() < machine.boots);
    assert!(init(&site, &machine.instance).is_none());
    let host = site.reach(machine.instance, up);
    host.run("test -b /dev/sdf && ! test -e /dev/sdg");
}

/// A way to end an instance that has not booted; whether its supervisor can still clear up.
type End = fn(&Site, &str, &Up) -> bool;

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_machine_that_ends_before_its_boot_ends_at_once_and_leaves_nothing() {
    let ends: [End; 5] = [
        |site, id, _| site.plane.power_off(id, LATER).map(|()| true).unwrap(),
        |site, id, _| {
            let left = Duration::from_millis(200);
            site.plane
                .interrupt(id, Timestamp::now() + left, left)
                .unwrap();
            true
        },
        |site, id, _| site.plane.clear(id).map(|()| true).unwrap(),
        |site, _, _| site.plane.sweep(&[], &[], &[]).map(|()| true).unwrap(),
        |_, _, up| {
            succeed(Command::new("kill").args(["-KILL", &up.supervisor.to_string()]));
            false
        },
    ];
    for end in ends {
        let site = Site::machines();
        let machine = machine_in(&site, LATER);
        let up = site.plane.launch(&machine).unwrap();
        let volume = volume(&site);
        site.attach(&volume, &machine.instance, "/dev/sdf").unwrap();
        let is_tidy = end(&site, &machine.instance, &up);
        until("an end", || !site.plane.is_up(&up));
        assert!(init(&site, &machine.instance).is_none(), "it booted");
        if !is_tidy {
            assert_ne!(leaks(&site.dir()), [""; 0]);
            site.plane.clear(&machine.instance).unwrap();
        }
        site.has_no_leaks();
        assert!(matches!(
            site.plane.power_off(&machine.instance, LATER),
            Err(PlaneError::Gone)
        ));
    }
}

#[test]
#[ignore = "needs root (namespaces) and the machine tree"]
fn a_boot_that_fails_later_ends_the_machine_and_its_console_says_why() {
    let site = Site::on_overlay();
    let machine = machine_in(&site, Duration::from_secs(1));
    let up = site.plane.launch(&machine).unwrap();
    until("an end", || !site.plane.is_up(&up));
    assert!(now() >= machine.boots);
    assert!(!site.plane.has_booted(&machine.instance).unwrap());
    assert_eq!(leaks(&site.dir()), [""; 0]);
    site.plane.clear(&machine.instance).unwrap();
    // The store reads this before it clears, and not after.
    assert!(site.plane.has_booted(&machine.instance).unwrap());
    let console = site.plane.console(&machine.instance).unwrap();
    let console = String::from_utf8_lossy(&console);
    assert!(console.contains("cannot hold an overlay"), "{console}");
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_device_comes_when_it_is_due_and_never_once_it_was_unplugged() {
    let site = Site::machines();
    let host = site.launch();
    let (first, second, unplugged) = (volume(&site), volume(&site), volume(&site));
    let began = now();
    let due = |millis| began + Duration::from_millis(millis);
    let attach = |volume: &str, device, millis| {
        let attached = site.plane.attach(volume, &host.id, device, due(millis));
        attached.unwrap();
        assert!(!is_in(&site, volume, &host), "{volume} came early");
    };
    // Not in the order in which they are due.
    attach(&second, "/dev/sdf", 2500);
    attach(&unplugged, "/dev/sdg", 2000);
    attach(&first, "/dev/sdh", 1500);
    assert!(now() < due(1500), "a call waited for its device");
    site.plane.detach(&unplugged, &host.id).unwrap();
    until_in(&site, &first, &host, due(1500));
    assert!(!is_in(&site, &second, &host) || now() >= due(2500));
    until_in(&site, &second, &host, due(2500));
    assert!(!is_in(&site, &unplugged, &host));
    host.run("test -b /dev/sdf && test -b /dev/sdh && ! test -e /dev/sdg");
    // Out and in again: the same volume, its new moment.
    site.plane.detach(&first, &host.id).unwrap();
    let again = now() + Duration::from_secs(1);
    site.plane
        .attach(&first, &host.id, "/dev/sdg", again)
        .unwrap();
    until_in(&site, &first, &host, again);
    host.run("test -b /dev/sdg && ! test -e /dev/sdh");
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_device_that_is_due_around_a_reboot_is_there_after_it_and_not_early() {
    let site = Site::machines();
    let host = site.launch();
    let (before, during, after) = (volume(&site), volume(&site), volume(&site));
    site.attach(&before, &host.id, "/dev/sdf").unwrap();
    let began = now();
    let (soon, late) = (
        began + Duration::from_millis(300),
        began + Duration::from_secs(5),
    );
    for (volume, device, due) in [(&during, "/dev/sdg", soon), (&after, "/dev/sdh", late)] {
        site.plane.attach(volume, &host.id, device, due).unwrap();
    }
    let (first, _) = init(&site, &host.id).unwrap();
    site.plane
        .reboot(&host.id, Duration::from_millis(300))
        .unwrap();
    until("a reboot", || init(&site, &host.id).unwrap().0 != first);
    until_in(&site, &before, &host, began);
    until_in(&site, &during, &host, soon);
    until_in(&site, &after, &host, late);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn an_instance_that_ends_before_its_device_came_gives_the_volume_back() {
    let site = Site::machines();
    let host = site.launch();
    let volume = volume(&site);
    let due = now() + LATER;
    site.plane
        .attach(&volume, &host.id, "/dev/sdf", due)
        .unwrap();
    assert_ne!(leaks(&site.dir()), [""; 0]);
    site.plane.power_off(&host.id, Duration::ZERO).unwrap();
    until("an end", || !site.plane.is_up(&host.up));
    site.has_no_leaks();
    let attached = site.plane.attach(&volume, &host.id, "/dev/sdf", due);
    assert!(matches!(attached, Err(PlaneError::Gone)));
    site.plane.delete_volume(&volume).unwrap();
}
