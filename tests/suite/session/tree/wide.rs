//! Variants of `tree`, which `shell/test.sh --all` runs.

use std::fs;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;
use xdrive::local::wire::Params;

use super::{inside, second};
use crate::local_api::texts;
use crate::session::site::{Ended, Running, SESSION, Site};
use harness::eventually_within;

/// The script that prints the differences of the trees, a line each, in an instance.
const SEAMS: &str = "
findmnt -n -o FSTYPE /
readlink /bin/sh
getent passwd ec2-user admin | cut -d : -f 1
ls /usr/lib/systemd/system/ssh.service /usr/lib/systemd/system/sshd.service 2> /dev/null
for p in apt-get dpkg dnf; do command -v $p; done
sed -n 's/^PermitRootLogin //p' /etc/ssh/sshd_config
sed -n 's/^Include //p' /etc/ssh/sshd_config
grep -o 'secure_path=.*' /etc/sudoers
sed -n 's/.*orphan_file/mkfs: orphan_file/p' /etc/mke2fs.conf
";

const SECOND: &str = "\
xfs
bash
ec2-user
/usr/lib/systemd/system/sshd.service
/usr/bin/dnf
forced-commands-only
/etc/ssh/sshd_config.d/00-xdrive.conf
secure_path=\"/sbin:/bin:/usr/sbin:/usr/bin\"
mkfs: orphan_file
";

const FIRST: &str = "\
overlay
dash
admin
/usr/lib/systemd/system/ssh.service
/usr/bin/apt-get
/usr/bin/dpkg
/etc/ssh/sshd_config.d/*.conf
secure_path=\"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\"
";

/// Writes or reads the same words in the container's own layer and in `/work`, and then waits.
const WORK: &str = "cat /note /work/note 2> /dev/null; echo layer >/note; echo work >/work/note; \
                    echo there; until [ -e /work/end ]; do sleep 0.05; done; rm /work/end";

/// A session on the image that waits for a request to end.
fn working(site: &Site, ami: &[&str]) -> Running {
    let image = site.image();
    let arguments = ["connect", "demo", "--image", &image];
    let mut running = site.start(&[&arguments, ami, &["--", "sh", "-c", WORK]].concat());
    running.prints("there\n");
    running
}

fn end(site: &Site, running: Running) -> Ended {
    inside(site, "touch /v1/work/end");
    running.end()
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and both machine trees"]
fn both_trees_are_listed_as_images_with_a_root_disk_each() {
    let site = Site::new();
    let listed = site.local().call("DescribeImages", &Params::default());
    let listed = listed.unwrap();
    let [names, ids] = ["name", "imageId"].map(|field| texts(&listed, field));
    for tree in ["xdrive-local-debian-12-", "xdrive-local-second-12-"] {
        assert!(names.iter().any(|name| name.starts_with(tree)), "{names:?}");
    }
    assert!(ids.contains(&second()), "{ids:?}");
    assert_eq!(
        texts(&listed, "rootDeviceName"),
        vec!["/dev/xvda"; ids.len()]
    );
    assert_eq!(texts(&listed, "volumeSize"), vec!["30"; ids.len()]);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and both machine trees"]
fn a_drive_goes_to_another_distribution_and_comes_back() {
    let site = Site::new();
    let ami = second();
    let running = working(&site, &["--ami", &ami]);
    assert_eq!(inside(&site, SEAMS), SECOND);
    // No features of newer e2fsprogs, which an older e2fsck refuses.
    let features = inside(
        &site,
        "dumpe2fs -h $(findmnt -n -o SOURCE /v1) 2> /dev/null",
    );
    assert!(features.contains("metadata_csum"), "{features}");
    assert!(!features.contains("orphan_file"), "{features}");
    // The agent that starts Docker stays off, and Docker is on the drive.
    let docker = "systemctl is-enabled docker.socket ecs.service; systemctl is-active ecs.service; \
                  systemctl is-active docker.service; docker info -f '{{.DockerRootDir}}'";
    assert_eq!(
        inside(&site, docker),
        "disabled\ndisabled\ninactive\nactive\n/v1/docker\n"
    );
    let kept = "python3 -c 'import json; print(json.load(open(\"/etc/docker/daemon.json\"))[\"userland-proxy\"])'";
    assert_eq!(inside(&site, kept), "False\n");
    let user =
        "runuser -u ec2-user -- sudo -n id -u; getenforce; dnf --version | sed 's/[.].*//;q'";
    assert_eq!(inside(&site, user), "0\nDisabled\n4\n");
    // Another laptop logs in by a key that it sends.
    let joined = site
        .other_laptop()
        .run(&["connect", "demo", "--", "cat", "/work/note"]);
    assert_eq!(joined.is(0).stdout, "work\n");
    let ended = end(&site, running);
    assert_eq!(ended.is(0).stdout, "there\n");
    site.is_saved("demo", 1);

    let running = working(&site, &[]);
    assert_eq!(inside(&site, SEAMS), FIRST);
    let ended = end(&site, running);
    assert_eq!(ended.is(0).stdout, "layer\nwork\nthere\n");
    site.is_saved("demo", 2);

    let running = working(&site, &["--ami", &ami]);
    assert_eq!(inside(&site, "findmnt -n -o FSTYPE /"), "xfs\n");
    let ended = end(&site, running);
    assert_eq!(ended.is(0).stdout, "layer\nwork\nthere\n");
    assert!(!ended.stderr.contains("layer"), "{}", ended.stderr);
    site.is_saved("demo", 3);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and both machine trees"]
fn a_notice_closes_the_drive_on_the_second_tree() {
    let site = Site::new();
    let running = working(&site, &["--ami", &second()]);
    site.interrupt("demo", 120);
    running
        .end()
        .is(75)
        .reports("which ended the command")
        .reports("demo is saved: its snapshot (snap-");
    site.is_saved("demo", 1);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and both machine trees"]
fn the_second_trees_disk_goes_with_its_instance_whichever_process_is_killed() {
    let site = Site::new();
    let running = working(&site, &["--ami", &second()]);
    inside(&site, "sync -f /v1");
    let instance = fs::read_dir(site.dir().join("instances")).unwrap().next();
    let folder = instance.unwrap().unwrap().path();
    let disk = fs::canonicalize(folder.join("root.img")).unwrap();
    let serves_disk = || {
        let blocks = fs::read_dir("/sys/block").unwrap().flatten();
        let mut files = blocks.map(|block| block.path().join("loop/backing_file"));
        files.any(|file| {
            fs::read_to_string(file).is_ok_and(|file| Path::new(file.trim_end()) == disk)
        })
    };
    assert!(serves_disk());
    running.signal(Signal::KILL);
    assert_eq!(running.end().code(), 128 + 9);
    assert!(serves_disk(), "the instance goes on without its client");
    let supervisor = fs::read(folder.join("supervisor.json")).unwrap();
    let supervisor: Value = serde_json::from_slice(&supervisor).unwrap();
    let kill = Command::new("kill")
        .args(["-KILL", &supervisor["pid"].to_string()])
        .status();
    assert!(kill.unwrap().success());
    // The kernel alone clears up.
    eventually_within(SESSION, || disk.display().to_string(), || !serves_disk());
    let next = site.run(&["connect", "demo", "--", "cat", "/work/note"]);
    assert_eq!(next.is(0).stdout, "work\n");
    // The surviving volume was saved; there was no snapshot before.
    site.is_saved("demo", 1);
}
