//! Variants of `real`, which `shell/test.sh --all` runs.

use super::Real;
use crate::local_api::text;
use crate::local_instances::until;

#[test]
#[ignore = "needs root (namespaces, loop devices) and a machine tree"]
fn a_reboot_is_the_same_instance_with_the_same_volumes() {
    let real = Real::new();
    let (instance, volume) = (real.launch(), real.volume());
    real.attach(&volume, &instance);
    let process = || {
        let folder = real.site.dir().join("instances").join(&instance);
        std::fs::read_to_string(folder.join("init.json")).unwrap()
    };
    let first = process();
    let answer = real.call("RebootInstances", &[("InstanceId.1", &instance)]);
    assert_eq!(text(&answer, "return"), "true");
    until("it comes up again", || process() != first);
    assert_eq!(real.state(&instance), "running");
    assert_eq!(real.volume_state(&volume), "in-use");
    assert_eq!(real.loops(), 1);
    real.call("TerminateInstances", &[("InstanceId.1", &instance)]);
    until("it is terminated", || real.state(&instance) == "terminated");
    real.call("DeleteVolume", &[("VolumeId", &volume)]);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and a machine tree"]
fn an_instance_whose_supervisor_is_killed_is_found_off_and_gives_its_volume_back() {
    let real = Real::new();
    let (instance, volume) = (real.launch(), real.volume());
    real.call(
        "ModifyInstanceAttribute",
        &[
            ("InstanceId", &instance),
            ("InstanceInitiatedShutdownBehavior.Value", "terminate"),
        ],
    );
    real.attach(&volume, &instance);
    real.kill_supervisor(&instance);
    until("it is found off", || real.state(&instance) == "terminated");
    assert_eq!(real.volume_state(&volume), "available");
    assert_eq!(real.loops(), 0);
}
