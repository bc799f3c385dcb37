//! Instances whose root file system is a disk of their own: those of the second tree.

use std::process::Command;
use std::time::Duration;

use harness::leaks;

use crate::local_instances::{Host, succeed, until};
use crate::session::site::Site;

/// Launches one on the second tree, with user data of the test's.
fn launch(site: &Site) -> Host {
    let mut machine = site.machine("echo boot >>/root/boots");
    let images = site.plane.images().unwrap();
    let second = images.iter().find(|image| image.name.contains("-second-"));
    let image = second.expect("shell/setup.sh test was run");
    machine.image.clone_from(&image.id);
    // As xdrive's user data does: otherwise root cannot log in, and no folder of settings is read.
    let settings = "\nsed -i '1i PermitRootLogin prohibit-password' /etc/ssh/sshd_config\n";
    machine.user_data.extend_from_slice(settings.as_bytes());
    let up = site.plane.launch(&machine).unwrap();
    site.reach(machine.instance, up)
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and both machine trees"]
fn both_trees_are_images_with_names_of_their_own_and_the_first_one_comes_first() {
    let images = Site::machines().plane.images().unwrap();
    let names: Vec<&str> = images.iter().map(|image| image.name.as_str()).collect();
    let kind = |name: &str| names.iter().position(|found| found.contains(name));
    assert_eq!(kind("xdrive-local-debian-12-"), Some(0), "{names:?}");
    assert!(kind("xdrive-local-second-12-") > Some(0), "{names:?}");
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and both machine trees"]
fn docker_starts_at_boot_on_the_second_tree_and_its_agent_starts_it_again() {
    let site = Site::machines();
    let host = launch(&site);
    let agent = || {
        let state = "systemctl is-active docker.service ecs.service || true";
        host.run(state) == "active\nactive"
    };
    until("Docker and its agent", agent);
    host.run("systemctl stop docker.service docker.socket");
    until("Docker once more", agent);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and both machine trees"]
fn a_machine_that_reboots_keeps_its_root_disk_and_nothing_is_left_of_it() {
    let site = Site::machines();
    let host = launch(&site);
    let root = "findmnt -n -o FSTYPE /; df --output=size -B 1G / | tail -n 1 | tr -d ' '";
    assert_eq!(host.run(root), "xfs\n30");
    assert_eq!(host.run("stat -c %t:%T /dev/nvme0n1 | tr a-f A-F"), {
        host.run("n=$(mountpoint -d /); printf '%X:%X\\n' \"${n%:*}\" \"${n#*:}\"")
    });
    let name = host.run("hostname");
    host.run("echo kept >/root/file && hostname >/etc/hostname");
    host.ssh("root", &site.key(), "systemctl reboot");
    until("another boot", || {
        let output = host.ssh(
            "root",
            &site.key(),
            "wc -l </root/boots; cat /root/file; hostname",
        );
        String::from_utf8_lossy(&output.stdout) == format!("2\nkept\n{name}\n")
    });

    // When a supervisor is killed, the kernel releases its instance's disk.
    succeed(Command::new("kill").args(["-KILL", &host.up.supervisor.to_string()]));
    until("an end", || !site.plane.is_up(&host.up));
    let loops = || {
        leaks(&site.dir())
            .into_iter()
            .filter(|leak| leak.starts_with("loop device"))
    };
    until("the end of its loop device", || loops().next().is_none());

    let other = launch(&site);
    site.plane
        .power_off(&other.id, Duration::from_mins(1))
        .unwrap();
    until("an end", || !site.plane.is_up(&other.up));
    site.plane.sweep(&[], &[], &[]).unwrap();
    site.has_no_leaks();
}
