//! Shares in the containers of drives.

use std::fs;
use std::io::Read as _;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use xdrive::ec2::Tags;

use crate::session::connection_lost::recorded;
use crate::session::simulated::{in_the_cloud, paper};
use crate::session::site::Site;

/// Waits in a shell until a file is there.
fn wait_for(file: &str) -> String {
    format!("until [ -e {file} ]; do sleep 0.1; done")
}

/// The processes 1 of the hosts that run.
fn hosts(site: &Site) -> Vec<String> {
    let all = fs::read_dir(site.dir().join("instances")).unwrap();
    let records =
        all.filter_map(|it| fs::read_to_string(it.unwrap().path().join("init.json")).ok());
    let records = records.map(|text| serde_json::from_str::<serde_json::Value>(&text).unwrap());
    records.map(|record| record["pid"].to_string()).collect()
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn two_drives_have_one_share_and_keep_it_until_others_are_given() {
    let site = Site::new();
    let image = site.image();
    site.run(&["share", "create", "data"]).is(0);
    let seen = wait_for("seen");
    let first = format!("cd /data/data && echo one >a && echo up && {seen}; cat b");
    let second = format!("cd /sets && echo up && {}; cat a; {seen}", wait_for("a"));
    let connect = |drive, share, script| {
        let words = ["connect", drive, "--image", &image, "--share", share, "--"];
        site.start(&[&words[..], &["sh", "-c", script]].concat())
    };
    let mut one = connect("demo", "data", &first);
    let mut two = connect("other", "data=/sets", &second);
    one.prints("up");
    two.prints("one");
    // A lock of one host holds the other one off.
    let hosts = hosts(&site);
    let [here, there] = &hosts[..] else {
        panic!("two hosts, but {hosts:?}");
    };
    let on = |host, words: &[&str]| {
        let mut command = Command::new("nsenter");
        command.args(["-t", host, "-a"]).args(words);
        command
    };
    let flock = |host, words: &[&str]| on(host, &[&["flock"], words].concat());
    let mut holder = flock(
        here,
        &["/run/xdrive/shares/data/lock", "sh", "-c", "echo; cat"],
    )
    .stdin(Stdio::piped())
    .stdout(Stdio::piped())
    .spawn()
    .unwrap();
    let mut held = [0];
    holder
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut held)
        .unwrap();
    let attempt = ["-n", "/run/xdrive/shares/data/lock", "true"];
    assert_eq!(flock(there, &attempt).status().unwrap().code(), Some(1));
    drop(holder.stdin.take());
    holder.wait().unwrap();
    assert!(flock(there, &attempt).status().unwrap().success());
    // What one renames the other has by its new name at once.
    let renamed = [
        "mv",
        "/run/xdrive/shares/data/a",
        "/run/xdrive/shares/data/b",
    ];
    assert!(on(there, &renamed).status().unwrap().success());
    let end = [
        "/run/xdrive/shares/data/lock",
        "touch",
        "/run/xdrive/shares/data/seen",
    ];
    assert!(flock(here, &end).status().unwrap().success());
    two.end().is(0).reports("reached data (fs-");
    assert_eq!(one.end().is(0).stdout, "up\none\n");
    site.is_saved("demo", 1);

    // Without flags the drive has it, and with :ro nothing is written to it.
    let kept = site.run(&["connect", "demo", "--", "cat", "/data/data/b"]);
    assert_eq!(kept.is(0).stdout, "one\n");
    let script = "cat /data/data/b; echo two >/data/data/b || echo refused; ls /data/data/c";
    let words = [
        "connect", "demo", "--share", "data:ro", "--", "sh", "-c", script,
    ];
    let refused = site.run(&words);
    assert_eq!(refused.stdout, "one\nrefused\n");
    refused
        .reports("Read-only file system")
        .reports("its shares changed");
    let script = "ls /data/data 2>/dev/null || echo none";
    let words = ["connect", "demo", "--no-shares", "--", "sh", "-c", script];
    let gone = site.run(&words);
    assert_eq!(gone.is(0).stdout, "none\n");
    site.is_saved("demo", 4);
    // What is in a share is on no drive.
    site.run(&["cat", "demo:/data/data/b"]).is(1);
    site.run(&["share", "delete", "data", "--yes"]).is(0);
}

#[test]
fn a_share_that_is_not_there_is_refused_before_anything_is_launched() {
    let site = paper();
    for (share, code, why) in [
        ("data", 69, "there is no share data in us-east-1"),
        (
            "fs-0123456789abcdef0",
            69,
            "there is no file system fs-0123456789abcdef0",
        ),
        ("Data", 2, "lower-case letters"),
        ("data=/work/x", 2, "cannot be replaced"),
    ] {
        site.run(&["connect", "demo", "--share", share, "--", "true"])
            .is(code)
            .reports(why);
    }
    let launched = in_the_cloud(&site, async |ec2| {
        ec2.instances(&"demo".parse().unwrap()).await.unwrap()
    });
    assert!(launched.is_empty(), "{launched:?}");
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn no_container_starts_without_its_share() {
    let site = Site::new();
    let image = site.image();
    site.run(&["share", "create", "data"]).is(0);
    // A mount target that somebody else has made, and that lets nobody in.
    in_the_cloud(&site, async |ec2| {
        let of = ec2.file_systems().await.unwrap().remove(0);
        let vpc = ec2.default_vpc().await.unwrap().unwrap();
        let group = ec2
            .create_group("closed", "closed", &vpc, &Tags::new())
            .await;
        let group = group.unwrap().unwrap();
        for subnet in &ec2.default_subnets().await.unwrap() {
            let made = ec2.create_mount_target(&of.id, &subnet.id, &group).await;
            assert!(made.unwrap().is_some());
        }
    });
    let words = [
        "connect", "demo", "--image", &image, "--share", "data", "--", "ls", "/",
    ];
    let ended = site.run(&words);
    assert_ne!(ended.code(), 0, "{ended:?}");
    assert_eq!(ended.stdout, "");
    ended.reports("the share data cannot be mounted from 172.31.");
    let without = [
        "connect",
        "demo",
        "--image",
        &image,
        "--no-shares",
        "--",
        "echo",
        "up",
    ];
    assert_eq!(site.run(&without).is(0).stdout, "up\n");
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_share_that_does_not_answer_keeps_no_drive_from_being_saved() {
    let site = Site::new();
    let image = site.image();
    site.run(&["share", "create", "data"]).is(0);
    let script =
        "echo kept >/work/note; echo at work; while echo line >>/data/data/log; do sleep 0.1; done";
    let words = [
        "connect", "demo", "--image", &image, "--share", "data", "--",
    ];
    let mut running = site.start(&[&words[..], &["sh", "-c", script]].concat());
    running.prints("at work");
    let init = recorded(&site, "init.json").as_raw_nonzero().to_string();
    let stopped = Command::new("nsenter")
        .args(["-t", &init, "-a", "pkill", "-STOP", "bindfs"])
        .status()
        .unwrap();
    assert!(stopped.success());
    running.signal(Signal::TERM);
    let ended = running.end();
    ended
        .reports("the share data did not answer")
        .reports("demo is saved");
    site.is_saved("demo", 1);
    let after = site.run(&["connect", "demo", "--", "cat", "/work/note"]);
    assert_eq!(after.is(0).stdout, "kept\n");
}
