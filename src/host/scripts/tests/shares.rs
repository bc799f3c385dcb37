//! The shares in a container's label, which is on the drive.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::HOST;

/// The host's work before anything is done to a container with these mounts, but for the mount itself: prints
/// the shares that are mounted and their addresses, or why it failed.
const SCRIPT: &str = r#"
RUN=$1 FAILED=1 BAD_MOUNT=88 XDRIVE_TARGETS='data=172.31.0.7'
fail() { shift && echo "$*" && exit 1; }
. "$2/share"
. "$2/mounts"
mounted_shares() { :; }
mount_share() { echo "$1" && target_of "$1"; }
MOUNTS=$3
check_places && mount_shares
"#;

fn prepared(run: &Path, mounts: &str) -> String {
    let mut shell = Command::new("sh");
    shell
        .args(["-c", SCRIPT, "sh"])
        .arg(run)
        .args([HOST, mounts]);
    String::from_utf8(shell.output().unwrap().stdout).unwrap()
}

/// The fault: such a name was a program of sed's, which ran its command as root.
#[test]
fn what_is_no_shares_name_is_refused_and_becomes_no_program() {
    let run = tempfile::tempdir().unwrap();
    let made = run.path().join("made");
    let names = [
        format!("a//;1e>{};s/b", made.display()),
        "../../etc".to_owned(),
        "a b".to_owned(),
        "Data".to_owned(),
        String::new(),
    ];
    for name in names {
        for mode in ["ro", "rw"] {
            let refused = prepared(run.path(), &format!("nfs:{mode}:{name}:/data"));
            let why = "the container has a share without a share's name\n";
            assert_eq!(refused, why, "{name}");
        }
    }
    let left = fs::read_dir(run.path()).unwrap().count();
    assert_eq!(left, 0, "something was made");
    let both = "rw:/v1/work/x:/x\nnfs:rw:data:/data/data";
    assert_eq!(prepared(run.path(), both), "data\n172.31.0.7\n");
}
