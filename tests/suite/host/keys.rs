//! The host's keys: the launch key, and the one that the host makes in its place.

use std::path::Path;
use std::time::Duration;

use xdrive::ssh::{Proxy, PublicHostKey, Ssh, SshError, Target};

use super::machine::{Machine, soon};

const PAUSE: Duration = Duration::from_millis(50);

/// Whether the host is known by `key`: nobody listens for a moment while sshd reads its settings.
async fn is_known_by(machine: &Machine, key: &str) -> bool {
    let (target, user_key) = machine.target();
    let host_key = key.to_owned();
    let target = Target { host_key, ..target };
    soon(async {
        loop {
            match Ssh::connect(&target, &user_key).await {
                Ok(_) => return true,
                Err(SshError::WrongHostKey(_)) => return false,
                Err(SshError::Unreachable(..)) => tokio::time::sleep(PAUSE).await,
                Err(error) => panic!("{error}"),
            }
        }
    })
    .await
}

async fn has_launch_key(machine: &Machine) -> bool {
    machine.host.look().await.unwrap().launch_key
}

/// sshd reads its settings a moment after it was told to.
async fn until_known(machine: &Machine, key: &str, is_known: bool) {
    soon(async {
        while is_known_by(machine, key).await != is_known {
            tokio::time::sleep(PAUSE).await;
        }
    })
    .await;
}

/// Connects through a proxy command. Of the connections beside this one, the second comes through only
/// when the first is already refused, has learned the host's own key, and tries again.
async fn through_one_that_is_late(machine: &Machine, order: &Path) -> Ssh {
    let command = format!(
        "cd {} && n=1 && until mkdir $n 2>/dev/null; do n=$((n + 1)); done; \
         if [ $n = 3 ]; then until [ -e 4 ]; do sleep 0.05; done; fi; \
         exec bash -c 'exec 3<>/dev/tcp/%h/%p; cat <&3 & cat >&3'",
        order.display()
    );
    let (target, user_key) = machine.target();
    let proxy = Proxy {
        command: command.parse().unwrap(),
        instance: "i-0".to_owned(),
    };
    let target = Target {
        proxy: Some(proxy),
        ..target
    };
    Ssh::connect(&target, &user_key).await.unwrap()
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn a_host_is_known_by_both_keys_until_its_own_is_settled_and_then_by_that_alone() {
    let mut machine = Machine::boot().await;
    let launch = machine.target().0.host_key;
    assert!(has_launch_key(&machine).await);

    let own: PublicHostKey = machine.host.make_host_key().await.unwrap();
    assert!(own.is_own(), "{own}");
    until_known(&machine, &own.to_string(), true).await;
    assert!(is_known_by(&machine, &launch).await);

    // A client that ended here is followed by one that reads either: also after a reboot.
    machine.reboot().await;
    assert!(has_launch_key(&machine).await);
    until_known(&machine, &own.to_string(), true).await;
    assert_eq!(machine.host.make_host_key().await.unwrap(), own);
    assert!(is_known_by(&machine, &launch).await);

    let other = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ";
    let refused = machine.host.settle_host_key(&other.parse().unwrap()).await;
    assert!(refused.is_err(), "another key than the host's own");
    assert!(has_launch_key(&machine).await);

    let order = tempfile::tempdir().unwrap();
    let proxied = through_one_that_is_late(&machine, order.path()).await;
    for _ in 0..2 {
        machine.host.settle_host_key(&own).await.unwrap();
        assert!(!has_launch_key(&machine).await);
        until_known(&machine, &own.to_string(), true).await;
        until_known(&machine, &launch, false).await;
    }
    // Connections that were verified by the launch key lead to others all the same: it is the host's.
    machine.ssh.sibling().await.unwrap();
    let (first, second) = tokio::join!(proxied.sibling(), proxied.sibling());
    first.unwrap();
    second.unwrap();
    // It goes on, and a repeated request changes nothing.
    assert_eq!(machine.host.make_host_key().await.unwrap(), own);
    machine
        .sh("! grep -rqs PRIVATE /etc/ssh/xdrive_host_ecdsa")
        .await;

    machine.is_known_by(&own);
    machine.reboot().await;
    assert!(!has_launch_key(&machine).await);
    assert!(!is_known_by(&machine, &launch).await);
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn an_image_that_was_made_of_a_host_has_not_its_key() {
    let machine = Machine::boot().await;
    let own = machine.host.make_host_key().await.unwrap();
    machine.host.settle_host_key(&own).await.unwrap();
    // As its copy boots, with other user data.
    machine
        .sh("echo another > /var/lib/xdrive/host; sh /var/lib/cloud/instance/boothooks/part-001")
        .await;
    machine.sh("systemctl try-reload-or-restart ssh.service sshd.service; ! ls /etc/ssh/xdrive_host_ed25519 2> /dev/null").await;
    let launch = machine.target().0.host_key;
    until_known(&machine, &launch, true).await;
    assert!(!is_known_by(&machine, &own.to_string()).await);
}
