//! With AWS's delays, real machines keep EC2's time: none boots before it is `running`, and no
//! device appears before it is `attached`.

use std::path::PathBuf;

use crate::local_api::real::Real;
use crate::local_api::{find, launch_params, text};
use crate::local_instances::until;
use crate::session::site::Site;
use harness::leaks;

fn aws() -> Real {
    let settings = "delays = \"aws\"\nstale-lists-ms = 0\nstale-reads-ms = 0\n";
    let site = Site::machines();
    site.set(settings);
    Real::on(site)
}

/// Launches one; it is pending.
fn launch(real: &Real) -> String {
    let answer = real.call("RunInstances", &launch_params("us-east-1a"));
    text(&answer, "instanceId")
}

/// The file with the instance's process 1, once it has one.
fn init(real: &Real, instance: &str) -> PathBuf {
    let folder = real.site.dir().join("instances").join(instance);
    folder.join("init.json")
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and a machine tree"]
fn a_machine_boots_when_it_runs_and_has_its_volume_when_that_is_attached() {
    let real = aws();
    let instance = launch(&real);
    let volume = real.volume();
    assert_eq!(real.state(&instance), "pending");
    let booted = init(&real, &instance);
    until("it runs", || {
        let has_booted = booted.exists();
        let state = real.state(&instance);
        assert!(!has_booted || state == "running", "it booted while {state}");
        state == "running"
    });
    // At once: EC2 does not wait for the machine.
    real.attach(&volume, &instance);
    until("it boots", || booted.exists());
    let init: serde_json::Value = serde_json::from_slice(&std::fs::read(&booted).unwrap()).unwrap();
    let serial = volume.replace('-', "");
    let device = format!(
        "/proc/{}/root/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_{serial}",
        init["pid"]
    );
    let status = || {
        let seen = real.call("DescribeVolumes", &[("VolumeId.1", &volume)]);
        text(find(&seen, "attachmentSet").unwrap(), "status")
    };
    assert_eq!(status(), "attaching");
    until("the device", || {
        let is_there = std::fs::symlink_metadata(&device).is_ok();
        assert!(!is_there || status() == "attached", "early");
        is_there
    });
}

#[test]
#[ignore = "needs root (namespaces) and a machine tree"]
fn an_instance_that_ends_while_pending_never_ran_and_leaves_nothing() {
    let real = aws();
    let (ended, killed) = (launch(&real), launch(&real));
    real.call("TerminateInstances", &[("InstanceId.1", &ended)]);
    assert_eq!(real.state(&ended), "shutting-down");
    // Its shutdown delay does not count: it never ran.
    real.kill_supervisor(&killed);
    until("it is found off", || real.state(&killed) == "terminated");
    let seen = real.call("DescribeInstances", &[("InstanceId.1", &killed)]);
    assert_eq!(
        text(find(&seen, "stateReason").unwrap(), "code"),
        "Server.InternalError"
    );
    until("nothing is left", || leaks(&real.site.dir()).is_empty());
    for instance in [&ended, &killed] {
        assert!(!init(&real, instance).exists(), "it booted");
    }
}
