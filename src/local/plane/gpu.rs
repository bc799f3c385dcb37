//! The stand-in for NVIDIA's GPUs: a device on the instance's bus, and the programs of an image for
//! GPUs. Nothing here computes.
//!
//! The device is a folder with the numbers that sysfs shows of a real one; the boot script puts it
//! where the instance's kernel would have it. `nvidia-smi` answers as the real one does while there
//! is no driver yet, and once there is; the unit that loads the driver, the hook that Docker's
//! `--gpus` calls and the runtime named `nvidia` log their calls in `/run/gpu-stand-in`.
//!
//! No instance sees this computer's own bus.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

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
}

impl Default for Gpu {
    fn default() -> Self {
        Self {
            driver: Driver::Ready,
            seconds: 20,
            on_bus: true,
            toolkit: true,
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
}

impl Driver {
    fn name(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Late => "late",
            Self::Never => "never",
            Self::Failed => "failed",
            Self::Hangs => "hangs",
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

/// The folder of the stand-in's own files in an instance.
const OWN: &str = "usr/lib/gpu-stand-in";

/// Programs, by where they are in an instance.
const DRIVER: [(&str, &str); 2] = [
    (
        "usr/bin/nvidia-smi",
        include_str!("../scripts/gpu/nvidia-smi"),
    ),
    (
        "usr/lib/gpu-stand-in/kmod-load",
        include_str!("../scripts/gpu/kmod-load"),
    ),
];
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
    if gpu.on_bus {
        let (address, numbers) = DEVICE;
        for (name, number) in numbers {
            write(&bus.join(address).join(name), &format!("{number}\n"), 0o444)?;
        }
    }
    let settings = format!("driver={}\nseconds={}\n", gpu.driver.name(), gpu.seconds);
    write(&root.join(OWN).join("settings"), &settings, 0o644)?;
    for (path, text) in DRIVER {
        write(&root.join(path), text, 0o755)?;
    }
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

/// Writes a file of the instance, whatever the caller's umask is.
fn write(path: &Path, text: &str, mode: u32) -> anyhow::Result<()> {
    if let Some(folder) = path.parent() {
        make(folder)?;
    }
    fs::write(path, text)
        .and_then(|()| fs::set_permissions(path, Permissions::from_mode(mode)))
        .with_context(|| format!("writing {}", path.display()))
}

/// Makes a folder of the instance, and those above it that are not there.
fn make(folder: &Path) -> anyhow::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    if let Some(above) = folder.parent() {
        make(above)?;
    }
    fs::create_dir(folder)
        .and_then(|()| fs::set_permissions(folder, Permissions::from_mode(0o755)))
        .with_context(|| format!("making the folder {}", folder.display()))
}
