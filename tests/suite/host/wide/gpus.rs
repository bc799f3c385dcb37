//! A host with a stand-in for a GPU: the wait for its driver, and the container's requests to
//! NVIDIA's part of Docker. There is no GPU here, and no test is of one.

use std::time::{Duration, Instant};

use xdrive::host::Gpus;
use xdrive::host::facts::ScriptError;
use xdrive::host::scripts::Image;
use xdrive::local::plane::{Driver, Gpu};

use crate::host::machine::{Disk, Machine, order};

/// A machine with a mounted drive, and this stand-in.
async fn machine(disk: &Disk, gpu: Option<Gpu>) -> (Machine, Gpus) {
    let mut machine = Machine::boot_as(gpu).await;
    machine.attach(disk);
    let mounted = machine.host.mount(&disk.order(1, true)).await.unwrap();
    (machine, mounted.gpus)
}

fn with(driver: Driver) -> Gpu {
    Gpu {
        driver,
        seconds: 6,
        ..Gpu::default()
    }
}

/// The log of the stand-ins.
async fn written(machine: &Machine, file: &str) -> String {
    let path = format!("/run/gpu-stand-in/{file}");
    machine.sh(&format!("cat {path} 2> /dev/null || :")).await
}

fn no_gpu<T>(answer: Result<T, ScriptError>) -> String {
    match answer {
        Err(ScriptError::NoGpu(words)) => words,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("there are GPUs"),
    }
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn a_stand_in_whose_driver_comes_late_is_waited_for_and_given_to_the_container() {
    let disk = Disk::new(2048);
    let (machine, gpus) = machine(&disk, Some(with(Driver::Late))).await;
    assert_eq!(gpus, Gpus::Waiting);
    // Only xdrive starts the unit.
    assert_eq!(written(&machine, "starts").await, "started\n");
    let names = machine.host.gpus(Duration::from_mins(2)).await.unwrap();
    assert_eq!(names, ["stand-in, no GPU"]);
    assert_eq!(written(&machine, "starts").await, "started\n");

    let image = Image::Loaded(machine.load_image().await);
    machine.start(image, &[]).await;
    let asked = written(&machine, "asked").await;
    let (runtime, hook) = asked.trim_end().split_once('\n').unwrap();
    assert!(
        runtime.starts_with("runtime create ") && runtime.contains("NVIDIA_VISIBLE_DEVICES=all"),
        "{asked}"
    );
    assert_eq!(hook, "hook prestart");
    let requests = "docker inspect -f '{{json .HostConfig.DeviceRequests}}' xdrive-demo";
    let requests = machine.sh(requests).await;
    assert!(requests.contains(r#"[["gpu"]]"#), "{requests}");
    let mounted = machine.host.mount(&disk.order(1, false)).await.unwrap();
    assert_eq!(mounted.gpus, Gpus::Ready);
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn a_stand_in_whose_driver_never_answers_ends_in_time_and_no_container_is_made() {
    for driver in [Driver::Never, Driver::Hangs] {
        let disk = Disk::new(2048);
        let (machine, _) = machine(&disk, Some(with(driver))).await;
        let began = Instant::now();
        let words = no_gpu(machine.host.gpus(Duration::from_secs(3)).await);
        let took = began.elapsed();
        assert!(words.contains("did not answer within 3 s"), "{words}");
        assert!(took >= Duration::from_secs(3), "{took:?}");
        assert!(took < Duration::from_secs(30), "{took:?}");
        // Without a wait the container is refused all the same.
        let image = Image::Loaded(machine.load_image().await);
        no_gpu(machine.host.container(&order(image, &[])).await);
        assert_eq!(machine.sh("docker ps -a -q").await, "");
    }
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn a_stand_in_whose_driver_cannot_be_built_is_not_waited_for() {
    let disk = Disk::new(2048);
    let (machine, _) = machine(&disk, Some(with(Driver::Failed))).await;
    let words = no_gpu(machine.host.gpus(Duration::from_mins(10)).await);
    assert!(words.contains("cannot be built for this kernel"), "{words}");
    assert!(words.ends_with("its driver is not there"), "{words}");
    // The unit was started once more than at the boot.
    assert_eq!(written(&machine, "starts").await, "started\nstarted\n");
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn a_stand_in_that_docker_cannot_pass_on_is_a_clear_error() {
    let disk = Disk::new(2048);
    let gpu = Gpu {
        toolkit: false,
        ..Gpu::default()
    };
    let (machine, _) = machine(&disk, Some(gpu)).await;
    machine.host.gpus(Duration::from_mins(1)).await.unwrap();
    let image = Image::Loaded(machine.load_image().await);
    let words = no_gpu(machine.host.container(&order(image, &[])).await);
    assert!(
        words.ends_with("NVIDIA's container toolkit is not there"),
        "{words}"
    );
    assert_eq!(machine.sh("docker ps -a -q").await, "");
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn without_a_stand_in_nothing_is_waited_for_whatever_this_computers_bus_has() {
    let disk = Disk::new(2048);
    let (machine, gpus) = machine(&disk, None).await;
    assert_eq!(gpus, Gpus::None);
    assert_eq!(machine.sh("ls /sys/bus/pci/devices").await, "");
    let image = Image::Loaded(machine.load_image().await);
    let container = machine.start(image, &[]).await;
    let labels = "docker inspect -f '{{index .Config.Labels \"xdrive.gpus\"}}' xdrive-demo";
    assert_eq!(machine.sh(labels).await, "none\n");
    assert!(!container.timings.iter().any(|(step, _)| step == "driver"));
}

/// The stand-in of a machine whose GPUs are joined by switches, which are set up by this command.
async fn switches(machine: &Machine, command: &str) {
    let program = "#!/bin/sh\n\
        [ \"${1-}\" = -q ] || exec /usr/bin/nvidia-smi.alone \"$@\"\n\
        state='In Progress'; [ ! -e /run/switches ] || state=Completed\n\
        printf '    Fabric\\n        State    : %s\\n        Status    : N/A\\n' \"$state\"\n";
    let unit = format!("[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart={command}\n");
    machine
        .sh(&format!(
            "mv /usr/bin/nvidia-smi /usr/bin/nvidia-smi.alone
cat > /usr/bin/nvidia-smi << 'PROGRAM'
{program}PROGRAM
chmod 755 /usr/bin/nvidia-smi
cat > /etc/systemd/system/nvidia-fabricmanager.service << 'UNIT'
{unit}UNIT
systemctl daemon-reload"
        ))
        .await;
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn switches_between_gpus_are_set_up_and_waited_for_and_not_for_ever() {
    let disk = Disk::new(2048);
    let (machine, _) = machine(&disk, Some(Gpu::default())).await;
    switches(&machine, "/bin/true").await;
    // As long as a busy computer takes to ask the driver at all.
    let words = no_gpu(machine.host.gpus(Duration::from_secs(15)).await);
    assert!(words.contains("switches between the GPUs"), "{words}");

    // At its first start the unit came to nothing.
    machine
        .sh("rm -f /run/xdrive/fabric; systemctl stop nvidia-fabricmanager")
        .await;
    let work = "sh -c 'sleep 3; touch /run/switches'";
    machine
        .sh(&format!(
            "sed -i \"s|^ExecStart=.*|ExecStart=/bin/{work}|\" \
             /etc/systemd/system/nvidia-fabricmanager.service; systemctl daemon-reload"
        ))
        .await;
    let began = Instant::now();
    let names = machine.host.gpus(Duration::from_mins(2)).await.unwrap();
    assert_eq!(names, ["stand-in, no GPU"]);
    assert!(began.elapsed() >= Duration::from_secs(3));
    let state = machine.sh("systemctl is-active nvidia-fabricmanager").await;
    assert_eq!(state, "active\n");
}
