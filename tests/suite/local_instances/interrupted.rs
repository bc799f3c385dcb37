//! An interrupted instance: its notices, and its end.

mod wide;

use std::process::Command;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::local_instances::{Host, succeed, until};
use crate::session::site::Site;
use harness::id;

/// Prints a session token of the metadata service.
const TOKEN: &str = "curl -sf -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 60' \
                     http://169.254.169.254/latest/api/token";

fn metadata(host: &Host, path: &str) -> String {
    host.run(&format!(
        "curl -sf -H \"X-aws-ec2-metadata-token: $({TOKEN})\" \
         http://169.254.169.254/latest/meta-data/{path}"
    ))
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn an_interrupted_instance_receives_a_notice_and_then_its_power_is_cut() {
    let site = Site::machines();
    let host = site.launch();
    let volume = id("vol");
    site.plane.create_volume(&volume, 1, None).unwrap();
    site.attach(&volume, &host.id, "/dev/sdf").unwrap();
    // Nothing else than a sync writes its journal: a busy computer may take more than the usual five seconds.
    host.run(
        "mkfs.ext4 -q /dev/sdf && mkdir '/my drive' && \
         mount -o commit=300 /dev/sdf '/my drive' && \
         cd '/my drive' && echo kept >synced && sync -f . && echo lost >unsynced",
    );
    let at = Timestamp::now() + Duration::from_secs(12);
    let began = Instant::now();
    let left = Duration::from_secs(12);
    site.plane.interrupt(&host.id, at, left).unwrap();
    // Announced again, as after a killed call: the earlier end holds.
    let later = Duration::from_mins(2);
    site.plane.interrupt(&host.id, at, later).unwrap();
    let action = metadata(&host, "spot/instance-action");
    let action: serde_json::Value = serde_json::from_str(&action).unwrap();
    let second = at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    assert_eq!(
        action,
        serde_json::json!({"action": "terminate", "time": second})
    );
    assert_eq!(metadata(&host, "spot/termination-time"), second);
    assert!(site.plane.is_up(&host.up));
    until("an end", || !site.plane.is_up(&host.up));
    assert!(began.elapsed() >= left, "{:?}", began.elapsed());
    site.has_no_leaks();
    let console = site.plane.console(&host.id).unwrap();
    assert!(!String::from_utf8_lossy(&console).contains("Powering off"));

    let other = site.launch();
    site.attach(&volume, &other.id, "/dev/sdf").unwrap();
    other.run("dumpe2fs -h /dev/sdf 2>&1 | grep -q needs_recovery && mount /dev/sdf /mnt");
    assert_eq!(
        other.run("cd /mnt && cat synced && ls"),
        "kept\nlost+found\nsynced"
    );
    succeed(Command::new("kill").args(["-KILL", &other.up.supervisor.to_string()]));
    until("an end", || !site.plane.is_up(&other.up));
}
