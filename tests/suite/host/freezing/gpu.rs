//! The memory that a command has on a GPU is brought away before it is frozen, and back once it goes on. There is no
//! GPU here: a library stands in for the driver's (`driver.c`), and no test is of CUDA.

use std::process::Command;

use xdrive::host::container::Container;
use xdrive::host::scripts::{Freezes, Image, NotThawed};
use xdrive::local::plane::Gpu;

use super::{ROOT, criu};
use crate::host::machine::{Disk, Machine};

/// Counts in its own memory, and has a device of NVIDIA's open as long as the driver wants that.
const COUNTING: &str = "exec 5</dev/nvidia0; trap 'exec 5>&-' USR1; trap 'exec 5</dev/nvidia0' USR2; \
                        n=0; while :; do n=$((n + 1)); echo $n; sleep 0.05 5<&-; done";

const HERE: &str = "aaaaaaaa-0000-0000-0000-000000000000";
const THERE: &str = "bbbbbbbb-0000-0000-0000-000000000000";

/// The library that stands in for the driver's, as base64.
fn library() -> String {
    let folder = tempfile::tempdir().unwrap();
    let made = folder.path().join("libcuda.so.1");
    let source = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/suite/host/freezing/driver.c"
    );
    let flags = ["-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o"];
    let mut compiler = Command::new("cc");
    let status = compiler.args(flags).args([made.as_path(), source.as_ref()]);
    assert!(status.status().unwrap().success());
    let encoded = Command::new("base64").arg(&made).output().unwrap();
    String::from_utf8(encoded.stdout).unwrap()
}

impl Machine {
    /// Has the stand-in of the driver's program answer for these GPUs: UUID, driver, and the MiB that are used
    /// by others. The command has 64, which nobody has while it is away.
    async fn gpus(&self, gpus: &[(&str, &str, u32)]) {
        let lines = gpus.iter().map(|(uuid, driver, used)| {
            format!("Stand-in GPU, GPU-{uuid}, {driver}, $(($away + {used})), 16000\\n")
        });
        let lines: String = lines.collect();
        let program = format!(
            "cat > /usr/bin/nvidia-smi << 'PROGRAM'\n#!/bin/sh\naway=64\n\
             [ ! -e /run/cuda-stand-in/away ] || away=0\ncase $1 in --query*) printf \"{lines}\" ;; \
             *) echo 'GPU 0: Stand-in GPU (UUID: GPU-{HERE})' ;; esac\nPROGRAM\nchmod 755 /usr/bin/nvidia-smi"
        );
        self.sh(&program).await;
    }

    /// Checks that nothing is frozen, for that reason, after these calls of the driver.
    async fn is_not_frozen(&self, reason: &str, asked: &str) {
        let left = self.script("freeze.py all 60").await;
        assert!(
            left.contains("not_frozen=") && left.contains(reason),
            "{left}"
        );
        assert_eq!(self.asked().await, asked, "{reason}");
    }

    /// The calls of the driver since this was called before.
    async fn asked(&self) -> String {
        let file = "/run/cuda-stand-in/calls";
        self.sh(&format!("cat {file} 2>/dev/null; rm -f {file}"))
            .await
    }
}

/// A machine with a GPU, the drive's container on it, and criu.
async fn machine(disk: &Disk) -> (Machine, Container) {
    let mut machine = Machine::boot_as(Some(Gpu::default())).await;
    machine.attach(disk);
    machine.host.mount(&disk.order(1, true)).await.unwrap();
    machine.gpus(&[(HERE, "580.1", 0)]).await;
    let image = Image::Loaded(machine.load_image().await);
    let container = machine.start(image, &[]).await;
    let load = format!("mkdir -p /run/cuda-stand-in; {ROOT}; mknod -m 666 $root/dev/nvidia0 c 1 3");
    machine.sh(&load).await;
    let archive = tokio::fs::File::open(criu()).await.unwrap();
    machine.host.load_criu(archive).await.unwrap();
    (machine, container)
}

async fn with_driver(machine: &Machine) {
    let library = library();
    let load = format!("base64 -d > /usr/lib/libcuda.so.1 << 'END'\n{library}END\nldconfig");
    machine.sh(&load).await;
    assert_eq!(machine.host.freezes(None).await.unwrap(), Freezes::Yes);
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices), the machine tree, criu and a C compiler"]
async fn what_a_command_has_on_a_gpu_goes_with_it_to_another_one() {
    let disk = Disk::new(2048);
    let (machine, container) = machine(&disk).await;
    let refused = machine.host.freezes(None).await.unwrap();
    let Freezes::No(why) = refused else {
        panic!("{refused:?}");
    };
    assert!(why.contains("libcuda.so.1"), "{why}");
    with_driver(&machine).await;

    let id = machine.begin_freezable(&container, COUNTING).await;
    machine.counts(&id, 5).await;
    let frozen = machine.script("freeze.py all 60").await;
    assert!(frozen.contains("froze="), "{frozen}");
    assert_eq!(machine.asked().await, "lock\ncheckpoint\n");
    let at = machine.counted(&id).await;

    // Elsewhere it waits for a GPU of its kind, with its driver.
    machine.next_generation().await;
    for (gpus, reason) in [
        (&[(THERE, "590.2", 0)][..], "driver 580.1; here Stand-in"),
        (&[(THERE, "580.1", 15_990)], "the GPU has no room for it"),
        (
            &[(THERE, "580.1", 0), (HERE, "580.1", 0)],
            "2 GPUs are here",
        ),
    ] {
        machine.gpus(gpus).await;
        let thawed = machine.host.thaw().await.unwrap();
        let Err(NotThawed::Here(why)) = &thawed[0].outcome else {
            panic!("{thawed:?}");
        };
        assert!(why.contains(reason), "{why}");
        machine.next_generation().await;
    }
    machine.gpus(&[(THERE, "580.1", 0)]).await;
    let thawed = machine.host.thaw().await.unwrap();
    thawed[0].outcome.as_ref().unwrap();
    let [here, there] = [HERE, THERE].map(|uuid| uuid.replace('-', ""));
    assert_eq!(
        machine.asked().await,
        format!("restore {here} {there}\nunlock\n")
    );
    machine.counts(&id, at + 10).await;
    machine.counted(&id).await;

    // On the same one no pair is named.
    machine.script("freeze.py all 60").await;
    machine.next_generation().await;
    machine.host.thaw().await.unwrap()[0]
        .outcome
        .as_ref()
        .unwrap();
    let asked = machine.asked().await;
    assert_eq!(asked, "lock\ncheckpoint\nrestore\nunlock\n");
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices), the machine tree, criu and a C compiler"]
async fn a_command_with_a_gpu_that_cannot_be_frozen_goes_on_with_it() {
    let disk = Disk::new(2048);
    let (machine, container) = machine(&disk).await;
    with_driver(&machine).await;
    let id = machine.begin_freezable(&container, COUNTING).await;
    machine.counts(&id, 5).await;
    let mut at = 0;
    for (before, reason, asked, after) in [
        (
            "touch /run/cuda-stand-in/fails",
            "checkpoint: CUDA_ERROR_ILLEGAL_STATE (401)",
            "lock\ncheckpoint\nunlock\n",
            "rm /run/cuda-stand-in/fails",
        ),
        // Once it is away.
        (
            "mv /var/lib/xdrive/criu/criu /var/lib/xdrive/criu/away; echo '#!/bin/false' >/var/lib/xdrive/criu/criu",
            "criu dump",
            "lock\ncheckpoint\nrestore\nunlock\n",
            "mv /var/lib/xdrive/criu/away /var/lib/xdrive/criu/criu",
        ),
    ] {
        machine.sh(before).await;
        machine.is_not_frozen(reason, asked).await;
        machine.sh(after).await;
        at += 20;
        machine.counts(&id, at).await;
        at = machine.counted(&id).await;
    }
    // Neither in the host's memory, nor beside another GPU.
    for (gpus, reason) in [
        (
            &[(HERE, "580.1", 900_000)][..],
            "no room in the host's memory",
        ),
        (
            &[(HERE, "580.1", 1), (THERE, "580.1", 1)],
            "2 GPUs are here",
        ),
    ] {
        machine.gpus(gpus).await;
        machine.is_not_frozen(reason, "").await;
    }
}
