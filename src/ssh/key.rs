//! Keys: the laptop's own, and the throw-away one of each host.
//!
//! The laptop's key is made on first use and never leaves the laptop. A key file that others can
//! read, or that holds no key, is an error for its owner to mend: it is never replaced, because
//! running hosts accept only the old key.

use std::fs::{DirBuilder, File};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use russh::keys::key::safe_rng;
use russh::keys::ssh_key::LineEnding;
use russh::keys::{Algorithm, EcdsaCurve, HashAlg, PrivateKey, PublicKey};

use xdrive_ground::quote;

/// The algorithm of launch keys.
const LAUNCH: Algorithm = Algorithm::Ecdsa {
    curve: EcdsaCurve::NistP256,
};

/// Why the laptop's key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The key file could not be read or made.
    #[error("cannot use the key {}: {error}", path.display())]
    Io {
        /// The key's file.
        path: PathBuf,
        /// The system's error.
        error: std::io::Error,
    },
    /// Others than the file's owner may read the key.
    #[error("the key {} can be read by others (mode {mode:04o})", path.display())]
    TooOpen {
        /// The key's file.
        path: PathBuf,
        /// The file's permission bits.
        mode: u32,
    },
    /// The file holds no unencrypted OpenSSH private key.
    #[error("{} holds no unencrypted OpenSSH private key", path.display())]
    Broken {
        /// The key's file.
        path: PathBuf,
    },
    /// The key is RSA or DSA, with which xdrive cannot sign.
    #[error("the key {} is {algorithm}: xdrive logs in with ed25519 and ECDSA keys only", path.display())]
    Unsupported {
        /// The key's file.
        path: PathBuf,
        /// The algorithm's name in SSH, such as `ssh-rsa`.
        algorithm: String,
    },
    /// Randomness, or the encoding of a key, failed: neither happens on a sound machine.
    #[error("cannot make a key: {0}")]
    Make(String),
}

impl KeyError {
    /// The command that helps, for the shell.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::TooOpen { path, .. } => Some(format!("chmod 600 {}", shown(path))),
            Self::Broken { path } | Self::Unsupported { path, .. } => {
                let path = shown(path);
                Some(format!(
                    "mv {path} {path}.old, and xdrive makes a key of its own"
                ))
            }
            Self::Io { .. } | Self::Make(_) => None,
        }
    }
}

/// `path` as a word of the shell.
fn shown(path: &Path) -> String {
    quote::quote(&path.to_string_lossy())
}

/// The laptop's own ed25519 key.
#[derive(Clone)]
pub struct UserKey {
    private: String,
    public: String,
    fingerprint: String,
}

impl std::fmt::Debug for UserKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("UserKey").field(&self.public).finish()
    }
}

impl UserKey {
    /// Reads the key at `path`, or makes it (mode 0600, in a directory of mode 0700) if there is
    /// none.
    ///
    /// Of several processes that make it at once, one wins and all use its key.
    pub fn open_or_create(path: &Path) -> Result<Self, KeyError> {
        match Self::open(path) {
            Err(KeyError::Io { error, .. }) if error.kind() == ErrorKind::NotFound => {}
            other => return other,
        }
        create(path).map_err(|error| match error {
            Creation::Key(error) => error,
            Creation::Io(error) => io_error(path, error),
        })?;
        Self::open(path)
    }

    fn open(path: &Path) -> Result<Self, KeyError> {
        let file = File::open(path).map_err(|error| io_error(path, error))?;
        // Of the opened file, so that nothing can change in between.
        let mode = file
            .metadata()
            .map_err(|error| io_error(path, error))?
            .mode()
            & 0o7777;
        if mode & 0o077 != 0 {
            let path = path.to_owned();
            return Err(KeyError::TooOpen { path, mode });
        }
        let broken = || KeyError::Broken {
            path: path.to_owned(),
        };
        let private = match std::io::read_to_string(file) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::InvalidData => return Err(broken()),
            Err(error) => return Err(io_error(path, error)),
        };
        let key = PrivateKey::from_openssh(&private).map_err(|_| broken())?;
        if key.is_encrypted() {
            return Err(broken());
        }
        if key.algorithm().is_rsa() || key.algorithm().is_dsa() {
            let algorithm = key.algorithm().to_string();
            let path = path.to_owned();
            return Err(KeyError::Unsupported { path, algorithm });
        }
        let public = key.public_key().to_openssh().map_err(|_| broken())?;
        let fingerprint = key.public_key().fingerprint(HashAlg::Sha256).to_string();
        Ok(Self {
            private,
            public,
            fingerprint,
        })
    }

    /// The private half, in OpenSSH's form, for [`super::Ssh::connect`].
    #[must_use]
    pub fn private(&self) -> &str {
        &self.private
    }

    /// The public half, as a line of `authorized_keys`.
    #[must_use]
    pub fn public(&self) -> &str {
        &self.public
    }

    /// The fingerprint, as `ssh-keygen -l` shows it: `SHA256:` and 43 characters.
    #[must_use]
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }
}

/// A host's launch key: a pair made for one launch, by which the host is known until it has made its
/// own. Of another algorithm than that one (Ed25519), since sshd offers one key of each.
#[derive(Clone)]
pub struct HostKey {
    /// OpenSSH private key text, for user data.
    pub private: String,
    /// `ecdsa-sha2-nistp256 AAAA…`, for the instance's tag: 160 characters, of a tag's 256.
    pub public: String,
}

impl std::fmt::Debug for HostKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("HostKey").field(&self.public).finish()
    }
}

impl HostKey {
    /// A new pair.
    pub fn generate() -> Result<Self, KeyError> {
        let (private, public) = generate(LAUNCH, "")?;
        Ok(Self { private, public })
    }
}

/// A host's public key, with no comment: its [`Display`](std::fmt::Display) is its algorithm and its
/// data, as a file of known hosts has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicHostKey(PublicKey);

/// The text that is no public key.
#[derive(Debug, thiserror::Error)]
#[error("it is no public key of SSH's: {0}")]
pub struct InvalidHostKey(String);

impl std::str::FromStr for PublicHostKey {
    type Err = InvalidHostKey;

    fn from_str(given: &str) -> Result<Self, InvalidHostKey> {
        let key = PublicKey::from_openssh(given);
        let mut key = key.map_err(|error| InvalidHostKey(error.to_string()))?;
        key.set_comment("");
        Ok(Self(key))
    }
}

impl std::fmt::Display for PublicHostKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.to_openssh().map_err(|_| std::fmt::Error)?)
    }
}

impl PublicHostKey {
    /// The name of its algorithm in SSH, such as `ssh-ed25519`.
    #[must_use]
    pub fn algorithm(&self) -> String {
        self.0.algorithm().to_string()
    }

    /// Whether it is a launch key, which the host's own may have replaced since.
    #[must_use]
    pub fn is_of_launch(&self) -> bool {
        self.0.algorithm() == LAUNCH
    }

    /// Whether it is one that a host makes for itself.
    #[must_use]
    pub fn is_own(&self) -> bool {
        self.0.algorithm() == Algorithm::Ed25519
    }

    pub(super) fn key(&self) -> &PublicKey {
        &self.0
    }
}

/// A new pair: private and public half, in OpenSSH's forms.
fn generate(algorithm: Algorithm, comment: &str) -> Result<(String, String), KeyError> {
    let made = |error: russh::keys::ssh_key::Error| KeyError::Make(error.to_string());
    let mut key = PrivateKey::random(&mut safe_rng(), algorithm).map_err(made)?;
    key.set_comment(comment);
    let private = key.to_openssh(LineEnding::LF).map_err(made)?.to_string();
    let public = key.public_key().to_openssh().map_err(made)?;
    Ok((private, public))
}

enum Creation {
    Key(KeyError),
    Io(std::io::Error),
}

impl From<std::io::Error> for Creation {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}

fn create(path: &Path) -> Result<(), Creation> {
    let directory = path.parent().unwrap_or(Path::new("."));
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)?;
    let (private, _) = generate(Algorithm::Ed25519, "xdrive").map_err(Creation::Key)?;
    // The file is whole and private before it gets its name, and never replaces another process's.
    let mut file = tempfile::Builder::new()
        .prefix(".key-")
        .make_in(directory, |path| {
            File::options()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(path)
        })?;
    file.write_all(private.as_bytes())?;
    file.as_file().sync_all()?;
    match file.persist_noclobber(path) {
        Ok(_) => Ok(File::open(directory)?.sync_all()?),
        Err(refused) if refused.error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(refused) => Err(refused.error.into()),
    }
}

fn io_error(path: &Path, error: std::io::Error) -> KeyError {
    let path = path.to_owned();
    KeyError::Io { path, error }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_key_is_made_once_and_only_its_owner_may_read_it() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a/b/key");
        let first = UserKey::open_or_create(&path).unwrap();
        let again = UserKey::open_or_create(&path).unwrap();
        assert_eq!(first.private(), again.private());
        assert!(first.public().starts_with("ssh-ed25519 AAAA"));
        let mode = |path: &Path| path.metadata().unwrap().mode() & 0o7777;
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(path.parent().unwrap()), 0o700);
        let left: Vec<_> = path.parent().unwrap().read_dir().unwrap().collect();
        assert_eq!(left.len(), 1, "nothing but the key: {left:?}");
    }

    #[test]
    fn several_first_uses_at_once_agree_on_one_key() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("key");
        let keys: Vec<_> = std::thread::scope(|scope| {
            let users: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| UserKey::open_or_create(&path).unwrap()))
                .collect();
            users.into_iter().map(|user| user.join().unwrap()).collect()
        });
        assert!(keys.iter().all(|key| key.private() == keys[0].private()));
    }

    #[test]
    fn a_key_that_others_can_read_is_refused_and_left_alone() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("key");
        UserKey::open_or_create(&path).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        let error = UserKey::open_or_create(&path).unwrap_err();
        assert!(matches!(error, KeyError::TooOpen { mode: 0o640, .. }));
        assert!(error.hint().unwrap().starts_with("chmod 600 "), "{error}");
    }

    #[test]
    fn a_broken_key_is_refused_and_left_alone() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("key");
        for text in [&b"no key"[..], b"", b"\xff\xfe"] {
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
            let error = UserKey::open_or_create(&path).unwrap_err();
            assert!(matches!(error, KeyError::Broken { .. }), "{error}");
            assert_eq!(std::fs::read(&path).unwrap(), text);
        }
    }

    #[test]
    #[ignore = "needs ssh-keygen"]
    fn an_encrypted_key_and_an_rsa_key_are_refused_with_what_helps() {
        let home = tempfile::tempdir().unwrap();
        for (kind, passphrase, reason) in [
            (
                "ed25519",
                "secret",
                "holds no unencrypted OpenSSH private key",
            ),
            (
                "rsa",
                "",
                "is ssh-rsa: xdrive logs in with ed25519 and ECDSA keys",
            ),
        ] {
            let path = home.path().join(kind);
            let made = std::process::Command::new("ssh-keygen")
                .args(["-q", "-t", kind, "-N", passphrase, "-f"])
                .arg(&path)
                .status()
                .unwrap();
            assert!(made.success());
            let key = std::fs::read(&path).unwrap();
            let error = UserKey::open_or_create(&path).unwrap_err();
            assert!(error.to_string().contains(reason), "{error}");
            assert!(error.hint().unwrap().starts_with("mv "), "{error}");
            assert_eq!(std::fs::read(&path).unwrap(), key);
        }
    }

    #[test]
    fn host_keys_are_new_each_time_and_fit_a_tag() {
        let (one, two) = (HostKey::generate().unwrap(), HostKey::generate().unwrap());
        assert_ne!(one.public, two.public);
        assert!(one.public.len() <= 256, "{}", one.public);
        let private = PrivateKey::from_openssh(&one.private).unwrap();
        assert_eq!(private.public_key().to_openssh().unwrap(), one.public);
        assert!(!format!("{one:?}").contains("PRIVATE"));
    }
}
