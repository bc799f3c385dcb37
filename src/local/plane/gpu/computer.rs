//! The GPU of this computer in its instances, by NVIDIA's driver that runs here: the devices on the bus, their
//! nodes, the driver's libraries and `nvidia-smi`. Every instance has the same one.

use std::fmt::Write as _;
use std::fs::{self, FileType};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use rustix::fs::{major, minor};

use super::files::{OWN, make, write};

/// Where a distribution has the driver's libraries.
const LIBRARIES: [&str; 3] = ["usr/lib/x86_64-linux-gnu", "usr/lib64", "usr/lib"];

/// How the names of its files begin.
const FILES: [&str; 4] = [
    "libcuda.so",
    "libcudadebugger.so",
    "libnvidia-",
    "libnvcuvid.so",
];

/// Puts the GPUs of the `computer`, the folder of its root file system, into an instance, as
/// [`install`](super::install) does a stand-in. Fails where it has none, or no driver.
pub(super) fn install(computer: &Path, bus: &Path, root: &Path) -> anyhow::Result<()> {
    let devices = copy_bus(&computer.join("sys/bus/pci/devices"), bus)?;
    ensure!(devices > 0, "this computer's bus has no GPU of NVIDIA's");
    let nodes = nodes(&computer.join("dev"))?;
    ensure!(
        !nodes.is_empty(),
        "NVIDIA's driver has no devices on this computer: it does not run"
    );
    write(&root.join(OWN).join("nodes"), &nodes, 0o644)?;
    let libraries = root.join(OWN).join("lib");
    make(&libraries)?;
    let found: Vec<PathBuf> = LIBRARIES.iter().map(|it| computer.join(it)).collect();
    let mut has_driver = false;
    for folder in found.iter().filter(|it| it.is_dir()) {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name();
            let is_one = FILES
                .iter()
                .any(|it| name.to_string_lossy().starts_with(it));
            if is_one && !libraries.join(&name).exists() {
                copy(&entry.path(), &libraries.join(&name), entry.file_type()?)?;
                has_driver |= name == "libcuda.so.1";
            }
        }
    }
    ensure!(has_driver, "this computer has no libcuda.so.1");
    let paths = format!("/{OWN}/lib\n");
    write(&root.join("etc/ld.so.conf.d/gpu.conf"), &paths, 0o644)?;
    let program = computer.join("usr/bin/nvidia-smi");
    let bytes = fs::read(&program).with_context(|| format!("reading {}", program.display()))?;
    write(&root.join("usr/bin/nvidia-smi"), bytes, 0o755)
}

/// Puts the GPUs of this bus on the other one, as links to the same devices; how many there are.
fn copy_bus(from: &Path, to: &Path) -> anyhow::Result<usize> {
    let mut copied = 0;
    for entry in fs::read_dir(from).with_context(|| format!("reading {}", from.display()))? {
        let entry = entry?;
        let number = |name| fs::read_to_string(entry.path().join(name)).unwrap_or_default();
        if number("vendor").trim() == "0x10de" && number("class").starts_with("0x03") {
            symlink(fs::read_link(entry.path())?, to.join(entry.file_name()))?;
            copied += 1;
        }
    }
    Ok(copied)
}

/// The nodes of the driver in a folder for devices, a line for each: its major and minor number, and its path.
fn nodes(folder: &Path) -> anyhow::Result<String> {
    let mut lines = String::new();
    let caps = folder.join("nvidia-caps");
    for folder in [folder, &caps].into_iter().filter(|it| it.is_dir()) {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with("nvidia") && entry.file_type()?.is_char_device() {
                let device = entry.metadata()?.rdev();
                let place = if folder == caps {
                    "/dev/nvidia-caps"
                } else {
                    "/dev"
                };
                let numbers = format_args!("{} {}", major(device), minor(device));
                let _infallible = writeln!(lines, "{numbers} {place}/{name}");
            }
        }
    }
    Ok(lines)
}

/// Copies a file, or a link as it is.
fn copy(from: &Path, to: &Path, kind: FileType) -> anyhow::Result<()> {
    let copied = if kind.is_symlink() {
        fs::read_link(from).and_then(|target| symlink(target, to))
    } else {
        fs::copy(from, to).map(drop)
    };
    copied.with_context(|| format!("copying {}", from.display()))
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};

    use super::*;

    /// A computer with a GPU, as far as its files go.
    fn computer(folder: &Path) {
        let device = folder.join("sys/devices/pci0000:00/0000:01:00.0");
        let bus = folder.join("sys/bus/pci/devices");
        fs::create_dir_all(&device).unwrap();
        fs::create_dir_all(&bus).unwrap();
        for (name, number) in [("vendor", "0x10de\n"), ("class", "0x030200\n")] {
            fs::write(device.join(name), number).unwrap();
        }
        let link = "../../../devices/pci0000:00/0000:01:00.0";
        symlink(link, bus.join("0000:01:00.0")).unwrap();
        let libraries = folder.join("usr/lib/x86_64-linux-gnu");
        fs::create_dir_all(&libraries).unwrap();
        fs::write(libraries.join("libcuda.so.580.1"), "cuda").unwrap();
        fs::write(libraries.join("libc.so.6"), "c").unwrap();
        symlink("libcuda.so.580.1", libraries.join("libcuda.so.1")).unwrap();
        fs::create_dir_all(folder.join("usr/bin")).unwrap();
        fs::write(folder.join("usr/bin/nvidia-smi"), [0x7f, 0xff]).unwrap();
        fs::create_dir_all(folder.join("dev")).unwrap();
    }

    #[test]
    fn a_computer_without_a_gpu_or_a_driver_that_runs_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let [own, bus, root] = ["computer", "bus", "root"].map(|it| folder.path().join(it));
        for it in [&bus, &root] {
            fs::create_dir(it).unwrap();
        }
        fs::create_dir_all(own.join("sys/bus/pci/devices")).unwrap();
        let error = install(&own, &bus, &root).unwrap_err().to_string();
        assert!(error.contains("no GPU of NVIDIA's"), "{error}");
        fs::remove_dir_all(&own).unwrap();
        computer(&own);
        let error = install(&own, &bus, &root).unwrap_err().to_string();
        assert!(error.contains("does not run"), "{error}");
    }

    #[test]
    #[ignore = "needs root (device nodes)"]
    fn an_instance_has_the_computers_devices_and_its_drivers_files() {
        let folder = tempfile::tempdir().unwrap();
        let [own, bus, root] = ["computer", "bus", "root"].map(|it| folder.path().join(it));
        for it in [&bus, &root] {
            fs::create_dir(it).unwrap();
        }
        computer(&own);
        let node = own.join("dev/nvidia0");
        let mode = Mode::from_raw_mode(0o666);
        mknodat(CWD, &node, FileType::CharacterDevice, mode, makedev(195, 0)).unwrap();
        install(&own, &bus, &root).unwrap();
        let link = fs::read_link(bus.join("0000:01:00.0")).unwrap();
        assert!(link.starts_with("../../../devices"), "{link:?}");
        let own = root.join(OWN);
        let nodes = fs::read_to_string(own.join("nodes")).unwrap();
        assert_eq!(nodes, "195 0 /dev/nvidia0\n");
        assert_eq!(fs::read(own.join("lib/libcuda.so.1")).unwrap(), b"cuda");
        assert!(!own.join("lib/libc.so.6").exists());
        let program = fs::read(root.join("usr/bin/nvidia-smi")).unwrap();
        assert_eq!(program, [0x7f, 0xff]);
    }
}
