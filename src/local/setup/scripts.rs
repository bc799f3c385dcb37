//! The scripts that build, and what they read: `shell/local` as it was when this was compiled.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use tempfile::TempDir;

/// How the folders that scripts are unpacked to begin.
const PREFIX: &str = "setup-";

/// After how long such a folder is one that a killed process left: no script runs that long.
const LEFT: Duration = Duration::from_hours(24);

/// A file of `shell/local`: its path from there, whether it is a program, and its text.
type File = (&'static str, bool, &'static str);

macro_rules! file {
    ($path:literal) => {
        ($path, false, include_str!(concat!("../scripts/", $path)))
    };
    ($path:literal runs) => {
        ($path, true, include_str!(concat!("../scripts/", $path)))
    };
}

const FILES: [File; 17] = [
    file!("build.sh"),
    file!("jupyter.sh" runs),
    file!("jupyter-requirements.txt"),
    file!("machine.sh" runs),
    file!("masked-units"),
    file!("tree/etc/cloud/cloud.cfg.d/90_local.cfg"),
    file!("tree/etc/ssh/sshd_config.d/50-instance-connect.conf"),
    file!("tree/etc/sudoers.d/90-admin"),
    file!("tree/etc/systemd/system/cloud-config.service.d/local.conf"),
    file!("tree/etc/systemd/system/cloud-final.service.d/local.conf"),
    file!("tree/etc/systemd/system/cloud-init-main.service.d/local.conf"),
    file!("tree/etc/systemd/system/cloud-init.service.d/local.conf"),
    file!("tree/usr/local/lib/cloud-init/bin/dhcpcd" runs),
    file!("tree/usr/local/lib/cloud-init/bin/dmidecode" runs),
    file!("tree/usr/local/lib/cloud-init/bin/systemd-detect-virt" runs),
    file!("tree/usr/local/sbin/instance-connect-keys" runs),
    file!("tree/usr/sbin/mount.nfs4" runs),
];

/// Writes the scripts to a folder of their own in `cache`, which goes when it is dropped. Not among
/// the system's temporary files, where programs may not run.
pub(super) fn unpack(cache: &Path) -> anyhow::Result<TempDir> {
    fs::create_dir_all(cache).with_context(|| format!("making {}", cache.display()))?;
    sweep(cache)?;
    let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(cache);
    let folder = folder.with_context(|| format!("making a folder in {}", cache.display()))?;
    for (path, runs, text) in FILES {
        let path = folder.path().join(path);
        let write = || {
            fs::create_dir_all(path.parent().unwrap_or(&path))?;
            let mut options = OpenOptions::new();
            let mode = if runs { 0o755 } else { 0o644 };
            let mut file = options
                .write(true)
                .create_new(true)
                .mode(mode)
                .open(&path)?;
            file.write_all(text.as_bytes())
        };
        write().with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(folder)
}

/// Removes the folders of processes that were killed.
fn sweep(cache: &Path) -> anyhow::Result<()> {
    let entries = fs::read_dir(cache).with_context(|| format!("reading {}", cache.display()))?;
    for entry in entries.flatten() {
        let is_ours = entry.file_name().to_string_lossy().starts_with(PREFIX);
        let modified = entry.metadata().and_then(|metadata| metadata.modified());
        let age = modified.ok().and_then(|time| time.elapsed().ok());
        if is_ours && age.is_some_and(|age| age > LEFT) {
            // Another process may remove it at the same time.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// The files below `top`: path, whether it is a program, text.
    fn files(top: &Path) -> BTreeMap<String, (bool, String)> {
        let mut folders = vec![top.to_owned()];
        let mut found = BTreeMap::new();
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let runs = fs::metadata(&path).unwrap().permissions().mode() & 0o111 != 0;
                let name = path.strip_prefix(top).unwrap().to_str().unwrap().to_owned();
                found.insert(name, (runs, fs::read_to_string(&path).unwrap()));
            }
        }
        found
    }

    #[test]
    fn the_unpacked_scripts_are_those_of_the_repository() {
        let cache = tempfile::tempdir().unwrap();
        let folder = unpack(cache.path()).unwrap();
        let unpacked = files(folder.path());
        let mut expected = files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts"));
        // What instances boot with is elsewhere in the program; the second tree and the hub's image
        // are the tests'.
        let others = ["boot.sh", "hub.sh", "second", "gpu/", ".shellcheckrc"];
        expected.retain(|name, _| !others.iter().any(|other| name.starts_with(other)));
        assert_eq!(
            unpacked.keys().collect::<Vec<_>>(),
            expected.keys().collect::<Vec<_>>()
        );
        assert!(unpacked == expected, "a text or a mode differs");
        drop(folder);
        assert_eq!(fs::read_dir(cache.path()).unwrap().count(), 0);
    }

    #[test]
    fn folders_of_killed_processes_are_removed_and_those_in_use_are_not() {
        let cache = tempfile::tempdir().unwrap();
        let [left, used] = ["setup-left", "setup-used"].map(|name| cache.path().join(name));
        fs::create_dir(&used).unwrap();
        fs::create_dir(&left).unwrap();
        let long_ago = std::time::UNIX_EPOCH + Duration::from_hours(1);
        fs::File::open(&left)
            .unwrap()
            .set_modified(long_ago)
            .unwrap();
        sweep(cache.path()).unwrap();
        assert!(used.exists() && !left.exists());
    }
}
