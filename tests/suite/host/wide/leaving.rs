//! Clients that leave: how many remain, and whose connections are ending.

use std::process::Command;

use tokio::task::JoinSet;
use xdrive::host::scripts::Host;
use xdrive::host::{ClientLock, Role};

use crate::host::machine::{Machine, hold, mortal, soon};

/// The folder of the scripts on the host.
const SCRIPTS: &str = "/var/lib/xdrive/scripts/*";

/// A client over its own connection.
async fn client(machine: &Machine, line: &str, role: Role) -> (Host, ClientLock) {
    let host = Host::contact(machine.login().await).await.unwrap().0;
    let held = hold(&host, line, role, 900).await.unwrap();
    (host, held)
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn of_all_who_leave_at_once_just_one_is_the_last_however_often_they_ask() {
    let machine = Machine::boot().await;
    for round in 0..3 {
        let lines: Vec<String> = (0..5).map(|it| format!("s{round}{it} t me")).collect();
        let mut leaving = JoinSet::new();
        let mut clients = Vec::new();
        for (index, line) in lines.iter().enumerate() {
            let role = if index == 0 { Role::Lead } else { Role::Guest };
            clients.push((line.clone(), client(&machine, line, role).await));
        }
        for (index, (line, (host, held))) in clients.into_iter().enumerate() {
            leaving.spawn(async move {
                // Some release their hold before they ask.
                let held = (index % 2 == 0).then_some(held);
                let first = host.leave(&line).await.unwrap();
                drop(held);
                let again = host.leave(&line).await.unwrap();
                assert_eq!(first.others, again.others, "{line}");
                assert!(first.attached.is_none_or(|lead| lead != line));
                first.others
            });
        }
        let mut remaining = leaving.join_all().await;
        remaining.sort_unstable();
        assert_eq!(remaining, [0, 1, 2, 3, 4], "round {round}");
        let contact = machine.host.look().await.unwrap();
        assert_eq!((contact.attached, contact.clients), (None, Vec::new()));
    }
    // A client that comes back is attached, and leaves anew.
    let (lead, _lead) = client(&machine, "s01 t me", Role::Lead).await;
    let (guest, _guest) = client(&machine, "s02 t you", Role::Guest).await;
    let remaining = guest.leave("s02 t you").await.unwrap();
    assert_eq!(remaining.others, 1);
    assert_eq!(remaining.attached.as_deref(), Some("s01 t me"));
    assert_eq!(lead.leave("s01 t me").await.unwrap().others, 0);
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn a_client_whose_connection_has_ended_counts_no_more_before_sshd_has_seen_that() {
    let machine = Machine::boot().await;
    let (guest, _guest) = client(&machine, "s2 t you", Role::Guest).await;
    let (sshd, kill) = mortal(&machine, "s1 t me");
    machine.sh(&format!("kill -STOP {sshd}")).await;
    let contact = machine.host.look().await.unwrap();
    assert_eq!(contact.attached.as_deref(), Some("s1 t me"));
    assert_eq!(contact.clients.len(), 2);
    kill();
    soon(async { while machine.host.look().await.unwrap().attached.is_some() {} }).await;
    // Its process there still holds the lead's lock.
    machine
        .sh("! flock -s -n /run/xdrive/lead true && test -e /run/xdrive/clients/s1")
        .await;
    let contact = machine.host.look().await.unwrap();
    assert_eq!(contact.clients, [(Role::Guest, "s2 t you".to_owned())]);
    let remaining = guest.leave("s2 t you").await.unwrap();
    assert_eq!((remaining.others, remaining.attached), (0, None));
    machine.sh(&format!("kill -CONT {sshd}")).await;
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn a_client_whose_way_is_cut_without_a_word_counts_until_sshd_gives_it_up() {
    let machine = Machine::boot().await;
    let (_host, _held) = client(&machine, "s1 t me", Role::Lead).await;
    let init = machine.init();
    let inside = |script: &str| {
        let words = ["-t", &init, "-a", "--", "sh", "-c", script];
        let output = Command::new("nsenter").args(words).output().unwrap();
        assert!(output.status.success(), "{script}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    inside("for device in /sys/class/net/e*; do ip link set \"${device##*/}\" down; done");
    for _ in 0..3 {
        std::thread::sleep(std::time::Duration::from_secs(1));
        let facts = inside(&format!("sh {SCRIPTS}/session contact"));
        assert!(facts.contains("xdrive: attached=s1 t me\n"), "{facts}");
        assert!(facts.contains("xdrive: client=lead s1 t me\n"), "{facts}");
    }
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn a_client_whose_connection_is_none_of_the_kernels_counts_while_it_holds_its_place() {
    let machine = Machine::boot().await;
    // The value of sshd for a connection without TCP; and none.
    for (session, connection) in [("s1", "UNKNOWN 65535 UNKNOWN 65535"), ("s2", "")] {
        machine
            .sh(&format!(
                "(sleep 60 | env SSH_CONNECTION='{connection}' XDRIVE_OWNER='{session} t me' \
                 XDRIVE_ROLE=guest XDRIVE_LEASE=900 sh {SCRIPTS}/session hold) \
                 > /dev/null 2>&1 &"
            ))
            .await;
        let is_there = |contact: &xdrive::host::HostState| {
            let mut clients = contact.clients.iter();
            clients.any(|(_, line)| line.starts_with(session))
        };
        soon(async { while !is_there(&machine.host.look().await.unwrap()) {} }).await;
    }
    assert_eq!(machine.host.look().await.unwrap().clients.len(), 2);
}

/// Connections of each kind, and the results of `is_established`: before and after either side has
/// ended it.
const KINDS: &str = r#"
import socket, subprocess, sys
def found(client, server):
    words = "somewhere %d here %d" % (client.getsockname()[1], server.getsockname()[1])
    script = '. "${0%/*}/presence"; is_established "$1"'
    return subprocess.call(["sh", "-c", script, sys.argv[1], words]) == 0
for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"), (socket.AF_INET6, "127.0.0.1")):
    for ends in ("client", "server"):
        server = socket.socket(family)
        if family == socket.AF_INET6:
            server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        server.bind(("", 0))
        server.listen()
        client = socket.create_connection((address, server.getsockname()[1]))
        kept, _ = server.accept()
        before = found(client, kept)
        (client if ends == "client" else kept).shutdown(socket.SHUT_WR)
        print(address, ends, before, found(client, kept))
"#;

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn a_connection_is_found_however_the_kernel_lists_it_until_one_side_ends_it() {
    let machine = Machine::boot().await;
    let command = format!("python3 - {SCRIPTS}/session");
    let output = machine.ssh.run(&command, KINDS.as_bytes()).await.unwrap();
    let found = String::from_utf8(output.stdout).unwrap();
    assert_eq!(
        output.status,
        0,
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let lines: Vec<&str> = found.lines().collect();
    assert_eq!(lines.len(), 6, "{found}");
    for line in lines {
        assert!(line.ends_with(" True False"), "{found}");
    }
}
