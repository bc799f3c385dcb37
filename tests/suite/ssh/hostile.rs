//! Hosts that have the right key, or need none yet, and misbehave: each ends in one clear error or is
//! ignored, and the client's memory stays small.
//!
//! A client is a process of its own, whose memory can be measured: this test binary, run anew with
//! [`a_client_of_any_server`] selected.

mod server;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use xdrive::host::scripts::Host;
use xdrive::host::{LockOrder, Role};
use xdrive::ssh::agent::AgentForward;
use xdrive::ssh::forward::ForwardError;
use xdrive::ssh::remote::{Here, RemoteForward, RemoteWanted};
use xdrive::ssh::{HostKey, Received, Ssh, Target, UserKey};

use super::memory;
use server::{CHANNELS, Kind, Seen, serve};

const TASK: &str = "XDRIVE_TEST_HOSTILE";
/// How many seconds a client may take.
const MOST: &str = "180";
/// By how much a client may grow, in KiB: what it may collect of a command's output, which is twice
/// that while a vector grows, and as much again for all else.
const GROWN: u64 = 64 << 10;

#[derive(Serialize, Deserialize)]
struct Task {
    kind: Kind,
    address: SocketAddr,
    host_key: String,
    user_key: String,
    /// The folder for its outcome, an agent's socket, and the server's word that it is done.
    dir: PathBuf,
}

#[derive(Debug, Serialize, Deserialize)]
struct Outcome {
    /// The result, as text.
    what: String,
    /// By how much its memory has grown at most, in KiB.
    grown: u64,
    /// How many connections it was given.
    given: usize,
}

/// Runs a client of a server of this kind: its outcome, and how many channels it has accepted.
async fn met(kind: Kind) -> (Outcome, usize) {
    let dir = tempfile::tempdir().unwrap();
    let host_key = HostKey::generate().unwrap();
    let user_key = UserKey::open_or_create(&dir.path().join("key")).unwrap();
    let seen = Seen::new(dir.path().join("done"));
    let address = serve(kind, &host_key.private, seen.clone()).await;
    let task = Task {
        kind,
        address,
        host_key: host_key.public,
        user_key: user_key.private().to_owned(),
        dir: dir.path().to_owned(),
    };
    let name = test_name!(a_client_of_any_server);
    // One that hangs is an error, too.
    let mut client = Command::new("timeout");
    client
        .args(["--signal=KILL", MOST])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture", "--quiet"])
        .env(TASK, serde_json::to_string(&task).unwrap())
        .stdin(Stdio::null());
    let output = tokio::task::spawn_blocking(move || client.output().unwrap());
    let output = output.await.unwrap();
    let outcome = std::fs::read(dir.path().join("outcome"));
    let outcome = outcome.unwrap_or_else(|_| panic!("no outcome: {output:?}"));
    let outcome: Outcome = serde_json::from_slice(&outcome).unwrap();
    eprintln!("{kind:?}: {outcome:?}");
    assert!(outcome.grown < GROWN, "{kind:?}: {outcome:?}");
    (outcome, seen.accepted.load(Ordering::Relaxed))
}

#[tokio::test]
async fn a_client_of_any_server() {
    let Ok(task) = std::env::var(TASK) else {
        // Selected as a test of its own.
        let (outcome, _) = Box::pin(met(Kind::Friendly)).await;
        assert_eq!(outcome.what, "status 3");
        return;
    };
    let task: Task = serde_json::from_str(&task).unwrap();
    let before = memory("VmRSS");
    let (what, given) = client(&task).await;
    let grown = memory("VmHWM") - before;
    let outcome = Outcome { what, grown, given };
    let text = serde_json::to_vec(&outcome).unwrap();
    std::fs::write(task.dir.join("outcome"), text).unwrap();
}

async fn client(task: &Task) -> (String, usize) {
    let target = Target {
        address: task.address,
        user: "root".to_owned(),
        host_key: task.host_key.clone(),
        proxy: None,
        received: Received::default(),
    };
    let ssh = match Ssh::connect(&target, &task.user_key).await {
        Ok(ssh) => ssh,
        Err(error) => return (error.to_string(), 0),
    };
    match task.kind {
        Kind::Ports => ports(task, &ssh).await,
        Kind::Agent | Kind::NoAgent => agent(task, &ssh).await,
        Kind::Events => events(ssh).await,
        Kind::Script => {
            // russh's server sends nothing at all once a channel was closed that waits for window:
            // each script has a connection of its own.
            let other = Ssh::connect(&target, &task.user_key).await.unwrap();
            scripts(ssh, other).await
        }
        _ => match ssh.run("command", b"").await {
            Ok(output) => (format!("status {}", output.status), 0),
            Err(error) => (error.to_string(), 0),
        },
    }
}

/// Forwards a port to a service here, which keeps each connection.
async fn ports(task: &Task, ssh: &Ssh) -> (String, usize) {
    let (service, mut connections) = mpsc::unbounded_channel();
    let wanted = RemoteWanted {
        server: "serve".to_owned(),
        bind: "127.0.0.1".to_owned(),
        port: 8000,
        is_exact: true,
        to: Here::Service(service),
    };
    let forward: Result<_, ForwardError> = RemoteForward::open(ssh, wanted).await;
    let _forward = forward.unwrap();
    let mut open = Vec::new();
    while !task.dir.join("done").exists() {
        let wait = Duration::from_millis(20);
        if let Ok(Some(connection)) = tokio::time::timeout(wait, connections.recv()).await {
            open.push(connection);
        }
    }
    while let Ok(connection) = connections.try_recv() {
        open.push(connection);
    }
    ("done".to_owned(), open.len())
}

const ORDER: LockOrder<'static> = LockOrder {
    client: "me",
    role: Role::Lead,
    lease: Duration::from_mins(1),
};

/// Uses two of a host's scripts: what the first one says.
async fn scripts(ssh: Ssh, other: Ssh) -> (String, usize) {
    let (host, _) = Host::contact(ssh).await.unwrap();
    let lock = host.hold(&ORDER).await;
    let (host, _) = Host::contact(other).await.unwrap();
    let mut listening = host.listening(None).await.unwrap();
    assert_eq!(listening.next().await, None);
    (lock.unwrap_err().to_string(), 0)
}

/// Attaches to a host: how many events came.
async fn events(ssh: Ssh) -> (String, usize) {
    let (host, _) = Host::contact(ssh).await.unwrap();
    let mut lock = host.hold(&ORDER).await.unwrap();
    // All that the host has to say, while nobody asks.
    while lock.refresh(Duration::from_mins(1)) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut events = 0;
    while lock.event().await.is_some() {
        events += 1;
    }
    ("done".to_owned(), events)
}

/// Forwards an agent that answers nothing and keeps each connection.
async fn agent(task: &Task, ssh: &Ssh) -> (String, usize) {
    let socket = task.dir.join("agent");
    let listener = tokio::net::UnixListener::bind(&socket).unwrap();
    let _forward = match AgentForward::open(ssh, "agent".to_owned(), socket).await {
        Ok(forward) => forward,
        Err(error) => return (error.to_string(), 0),
    };
    let mut open = Vec::new();
    while !task.dir.join("done").exists() {
        let wait = Duration::from_millis(20);
        if let Ok(Ok((connection, _))) = tokio::time::timeout(wait, listener.accept()).await {
            open.push(connection);
        }
    }
    ("done".to_owned(), open.len())
}

#[tokio::test]
async fn lines_without_end_before_the_version_are_an_error() {
    for kind in [Kind::Lines, Kind::Line] {
        let (outcome, _) = met(kind).await;
        assert!(outcome.what.starts_with("cannot reach"), "{outcome:?}");
    }
}

#[tokio::test]
async fn a_banner_of_hundreds_of_mebibytes_is_an_error() {
    let (outcome, _) = met(Kind::Banner).await;
    assert!(outcome.what.starts_with("cannot reach"), "{outcome:?}");
}

#[tokio::test]
async fn channels_that_nobody_asked_for_are_refused_and_the_command_goes_on() {
    let (outcome, accepted) = met(Kind::Channels).await;
    assert_eq!(outcome.what, "status 3");
    assert_eq!(accepted, 0);
}

#[tokio::test]
async fn a_host_opens_so_many_connections_to_a_port_and_no_more() {
    let (outcome, accepted) = met(Kind::Ports).await;
    assert!((200..=512).contains(&accepted), "{accepted} of {CHANNELS}");
    assert_eq!(outcome.given, accepted);
}

#[tokio::test]
async fn a_host_asks_the_agent_over_so_many_connections_and_no_more() {
    let (outcome, accepted) = met(Kind::Agent).await;
    assert!((10..=64).contains(&accepted), "{accepted} of {CHANNELS}");
    assert!(outcome.given <= accepted, "{outcome:?}");
}

#[tokio::test]
async fn random_bytes_after_the_login_end_the_connection() {
    let (outcome, _) = met(Kind::Garbage).await;
    assert!(outcome.what.contains("was lost"), "{outcome:?}");
}

#[tokio::test]
async fn a_command_that_prints_without_end_is_an_error() {
    for kind in [Kind::Output, Kind::Errors] {
        let (outcome, _) = met(kind).await;
        assert!(outcome.what.contains("printed more than"), "{outcome:?}");
    }
    let (outcome, _) = met(Kind::NoAgent).await;
    let what = &outcome.what;
    assert!(what.contains("nothing to the agent") && what.len() < 10_000);
}

#[tokio::test]
async fn a_script_that_prints_a_line_without_end_is_an_error() {
    let (outcome, _) = met(Kind::Script).await;
    assert!(outcome.what.contains("printed more than"), "{outcome:?}");
}

#[tokio::test]
async fn a_host_has_so_many_events_for_a_client_that_asks_for_none_and_no_more() {
    let (outcome, _) = met(Kind::Events).await;
    assert!((1000..=4096).contains(&outcome.given), "{outcome:?}");
}

#[tokio::test]
async fn a_hosts_reason_for_the_end_cannot_take_over_the_terminal() {
    let (outcome, _) = met(Kind::Reason).await;
    let what = &outcome.what;
    assert!(what.contains("the host closed it"), "{what:?}");
    assert!(!what.contains(char::is_control), "{what:?}");
    assert!(what.len() < 500, "{} bytes", what.len());
}
