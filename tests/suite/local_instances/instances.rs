mod wide;

use std::process::Command;
use std::time::Duration;

use xdrive::local::plane::PlaneError;

use crate::local_instances::{succeed, until};
use crate::session::site::Site;
use harness::id;

#[test]
#[ignore = "needs root (namespaces) and the machine tree"]
fn an_instance_boots_runs_its_user_data_and_lets_its_user_in() {
    let site = Site::machines();
    let mut machine =
        site.machine("echo 'hook says hello' >/dev/console && touch /run/hook-was-here");
    // Gzip, as larger user data comes.
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut gzip, &machine.user_data).unwrap();
    machine.user_data = gzip.finish().unwrap();
    let up = site.plane.launch(&machine).unwrap();
    assert!(site.plane.is_up(&up));
    let host = site.reach(machine.instance.clone(), up.clone());
    host.run("test -e /run/hook-was-here");
    assert_eq!(host.run("cloud-init query platform"), "ec2");
    until("a hook on the console", || {
        let console = site.plane.console(&host.id).unwrap();
        String::from_utf8_lossy(&console).contains("hook says hello")
    });
    assert_eq!(
        host.run("hostname"),
        format!("ip-{}", up.address.to_string().replace('.', "-"))
    );
    assert_eq!(
        host.run("cat /proc/1/environ | tr '\\0' '\\n' | cut -d= -f1 | sort | tr '\\n' ' '"),
        "PATH TERM"
    );
    host.run("! (echo 1 >/proc/sys/vm/overcommit_memory)");
    host.run("! date -s @0");
    host.run("command -v docker && command -v tmux && command -v mkfs.ext4");
}

#[test]
#[ignore = "needs root (namespaces) and the machine tree"]
fn powering_off_inside_ends_the_instance_and_nothing_is_left() {
    let site = Site::machines();
    let host = site.launch();
    host.ssh("root", &site.key(), "systemctl poweroff");
    until("an end", || !site.plane.is_up(&host.up));
    site.has_no_leaks();
    let console = site.plane.console(&host.id).unwrap();
    assert!(String::from_utf8_lossy(&console).contains("Powering off"));
    assert!(matches!(
        site.plane.power_off(&host.id, Duration::ZERO),
        Err(PlaneError::Gone)
    ));
    site.plane.clear(&host.id).unwrap();
    site.plane.clear(&host.id).unwrap();
    assert_eq!(site.plane.console(&host.id).unwrap(), console);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_killed_supervisor_takes_its_instance_along_and_a_sweep_removes_the_rest() {
    let site = Site::machines();
    let host = site.launch();
    let volume = id("vol");
    site.plane.create_volume(&volume, 1, None).unwrap();
    site.attach(&volume, &host.id, "/dev/sdf").unwrap();
    host.run("mkfs.ext4 -q /dev/sdf && mount /dev/sdf /mnt && dd if=/dev/zero of=/mnt/f bs=1M count=8 2>&1");
    let init = std::fs::read_to_string(
        site.dir()
            .join("instances")
            .join(&host.id)
            .join("init.json"),
    )
    .unwrap();
    let init = init
        .split(|c: char| !c.is_ascii_digit())
        .find(|digits| !digits.is_empty())
        .unwrap();
    succeed(Command::new("kill").args(["-KILL", &host.up.supervisor.to_string()]));
    until("an end", || !site.plane.is_up(&host.up));
    until("the end of process 1", || {
        !std::path::Path::new("/proc").join(init).exists()
    });
    site.plane.sweep(&[], &[&volume], &[]).unwrap();
    site.has_no_leaks();
    site.plane.sweep(&[], &[&volume], &[]).unwrap();
}

#[test]
#[ignore = "needs root (namespaces)"]
fn an_image_that_is_not_there_names_what_builds_it() {
    let site = Site::machines();
    let mut machine = site.machine("");
    machine.image = "ami-00000000000000000".to_owned();
    let error = site.plane.launch(&machine).unwrap_err();
    assert!(matches!(error, PlaneError::Missing(_)));
    assert!(error.to_string().contains("xdrive local setup"), "{error}");
}
