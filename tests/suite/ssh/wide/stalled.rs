//! Many stalled readers at once: what they leave unread is capped together, and others go on.
//!
//! The client is a process of its own, whose memory can be measured: this test binary, run anew with
//! the same test selected.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};
use tokio::io::AsyncWriteExt as _;
use xdrive::ssh::forward::Forward;
use xdrive::ssh::{Received, Ssh, Target};

use crate::ssh::forward::{Flood, Server, connect, echo, server};
use crate::ssh::memory;
use harness::sshd::Sshd;

const TASK: &str = "XDRIVE_TEST_STALLED";
/// How many readers stall, over two forwards. All are in the way of others, but for the last one of
/// the forward that nobody else uses.
const READERS: usize = 10;
/// By how much the client may grow, in KiB: 128 MiB of what is unread, and as much again for what is
/// under way in its channels, and for how an allocator keeps it. Without a common cap it is 640 MiB.
const GROWN: u64 = 256 << 10;

#[derive(Serialize, Deserialize)]
struct Task {
    sshd: SocketAddr,
    host_key: String,
    user_key: String,
    server: SocketAddr,
    /// Where it leaves a file `outcome`, and ends once there is one `gone`.
    dir: PathBuf,
}

#[tokio::test]
#[ignore = "needs root and sshd"]
async fn ten_stalled_readers_take_little_memory_and_others_go_on() {
    if let Ok(task) = std::env::var(TASK) {
        return client(&serde_json::from_str(&task).unwrap()).await;
    }
    let sshd = Sshd::start();
    let flood = Arc::<Flood>::default();
    let server: Server = server(Arc::clone(&flood)).await;
    let target = sshd.target("root");
    let task = Task {
        sshd: target.address,
        host_key: target.host_key,
        user_key: sshd.user_key.private().to_owned(),
        server: server.address,
        dir: sshd.home.path().to_owned(),
    };
    let name = test_name!(ten_stalled_readers_take_little_memory_and_others_go_on);
    let mut client = Command::new(std::env::current_exe().unwrap());
    client
        .args(["--exact", name, "--ignored", "--nocapture", "--quiet"])
        .env(TASK, serde_json::to_string(&task).unwrap())
        .stdin(Stdio::null());
    let ended = Arc::<AtomicBool>::default();
    let is_over = Arc::clone(&ended);
    let output = tokio::task::spawn_blocking(move || {
        let output = client.output().unwrap();
        is_over.store(true, Ordering::Relaxed);
        output
    });
    while !ended.load(Ordering::Relaxed) && flood.gone.load(Ordering::Relaxed) < READERS - 1 {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let gone = flood.gone.load(Ordering::Relaxed);
    std::fs::write(sshd.path("gone"), "").unwrap();
    let output = output.await.unwrap();
    let outcome = std::fs::read_to_string(sshd.path("outcome"));
    let outcome = outcome.unwrap_or_else(|_| panic!("no outcome: {output:?}"));
    eprintln!("grown by {outcome} KiB");
    assert!(outcome.parse::<u64>().unwrap() < GROWN, "{outcome} KiB");
    assert_eq!(gone, READERS - 1);
}

/// Stalls on ten connections over two forwards, and uses another one until all but one are dropped.
async fn client(task: &Task) {
    let target = Target {
        address: task.sshd,
        user: "root".to_owned(),
        host_key: task.host_key.clone(),
        proxy: None,
        received: Received::default(),
    };
    let ssh = Ssh::connect(&target, &task.user_key).await.unwrap();
    let forwards = [0, 1].map(|_| Forward::open(&ssh, 0, task.server).unwrap());
    let before = memory("VmRSS");
    let mut lively = connect(&forwards[0]).await;
    echo(&mut lively, b"before").await;
    let mut stalled = Vec::new();
    for number in 0..READERS {
        let mut stream = connect(&forwards[number % 2]).await;
        stream.write_all(b"!").await.unwrap();
        stalled.push(stream);
    }
    let piece = vec![7; 64 << 10];
    while !task.dir.join("gone").exists() {
        echo(&mut lively, &piece).await;
    }
    echo(&mut lively, b"after").await;
    let grown = memory("VmHWM") - before;
    std::fs::write(task.dir.join("outcome"), grown.to_string()).unwrap();
}
