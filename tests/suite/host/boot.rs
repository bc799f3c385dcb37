//! User data on a real boot, where nobody comes and where somebody does.

use std::io::Read as _;
use std::time::{Duration, Instant};

use xdrive::host::HostKey;
use xdrive::host::boot::{BootOrder, user_data};

use super::machine::{Clear, Machine, launch, plane};

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn a_machine_where_nobody_logs_in_switches_itself_off() {
    let key = HostKey::generate().unwrap();
    let data = user_data(&BootOrder {
        host_private_key: key.private,
        host_public_key: key.public,
        authorized_keys: String::new(),
    })
    .unwrap();
    let mut text = String::new();
    flate2::read::GzDecoder::new(&data[..])
        .read_to_string(&mut text)
        .unwrap();
    let hasty = text.replacen("\nset -u\n", "\nXDRIVE_FIRST_SIGN=2\nset -u\n", 1);
    assert_ne!(hasty, text);

    let dir = tempfile::tempdir().unwrap();
    let plane = plane(dir.path());
    let (instance, up) = launch(&plane, hasty.into_bytes());
    let _clear = Clear {
        plane: &plane,
        instance: Some(&instance),
    };
    let end = Instant::now() + Duration::from_mins(1);
    while plane.is_up(&up) {
        assert!(Instant::now() < end, "it is still up");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn the_first_login_keeps_the_machine_up_and_finds_docker_waiting_for_the_drive() {
    let machine = Machine::boot().await;
    let armed = machine
        .sh("systemctl is-active xdrive-first-sign.timer || true")
        .await;
    assert_eq!(armed, "inactive\n");
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
