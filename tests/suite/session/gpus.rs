//! Sessions on a type with a stand-in for a GPU: there is no GPU here, and no test is of one.

mod wide;

use harness::eventually_within;

use super::site::{Ended, SESSION, Site};
use super::tree::inside;

/// A site with this stand-in for types with a GPU.
fn site(settings: &str) -> Site {
    Site::with_settings(&format!("[gpu]\n{settings}\n"))
}

fn on(site: &Site, kind: &str, command: &[&str]) -> Ended {
    let image = site.image();
    let arguments = ["connect", "demo", "--image", &image, "--type", kind, "--"];
    site.run(&[&arguments, command].concat())
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_session_waits_for_a_stand_in_whose_driver_comes_late() {
    const WAIT: &str = "echo there; until [ -e /work/end ]; do sleep 0.05; done; rm /work/end";
    let site = site("driver = \"late\"\nseconds = 5");
    // Made on a type without a GPU, used on one with.
    let ended = on(&site, "t3.medium", &["sh", "-c", "echo kept >/note"]);
    assert!(!ended.is(0).stderr.contains("NVIDIA"), "{}", ended.stderr);
    let command = [
        "sh",
        "-c",
        &format!("test -s /usr/bin/nvidia-smi && echo driver >/driver; {WAIT}"),
    ];
    let arguments = ["connect", "demo", "--type", "g4dn.xlarge", "--"];
    let mut running = site.start(&[&arguments[..], &command].concat());
    running.prints("there\n");
    let asked = inside(&site, "cat /run/gpu-stand-in/asked");
    assert!(asked.contains("NVIDIA_VISIBLE_DEVICES=all"), "{asked}");
    inside(&site, "touch /v1/work/end");
    running
        .end()
        .is(0)
        .reports("the NVIDIA driver is ready: stand-in, no GPU")
        .reports("GPUs: none before, all now");
    // What the driver's files were mounted over is not in the image.
    let look = "cat /note /driver; test -e /usr/bin/nvidia-smi || echo gone";
    let ended = on(&site, "t3.medium", &["sh", "-c", look]);
    assert_eq!(ended.is(0).stdout, "kept\ndriver\ngone\n");
    site.is_saved("demo", 3);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_gpu_in_slices_is_that_many_resources_for_services_of_a_swarm() {
    let site = site("driver = \"ready\"");
    let image = site.image();
    let wait = "echo there; until [ -e /work/end ]; do sleep 0.05; done; rm /work/end";
    let arguments = [
        "connect",
        "demo",
        "--image",
        &image,
        "--type",
        "g4dn.xlarge",
    ];
    let words = ["--slices", "3", "--", "sh", "-c", wait];
    let mut running = site.start(&[&arguments[..], &words].concat());
    running.prints("there\n");
    // Of four services of one slice each three have a place, each on another slice, and one waits.
    let services = r"cat /etc/docker/daemon.json
        docker swarm init --advertise-addr 127.0.0.1 >/dev/null
        image=$(docker inspect --format '{{.Image}}' $(docker ps -q))
        for number in 1 2 3 4; do
            docker service create --detach --name s$number --generic-resource gpu=1 \
                --restart-condition none $image sh -c 'echo $DOCKER_RESOURCE_GPU; sleep 600' >/dev/null
        done";
    let settings = inside(&site, services);
    assert!(
        settings.contains(r#""default-runtime": "nvidia""#),
        "{settings}"
    );
    let states =
        "for n in 1 2 3 4; do docker service ps --format '{{.CurrentState}} {{.Error}}' s$n; done";
    let has_places = || {
        let states = inside(&site, states);
        let places = states.matches("Running").count();
        places == 3 && states.contains("no suitable node")
    };
    eventually_within(SESSION, || inside(&site, states), has_places);
    let logs = "for n in 1 2 3 4; do docker service logs --raw s$n; done";
    let has_logs = || inside(&site, logs).lines().count() == 3;
    eventually_within(SESSION, || inside(&site, logs), has_logs);
    let logs = inside(&site, logs);
    let mut slices: Vec<&str> = logs.lines().collect();
    slices.sort_unstable();
    let slice = |number| format!("GPU-00000000-0000-0000-0000-000000000000_{number}");
    assert_eq!(slices, [slice(1), slice(2), slice(3)]);
    inside(&site, "docker swarm leave --force; touch /v1/work/end");
    running.end().is(0).reports("the GPUs are in 3 slices");
    // Where there is no GPU the session goes on.
    let arguments = [
        "connect",
        "demo",
        "--type",
        "t3.medium",
        "--slices",
        "3",
        "--",
        "true",
    ];
    site.run(&arguments).is(0).reports("there is no GPU");
    site.has_no_leaks();
}
