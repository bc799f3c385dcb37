//! Connections, and commands that run to their end.

mod wide;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use harness::sshd::Sshd;
use sha2::{Digest, Sha256};
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};
use xdrive::ssh::{HostKey, Received, Ssh, SshError, Target, UserKey};

#[tokio::test]
#[ignore = "needs root and sshd"]
async fn a_command_has_its_own_input_output_error_and_status() {
    let sshd = Sshd::start();
    let ssh = sshd.connect().await;
    let output = ssh.run("cat; echo word >&2; exit 37", b"in\0put\xff").await;
    let output = output.unwrap();
    assert_eq!(output.status, 37);
    assert_eq!(output.stdout, b"in\0put\xff");
    assert_eq!(output.stderr, b"word\n");
}

#[tokio::test]
#[ignore = "needs root and sshd"]
async fn death_by_a_signal_is_128_and_its_number() {
    let sshd = Sshd::start();
    let ssh = sshd.connect().await;
    assert_eq!(ssh.run("kill -TERM $$", b"").await.unwrap().status, 143);
    assert_eq!(ssh.run("kill -KILL $$", b"").await.unwrap().status, 137);
}

#[tokio::test]
#[ignore = "needs root and sshd"]
async fn many_commands_share_a_connection() {
    let sshd = Sshd::start();
    let ssh = sshd.connect().await;
    // No more than sshd's MaxSessions at once.
    let commands: Vec<_> = (0..8)
        .map(|number| {
            let ssh = ssh.clone();
            tokio::spawn(async move { ssh.run(&format!("echo {number}"), b"").await })
        })
        .collect();
    for (number, command) in commands.into_iter().enumerate() {
        let output = command.await.unwrap().unwrap();
        assert_eq!(output.stdout, format!("{number}\n").as_bytes());
    }
    for _ in 0..30 {
        assert_eq!(ssh.run("true", b"").await.unwrap().status, 0);
    }
}

#[tokio::test]
#[ignore = "needs root and sshd"]
async fn a_command_that_is_given_up_sees_the_end_of_its_input() {
    let sshd = Sshd::start();
    let ssh = sshd.connect().await;
    // Twice as many as sshd's MaxSessions, each waiting for more input.
    for _ in 0..20 {
        let (_nothing_more, input) = tokio::io::duplex(1);
        let given_up = tokio::time::timeout(Duration::from_millis(100), ssh.feed("cat", input));
        assert!(given_up.await.is_err());
    }
    assert_eq!(ssh.run("true", b"").await.unwrap().status, 0);
}

/// Bytes that do not repeat at any packet's length.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    };
    (0..length).map(|_| next()).collect()
}

#[tokio::test]
#[ignore = "needs root and sshd"]
async fn a_long_input_arrives_whole() {
    let sshd = Sshd::start();
    let ssh = sshd.connect().await;
    let input = noise(48 << 20);
    let output = ssh.feed("sha256sum", &input[..]).await.unwrap();
    let hash = hex::encode(Sha256::digest(&input));
    assert_eq!(output.stdout, format!("{hash}  -\n").as_bytes());
}

#[tokio::test]
#[ignore = "needs root and sshd"]
async fn a_command_may_end_before_its_input_does() {
    let sshd = Sshd::start();
    let ssh = sshd.connect().await;
    let endless = tokio::io::repeat(b'x');
    let output = ssh.feed("head -c 3; exit 5", endless).await.unwrap();
    assert_eq!((output.status, &output.stdout[..]), (5, &b"xxx"[..]));
}

#[tokio::test]
#[ignore = "needs root and sshd"]
async fn an_input_that_cannot_be_read_is_an_error_and_no_short_input() {
    struct Broken;
    impl AsyncRead for Broken {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            _: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            Poll::Ready(Err(io::Error::other("the disk is gone")))
        }
    }
    let sshd = Sshd::start();
    let ssh = sshd.connect().await;
    let input = (&b"begin"[..]).chain(Broken);
    let error = ssh.feed("cat", input).await.unwrap_err();
    assert!(matches!(&error, SshError::Input(_)), "{error}");
    assert!(error.to_string().contains("the disk is gone"));
}

/// The fault: russh's own re-keying breaks a busy connection, so the server's must not.
#[tokio::test]
#[ignore = "needs root and sshd"]
async fn re_keying_by_the_server_survives_data_in_both_directions() {
    let sshd = Sshd::with("RekeyLimit 1M");
    let ssh = sshd.connect().await;
    let input = noise(64 << 20);
    // Each below what a command may print that is collected.
    for part in input.chunks(7 << 20) {
        let output = ssh.feed("cat", part).await.unwrap();
        assert_eq!(output.status, 0);
        assert!(output.stdout == part, "what came back differs");
    }
}

#[tokio::test]
#[ignore = "needs root and sshd"]
async fn another_host_key_than_the_recorded_one_is_refused() {
    let sshd = Sshd::start();
    let elliptic = "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBP0L0P\
        g/uP7xmc7apLwpEXBujNUrW7M07QdP/qWCZIVTrGWI1DIVrxxHrnlbgGKfV4LIEEfTt6pZDj8Q2sOp4S0=";
    let other = HostKey::generate().unwrap().public;
    for recorded in [other.as_str(), elliptic] {
        let target = Target {
            host_key: recorded.to_owned(),
            ..sshd.target("root")
        };
        let error = Ssh::connect(&target, sshd.user_key.private()).await;
        let error = error.unwrap_err();
        assert!(matches!(error, SshError::WrongHostKey(_)), "{error}");
    }
}

#[tokio::test]
#[ignore = "needs root and sshd"]
async fn a_key_that_the_host_does_not_know_is_denied() {
    let sshd = Sshd::start();
    let stranger = UserKey::open_or_create(&sshd.path("stranger")).unwrap();
    let error = Ssh::connect(&sshd.target("root"), stranger.private()).await;
    assert!(matches!(error.unwrap_err(), SshError::Denied(_)));
}

#[tokio::test]
async fn a_host_that_is_not_there_is_reported_at_once() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let error = tokio::time::timeout(super::DEADLINE / 6, connect_to(address)).await;
    let error = error.expect("long before a limit");
    assert!(matches!(error, SshError::Unreachable(..)), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_listener_that_says_nothing_is_given_up() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let error = connect_to(silent.local_addr().unwrap()).await;
    assert!(matches!(error, SshError::Unreachable(..)), "{error}");
}

#[tokio::test]
async fn keys_that_are_no_keys_are_distinguished_from_wrong_ones() {
    let target = Target {
        address: SocketAddr::from(([127, 0, 0, 1], 1)),
        user: "root".to_owned(),
        host_key: "nonsense".to_owned(),
        proxy: None,
        received: Received::default(),
    };
    let key = HostKey::generate().unwrap();
    let error = Ssh::connect(&target, &key.private).await.unwrap_err();
    assert!(error.to_string().contains("host key"), "{error}");
    let error = Ssh::connect(&target, "nonsense").await.unwrap_err();
    assert!(error.to_string().contains("user's key"), "{error}");
}

async fn connect_to(address: SocketAddr) -> SshError {
    let key = HostKey::generate().unwrap();
    let target = Target {
        address,
        user: "root".to_owned(),
        host_key: key.public,
        proxy: None,
        received: Received::default(),
    };
    Ssh::connect(&target, &key.private).await.unwrap_err()
}

#[tokio::test]
#[ignore = "needs root and sshd"]
async fn a_lost_connection_is_reported_and_leaves_no_caller_waiting() {
    let mut sshd = Sshd::start();
    let ssh = sshd.connect().await;
    let command = tokio::spawn({
        let ssh = ssh.clone();
        // Endless input to a command that does not read: it waits for window when the connection
        // ends.
        async move { ssh.feed("sleep 1000", tokio::io::repeat(0)).await }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    sshd.kill();
    let error = tokio::time::timeout(super::DEADLINE, command).await;
    let error = error.unwrap().unwrap().unwrap_err();
    assert!(matches!(error, SshError::Lost(..)), "{error}");
    assert!(!ssh.wait_for_end().await.is_empty());
    assert!(ssh.run("true", b"").await.is_err());
}
