//! Registries by the names that references and Docker's settings have for them, and a login at one
//! as dockerd takes it for a pull.

use std::fmt;

use serde::Serialize;

/// Docker Hub's name in Docker's settings.
pub const HUB: &str = "https://index.docker.io/v1/";

/// The registry of a reference: its first part, if that looks like a host name (distribution's
/// grammar of references), else Docker Hub.
#[must_use]
pub fn registry(reference: &str) -> &str {
    let is_host = |first: &str| {
        first == "localhost"
            || first.contains(['.', ':'])
            || first.contains(|c: char| c.is_ascii_uppercase())
    };
    match reference.split_once('/') {
        Some(("index.docker.io", _)) | None => "docker.io",
        Some((first, _)) if is_host(first) => first,
        Some(_) => "docker.io",
    }
}

/// The name that Docker's settings have for a reference's registry.
#[must_use]
pub fn server(reference: &str) -> &str {
    match registry(reference) {
        "docker.io" => HUB,
        other => other,
    }
}

/// The command that leaves a login at `server` on a computer.
#[must_use]
pub fn login_command(server: &str) -> String {
    match server {
        HUB => "docker login".to_owned(),
        other => format!("docker login {other}"),
    }
}

/// A login at a registry: the fields that dockerd knows (Docker Engine API, *Authentication*). Its
/// secrets are not in its `Debug`.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct RegistryLogin {
    /// The registry's name in Docker's settings.
    #[serde(rename = "serveraddress")]
    pub server: String,
    /// The user; empty with a token alone.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub username: String,
    /// The user's password.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub password: String,
    /// A token that stands for the user (`docker login` where the registry gives one).
    #[serde(rename = "identitytoken", skip_serializing_if = "String::is_empty")]
    pub identity_token: String,
    /// A token for the registry itself.
    #[serde(rename = "registrytoken", skip_serializing_if = "String::is_empty")]
    pub registry_token: String,
}

impl RegistryLogin {
    /// Whether there is nothing in it to log in with.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let secrets = [&self.password, &self.identity_token, &self.registry_token];
        secrets.iter().all(|secret| secret.is_empty())
    }

    /// The document that `container pull` reads.
    pub(super) fn document(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}

impl fmt::Debug for RegistryLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegistryLogin")
            .field("server", &self.server)
            .field("username", &self.username)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_names_its_registry() {
        for (reference, expected) in [
            ("jupyter/minimal-notebook", "docker.io"),
            ("python:3", "docker.io"),
            ("docker.io/library/python", "docker.io"),
            ("index.docker.io/library/python", "docker.io"),
            ("quay.io/jupyter/minimal-notebook:x", "quay.io"),
            ("localhost/a", "localhost"),
            ("Build/a", "Build"),
            ("127.0.0.1:5000/a@sha256:0", "127.0.0.1:5000"),
        ] {
            assert_eq!(registry(reference), expected, "{reference}");
        }
        assert_eq!(server("docker.io/library/python"), HUB);
        assert_eq!(server("quay.io/a"), "quay.io");
        assert_eq!(login_command(HUB), "docker login");
        assert_eq!(login_command("quay.io"), "docker login quay.io");
    }

    #[test]
    fn a_login_is_what_dockerd_takes_and_shows_no_secret() {
        let mut login = RegistryLogin {
            server: "quay.io".into(),
            username: "ada".into(),
            password: "hush-1".into(),
            identity_token: String::new(),
            registry_token: String::new(),
        };
        assert_eq!(
            String::from_utf8(login.document()).unwrap(),
            r#"{"serveraddress":"quay.io","username":"ada","password":"hush-1"}"#
        );
        assert!(!login.is_empty());
        login.identity_token = "hush-2".into();
        login.registry_token = "hush-3".into();
        assert_eq!(
            format!("{login:?}"),
            r#"RegistryLogin { server: "quay.io", username: "ada", .. }"#
        );
        login.password.clear();
        assert_eq!(
            String::from_utf8(login.document()).unwrap(),
            r#"{"serveraddress":"quay.io","username":"ada","identitytoken":"hush-2","registrytoken":"hush-3"}"#
        );
    }
}
