//! A power cut: the instance stops between two instructions, and its disks keep what had reached
//! them.
//!
//! Killing all processes is not enough: the computer's kernel would write out unsynced data and
//! unmount in order. So each file system on the instance's volumes is first shut down without
//! writing its journal (the ioctl `EXT4_IOC_SHUTDOWN` with the flag `NOLOGFLUSH`, which XFS has
//! too: `xfs_io(8)`, its `shutdown`), and the network is removed, so that no peer sees its
//! connections being closed.
//!
//! The supervisor decides the moment.

use std::collections::BTreeSet;
use std::fs;
use std::os::fd::AsRawFd as _;
use std::path::Path;

use anyhow::Context as _;
use rustix::fs::{Dev, OFlags};

use super::copies::Disks;
use super::folder::Folder;
use super::guest_path::{open_inside, root_of};
use super::loops;
use super::process::Process;
use super::program::{self, CUT, run};
use super::{PlaneError, network};

/// Whether power can be cut on this computer.
pub(super) fn check() -> Result<(), PlaneError> {
    program::need(CUT.0)
}

/// Cuts the instance off from its volumes and from the network. Its processes still run, but
/// nothing that they do has an effect.
pub(super) fn cut(dir: &Path, folder: &Folder, init: Process) -> Result<(), PlaneError> {
    network::down(folder.name())?;
    stop_disks(dir, folder, init)
}

/// Cuts the instance off from its volumes alone, as a reboot by force does.
pub(super) fn stop_disks(dir: &Path, folder: &Folder, init: Process) -> Result<(), PlaneError> {
    let disks = numbers(dir, folder)?;
    let path = format!("/proc/{}/mountinfo", init.pid);
    let mounts = fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
    let root = root_of(init)?;
    for place in first_places(&mounts, &disks) {
        let folder = open_inside(&root, &place, OFlags::PATH | OFlags::DIRECTORY)
            .map_err(std::io::Error::from)
            .with_context(|| format!("opening {place} of an instance"))?;
        let path = format!("/proc/{}/fd/{}", std::process::id(), folder.as_raw_fd());
        run(CUT.0, ["-x", "-c", "shutdown", &path])?;
    }
    Ok(())
}

/// The device numbers of what is plugged in.
fn numbers(dir: &Path, folder: &Folder) -> Result<BTreeSet<Dev>, PlaneError> {
    let mut numbers = BTreeSet::new();
    for volume in folder.plugged()? {
        if let Some(disks) = Disks::open_if_any(dir)?
            && let Some(plugged) = loops::find(&disks.path(&volume))?
        {
            numbers.insert(plugged.number);
        }
    }
    Ok(numbers)
}

/// The first mount point of each of `disks`, from the lines of mountinfo (`proc_pid_mountinfo(5)`).
fn first_places(mounts: &str, disks: &BTreeSet<Dev>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let places = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(2);
        let number = loops::parse_number(fields.next()?)?;
        let place = fields.nth(1)?;
        (disks.contains(&number) && seen.insert(number)).then(|| unescape(place))
    });
    places.collect()
}

/// Decodes a mount point, in which space, tab, newline and backslash are `\` and three octal
/// digits.
fn unescape(place: &str) -> String {
    let mut plain = String::with_capacity(place.len());
    let mut rest = place;
    while let Some((before, after)) = rest.split_once('\\') {
        plain.push_str(before);
        let code = after
            .get(..3)
            .and_then(|code| u8::from_str_radix(code, 8).ok());
        if let Some(code) = code {
            plain.push(char::from(code));
            rest = after.get(3..).unwrap_or_default();
        } else {
            plain.push('\\');
            rest = after;
        }
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_found_where_it_is_mounted_first() {
        let mounts = "21 1 0:30 / / rw - overlay overlay rw\n\
                      40 21 7:3 / /my\\040drive rw - ext4 /dev/nvme1n1 rw\n\
                      41 21 7:3 /docker /var/lib/docker rw - ext4 /dev/nvme1n1 rw\n\
                      42 21 7:4 / /other rw - ext4 /dev/loop4 rw\n";
        let disks = BTreeSet::from([rustix::fs::makedev(7, 3)]);
        assert_eq!(first_places(mounts, &disks), ["/my drive"]);
        assert_eq!(unescape("a\\134b\\"), "a\\b\\");
    }
}
