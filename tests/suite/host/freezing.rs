//! Commands that are frozen on one mount of the drive, and go on with the next one.

mod cut_off;
mod gpu;
mod hard;
mod mounts;
mod notebook;
mod wide;

use tokio::fs::File;
use xdrive::host::container::{CommandId, Container, ContainerSignal};
use xdrive::host::runs::CommandOrder;
use xdrive::host::scripts::Freezes;

use super::machine::{Disk, Machine};
use harness::home::criu;

/// Counts in its own memory; each step is a line.
const COUNTING: &str = "n=0; while :; do n=$((n + 1)); echo $n; sleep 0.05; done";

/// Sets `root` to the container's root, as its host sees it.
const ROOT: &str = "root=/proc/$(python3 -I -S -c 'import sys; sys.path.insert(0, sys.argv[1]); import inside; \
                    print(inside.init())' /var/lib/xdrive/scripts/*)/root";

/// A machine with the drive's container and criu.
async fn machine(disk: &Disk) -> (Machine, Container) {
    let machine = Machine::with_container(disk).await;
    assert_eq!(machine.host.freezes(None).await.unwrap(), Freezes::NoCriu);
    let archive = File::open(criu()).await.unwrap();
    machine.host.load_criu(archive).await.unwrap();
    assert_eq!(machine.host.freezes(None).await.unwrap(), Freezes::Yes);
    let container = machine.host.running(None).await.unwrap().unwrap();
    (machine, container)
}

impl Machine {
    /// Begins a command of the container that may be frozen; its id.
    async fn begin_freezable(&self, container: &Container, script: &str) -> CommandId {
        let id = CommandId::new().unwrap();
        let words = ["sh", "-c", script].map(str::to_owned);
        let command = self.host.command(&CommandOrder {
            id: &id,
            label: "counting",
            client: "",
            limit: None,
            attempt: None,
            freezes: true,
            command: &container.command(&id, &[], &words),
            kept: 1 << 20,
        });
        self.host.begin(&command).await.unwrap();
        id
    }

    /// Runs a script of this version's by its name and words.
    async fn script(&self, words: &str) -> String {
        self.sh(&format!(
            "python3 -I -S /var/lib/xdrive/scripts/*/{words} 2>&1 || echo failed"
        ))
        .await
    }

    /// As on the host that mounts the drive next, for whom what is frozen may go on.
    async fn next_generation(&self) {
        assert_eq!(self.next_mount("keep").await, "");
    }

    /// As on the host that mounts the drive next, with this order for what is frozen; what that prints.
    async fn next_mount(&self, order: &str) -> String {
        self.raise().await;
        let swept = self.script(&format!("freeze.py sweep '{order}'")).await;
        let record = "sed -n 's/^generation=//p' /run/xdrive/volume >/v1/xdrive/generation";
        self.sh(record).await;
        swept
    }

    /// As on another host, before the sweep of its mount: another generation, and no keeper of what was
    /// frozen.
    async fn raise(&self) {
        let next = "pkill -9 -f '[c]ommand.py' ; rm -rf /run/xdrive/commands /var/lib/xdrive/commands; \
                    g=$(sed -n 's/^generation=//p' /run/xdrive/volume); \
                    sed -i \"s/^generation=.*/generation=$((g + 1))/\" /run/xdrive/volume";
        self.sh(next).await;
    }

    /// The numbers that a command has printed, by its host.
    async fn counted(&self, id: &CommandId) -> usize {
        let file = format!("/var/lib/xdrive/commands/{}/output", id.as_str());
        let printed = self.sh(&format!("cat {file}")).await;
        for (index, line) in printed.lines().enumerate() {
            assert_eq!(line, (index + 1).to_string(), "{printed}");
        }
        printed.lines().count()
    }

    /// Waits until a command has printed so many.
    async fn counts(&self, id: &CommandId, least: usize) {
        let file = format!("/var/lib/xdrive/commands/{}/output", id.as_str());
        let wait = format!(
            "for i in $(seq 600); do [ $(cat {file} 2>/dev/null | wc -l) -lt {least} ] || exit 0; sleep 0.05; done; exit 1"
        );
        self.sh(&wait).await;
    }
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices), the machine tree and criu"]
async fn a_command_goes_on_with_the_next_number_as_often_as_it_is_frozen() {
    let disk = Disk::new(512);
    let (machine, container) = machine(&disk).await;
    let id = machine.begin_freezable(&container, COUNTING).await;
    let mut at = 0;
    for _ in 0..3 {
        machine.counts(&id, at + 10).await;
        let frozen = machine.script("freeze.py all 60").await;
        let named = format!("xdrive: froze={} ", id.as_str());
        assert!(
            frozen.starts_with(&named) && frozen.trim_end().ends_with(" counting"),
            "{frozen}"
        );
        at = machine.counted(&id).await;
        machine.next_generation().await;
        let thawed = machine.host.thaw().await.unwrap();
        let [thawed] = &thawed[..] else {
            panic!("{thawed:?}");
        };
        assert_eq!(thawed.run, id.as_str());
        assert_eq!(thawed.outcome.as_ref().unwrap().1, "counting");
        assert!(machine.host.thaw().await.unwrap().is_empty(), "once");
        assert_eq!(machine.sh("ls /v1/xdrive/frozen").await, "");
    }
    machine.counts(&id, at + 10).await;
    machine.counted(&id).await;
    // Its end is known, as that of a command that was never frozen.
    let hangup = ContainerSignal::Hangup;
    machine.host.signal(None, &id, hangup).await.unwrap();
    let is_over = "for i in $(seq 600); do grep -qs '\"status\": 129' /v1/xdrive/runs/*/record && exit 0; \
                   sleep 0.05; done; exit 1";
    machine.sh(is_over).await;
}
