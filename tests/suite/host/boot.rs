//! User data on a real boot, without a client and with one.

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
    let end = Instant::now() + Duration::from_mins(1);
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

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn xdrives_settings_are_the_first_that_sshd_reads_whatever_its_own_file_says() {
    const OURS: &str = "Include /etc/ssh/sshd_config.d/00-xdrive.conf\n";
    let machine = Machine::boot().await;
    // Twice: an existing line is not added again.
    let boots = async |config: &str| {
        machine
            .sh(&format!(
                "cat > /etc/ssh/sshd_config << 'END'\n{config}END\n\
                 chmod 600 /etc/ssh/sshd_config; \
                 for n in 1 2; do sh /var/lib/cloud/instance/boothooks/part-001; done; \
                 /usr/sbin/sshd -t && cat /etc/ssh/sshd_config; ls /etc/ssh | grep -v key >&2; \
                 stat -c %a /etc/ssh/sshd_config"
            ))
            .await
    };
    // A file that includes them first is not changed.
    for config in [
        "# words\n\n  include /etc/ssh/sshd_config.d/*.conf\nPermitRootLogin no\n",
        "Include sshd_config.d/*.conf\nPermitRootLogin no\n",
        "Include \"/etc/ssh/sshd_config.d/*.conf\"\nPermitRootLogin no\n",
    ] {
        assert_eq!(boots(config).await, format!("{config}600\n"));
    }
    for config in [
        "",
        "PermitRootLogin no\nMatch User somebody\nX11Forwarding no\n",
        "# Include /etc/ssh/sshd_config.d/*.conf\nPermitRootLogin no\n",
        "PermitRootLogin no\nInclude /etc/ssh/sshd_config.d/*.conf\n",
        "Include /etc/ssh/other.d/*.conf\nUsePAM yes\nPermitRootLogin no\n",
    ] {
        assert_eq!(boots(config).await, format!("{OURS}{config}600\n"));
        let printed = machine
            .sh("/usr/sbin/sshd -T | grep -i -e '^hostkey .*xdrive' -e ^permitrootlogin")
            .await;
        assert!(
            printed.contains("permitrootlogin without-password"),
            "{printed}"
        );
        assert!(printed.contains("/etc/ssh/xdrive_host_ecdsa"), "{printed}");
    }
    // sshd reads that again.
    machine.login().await;
    // An sshd without Include keeps its file.
    machine
        .sh("mv /usr/sbin/sshd /usr/sbin/sshd.real && \
             printf '#!/bin/sh\\n! grep -qs Include \"$3\" || { echo no Include >&2; exit 255; }\\n' > /usr/sbin/sshd && \
             chmod 755 /usr/sbin/sshd")
        .await;
    let plain = "PermitRootLogin no\n";
    assert_eq!(boots(plain).await, format!("{plain}600\n"));
}
