//! Keys that EC2 Instance Connect sent to an instance: each is good for 60 seconds.
//!
//! They reach the instance as on EC2, through its metadata service, where the program that sshd
//! asks for keys finds them: `managed-ssh-keys/active-keys/USER`. (EC2 signs them; here only the
//! instance's own service answers at that address.) A file holds every key that was ever sent for
//! its user, with the moment it ends on the clock since boot, which counts here and in every
//! instance alike; a key that has ended is skipped when read, and never removed.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;

use xdrive_ground::clock::BootTime;

/// The life of a key (EC2 Instance Connect API reference, *`SendSSHPublicKey`*).
const LIFE: Duration = Duration::from_mins(1);

/// The folder of the keys, below that of the metadata service.
const FOLDER: &str = "meta-data/managed-ssh-keys/active-keys";

/// Authorizes `key`, one line, to log in as `user`, a plain name, for a minute from `now`.
pub(super) fn add(metadata: &Path, user: &str, key: &str, now: BootTime) -> anyhow::Result<()> {
    let folder = metadata.join(FOLDER);
    fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    let path = folder.join(user);
    let line = format!("{} {key}\n", (now + LIFE).since_start().as_millis());
    fs::File::options()
        .create(true)
        .append(true)
        .open(&path)
        .and_then(|mut file| file.write_all(line.as_bytes()))
        .with_context(|| format!("writing {}", path.display()))
}

/// Whether `path`, below `metadata`, is a user's keys.
pub(super) fn are_at(metadata: &Path, path: &Path) -> bool {
    path.parent() == Some(&metadata.join(FOLDER))
}

/// The keys in the file at `path` that are still good `now`, one a line; [`ErrorKind::NotFound`]
/// if there are none, as when none was ever sent.
pub(super) fn read(path: &Path, now: BootTime) -> std::io::Result<Vec<u8>> {
    let sent = fs::read_to_string(path)?;
    let now = now.since_start().as_millis();
    let good: Vec<&str> = sent
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter(|(end, _)| end.parse().is_ok_and(|end: u128| now < end))
        .map(|(_, key)| key)
        .collect();
    if good.is_empty() {
        return Err(ErrorKind::NotFound.into());
    }
    Ok(good.join("\n").into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use xdrive_ground::clock::Clock;

    #[test]
    fn a_key_is_good_for_a_minute_and_others_sent_meanwhile_for_theirs() {
        let metadata = tempfile::tempdir().unwrap();
        let metadata = metadata.path();
        let path = metadata.join(FOLDER).join("ada");
        assert!(are_at(metadata, &path) && !are_at(metadata, &path.join("more")));
        let began = Clock::system().boot();
        let at = |seconds| began + Duration::from_secs(seconds);
        let good = |seconds| {
            let read = read(&path, at(seconds));
            read.map(|keys| String::from_utf8(keys).unwrap()).ok()
        };
        assert_eq!(good(0), None);
        add(metadata, "ada", "ssh-ed25519 AAAA one", at(0)).unwrap();
        add(metadata, "ada", "ssh-ed25519 BBBB", at(30)).unwrap();
        let both = "ssh-ed25519 AAAA one\nssh-ed25519 BBBB";
        assert_eq!(good(59).as_deref(), Some(both));
        assert_eq!(good(60).as_deref(), Some("ssh-ed25519 BBBB"));
        assert_eq!(good(90), None);
    }
}
