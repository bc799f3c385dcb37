//! The role of an instance, in its metadata: which it is, and credentials for it (EC2 user guide,
//! *Retrieve security credentials from instance metadata*).
//!
//! Without a role there is nothing of it, as on EC2.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use jiff::Timestamp;
use serde_json::json;

use super::Machine;
use super::stamp::seconds;
use crate::catalog;
use crate::session::{Holder, Session, Temporary};
use crate::store::Credentials;

/// The folder of the credentials, below that of the metadata service.
const FOLDER: &str = "meta-data/iam/security-credentials";

/// The life of credentials. Half of it passes before there are new ones.
const LIFE: Duration = Duration::from_hours(6);

/// The role of an instance.
#[derive(Debug)]
pub(super) struct Role {
    name: String,
    instance: String,
    /// The state directory, which has the key that credentials are made with.
    dir: PathBuf,
    /// The moment at which the last credentials were made.
    made: Mutex<Option<Timestamp>>,
}

impl Role {
    /// The role of `machine`, if it has one, in the state directory `dir`.
    pub(super) fn from_machine(machine: &Machine, dir: &Path) -> Option<Self> {
        Some(Self {
            name: machine.role.clone()?,
            instance: machine.instance.clone(),
            dir: dir.to_owned(),
            made: Mutex::default(),
        })
    }

    /// Whether `path`, below `metadata`, is its credentials.
    pub(super) fn is_at(&self, metadata: &Path, path: &Path) -> bool {
        path == metadata.join(FOLDER).join(&self.name)
    }

    /// The document of its credentials: those that were made last, if they are young.
    pub(super) fn credentials(&self, now: Timestamp) -> std::io::Result<Vec<u8>> {
        let made = {
            let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
            let young = made.filter(|made| (*made..*made + LIFE / 2).contains(&now));
            *made.insert(young.unwrap_or(now))
        };
        let session = Session {
            holder: Holder::Role {
                name: self.name.clone(),
                instance: self.instance.clone(),
            },
            expires: made + LIFE,
        };
        let own = Credentials::read(&self.dir).map_err(std::io::Error::other)?;
        let Temporary { key, token } = session.credentials(&own);
        let document = json!({
            "Code": "Success",
            "LastUpdated": seconds(made),
            "Type": "AWS-HMAC",
            "AccessKeyId": key.access_key_id,
            "SecretAccessKey": key.secret_access_key,
            "Token": token,
            "Expiration": seconds(session.expires),
        });
        Ok(format!("{document:#}").into_bytes())
    }
}

/// Writes which role `machine` has, below the metadata service's folder `metadata`; nothing if it has
/// none.
pub(super) fn describe(metadata: &Path, machine: &Machine, now: Timestamp) -> anyhow::Result<()> {
    let Some(name) = &machine.role else {
        return Ok(());
    };
    let folder = metadata.join(FOLDER);
    let info = json!({
        "Code": "Success",
        "LastUpdated": seconds(now),
        "InstanceProfileArn": catalog::instance_profile(name),
        "InstanceProfileId": catalog::PROFILE_ID,
    });
    let describe = || -> std::io::Result<()> {
        fs::create_dir_all(&folder)?;
        // Its name is in the list of names; the content is made at each request.
        fs::write(folder.join(name), "")?;
        fs::write(folder.with_file_name("info"), format!("{info:#}"))
    };
    describe().with_context(|| format!("describing the role {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_new_after_half_of_their_life_and_when_the_clock_was_set_back() {
        let dir = tempfile::tempdir().unwrap();
        let key = r#"{"access_key_id": "AKIDEXAMPLE", "secret_access_key": "secret"}"#;
        fs::write(dir.path().join("credentials.json"), key).unwrap();
        let role = Role {
            name: "lab".to_owned(),
            instance: "i-1".to_owned(),
            dir: dir.path().to_owned(),
            made: Mutex::default(),
        };
        let noon = Timestamp::from_second(1_800_000_000).unwrap();
        let at = |seconds: i64| {
            let now = noon + jiff::SignedDuration::from_secs(seconds);
            let document = role.credentials(now).unwrap();
            let document: serde_json::Value = serde_json::from_slice(&document).unwrap();
            let made: Timestamp = document["LastUpdated"].as_str().unwrap().parse().unwrap();
            let ends: Timestamp = document["Expiration"].as_str().unwrap().parse().unwrap();
            assert_eq!(ends, made + LIFE);
            made.duration_since(noon).as_secs()
        };
        let half = 3 * 60 * 60;
        assert_eq!([at(0), at(1), at(half - 1)], [0, 0, 0]);
        assert_eq!([at(half), at(half + 5), at(2 * half - 1)], [half; 3]);
        assert_eq!([at(5), at(6)], [5, 5]);
    }
}
