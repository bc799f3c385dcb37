//! User data on a real boot, without a client and with one.

mod wide;

use std::time::{Duration, Instant};

use xdrive::host::boot::{BootOrder, Watch, user_data};
use xdrive::local::plane::Plane as _;
use xdrive::ssh::HostKey;

use super::machine::{Clear, Machine, launch};
use harness::cloud::plane;

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn a_machine_without_a_login_switches_itself_off() {
    let key = HostKey::generate().unwrap();
    let data = user_data(&BootOrder {
        host_private_key: key.private,
        host_public_key: key.public,
        authorized_keys: String::new(),
        first_sign: Duration::from_secs(2),
        watch: Watch::default(),
    })
    .unwrap();

    let dir = tempfile::tempdir().unwrap();
    let plane = plane(dir.path());
    let (instance, up) = launch(&plane, data, None);
    let _clear = Clear {
        plane: &plane,
        instance: Some(&instance),
    };
    let end = Instant::now() + Duration::from_mins(3);
    while plane.is_up(&up) {
        assert!(Instant::now() < end, "it is still up");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn a_lease_and_not_a_login_keeps_the_machine_up_and_docker_waits_for_the_drive() {
    let machine = Machine::boot().await;
    let timers =
        "systemctl list-units --plain --no-legend 'xdrive-*.timer' | cut -d . -f 1 | cut -c 1-11";
    assert_eq!(machine.sh(timers).await, "xdrive-firs\n");
    for _ in 0..2 {
        machine.host.lease(Duration::from_hours(1)).await.unwrap();
        assert_eq!(machine.sh(timers).await, "xdrive-off-\n");
    }
    machine.sh("systemctl start docker.service || true").await;
    let docker = machine
        .sh("systemctl is-active docker.service || true")
        .await;
    assert_eq!(docker, "inactive\n");
    let refused = machine
        .sh("touch /v1/file 2>/dev/null || echo refused")
        .await;
    assert_eq!(refused, "refused\n");
}
