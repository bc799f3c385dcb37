//! A computer without a program that the data plane needs.

use std::process::Command;

/// Runs xdrive without the programs `hidden`, in a new mount namespace.
pub(super) fn without(
    hidden: &[&str],
    dir: &std::path::Path,
    arguments: &[&str],
) -> (Option<i32>, String) {
    let hide = "for name in $hidden; do
            for folder in /usr/local/sbin /usr/local/bin /usr/sbin /usr/bin /sbin /bin; do
                [ ! -f $folder/$name ] || mount --bind /dev/null $folder/$name
            done
        done
        exec \"$@\"";
    let mut order = hidden.to_vec();
    // `mount`, which hides the others, is hidden last.
    order.sort_by_key(|name| *name == "mount");
    let output = Command::new("unshare")
        .args([
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-ec",
            hide,
            "sh",
        ])
        .arg(env!("CARGO_BIN_EXE_xdrive"))
        .args(arguments)
        .env("hidden", order.join(" "))
        .env("HOME", dir.join("home"))
        .env("XDRIVE_LOCAL_DIR", dir.join("state"))
        .output()
        .unwrap();
    let report = String::from_utf8(output.stderr).unwrap();
    (output.status.code(), report)
}

#[test]
#[ignore = "needs root (a mount namespace)"]
fn missing_programs_are_named_all_at_once_before_anything_is_made() {
    // A tmpfs: its files cannot share blocks, so volumes need an XFS.
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    for (hidden, named) in [
        (vec!["ip"], "ip (package iproute2)"),
        (vec!["nft"], "nft (package nftables)"),
        (
            vec!["losetup", "unshare"],
            "losetup (package mount), unshare (package util-linux)",
        ),
        (vec!["mkfs.xfs"], "mkfs.xfs (package xfsprogs)"),
        (vec!["mount"], "mount (package mount)"),
    ] {
        let connect = ["--local", "connect", "demo", "--", "true"];
        let (code, report) = without(&hidden, dir.path(), &connect);
        let expected = format!(
            "error: not installed: {named}\n\n\
             hint: xdrive local setup says what else is not, and how to install it\n"
        );
        assert_eq!((code, report), (Some(69), expected));
        assert!(!dir.path().join("state").exists(), "something was made");
    }
}
