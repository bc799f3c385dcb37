//! A host on which nothing is done for as long as a session has said closes its drive; whatever is done, or
//! cannot be measured, keeps it.

use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until, timeout};
use xdrive::host::boot::Watch;
use xdrive::host::scripts::Image;
use xdrive::host::{ClientLock, HostEvent, Role};
use xdrive::local::plane::Gpu;

use super::machine::{Disk, Machine, soon};

/// How long a host may be idle here, and how long it is watched while something is done.
const IDLE: Duration = Duration::from_secs(10);
const WATCHED: Duration = Duration::from_secs(16);

const LEASE: Duration = Duration::from_hours(1);

/// The longest from its last use until a host is off: the idle time, the close, a busy computer.
const OFF: Duration = Duration::from_secs(90);

/// A machine with a drive whose container runs, and a client that is attached.
async fn in_use(gpu: Option<Gpu>) -> (Machine, Disk, ClientLock) {
    let watch = Watch {
        poll: Duration::from_secs(1),
        ..Watch::default()
    };
    let disk = Disk::new(1024);
    let mut machine = Machine::boot_in(Duration::from_mins(30), watch, gpu).await;
    machine.attach(&disk);
    machine.mount_blank(&disk).await;
    if gpu.is_some() {
        machine.host.gpus(Duration::from_mins(1)).await.unwrap();
    }
    let image = Image::Loaded(machine.load_image().await);
    machine.start(image, &[]).await;
    let lock = machine.hold("s t me", Role::Lead, 3600).await.unwrap();
    (machine, disk, lock)
}

/// Says how long the host may be idle.
fn limit(lock: &ClientLock) {
    lock.set_idle(IDLE);
    assert!(lock.refresh(LEASE));
}

/// Checks that the host is not closed while `what` is done, which the script `begin` began, by nothing else
/// that this test does meanwhile.
async fn keeps(machine: &Machine, what: &str, begin: &str) {
    let end = Instant::now() + WATCHED;
    machine.sh(begin).await;
    sleep_until(end).await;
    let closing = machine.host.look().await.unwrap().closing;
    assert_eq!(closing, None, "{what}");
}

/// The reason for which the host closes.
async fn reason(lock: &mut ClientLock) -> String {
    let closing = timeout(OFF, lock.event()).await;
    match closing.expect("it does not close") {
        Some(HostEvent::Closing(reason)) => reason,
        other => panic!("{other:?}"),
    }
}

const LOOP: &str = "docker exec -d xdrive-demo sh -c 'until [ -e /work/end ]; do :; done'";

/// Something is typed once a second in a terminal of the container's, for as long as the host is watched.
const TYPED: &str = "touch /v1/work/end; cat > /root/type.py << 'END'
import os, pty, time
child, terminal = pty.fork()
if child == 0:
    os.execvp('docker', 'docker exec -it xdrive-demo cat'.split())
for _ in range(16):
    time.sleep(1)
    os.write(terminal, b'x\\n')
os.close(terminal)
END
systemd-run --quiet python3 /root/type.py";

const RUN: &str = "python3 -I -S /var/lib/xdrive/scripts/*/command.py \
                   begin 1f 4096 label 'run-1f now me' '3600 30' '' '' sleep 16";

const AT_WORK: &str = "systemd-run --quiet flock /run/xdrive/lock sleep 16";

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn whatever_is_done_keeps_a_host_and_then_it_closes_with_what_it_saw() {
    let (machine, disk, mut lock) = in_use(None).await;
    limit(&lock);
    keeps(&machine, "a loop", LOOP).await;
    keeps(&machine, "input", TYPED).await;
    keeps(&machine, "a run", RUN).await;
    keeps(&machine, "a script", AT_WORK).await;
    // As forwards and copies do it, ten times as much as keep-alives and an open page.
    let bytes = "for _ in $(seq 16); do head -c 20000 /dev/zero; sleep 1; done";
    keeps(&machine, "bytes", bytes).await;
    let reason = reason(&mut lock).await;
    println!("{reason}");
    assert!(reason.starts_with("idle for 10 s: CPU "), "{reason}");
    assert!(reason.contains(" %, no input, "), "{reason}");
    drop(lock);
    machine.until_off(OFF).await;
    assert!(disk.is_clean());
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn an_idle_host_without_a_client_is_switched_off_long_before_its_lease_ends() {
    let (machine, disk, lock) = in_use(None).await;
    limit(&lock);
    let is_set = "until [ -s /run/xdrive/idle ]; do sleep 0.1; done";
    soon(machine.sh(is_set)).await;
    drop(lock);
    let took = machine.until_off(OFF).await;
    println!("off after {:.1} s", took.as_secs_f64());
    assert!(disk.is_clean());
}

/// Sets how the stand-in answers from now on.
async fn set(machine: &Machine, key: &str, value: &str) {
    let file = "/usr/lib/gpu-stand-in/settings";
    let script = format!("sed -i 's/^{key}=.*/{key}={value}/' {file}");
    machine.sh(&script).await;
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn a_gpu_that_is_used_or_does_not_answer_keeps_a_host() {
    let gpu = Gpu {
        load: 50,
        ..Gpu::default()
    };
    let (machine, disk, mut lock) = in_use(Some(gpu)).await;
    limit(&lock);
    keeps(&machine, "a GPU in use", "true").await;
    set(&machine, "driver", "hangs").await;
    // Longer: an answer is waited for, too.
    keeps(&machine, "a GPU without an answer", "true").await;
    let logged = machine.sh("journalctl -u xdrive-watch -o cat").await;
    let lines = logged.matches("the GPUs' use cannot be measured").count();
    assert_eq!(lines, 1, "{logged}");
    set(&machine, "load", "5").await;
    set(&machine, "driver", "ready").await;
    let reason = reason(&mut lock).await;
    assert!(reason.contains(" %, GPU 5 %, no input, "), "{reason}");
    drop(lock);
    machine.until_off(OFF).await;
    assert!(disk.is_clean());
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn where_nobody_has_said_how_long_an_idle_gpu_is_announced() {
    let (machine, _disk, mut lock) = in_use(Some(Gpu::default())).await;
    machine
        .sh("printf 'sample=1\\ngpu_hour=3\\n' >> /etc/xdrive")
        .await;
    let event = soon(lock.event()).await;
    let Some(HostEvent::IdleGpu(time)) = event else {
        panic!("{event:?}");
    };
    assert!(time >= Duration::from_secs(3), "{time:?}");
    // Zero is for ever, and asks for no line.
    lock.set_idle(Duration::ZERO);
    assert!(lock.refresh(LEASE));
    sleep(WATCHED).await;
    assert_eq!(machine.host.look().await.unwrap().closing, None);
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn a_host_whose_container_has_ended_is_idle() {
    let (machine, _disk, mut lock) = in_use(None).await;
    machine.sh("docker stop -t 0 xdrive-demo > /dev/null").await;
    limit(&lock);
    assert!(
        reason(&mut lock)
            .await
            .starts_with("idle for 10 s: CPU 0.0 %")
    );
}
