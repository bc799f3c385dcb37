//! NFS itself: `nfs.sh` has a kernel in a process mount what a server in another exports, by the functions of
//! `shell/host/share`.

use std::process::Command;

#[test]
#[ignore = "needs root (namespaces)"]
fn shares_are_mounted_settled_and_released() {
    let folder = tempfile::tempdir().unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/suite/nfs.sh");
    let shown = Command::new("sh").arg(script).arg(folder.path()).output();
    let shown = shown.unwrap();
    assert!(shown.status.success(), "{shown:?}");
}
