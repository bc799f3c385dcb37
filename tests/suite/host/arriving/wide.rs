//! Variants of `arriving`, which `shell/test.sh --all` runs.

use super::arrive;
use crate::host::machine::{Disk, Machine, soon};

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn a_shell_waits_on_the_host_until_its_session_is_attached() {
    let disk = Disk::new(2048);
    let machine = Machine::with_container(&disk).await;
    let terminal = machine
        .sh("echo /var/lib/xdrive/scripts/*/terminal.py")
        .await;
    let shell = |session: &str| {
        format!(
            "python3 -c 'import pty, sys; pty.spawn(sys.argv[1:])' python3 -I -S {} arrive {session} \
             touch /run/ran-{session}",
            terminal.trim()
        )
    };
    // The terminal is chosen, and its client not attached any more.
    machine
        .sh("mkdir -p /run/xdrive/arrived; printf s1 > /run/xdrive/arrived/s1")
        .await;
    let printed = machine.sh(&shell("s1")).await;
    assert!(printed.contains("terminal=none"), "{printed}");

    let waits = shell("s2");
    let (printed, arrived) = tokio::join!(machine.sh(&waits), async {
        soon(async { while machine.sh("pgrep -f arriv[e].s2 || true").await.is_empty() {} }).await;
        arrive(&machine, "s2 t me", "demo").await.1
    });
    assert!(printed.contains("terminal=new"), "{printed}");
    assert!(arrived.is_some());
    machine
        .sh("[ ! -e /run/ran-s1 ] && [ -e /run/ran-s2 ]")
        .await;
}
