//! The profiles of `~/.aws/config` and `~/.aws/credentials`: which there are, which one is chosen, and
//! how the SDK is handed them.
//!
//! The SDK allows no spaces in names. It gets such names percent-encoded, and an sso-session of such a
//! name as a provider of its own, since the name is also that of the token's file.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fmt::Write as _;
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

use super::ini::{self, InvalidLine, Section};

/// The profile that is used without a name.
const DEFAULT: &str = "default";

/// The keys that the SDK's providers of credentials are handed. Of others it knows the value to be
/// right, or ends the program.
const KEYS: [&str; 19] = [
    "aws_access_key_id",
    "aws_secret_access_key",
    "aws_session_token",
    "aws_account_id",
    "credential_process",
    "credential_source",
    "duration_seconds",
    "endpoint_url",
    "external_id",
    "login_session",
    "region",
    "role_arn",
    "role_session_name",
    "sso_account_id",
    "sso_region",
    "sso_registration_scopes",
    "sso_role_name",
    "sso_start_url",
    "web_identity_token_file",
];

/// A setting that is not there or makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// A profile is named, and is in no file.
    #[error("there is no AWS profile {profile:?}{by}")]
    NoProfile {
        /// The profile.
        profile: String,
        /// The key that names it, if the user did not.
        by: String,
    },
    /// A variable, key or file makes no sense.
    #[error("{place} {why}")]
    Wrong {
        /// The variable, the key with its profile, or the file.
        place: String,
        /// The reason.
        why: String,
    },
}

/// The profiles, and the one that is chosen.
#[derive(Clone, Default)]
pub(super) struct Profiles {
    all: BTreeMap<String, Section>,
    sessions: BTreeMap<String, Section>,
    services: BTreeMap<String, Section>,
    /// The name that was asked for.
    asked: Option<String>,
}

/// Only names: the values are secrets.
impl std::fmt::Debug for Profiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.all.keys()).finish()
    }
}

/// An `sso-session` whose name the SDK's own reader would not take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sso {
    /// The profile's `credential_source` for the SDK.
    pub(super) source: String,
    /// The session's name.
    pub(super) session: String,
    pub(super) region: String,
    pub(super) start_url: String,
    pub(super) account: String,
    pub(super) role: String,
}

/// A variable that is set; an empty one is not. Fails where it is not UTF-8.
pub(super) fn variable(name: &str) -> Result<Option<String>, SettingError> {
    match env::var_os(name).filter(|it| !it.is_empty()) {
        None => Ok(None),
        Some(value) => value
            .into_string()
            .map(Some)
            .map_err(|_| SettingError::Wrong {
                place: name.to_owned(),
                why: "is not UTF-8".to_owned(),
            }),
    }
}

impl Profiles {
    /// Reads the files that the environment names, or those of the home folder. The profile `asked`
    /// for is chosen, or `AWS_PROFILE`'s. Fails where a file is there and cannot be read or parsed, and
    /// where the profile is in none.
    pub(super) fn read(asked: Option<&str>) -> Result<Self, SettingError> {
        let found = Self::unchecked(asked)?;
        found.check()?;
        Ok(found)
    }

    /// Reads them, whatever they lack.
    pub(super) fn unchecked(asked: Option<&str>) -> Result<Self, SettingError> {
        let mut found = Self {
            asked: match asked {
                Some(name) => Some(name.to_owned()),
                None => variable("AWS_PROFILE")?,
            },
            ..Self::default()
        };
        for (name, values) in sections("AWS_CONFIG_FILE", "config")? {
            found.add(&name, values);
        }
        for (name, values) in sections("AWS_SHARED_CREDENTIALS_FILE", "credentials")? {
            found.all.entry(name).or_default().extend(values);
        }
        Ok(found)
    }

    /// Adds a section of the configuration.
    fn add(&mut self, name: &str, values: Section) {
        let kinds = [
            ("profile", &mut self.all),
            ("sso-session", &mut self.sessions),
            ("services", &mut self.services),
        ];
        if name == DEFAULT {
            self.all.insert(name.to_owned(), values);
            return;
        }
        for (kind, all) in kinds {
            if name.starts_with(kind) {
                if let Some([_, name]) = ini::words(name).as_deref() {
                    all.insert(name.clone(), values);
                }
                return;
            }
        }
    }

    /// Checks that all profiles and sessions are there that the chosen one needs.
    fn check(&self) -> Result<(), SettingError> {
        let unknown = |name: &str, by: String| SettingError::NoProfile {
            profile: name.to_owned(),
            by,
        };
        if let Some(asked) = self.asked.as_deref().filter(|it| *it != DEFAULT)
            && !self.all.contains_key(asked)
        {
            return Err(unknown(asked, String::new()));
        }
        let mut seen = BTreeSet::new();
        let mut name = self.name();
        while seen.insert(name)
            && let Some(profile) = self.all.get(name)
        {
            if let Some(session) = set(profile, "sso_session")
                && !self.sessions.contains_key(session)
            {
                return Err(SettingError::Wrong {
                    place: format!("sso_session = {session} of profile {name}"),
                    why: "names no sso-session of ~/.aws/config".to_owned(),
                });
            }
            let Some(source) = set(profile, "role_arn").and(set(profile, "source_profile")) else {
                break;
            };
            if !self.all.contains_key(source) {
                return Err(unknown(source, format!(", the source_profile of {name}")));
            }
            name = source;
        }
        Ok(())
    }

    /// The names of all profiles, in order.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.all.keys().map(String::as_str)
    }

    /// The name of the profile used.
    pub(super) fn name(&self) -> &str {
        self.asked.as_deref().unwrap_or(DEFAULT)
    }

    /// A property of the profile used, unless it is empty.
    pub(super) fn chosen(&self, property: &str) -> Option<&str> {
        set(self.all.get(self.name())?, property)
    }

    /// A property of a service, such as `ec2`, for the profile used.
    pub(super) fn service(&self, service: &str, property: &str) -> Option<String> {
        let services = self.services.get(self.chosen("services")?)?;
        let service = ini::nested(services.get(service)?);
        service.get(property).filter(|it| !it.is_empty()).cloned()
    }

    /// The name of the profile used, if its role requires a second factor.
    pub(super) fn with_second_factor(&self) -> Option<String> {
        let asked = self.chosen("mfa_serial").and(self.chosen("role_arn"));
        asked.map(|_| self.name().to_owned())
    }

    /// Whether its credentials come from `aws login`.
    pub(super) fn is_login(&self) -> bool {
        self.chosen("login_session").is_some()
    }

    /// Whether its credentials are fetched by a call of AWS's.
    pub(super) fn calls(&self) -> bool {
        let by_call = ["role_arn", "sso_session", "sso_start_url", "login_session"];
        by_call.iter().any(|it| self.chosen(it).is_some())
    }

    /// The name of the profile used, as [`Profiles::for_sdk`] has it.
    pub(super) fn name_for_sdk(&self) -> String {
        encoded(self.name())
    }

    /// The configuration for the SDK: one file, by its rules, without what is empty.
    pub(super) fn for_sdk(&self) -> String {
        let mut text = String::new();
        for (name, profile) in &self.all {
            let _ = writeln!(text, "[profile {}]", encoded(name));
            write(&mut text, profile, &KEYS);
            for key in ["services", "sso_session", "source_profile"] {
                let Some(value) = set(profile, key) else {
                    continue;
                };
                match self.sso(value).filter(|_| key == "source_profile") {
                    Some(sso) => {
                        let _ = writeln!(text, "credential_source = {}", sso.source);
                    }
                    None => {
                        let _ = writeln!(text, "{key} = {}", encoded(value));
                    }
                }
            }
        }
        for (name, session) in &self.sessions {
            let _ = writeln!(text, "[sso-session {}]", encoded(name));
            write(&mut text, session, &KEYS);
        }
        for (name, services) in &self.services {
            let _ = writeln!(text, "[services {}]", encoded(name));
            for (service, properties) in services {
                let properties = ini::nested(properties);
                if let Some(url) = set(&properties, "endpoint_url") {
                    let _ = writeln!(text, "{} =\n  endpoint_url = {url}", encoded(service));
                }
            }
        }
        text
    }

    /// The `sso-session` of a profile, if only a provider of its own can have its name.
    pub(super) fn sso(&self, profile: &str) -> Option<Sso> {
        let name = profile;
        let profile = self.all.get(name)?;
        let session = set(profile, "sso_session")?;
        if set(profile, "role_arn").is_some() || encoded(session) == session {
            return None;
        }
        let of_session = self.sessions.get(session)?;
        let owned = |section, key| set(section, key).map(str::to_owned);
        Some(Sso {
            source: format!("sso.{}", encoded(name)),
            session: session.to_owned(),
            region: owned(of_session, "sso_region")?,
            start_url: owned(of_session, "sso_start_url")?,
            account: owned(profile, "sso_account_id")?,
            role: owned(profile, "sso_role_name")?,
        })
    }

    /// All such.
    pub(super) fn ssos(&self) -> impl Iterator<Item = Sso> {
        self.names().filter_map(|name| self.sso(name))
    }
}

/// A value that is set: an empty one is not.
fn set<'a>(section: &'a Section, key: &str) -> Option<&'a str> {
    let value = section.get(key)?;
    (!value.is_empty()).then_some(value)
}

/// Writes those of the `keys` that have a value of one line.
fn write(text: &mut String, section: &Section, keys: &[&str]) {
    for key in keys {
        if let Some(value) = set(section, key).filter(|it| !it.contains(['\n', '\r'])) {
            let _ = writeln!(text, "{key} = {value}");
        }
    }
}

/// A name with what the SDK does not allow in one percent-encoded.
fn encoded(name: &str) -> String {
    let mut text = String::new();
    for byte in name.bytes() {
        match byte {
            b'_' | b'-' | b'/' | b'.' | b'@' | b':' | b'+' => text.push(byte.into()),
            _ if byte.is_ascii_alphanumeric() => text.push(byte.into()),
            _ => {
                let _ = write!(text, "%{byte:02X}");
            }
        }
    }
    text
}

/// The sections of the file that `variable_name` names, else of the one called `name` in `~/.aws`; none
/// without the file.
fn sections(variable_name: &str, name: &str) -> Result<Vec<(String, Section)>, SettingError> {
    let home = env::var_os("HOME").map(PathBuf::from);
    let path = match env::var_os(variable_name).filter(|it| !it.is_empty()) {
        Some(path) => {
            let path = PathBuf::from(path);
            match (path.strip_prefix("~"), &home) {
                (Ok(below), Some(home)) => home.join(below),
                _ => path,
            }
        }
        None => match home {
            Some(home) => home.join(".aws").join(name),
            None => return Ok(Vec::new()),
        },
    };
    // As Python's `isfile`: a pipe or a device is none.
    if !path.is_file() {
        return Ok(Vec::new());
    }
    let failed = |why: String| SettingError::Wrong {
        place: path.display().to_string(),
        why,
    };
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(format!("cannot be read: {error}"))),
    };
    let text = String::from_utf8(bytes);
    let text = text.map_err(|_| failed("cannot be parsed: it is not UTF-8".to_owned()))?;
    ini::parse(&text).map_err(|InvalidLine(line)| {
        failed(format!(
            "cannot be parsed: line {line} is no key = value in a [section]"
        ))
    })
}

#[cfg(test)]
mod tests;
