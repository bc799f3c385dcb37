//! The stand-in for NVIDIA's GPUs: a device on the instance's bus, and the programs of an image for
//! GPUs. Nothing here computes.
//!
//! The device is a folder with the numbers that sysfs shows of a real one; the boot script puts it
//! where the instance's kernel would have it. `nvidia-smi` answers as the real one does while there
//! is no driver yet, and once there is; the unit that loads the driver, the hook that Docker's
//! `--gpus` calls and the runtime named `nvidia` log their calls in `/run/gpu-stand-in`.
//!
//! No instance sees this computer's own bus, unless it is to have its GPU.

mod computer;
mod files;

use std::path::Path;

use serde::{Deserialize, Serialize};

use files::{OWN, make, write};

/// The stand-in for an instance's GPU: `[gpu]` in `settings.toml`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Gpu {
    /// How its driver comes.
    pub driver: Driver,
    /// How long a late driver takes from its first start, in seconds.
    pub seconds: u32,
    /// Whether the device is on the instance's bus.
    pub on_bus: bool,
    /// Whether Docker knows NVIDIA's container toolkit.
    pub toolkit: bool,
    /// The percentage of time for which `nvidia-smi` calls it in use.
    pub load: u8,
}

impl Default for Gpu {
    fn default() -> Self {
        Self {
            driver: Driver::Ready,
            seconds: 20,
            on_bus: true,
            toolkit: true,
            load: 0,
        }
    }
}

/// How a driver comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Driver {
    /// Part of the image.
    Ready,
    /// Built at the first boot, by a unit that takes a while.
    Late,
    /// The unit succeeds, and no driver answers.
    Never,
    /// The unit fails.
    Failed,
    /// `nvidia-smi` never ends.
    Hangs,
    /// The driver that runs on this computer, with its GPU.
    Real,
}

impl Driver {
    fn name(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Late => "late",
            Self::Never => "never",
            Self::Failed => "failed",
            Self::Hangs => "hangs",
            Self::Real => "real",
        }
    }
}

/// The device's address on the bus, and its files in sysfs: a T4, as a 3D controller (PCI Code and
/// ID Assignment Specification, base class 03).
const DEVICE: (&str, [(&str, &str); 3]) = (
    "0000:00:1e.0",
    [
        ("vendor", "0x10de"),
        ("device", "0x1eb8"),
        ("class", "0x030200"),
    ],
);

/// Programs, by where they are in an instance: that of the driver, what loads it, and the toolkit's.
const PROGRAM: (&str, &str) = (
    "usr/bin/nvidia-smi",
    include_str!("../scripts/gpu/nvidia-smi"),
);
const LOADER: (&str, &str) = (
    "usr/lib/gpu-stand-in/kmod-load",
    include_str!("../scripts/gpu/kmod-load"),
);
const TOOLKIT: [(&str, &str); 2] = [
    (
        "usr/bin/nvidia-container-runtime",
        include_str!("../scripts/gpu/nvidia-container-runtime"),
    ),
    (
        "usr/bin/nvidia-container-runtime-hook",
        include_str!("../scripts/gpu/nvidia-container-runtime-hook"),
    ),
];

/// The unit that loads the driver.
const UNIT: &str = include_str!("../scripts/gpu/nvidia-kmod-load.service");

/// Docker's settings, as `nvidia-ctk runtime configure` leaves them.
const RUNTIMES: &str = include_str!("../scripts/gpu/daemon.json");

/// Puts the devices of the instance's bus into the folder `bus`, and what belongs to `gpu` into its
/// `root` file system, before that is mounted.
pub(super) fn install(bus: &Path, root: &Path, gpu: Option<Gpu>) -> anyhow::Result<()> {
    make(bus)?;
    let Some(gpu) = gpu else { return Ok(()) };
    if gpu.driver == Driver::Real {
        computer::install(Path::new("/"), bus, root)?;
    } else {
        install_device(bus, root, gpu)?;
    }
    let Gpu { seconds, load, .. } = gpu;
    let driver = gpu.driver.name();
    let settings = format!("driver={driver}\nseconds={seconds}\nload={load}\n");
    write(&root.join(OWN).join("settings"), &settings, 0o644)?;
    write(&root.join(LOADER.0), LOADER.1, 0o755)?;
    let units = root.join("etc/systemd/system");
    write(&units.join("nvidia-kmod-load.service"), UNIT, 0o644)?;
    if gpu.toolkit {
        for (path, text) in TOOLKIT {
            write(&root.join(path), text, 0o755)?;
        }
        write(&root.join("etc/docker/daemon.json"), RUNTIMES, 0o644)?;
    }
    Ok(())
}

/// Puts the stand-in of the device on the bus, if it is to be there, and that of the driver's program.
fn install_device(bus: &Path, root: &Path, gpu: Gpu) -> anyhow::Result<()> {
    if gpu.on_bus {
        let (address, numbers) = DEVICE;
        for (name, number) in numbers {
            write(&bus.join(address).join(name), format!("{number}\n"), 0o444)?;
        }
    }
    write(&root.join(PROGRAM.0), PROGRAM.1, 0o755)
}
