//! A drive that a session has saved: made once by a whole session, and copied for each test that
//! begins with one.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::panic::catch_unwind;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use super::site::Site;

/// The file with the disks of the EC2, sparse and far larger than what is on them.
const DISKS: &str = "state/disks.xfs";

impl Site {
    /// Makes a site with the drive `demo`, whose container exists, so that sessions of it are
    /// quick.
    pub(super) fn with_a_drive() -> Self {
        let site = Self::new();
        Saved::find_or_make().copy(&site.path(""));
        site.image();
        site
    }
}

/// A home and an EC2 whose only session has saved the drive `demo`.
struct Saved {
    /// The disks' file, which no folder has any more.
    disks: File,
    /// The rest of both folders, as an archive.
    rest: Vec<u8>,
}

impl Saved {
    /// The saved drive of this process. The first caller waits for its session; where that fails, so do
    /// all others, at once.
    fn find_or_make() -> &'static Self {
        static MADE: OnceLock<Option<Saved>> = OnceLock::new();
        let made = MADE.get_or_init(|| catch_unwind(Self::make).ok());
        let why = "the session that makes the saved drive failed, in the test that came first";
        made.as_ref().expect(why)
    }

    fn make() -> Self {
        let site = Site::new();
        site.session("demo", &["true"]).is(0);
        // Nothing of the instance is left that a copy could contain.
        site.is_saved("demo", 1);
        let folder = site.path("");
        let mut archive = Command::new("tar");
        archive.arg("-C").arg(&folder).arg("-c");
        let made = archive.args(["--exclude", DISKS, "home", "state"]).output();
        let made = made.unwrap();
        assert!(made.status.success(), "{made:?}");
        Self {
            disks: File::open(folder.join(DISKS)).unwrap(),
            rest: made.stdout,
        }
    }

    /// Makes `home` and `state` in `folder`.
    fn copy(&self, folder: &Path) {
        let mut unpack = Command::new("tar");
        unpack.arg("-C").arg(folder).arg("-x");
        let mut unpack = unpack.stdin(Stdio::piped()).spawn().unwrap();
        unpack.stdin.take().unwrap().write_all(&self.rest).unwrap();
        assert!(unpack.wait().unwrap().success());
        let disks = folder.join(DISKS);
        let open = format!("/proc/{}/fd/{}", std::process::id(), self.disks.as_raw_fd());
        let mut copy = Command::new("cp");
        copy.args(["--reflink=auto", "--sparse=always", "--preserve=mode"]);
        run(copy.arg(open).arg(&disks));
        // The kernel mounts no two XFS of one identity.
        run(Command::new("xfs_admin")
            .args(["-U", "generate"])
            .arg(disks));
    }
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
}
