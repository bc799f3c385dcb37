//! Blocks of real snapshots: the content of the disk's file, without its holes.

use std::os::unix::fs::FileExt as _;
use std::process::Command;
use std::sync::Arc;

use tokio::runtime::Builder;
use xdrive::local::plane::BLOCK;

use crate::local_instances::{succeed, until};
use crate::session::site::Site;

impl Site {
    /// Writes bytes at these offsets. An attached volume keeps the disks mounted.
    fn write(&self, volume: &str, writes: &[(usize, &[u8])]) {
        let folder = self.dir().join("disks");
        let store = self.dir().join("disks.xfs");
        let mounted = store.exists();
        if mounted {
            // Another test may take the loop device that mount(8) has found free.
            until("a loop device", || {
                let mut mount = Command::new("mount");
                let mount = mount.args(["-o", "loop"]).args([&store, &folder]);
                mount.status().unwrap().success()
            });
        }
        let path = folder.join(format!("{volume}.img"));
        let file = std::fs::File::options().write(true).open(path).unwrap();
        for (at, bytes) in writes {
            file.write_all_at(bytes, *at as u64).unwrap();
        }
        drop(file);
        if mounted {
            succeed(Command::new("umount").arg(&folder));
        }
    }
}

#[test]
#[ignore = "needs root (loop devices, and an XFS where the disk has no reflinks)"]
fn a_snapshot_lists_what_was_written_and_gives_it_as_it_was() {
    let site = Site::machines();
    let plane = &site.plane;
    plane.create_volume("vol-1", 1, None).unwrap();
    plane.create_snapshot("snap-0", "vol-1").unwrap();
    assert_eq!(plane.blocks("snap-0").unwrap(), Vec::<u32>::new());
    // In the first block; across the third and fourth; at the very end.
    let end = (1 << 30) - 1;
    site.write(
        "vol-1",
        &[(1024, b"one"), (4 * BLOCK - 4, b"between!"), (end, b"z")],
    );
    plane.create_snapshot("snap-1", "vol-1").unwrap();
    let last = (1 << 30) / u32::try_from(BLOCK).unwrap() - 1;
    assert_eq!(plane.blocks("snap-1").unwrap(), [0, 3, 4, last]);
    let block = |index| plane.block("snap-1", index).unwrap();
    assert_eq!(&block(0)[1024..1027], b"one");
    assert_eq!(&block(3)[BLOCK - 4..], b"betw");
    assert_eq!(&block(4)[..4], b"een!");
    assert_eq!(block(last)[BLOCK - 1], b'z');
    assert_eq!(block(1), vec![0; BLOCK]);
    plane.block("snap-1", last + 1).unwrap_err();
    plane.blocks("snap-9").unwrap_err();
}

#[test]
#[ignore = "needs root (loop devices, and an XFS where the disk has no reflinks)"]
fn disks_that_stay_mounted_between_two_readings_are_unmounted_with_the_runtime() {
    let site = Site::machines();
    site.plane.create_volume("vol-1", 1, None).unwrap();
    site.write("vol-1", &[(0, b"one")]);
    site.plane.create_snapshot("snap-1", "vol-1").unwrap();
    let runtime = Builder::new_current_thread().build().unwrap();
    let plane = Arc::clone(&site.plane);
    let reading =
        runtime.spawn_blocking(move || [plane.block("snap-1", 0), plane.block("snap-1", 0)]);
    for block in runtime.block_on(reading).unwrap() {
        assert_eq!(&block.unwrap()[..3], b"one");
    }
    drop(runtime);
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let folder = site.dir().join("disks");
    assert!(!mounts.contains(folder.to_str().unwrap()), "{mounts}");
}
