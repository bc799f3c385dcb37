//! A mount decides about what is frozen on the drive: whether it goes on with a later one, or with none.

use xdrive::host::container::{CommandId, Container};
use xdrive::host::scripts::NotThawed;

use super::{COUNTING, machine};
use crate::host::machine::{Disk, Machine};

impl Machine {
    /// Begins the counting, and freezes it; its id.
    async fn freeze_counting(&self, container: &Container) -> CommandId {
        let id = self.begin_freezable(container, COUNTING).await;
        self.counts(&id, 5).await;
        let frozen = self.script("freeze.py all 60").await;
        assert!(frozen.contains("froze="), "{frozen}");
        id
    }

    /// The names of what is frozen on the drive.
    async fn frozen(&self) -> String {
        self.sh("ls /v1/xdrive/frozen").await
    }
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices), the machine tree and criu"]
async fn what_is_frozen_goes_on_with_the_mount_after_those_that_ended_before() {
    let disk = Disk::new(512);
    let (machine, container) = machine(&disk).await;
    let id = machine.freeze_counting(&container).await;
    let at = machine.counted(&id).await;
    // Ended before it was mounted; while it was; and after that.
    machine.raise().await;
    machine.raise().await;
    assert_eq!(machine.script("freeze.py sweep keep").await, "");
    machine.next_generation().await;
    machine.next_generation().await;
    // A host whose script was cut off before its sweep has it go on no more than one with another order.
    machine.raise().await;
    assert!(machine.host.thaw().await.unwrap().is_empty(), "unswept");
    machine.next_generation().await;
    let thawed = machine.host.thaw().await.unwrap();
    assert_eq!(thawed[0].run, id.as_str());
    thawed[0].outcome.as_ref().unwrap();
    machine.counts(&id, at + 10).await;
    machine.counted(&id).await;
    assert!(machine.host.thaw().await.unwrap().is_empty(), "once");
    machine.next_generation().await;
    assert!(machine.host.thaw().await.unwrap().is_empty(), "once");
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices), the machine tree and criu"]
async fn what_cannot_go_on_here_stays_frozen_for_twenty_mounts() {
    let disk = Disk::new(512);
    let (machine, container) = machine(&disk).await;
    let id = machine.freeze_counting(&container).await;
    let whole = format!("/v1/xdrive/frozen/{}/whole", id.as_str());
    let at = machine.counted(&id).await;
    let stays = async |reason: &str| {
        let thawed = machine.host.thaw().await.unwrap();
        let Some(Err(NotThawed::Here(why))) = thawed.first().map(|it| &it.outcome) else {
            panic!("{thawed:?}");
        };
        assert!(why.contains(reason), "{why}");
        assert_eq!(machine.frozen().await.trim(), id.as_str());
    };
    for (change, back, reason) in [
        (
            r#"s/"digest": "/&x/"#,
            r#"s/"digest": "x/"digest": "/"#,
            "it began on another processor",
        ),
        (
            r#"s/"version": 2/"version": 3/"#,
            r#"s/"version": 3/"version": 2/"#,
            "another version of xdrive froze it",
        ),
    ] {
        machine.next_generation().await;
        machine.sh(&format!("sed -i '{change}' {whole}")).await;
        stays(reason).await;
        machine.next_generation().await;
        stays(reason).await;
        machine.sh(&format!("sed -i '{back}' {whole}")).await;
    }
    machine.sh("docker stop -t 0 xdrive-demo").await;
    stays("its container does not run").await;
    machine.sh("docker start xdrive-demo").await;
    let criu = "mv /var/lib/xdrive/criu /var/lib/xdrive/criu.away";
    machine.sh(criu).await;
    stays("this host has no criu").await;
    let back = "mv /var/lib/xdrive/criu.away /var/lib/xdrive/criu";
    machine.sh(back).await;
    // A host that closes just then has not used it up, either.
    machine
        .sh("mkdir -p /run/xdrive; echo test >/run/xdrive/closing")
        .await;
    assert!(machine.host.thaw().await.unwrap().is_empty());
    machine.sh("rm /run/xdrive/closing").await;
    let thawed = machine.host.thaw().await.unwrap();
    thawed[0].outcome.as_ref().unwrap();
    machine.counts(&id, at + 10).await;
    machine.counted(&id).await;

    machine.script("freeze.py all 60").await;
    for _ in 0..20 {
        machine.next_generation().await;
    }
    let forgotten = machine.next_mount("keep").await;
    assert_eq!(forgotten, "xdrive: forgotten=1\n");
    assert_eq!(machine.frozen().await, "");
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices), the machine tree and criu"]
async fn what_is_frozen_on_a_copy_or_was_in_anothers_hands_goes_on_nowhere() {
    let disk = Disk::new(512);
    let (machine, container) = machine(&disk).await;
    machine.freeze_counting(&container).await;
    let forgotten = "xdrive: forgotten=1\n";
    assert_eq!(machine.next_mount("forget").await, forgotten);
    assert_eq!(machine.frozen().await, "");

    let id = machine.freeze_counting(&container).await;
    assert_eq!(machine.next_mount("").await, "");
    assert!(machine.host.thaw().await.unwrap().is_empty(), "another's");
    assert_eq!(machine.frozen().await.trim(), id.as_str());
    assert_eq!(machine.next_mount("keep").await, forgotten);
    assert_eq!(machine.frozen().await, "");
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices), the machine tree and criu"]
async fn the_next_try_of_a_frozen_command_takes_its_place_for_good() {
    let disk = Disk::new(512);
    let (machine, container) = machine(&disk).await;
    let id = machine.freeze_counting(&container).await;
    machine.next_generation().await;
    let name = id.as_str();
    let begin = format!("command.py begin {name} 4096 again '' '' '2 0' '' true");
    assert_eq!(machine.script(&begin).await, "");
    assert_eq!(machine.frozen().await, "");
    machine.next_generation().await;
    assert!(machine.host.thaw().await.unwrap().is_empty());
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices), the machine tree and criu"]
async fn what_a_drive_says_of_other_mounts_or_of_its_host_is_not_believed() {
    let disk = Disk::new(512);
    let (machine, _) = machine(&disk).await;
    machine.raise().await;
    machine.next_generation().await;
    machine.raise().await;
    let records = "g=$(sed -n 's/^generation=//p' /run/xdrive/volume); mkdir -p /v1/xdrive/frozen; \
                   cd /v1/xdrive/frozen; \
                   for it in aa=$((g - 1)) bb=$g cc=$((g + 1)) dd=$((g - 2)) ee=[] ff='\"x\"'; do \
                   mkdir ${it%=*}; echo \"{\\\"generation\\\": ${it#*=}}\" >${it%=*}/whole; done; \
                   mkdir gg hh ii jj kk mm; echo $g >gg/whole; echo >hh/taken; ln -s . ii/images; \
                   mkfifo jj/whole; head -c 100000 /dev/zero | tr '\\0' [ >kk/whole; ln -s ../aa/whole mm/whole; \
                   cp -r aa /planted; ln -s /planted nn; echo mine >/mine; ln -s /mine aa/whole.new";
    machine.sh(records).await;
    let swept = machine.script("freeze.py sweep keep").await;
    assert_eq!(swept, "xdrive: forgotten=5\n");
    assert_eq!(machine.frozen().await, "aa\n");
    let record = machine.sh("cat /v1/xdrive/frozen/aa/whole").await;
    assert_eq!(record, r#"{"generation": 4, "mounts": 1}"#);
    let kept = machine.sh("cat /mine /planted/whole");
    assert_eq!(kept.await, "mine\n{\"generation\": 3}\n");
    let link = "mkdir -p /victim/dd; rm -r /v1/xdrive/frozen; ln -s /victim /v1/xdrive/frozen";
    machine.sh(link).await;
    assert_eq!(machine.script("freeze.py sweep keep").await, "");
    let left = machine.sh("ls /victim; ls /v1/xdrive | grep frozen || :");
    assert_eq!(left.await, "dd\n");
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices), the machine tree and criu"]
async fn a_close_waits_for_what_goes_on_just_then() {
    // As a thaw does, until there is a file.
    const HOLD: &str = "import fcntl, os, time\nlock = open('/run/xdrive/freezes.lock', 'w')\n\
                        fcntl.lockf(lock, fcntl.LOCK_EX)\nopen('/run/held', 'w')\n\
                        while not os.path.exists('/run/let'): time.sleep(0.05)";
    let disk = Disk::new(512);
    let (machine, container) = machine(&disk).await;
    let id = machine.begin_freezable(&container, COUNTING).await;
    let hold = format!(
        "nohup python3 -c \"{HOLD}\" >/dev/null 2>&1 & until [ -e /run/held ]; do sleep 0.05; done"
    );
    machine.sh(&hold).await;
    let close = "nohup python3 -I -S /var/lib/xdrive/scripts/*/freeze.py all 60 >/run/said 2>&1 &";
    machine.sh(close).await;
    machine.counts(&id, 40).await;
    assert_eq!(machine.sh("cat /run/said").await, "");
    let froze = "touch /run/let; for i in $(seq 600); do grep -q froze= /run/said && exit 0; sleep 0.05; done; exit 1";
    machine.sh(froze).await;
}
