//! The logins at registries that docker's client has on this computer.
//!
//! They are found as it finds them (docker/cli, `cli/config/configfile`): those of the environment,
//! else by the helper for that registry or for all, else in its settings. Each is read when it is
//! needed, and its secrets are in no `Debug` and no error.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail, ensure};
use base64ct::{Base64, Encoding as _};
use serde::Deserialize;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use tokio::time::timeout;

use super::environment::{DOCKER_AUTH_CONFIG, DOCKER_CONFIG};
use crate::host::registry::RegistryLogin;

/// How long a helper may take: it may ask its user for a password.
const HELPER: Duration = Duration::from_mins(1);

/// The output of a helper where it has no login (docker-credential-helpers,
/// `credentials/error.go`).
const NONE: &str = "credentials not found in native keychain";

/// The user's name of a login whose secret is a token (docker-credential-helpers, README).
const TOKEN: &str = "<token>";

/// Where docker's client has its logins.
#[derive(Clone, PartialEq, Eq)]
pub struct DockerLogins {
    /// The settings of docker's client; none without a home.
    file: Option<PathBuf>,
    /// Logins of the environment, in the form of those settings.
    environment: Option<String>,
}

/// A login that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundLogin {
    /// The login.
    pub login: RegistryLogin,
    /// Where it was found: a file, a variable or a program.
    pub source: String,
}

/// The settings that are read.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Settings {
    auths: BTreeMap<String, Entry>,
    creds_store: String,
    cred_helpers: BTreeMap<String, String>,
}

/// A login in the settings.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Entry {
    /// `USER:PASSWORD` in Base64.
    auth: String,
    username: String,
    password: String,
    identitytoken: String,
    registrytoken: String,
}

/// The output of a helper.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Stored {
    username: String,
    secret: String,
}

impl fmt::Debug for DockerLogins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DockerLogins")
            .field("file", &self.file)
            .finish_non_exhaustive()
    }
}

impl DockerLogins {
    /// Finds the logins of the user who has these variables.
    #[must_use]
    pub fn locate(caller: &dyn Fn(&str) -> Option<OsString>) -> Self {
        let set = |name: &str| caller(name).filter(|value| !value.is_empty());
        let home = || Some(PathBuf::from(set("HOME")?).join(".docker"));
        let folder = set(DOCKER_CONFIG).map(PathBuf::from).or_else(home);
        Self {
            file: folder.map(|folder| folder.join("config.json")),
            environment: set(DOCKER_AUTH_CONFIG).and_then(|text| text.into_string().ok()),
        }
    }

    /// The login at the registry that has the name `server` in Docker's settings, if there is one.
    /// Fails where there may be one that cannot be read.
    pub async fn find(&self, server: &str) -> anyhow::Result<Option<FoundLogin>> {
        // Docker's client, too, goes on where that is broken.
        if let Some(text) = &self.environment
            && let Ok(settings) = Settings::parse(text, DOCKER_AUTH_CONFIG)
            && let Some(found) = decode_login(settings.entry(server), server, DOCKER_AUTH_CONFIG)?
        {
            return Ok(Some(found));
        }
        let Some(file) = &self.file else {
            return Ok(None);
        };
        let source = file.display().to_string();
        let text = match tokio::fs::read_to_string(file).await {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("cannot read {source}")),
        };
        let mut settings = Settings::parse(&text, &source)?;
        let helper = settings.cred_helpers.remove(server);
        let helper = helper.unwrap_or_else(|| std::mem::take(&mut settings.creds_store));
        if helper.is_empty() {
            return decode_login(settings.entry(server), server, &source);
        }
        let program = format!("docker-credential-{helper}");
        let login = ask(program.as_ref(), server, HELPER).await;
        let login = login.with_context(|| format!("{program}, which {source} names"))?;
        let source = program;
        Ok(login.map(|login| FoundLogin { login, source }))
    }
}

impl FoundLogin {
    /// The login in words, by its user and its source: `the login of ada from FILE`.
    #[must_use]
    pub fn description(&self) -> String {
        let FoundLogin { login, source } = self;
        match login.username.as_str() {
            "" => format!("the login from {source}"),
            user => format!("the login of {user} from {source}"),
        }
    }
}

impl Settings {
    /// Parses them. An error names the line alone: its text may be a secret.
    fn parse(text: &str, source: &str) -> anyhow::Result<Self> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        serde_json::from_str(text).map_err(|error| {
            let line = error.line();
            anyhow!("{source} has no settings of Docker's client: see its line {line}")
        })
    }

    /// The entry for `server`. Older clients wrote the registry's URL.
    fn entry(self, server: &str) -> Option<Entry> {
        let mut auths = self.auths;
        auths.remove(server).or_else(|| {
            let mut auths = auths.into_iter();
            auths.find_map(|(name, entry)| (host(&name) == server).then_some(entry))
        })
    }
}

/// The host and port of a registry's URL, or of its host with a path.
fn host(name: &str) -> &str {
    let rest = name.split_once("://").map_or(name, |(_, rest)| rest);
    rest.split('/').next().unwrap_or(rest)
}

/// The login of an entry in `source`, if there is anything in it.
fn decode_login(
    entry: Option<Entry>,
    server: &str,
    source: &str,
) -> anyhow::Result<Option<FoundLogin>> {
    let Some(mut entry) = entry else {
        return Ok(None);
    };
    if !entry.auth.is_empty() {
        let decoded = Base64::decode_vec(entry.auth.trim()).ok();
        let decoded = decoded.and_then(|bytes| String::from_utf8(bytes).ok());
        let parts = decoded.as_deref().and_then(|text| text.split_once(':'));
        let Some((username, password)) = parts.filter(|(username, _)| !username.is_empty()) else {
            bail!("the entry of {server} in {source} is no login");
        };
        username.clone_into(&mut entry.username);
        password.trim_matches('\0').clone_into(&mut entry.password);
    }
    let login = RegistryLogin {
        server: server.to_owned(),
        username: entry.username,
        password: entry.password,
        identity_token: entry.identitytoken,
        registry_token: entry.registrytoken,
    };
    let source = source.to_owned();
    Ok((!login.is_empty()).then_some(FoundLogin { login, source }))
}

/// Asks a helper for the login at `server` (docker-credential-helpers, README: the server on standard
/// input, JSON on standard output). It is killed after `limit`.
async fn ask(
    program: &OsStr,
    server: &str,
    limit: Duration,
) -> anyhow::Result<Option<RegistryLogin>> {
    let mut helper = Command::new(program)
        .arg("get")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .context("it cannot be started")?;
    let stdin = helper.stdin.take();
    let asking = async {
        if let Some(mut stdin) = stdin {
            // One that reads nothing may have an answer all the same.
            stdin.write_all(server.as_bytes()).await.ok();
        }
        helper.wait_with_output().await
    };
    let output = timeout(limit, asking)
        .await
        .map_err(|_| anyhow!("it did not answer within {} s", limit.as_secs()))??;
    if !output.status.success() {
        let printed = [output.stdout, output.stderr].map(|it| first_line(&it));
        let printed = printed.into_iter().find(|line| !line.is_empty());
        return match printed {
            Some(line) if line == NONE => Ok(None),
            Some(line) => bail!("it failed: {line}"),
            None => bail!("it failed ({})", output.status),
        };
    }
    let stored: Option<Stored> = serde_json::from_slice(&output.stdout).ok();
    let Stored { username, secret } = stored.context("its answer is no login")?;
    ensure!(!secret.is_empty(), "its answer has no secret");
    let mut login = RegistryLogin {
        server: server.to_owned(),
        username,
        password: secret,
        identity_token: String::new(),
        registry_token: String::new(),
    };
    if login.username == TOKEN {
        login.username.clear();
        login.identity_token = std::mem::take(&mut login.password);
    }
    Ok(Some(login))
}

/// The first line with text, without what could change a terminal.
fn first_line(printed: &[u8]) -> String {
    let printed = String::from_utf8_lossy(printed);
    let mut lines = printed.lines().map(str::trim);
    let line = lines.find(|line| !line.is_empty()).unwrap_or_default();
    line.chars().filter(|c| !c.is_control()).take(200).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::host::registry::HUB;

    /// The login at `server` by settings with this text.
    async fn by(text: &str, server: &str) -> anyhow::Result<Option<FoundLogin>> {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("config.json"), text).unwrap();
        logins(folder.path(), None).find(server).await
    }

    fn logins(folder: &Path, environment: Option<&str>) -> DockerLogins {
        DockerLogins::locate(&|name| match name {
            DOCKER_CONFIG => Some(folder.into()),
            DOCKER_AUTH_CONFIG => environment.map(OsString::from),
            _ => None,
        })
    }

    fn login(server: &str, username: &str, password: &str) -> RegistryLogin {
        RegistryLogin {
            server: server.to_owned(),
            username: username.to_owned(),
            password: password.to_owned(),
            identity_token: String::new(),
            registry_token: String::new(),
        }
    }

    #[tokio::test]
    async fn logins_of_the_settings_have_every_form_that_clients_wrote() {
        // ada:hush:2, and nobody's.
        let text = r#"{"auths": {
            "quay.io": {"auth": "YWRhOmh1c2g6Mg=="},
            "https://old.example:5000/v1/": {"auth": "YWRhOmh1c2g6Mg=="},
            "https://index.docker.io/v1/": {"username": "ada", "password": "plain"},
            "azure.example": {"auth": "MDA6", "identitytoken": "a-token"},
            "empty.example": {},
            "odd.example": {"auth": "YWRh"}
        }, "HttpHeaders": {"a": "b"}}"#;
        let ada = |server| Some(login(server, "ada", "hush:2"));
        let got = async |server| {
            let found = by(text, server).await.unwrap();
            found.map(|found| found.login)
        };
        assert_eq!(got("quay.io").await, ada("quay.io"));
        assert_eq!(got("old.example:5000").await, ada("old.example:5000"));
        assert_eq!(got(HUB).await, Some(login(HUB, "ada", "plain")));
        let azure = got("azure.example").await.unwrap();
        assert_eq!(azure.username, "00");
        assert_eq!(azure.identity_token, "a-token");
        for nothing in ["empty.example", "ghcr.io", "old.example"] {
            assert_eq!(got(nothing).await, None, "{nothing}");
        }
        let odd = by(text, "odd.example").await.unwrap_err().to_string();
        assert!(
            odd.starts_with("the entry of odd.example in /") && odd.ends_with(" is no login"),
            "{odd}"
        );
        for empty in ["", "{}"] {
            assert_eq!(by(empty, "quay.io").await.unwrap(), None);
        }
        let broken = by("{\n\"auths\": \"hush-3\"}", "quay.io").await;
        let broken = format!("{:#}", broken.unwrap_err());
        assert!(broken.ends_with(": see its line 2"), "{broken}");
    }

    #[tokio::test]
    async fn the_environment_outranks_the_settings_which_need_not_be_there() {
        let folder = tempfile::tempdir().unwrap();
        let given = r#"{"auths": {"quay.io": {"auth": "YWRhOmh1c2g6Mg=="}}}"#;
        let logins = logins(folder.path(), Some(given));
        let found = logins.find("quay.io").await.unwrap().unwrap();
        assert_eq!(found.login, login("quay.io", "ada", "hush:2"));
        assert_eq!(
            found.description(),
            "the login of ada from DOCKER_AUTH_CONFIG"
        );
        assert_eq!(logins.find("ghcr.io").await.unwrap(), None);
        assert!(!format!("{logins:?}").contains("YWRh"), "{logins:?}");
        let homeless = DockerLogins::locate(&|_| None);
        assert_eq!(homeless.find("ghcr.io").await.unwrap(), None);
        let at_home = DockerLogins::locate(&|name| (name == "HOME").then(|| "/home/ada".into()));
        let file = at_home.file.as_deref();
        assert_eq!(file, Some(Path::new("/home/ada/.docker/config.json")));
    }

    #[tokio::test]
    async fn the_helper_of_a_registry_goes_before_that_of_all_and_both_before_the_settings() {
        let auth = r#"{"quay.io": {"auth": "YWRhOmh1c2g6Mg=="}}"#;
        for (settings, program) in [
            (r#""credsStore": "xdrive-all""#, Some("xdrive-all")),
            (
                r#""credsStore": "xdrive-all", "credHelpers": {"quay.io": "xdrive-one"}"#,
                Some("xdrive-one"),
            ),
            // Docker's way to keep one registry's in the settings.
            (
                r#""credsStore": "xdrive-all", "credHelpers": {"quay.io": ""}"#,
                None,
            ),
            (r#""credHelpers": {"ghcr.io": "xdrive-one"}"#, None),
        ] {
            let found = by(&format!("{{\"auths\": {auth}, {settings}}}"), "quay.io").await;
            let Some(program) = program else {
                let found = found.unwrap().unwrap();
                assert_eq!(found.login.username, "ada", "{settings}");
                continue;
            };
            // No such helper is installed.
            let why = format!("{:#}", found.unwrap_err());
            let expected = format!("docker-credential-{program}, which /");
            assert!(why.starts_with(&expected), "{why}");
            assert!(why.contains("it cannot be started"), "{why}");
        }
    }

    #[tokio::test]
    async fn a_helper_is_asked_for_the_server_and_may_have_none_fail_or_be_silent() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("docker-credential-test");
        let asked = async |script: &str, limit| {
            harness::write_script(&program, &format!("#!/bin/sh\n{script}\n"));
            ask(program.as_os_str(), "quay.io", limit).await
        };
        let echo = "echo \"{\\\"ServerURL\\\":\\\"x\\\",\\\"Username\\\":\\\"$1\\\",\\\"Secret\\\":\\\"$(cat)\\\"}\"";
        let got = asked(echo, HELPER).await.unwrap();
        assert_eq!(got, Some(login("quay.io", "get", "quay.io")));
        let token = r#"echo '{"Username":"<token>","Secret":"t"}'"#;
        let got = asked(token, HELPER).await.unwrap().unwrap();
        assert_eq!(
            (got.username.as_str(), got.identity_token.as_str()),
            ("", "t")
        );
        let none = format!("echo {NONE}; exit 1");
        assert_eq!(asked(&none, HELPER).await.unwrap(), None);
        for (script, why) in [
            ("echo locked; exit 1", "it failed: locked"),
            ("echo locked >&2; exit 1", "it failed: locked"),
            ("exit 3", "it failed (exit status: 3)"),
            ("echo hush", "its answer is no login"),
            (
                r#"echo '{"Username":"a","Secret":""}'"#,
                "its answer has no secret",
            ),
        ] {
            let error = asked(script, HELPER).await.unwrap_err();
            assert_eq!(error.to_string(), why, "{script}");
        }
        let pid = folder.path().join("pid");
        let silent = format!("echo $$ >'{}'; exec sleep 60", pid.display());
        let error = asked(&silent, Duration::from_secs(3)).await.unwrap_err();
        assert_eq!(error.to_string(), "it did not answer within 3 s");
        let pid = fs::read_to_string(&pid).unwrap();
        // It is empty once the process has ended.
        let arguments = format!("/proc/{}/cmdline", pid.trim());
        harness::eventually_within(
            harness::DEADLINE,
            || format!("the end of process {pid}"),
            || {
                fs::read(&arguments).is_ok_and(|it| it.is_empty())
                    || fs::metadata(&arguments).is_err()
            },
        );
    }
}
