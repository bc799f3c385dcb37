//! Variants of `instances`, which `shell/test.sh --all` runs.

use std::process::Command;
use std::time::Duration;

use xdrive::local::plane::{Firewall, Guarded, Machine, PlaneError};

use crate::local_instances::{succeed, until};
use crate::session::site::Site;
use harness::id;

const TOKEN: &str = "curl -sf -X PUT http://169.254.169.254/latest/api/token \
     -H 'X-aws-ec2-metadata-token-ttl-seconds: 60'";

#[test]
#[ignore = "needs root (namespaces) and the machine tree"]
fn a_script_or_cloud_config_as_user_data_runs_in_its_later_stage() {
    let site = Site::machines();
    // Both let this test in, so that a login shows that they ran.
    let hook = site.machine("").user_data;
    let script = String::from_utf8(hook)
        .unwrap()
        .replace("#cloud-boothook\n", "");
    let indented = script.replace('\n', "\n    ");
    let config = format!("#cloud-config\nruncmd:\n- |\n    {indented}\n");
    for user_data in [script, config] {
        let machine = Machine {
            user_data: user_data.into_bytes(),
            ..site.machine("")
        };
        let up = site.plane.launch(&machine).unwrap();
        site.reach(machine.instance, up);
    }
}

#[test]
#[ignore = "needs root (namespaces) and the machine tree"]
fn the_metadata_service_demands_a_token() {
    let site = Site::machines();
    let host = site.launch();
    let get = |path: &str| {
        host.run(&format!(
            "curl -sf -H \"X-aws-ec2-metadata-token: $({TOKEN})\" http://169.254.169.254/latest/{path}"
        ))
    };
    assert_eq!(get("meta-data/instance-id"), host.id);
    assert_eq!(get("meta-data/local-ipv4"), host.address().to_string());
    assert!(get("dynamic/instance-identity/document").contains(&host.id));
    let without = "curl -s -o /dev/null -w '%{http_code}' http://169.254.169.254/latest/meta-data/";
    assert_eq!(host.run(without), "401");
    let spot = site
        .dir()
        .join("instances")
        .join(&host.id)
        .join("imds/meta-data/spot");
    std::fs::create_dir(&spot).unwrap();
    std::fs::write(spot.join("instance-action"), "{\"action\": \"terminate\"}").unwrap();
    assert!(get("meta-data/spot/instance-action").contains("terminate"));
}

#[test]
#[ignore = "needs root (namespaces) and the machine tree"]
fn powering_off_from_outside_is_orderly_or_by_force_after_the_grace() {
    let site = Site::machines();
    let orderly = site.launch();
    site.plane
        .power_off(&orderly.id, Duration::from_mins(1))
        .unwrap();
    until("an end", || !site.plane.is_up(&orderly.up));
    let console = site.plane.console(&orderly.id).unwrap();
    assert!(String::from_utf8_lossy(&console).contains("Powering off"));

    let stubborn = site.launch();
    stubborn.run("mkdir -p /run/systemd/system && systemd-run -p KillMode=none -p ExecStop='/bin/sleep 600' sleep 600");
    site.plane
        .power_off(&stubborn.id, Duration::from_millis(300))
        .unwrap();
    until("an end", || !site.plane.is_up(&stubborn.up));
    site.has_no_leaks();
}

#[test]
#[ignore = "needs root (namespaces) and the machine tree"]
fn two_state_directories_live_side_by_side() {
    let (one, other) = (Site::machines(), Site::machines());
    let (first, second) = std::thread::scope(|scope| {
        let first = scope.spawn(|| one.launch());
        let second = scope.spawn(|| other.launch());
        (first.join().unwrap(), second.join().unwrap())
    });
    assert_ne!(first.address(), second.address());
    one.plane.sweep(&[], &[], &[]).unwrap();
    assert!(!one.plane.is_up(&first.up));
    second.run("true");
    // Neither reaches anything beyond this computer, nor the other where its firewall is against it.
    let third = one.launch();
    second.run("! ping -c 1 -W 1 192.0.2.1");
    third.run(&format!("ping -c 1 -W 1 {}", second.address()));
    let closed = Guarded {
        instance: second.id.clone(),
        allowed: Vec::new(),
        elastic: None,
    };
    let firewall = Firewall {
        guarded: vec![closed],
        is_open_to_host: true,
    };
    other.plane.guard(&firewall).unwrap();
    third.run(&format!("! ping -c 1 -W 1 {}", second.address()));
    second.run(&format!("ping -c 1 -W 1 {}", third.address()));
}

#[test]
#[ignore = "needs root (namespaces) and the machine tree"]
fn a_key_that_was_sent_logs_its_user_in() {
    let site = Site::machines();
    let host = site.launch();
    let key = site.dir().join("sent");
    succeed(
        Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-f"])
            .arg(&key),
    );
    let public = std::fs::read_to_string(key.with_extension("pub")).unwrap();
    assert!(!host.ssh("admin", &key, "true").status.success());
    site.plane
        .send_ssh_key(&host.id, "admin", public.trim())
        .unwrap();
    let output = host.ssh("admin", &key, "sudo -n id -u");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "0\n");
    assert!(
        !host.ssh("root", &key, "true").status.success(),
        "the key is admin's only"
    );
    // Sixty seconds later it is not authorized.
    let imds = format!("instances/{}/imds/meta-data", host.id);
    let sent = site
        .dir()
        .join(imds)
        .join("managed-ssh-keys/active-keys/admin");
    let line = std::fs::read_to_string(&sent).unwrap();
    let (_, key_alone) = line.split_once(' ').unwrap();
    std::fs::write(&sent, format!("1 {key_alone}")).unwrap();
    assert!(!host.ssh("admin", &key, "true").status.success());
    assert!(
        site.plane
            .send_ssh_key(&host.id, "../root", public.trim())
            .is_err()
    );
    assert!(matches!(
        site.plane.send_ssh_key(&id("i"), "admin", public.trim()),
        Err(PlaneError::Gone)
    ));
}

#[test]
#[ignore = "needs root (namespaces) and the machine tree"]
fn a_state_directory_that_cannot_hold_a_root_disk_says_so() {
    let site = Site::on_overlay();
    let machine = site.machine("");
    let error = site.plane.launch(&machine).unwrap_err();
    assert!(
        error.to_string().contains("cannot hold an overlay"),
        "{error}"
    );
    assert!(matches!(
        site.plane.send_ssh_key(&machine.instance, "admin", "key"),
        Err(PlaneError::Gone)
    ));
}
