//! What does not go on, and why; what is not frozen, and goes on as if nothing had been.

use xdrive::host::scripts::{Freezes, NotThawed};

use super::{COUNTING, ROOT, machine};
use crate::host::machine::Disk;

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices), the machine tree and criu"]
async fn what_can_go_on_nowhere_is_left_with_its_reason_and_never_tried_again() {
    let disk = Disk::new(512);
    let (machine, container) = machine(&disk).await;
    let whole = "/v1/xdrive/frozen/*/whole";
    for (change, reason) in [
        (
            r#"s/"drive": "[^"]*"/"drive": "another"/"#,
            "it was frozen on another",
        ),
        (
            r#"s/"tcp": "[^"]*"/"tcp": "--action-script"/"#,
            "not one of this version",
        ),
        (
            r#"s/"container": ""/"container": "..\/x"/"#,
            "not one of this version",
        ),
        (
            r#"s/"python3", /"python3", "-c", "x", /"#,
            "not one of this version",
        ),
        (r#"s/"tcp": "[^"]*", //"#, "its record cannot be read"),
    ] {
        let id = machine.begin_freezable(&container, COUNTING).await;
        machine.counts(&id, 5).await;
        let frozen = machine.script("freeze.py all 60").await;
        assert!(frozen.contains("froze="), "{frozen}");
        machine.sh(&format!("sed -i '{change}' {whole}")).await;
        machine.next_generation().await;
        let left = machine.host.thaw().await.unwrap();
        let Err(NotThawed::Ever(why)) = &left[0].outcome else {
            panic!("{left:?}");
        };
        assert!(why.contains(reason), "{why}");
        assert!(machine.host.thaw().await.unwrap().is_empty(), "{reason}");
    }
    // A host that was cut off while one went on.
    let id = machine.begin_freezable(&container, COUNTING).await;
    machine.counts(&id, 5).await;
    machine.script("freeze.py all 60").await;
    machine.next_generation().await;
    machine.sh("cd /v1/xdrive/frozen/* && mv whole taken").await;
    assert!(
        machine.host.thaw().await.unwrap().is_empty(),
        "a second time"
    );
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices), the machine tree and criu"]
async fn what_cannot_be_frozen_goes_on_as_if_nothing_had_been() {
    let disk = Disk::new(512);
    let (machine, container) = machine(&disk).await;
    let id = machine.begin_freezable(&container, COUNTING).await;
    machine.counts(&id, 5).await;
    let mut at = 0;
    for (before, seconds, reason, after) in [
        ("", "0", "too large", ""),
        // Whoever is killed leaves it as it is: criu, and who waits for it.
        (
            "(for i in $(seq 2000); do pkill -9 -f '[c]riu dump' && exit; sleep 0.002; done) >/dev/null 2>&1 &",
            "60",
            "criu dump",
            "",
        ),
        (
            "mkdir -p /v1/xdrive/frozen; mount -t tmpfs -o size=16k none /v1/xdrive/frozen",
            "60",
            "",
            "umount /v1/xdrive/frozen",
        ),
    ] {
        machine.sh(before).await;
        let printed = machine.script(&format!("freeze.py all {seconds}")).await;
        machine.sh(after).await;
        let named = format!("not_frozen={}", id.as_str());
        assert!(
            printed.contains(&named) && printed.contains(reason),
            "{printed}"
        );
        at = machine.counted(&id).await.max(at);
        machine.counts(&id, at + 5).await;
    }
    // And it can be frozen all the same.
    let frozen = machine.script("freeze.py all 60").await;
    assert!(frozen.contains(" counting"), "{frozen}");
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices), the machine tree and criu"]
async fn nothing_of_the_container_is_run_followed_or_written_over_by_its_host() {
    let disk = Disk::new(512);
    let (machine, container) = machine(&disk).await;
    let id = machine.begin_freezable(&container, COUNTING).await;
    machine.counts(&id, 5).await;
    let plant = "for name in iptables ip6tables sh nft; do mkdir -p $root/planted; \
                 printf '#!/bin/sh\ntouch /work/planted\n' >$root/planted/$name; \
                 chmod +x $root/planted/$name; done; mkdir -p $root/usr/sbin $root/dev/shm/a; \
                 cp $root/planted/iptables $root/usr/sbin/iptables; cp $root/planted/nft $root/usr/sbin/nft; \
                 echo mine >$root/dev/shm/a/b; echo old >$root/dev/shm/c";
    machine.sh(&format!("{ROOT}; {plant}")).await;
    assert_eq!(machine.host.freezes(None).await.unwrap(), Freezes::Yes);
    let frozen = machine.script("freeze.py all 60").await;
    assert!(frozen.contains("froze="), "{frozen}");
    machine.next_generation().await;
    let change = "rm -r $root/dev/shm/a; ln -s /etc $root/dev/shm/a; echo new >$root/dev/shm/c; \
                  rm -f $root/dev/shm/d";
    machine.sh(&format!("{ROOT}; {change}")).await;
    machine.host.thaw().await.unwrap()[0]
        .outcome
        .clone()
        .unwrap();
    let found = "cat $root/dev/shm/c; ls /etc/b $root/etc/b /v1/work/planted 2>/dev/null || :";
    assert_eq!(machine.sh(&format!("{ROOT}; {found}")).await.trim(), "new");
    let at = machine.counted(&id).await;
    machine.counts(&id, at + 5).await;
}
