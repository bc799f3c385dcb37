//! Proxy commands: connections through them, their failures, and what they leave.

mod wide;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getpgid, kill_process_group};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use xdrive::ssh::forward::Forward;
use xdrive::ssh::{HostKey, Proxy, Ssh, SshError, Target};

use super::DEADLINE;
use harness::sshd::Sshd;

/// A command that connects to `%h` and `%p`.
const THROUGH: &str = "bash -c 'exec 3<>/dev/tcp/%h/%p; cat <&3 & cat >&3'";

/// The target, reached through `command`, in whose environment `%i` marks all its processes.
fn through(sshd: &Sshd, command: &str) -> Target {
    let command = format!("export XDRIVE_TEST=%i; {command}");
    Target {
        proxy: Some(Proxy {
            command: command.parse().unwrap(),
            instance: mark(sshd),
        }),
        ..sshd.target("root")
    }
}

fn mark(sshd: &Sshd) -> String {
    let name = sshd.home.path().file_name().unwrap();
    format!("i-{}", name.to_string_lossy())
}

/// The running processes of its commands: the shells by their words, their children by their
/// environment.
fn processes(sshd: &Sshd) -> Vec<PathBuf> {
    let mark = format!("XDRIVE_TEST={}", mark(sshd));
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    all.map(|entry| entry.path())
        .filter(|process| {
            ["cmdline", "environ"].iter().any(|file| {
                let text = std::fs::read(process.join(file)).unwrap_or_default();
                String::from_utf8_lossy(&text).contains(&mark)
            })
        })
        .collect()
}

/// Polls until `reached`, while other tasks run.
async fn eventually(what: &str, mut reached: impl FnMut() -> bool) {
    let began = Instant::now();
    while !reached() {
        assert!(began.elapsed() < DEADLINE, "never: {what}");
        sleep(Duration::from_millis(10)).await;
    }
}

/// Whether a process is this one's child.
fn is_child(process: &Path) -> bool {
    let status = std::fs::read_to_string(process.join("status")).unwrap_or_default();
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"));
    parent.is_some_and(|parent| parent.trim() == std::process::id().to_string())
}

#[tokio::test]
#[ignore = "needs root and sshd"]
async fn commands_and_forwards_go_through_commands_of_their_own_and_nothing_is_left() {
    let sshd = Sshd::start();
    let target = through(&sshd, THROUGH);
    let ssh = Ssh::connect(&target, sshd.user_key.private())
        .await
        .unwrap();
    let large = vec![b'x'; 3 << 20];
    let output = ssh
        .run("cat; echo word >&2; exit 37", &large)
        .await
        .unwrap();
    assert_eq!((output.status, output.stdout == large), (37, true));
    let one = processes(&sshd).len();
    assert!(one > 0);

    let sibling = ssh.sibling().await.unwrap();
    assert_eq!(sibling.run("true", b"").await.unwrap().status, 0);
    assert!(processes(&sshd).len() > one);
    let forward = Forward::open(&ssh, 0, sshd.address).unwrap();
    let mut stream = TcpStream::connect(("127.0.0.1", forward.port()))
        .await
        .unwrap();
    let mut banner = [0; 8];
    stream.read_exact(&mut banner).await.unwrap();
    assert_eq!(&banner, b"SSH-2.0-");
    drop((stream, forward, sibling));
    eventually("one way is closed", || processes(&sshd).len() <= one).await;
    assert_eq!(ssh.run("true", b"").await.unwrap().status, 0);

    let all = processes(&sshd);
    let children: Vec<_> = all.into_iter().filter(|it| is_child(it)).collect();
    assert!(!children.is_empty());
    drop(ssh);
    eventually("all ways are closed", || processes(&sshd).is_empty()).await;
    // Nor is a zombie left.
    eventually("all are reaped", || children.iter().all(|it| !it.exists())).await;
}

#[tokio::test]
#[ignore = "needs root and sshd"]
async fn a_host_with_another_key_is_not_talked_to_through_a_command_either() {
    let sshd = Sshd::start();
    let target = Target {
        host_key: HostKey::generate().unwrap().public,
        ..through(&sshd, THROUGH)
    };
    let error = Ssh::connect(&target, sshd.user_key.private()).await;
    assert!(matches!(error, Err(SshError::WrongHostKey(_))), "{error:?}");
    eventually("it is gone", || processes(&sshd).is_empty()).await;
}

#[tokio::test]
#[ignore = "needs root and sshd"]
async fn a_command_that_dies_ends_its_connection() {
    let sshd = Sshd::start();
    let target = through(&sshd, THROUGH);
    let ssh = Ssh::connect(&target, sshd.user_key.private())
        .await
        .unwrap();
    let group = processes(&sshd)
        .into_iter()
        .find(|it| is_child(it))
        .unwrap();
    let group: i32 = group
        .file_name()
        .unwrap()
        .to_str()
        .unwrap()
        .parse()
        .unwrap();
    // A Ctrl-C at the terminal would not reach it: it has its own process group.
    let group = Pid::from_raw(group).unwrap();
    assert_eq!(getpgid(Some(group)).unwrap(), group);
    kill_process_group(group, Signal::KILL).unwrap();
    timeout(DEADLINE, ssh.wait_for_end()).await.unwrap();
    assert!(ssh.run("true", b"").await.is_err());
}
