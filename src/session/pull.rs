//! Pulling an image: the host pulls it from a registry, the session shows the progress.

use anyhow::anyhow;

use super::container_failure;
use crate::config::{DockerLogins, FoundLogin};
use crate::failure::{Exit, Failure};
use crate::host::facts::ScriptError;
use crate::host::pull::{Pulled, Refused};
use crate::host::registry::{login_command, registry, server};
use crate::host::scripts::{Host, Image};
use crate::ids::ImageReference;
use crate::report::Report;

/// The known state of this computer's login at a registry.
enum Known {
    /// The login.
    Login(FoundLogin),
    /// There is none.
    Nothing,
    /// There may be one, which was not found for this reason.
    Unread(anyhow::Error),
    /// Logins stay on this computer.
    Off,
    /// Not asked for: a tag names the image, and a login goes only where this computer's user sends it.
    Tagged,
}

/// Has `host` pull the image `reference`, unless it is on the drive, with this computer's login at
/// its registry if there is one among `logins`.
pub(super) async fn pull(
    host: &Host,
    reference: &str,
    logins: Option<&DockerLogins>,
    report: &Report,
) -> Result<Image, Failure> {
    pull_as(
        host,
        reference,
        &Known::find(reference, logins).await,
        report,
    )
    .await?;
    Ok(Image::Reference(reference.to_owned()))
}

/// As [`pull`], for an image that only a tag of the drive's names: no login goes to its registry.
pub(super) async fn pull_tagged(
    host: &Host,
    reference: &ImageReference,
    report: &Report,
) -> Result<Image, Failure> {
    let reference = reference.as_str();
    pull_as(host, reference, &Known::Tagged, report).await?;
    Ok(Image::Reference(reference.to_owned()))
}

/// As [`pull`], but only where there is a login: any other image is left to what needs it.
pub(super) async fn pull_by_login(
    host: &Host,
    reference: &str,
    logins: &DockerLogins,
    report: &Report,
) -> Result<(), Failure> {
    match Known::find(reference, Some(logins)).await {
        known @ Known::Login(_) => pull_as(host, reference, &known, report).await,
        Known::Nothing | Known::Unread(_) | Known::Off | Known::Tagged => Ok(()),
    }
}

async fn pull_as(
    host: &Host,
    reference: &str,
    known: &Known,
    report: &Report,
) -> Result<(), Failure> {
    let short = short(reference);
    let step = report.step(format!("pull {short}"));
    let mut receive = |pulled| step.now(format!("pull {short}: {}", progress(pulled)));
    let login = known.login().map(|found| &found.login);
    let mut pulled = host.pull(reference, login, &mut receive).await;
    let mut is_refused = false;
    if let (Err(ScriptError::NotPulled(words)), Some(_)) = (&pulled, login)
        && matches!(
            Refused::from_error(words),
            Refused::Login | Refused::NoImage
        )
    {
        // A login that has expired must not be in the way of an image for everybody.
        match host.pull(reference, None, &mut receive).await {
            Ok(without) => {
                is_refused = true;
                pulled = Ok(without);
            }
            Err(ScriptError::NotPulled(_)) => {}
            Err(other) => pulled = Err(other),
        }
    }
    match pulled.map_err(|error| failure(error, reference, known))? {
        Some(pulled) => step.done(&format!(
            "pulled {reference}: {}, {}{}",
            layers(pulled.layers),
            size(pulled.bytes),
            match known {
                Known::Login(found) if !is_refused => format!(", by {}", found.description()),
                Known::Tagged => ", without a login: a tag of the drive names it".to_owned(),
                _ => String::new(),
            }
        )),
        // The drive has the image already: no line is printed.
        None => drop(step),
    }
    if let Some(found) = known.login().filter(|_| is_refused) {
        report.warn(&format!(
            "{} does not accept {}; {reference} was pulled without it: {} again",
            registry(reference),
            found.description(),
            login_command(server(reference)),
        ));
    }
    Ok(())
}

impl Known {
    async fn find(reference: &str, logins: Option<&DockerLogins>) -> Self {
        let Some(logins) = logins else {
            return Self::Off;
        };
        match logins.find(server(reference)).await {
            Ok(Some(found)) => Self::Login(found),
            Ok(None) => Self::Nothing,
            Err(why) => Self::Unread(why),
        }
    }

    fn login(&self) -> Option<&FoundLogin> {
        match self {
            Self::Login(found) => Some(found),
            Self::Nothing | Self::Unread(_) | Self::Off | Self::Tagged => None,
        }
    }

    /// The remedy where the registry wants another login.
    fn hint(&self, reference: &str) -> String {
        let login = login_command(server(reference));
        let first = match self {
            Self::Login(_) => format!(
                "`{login}` on this computer, if that login has expired or may not read the image"
            ),
            Self::Nothing | Self::Unread(_) => format!(
                "`{login}` on this computer leaves a login here, which xdrive uses for the pull"
            ),
            Self::Off => format!(
                "without --no-registry-login, or no_registry_login, xdrive uses the login that \
                 `{login}` leaves on this computer"
            ),
            Self::Tagged => format!(
                "a tag of the drive names the image, so no login of this computer's was sent: \
                 --image {reference} sends the one that `{login}` leaves here"
            ),
        };
        format!(
            "{first}; or `docker save -o FILE` where the image is, and then --image FILE; \
             xdrive help container"
        )
    }
}

/// The image's name and tag without registry and digest: short enough for a line with progress.
fn short(reference: &str) -> &str {
    let name = reference.rsplit('/').next().unwrap_or(reference);
    name.split('@').next().unwrap_or(name)
}

/// The progress of a pull: `5 of 14 layers, 210 of 840 MB`.
fn progress(pulled: Pulled) -> String {
    let Pulled { done, bytes, .. } = pulled;
    let all = layers(pulled.layers);
    match pulled.total {
        Some(total) => format!("{done} of {all}, {} of {}", bytes / MB, size(total)),
        None => format!("{done} of {all}, {} so far", size(bytes)),
    }
}

/// A megabyte, as registries and Docker count it.
const MB: u64 = 1_000_000;

fn size(bytes: u64) -> String {
    format!("{} MB", bytes / MB)
}

fn layers(count: u32) -> String {
    match count {
        1 => "1 layer".to_owned(),
        count => format!("{count} layers"),
    }
}

/// The failure of a pull.
fn failure(error: ScriptError, reference: &str, known: &Known) -> Failure {
    let ScriptError::NotPulled(words) = error else {
        return container_failure::from_script_error(error);
    };
    let registry = registry(reference);
    let refused = Refused::from_error(&words);
    let mut cause = anyhow!("{}", words.trim());
    if let (Known::Unread(why), Refused::Login | Refused::NoImage) = (known, refused) {
        cause = cause.context(format!("without this computer's login: {why:#}"));
    }
    let (exit, what, hint) = match refused {
        Refused::Login => (
            Exit::Denied,
            match known.login() {
                Some(found) => format!(
                    "{registry} refused {reference} with {}",
                    found.description()
                ),
                None => format!("{registry} refused {reference}: it needs a login"),
            },
            known.hint(reference),
        ),
        Refused::NoImage => (
            Exit::Unavailable,
            match known.login() {
                Some(found) => format!(
                    "{registry} has no image {reference}, or none for {}",
                    found.description()
                ),
                None => format!(
                    "{registry} has no image {reference}, or shows it only after a login"
                ),
            },
            format!(
                "is it spelled right? If it is private: {}",
                known.hint(reference)
            ),
        ),
        Refused::NoTag => (
            Exit::Unavailable,
            format!("{registry} has no such tag or digest: {reference}"),
            "--image takes IMAGE:TAG or IMAGE@DIGEST; without either the tag is `latest`".to_owned(),
        ),
        Refused::Architecture => (
            Exit::Unavailable,
            format!("{reference} has no programs for the instance's architecture"),
            "--image names one that has; the architecture of a new drive is that of its type \
             (--type)"
                .to_owned(),
        ),
        Refused::TooMany => (
            Exit::TryAgain,
            format!("{registry} has had too many pulls from the instance's address"),
            format!(
                "try again later, or name a registry without such a limit; {}",
                known.hint(reference)
            ),
        ),
        Refused::Unreachable => (
            Exit::Unavailable,
            format!("the instance does not reach the registry {registry}"),
            "is its name right, and does the instance's subnet have a way to the internet, with TLS? \
             `docker save` makes an archive, which --image takes too"
                .to_owned(),
        ),
        Refused::Full => (
            Exit::Unavailable,
            format!("the drive has no room for {reference}"),
            "--size GIB makes the drive larger at its next connect".to_owned(),
        ),
        Refused::Other => (
            Exit::Unavailable,
            format!("cannot pull {reference}"),
            "--image names another one: an archive that `docker save` wrote, or a reference to a \
             registry that the instance reaches"
                .to_owned(),
        ),
    };
    Failure::new(exit, cause.context(what)).hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::registry::RegistryLogin;

    #[test]
    fn progress_has_the_total_only_if_that_is_known() {
        let mut pulled = Pulled {
            done: 5,
            layers: 14,
            bytes: 210_400_000,
            total: Some(840_000_000),
        };
        assert_eq!(progress(pulled), "5 of 14 layers, 210 of 840 MB");
        pulled.total = None;
        assert_eq!(progress(pulled), "5 of 14 layers, 210 MB so far");
        assert_eq!(short("quay.io/jupyter/notebook:x@sha256:0"), "notebook:x");
        assert_eq!(short("python"), "python");
    }

    fn failed(words: &str, reference: &str, known: &Known) -> Failure {
        failure(ScriptError::NotPulled(words.to_owned()), reference, known)
    }

    #[test]
    fn a_registry_that_gives_nothing_is_named_with_what_helps() {
        let reference = "reg.example:5000/a:b";
        let login = failed("no basic auth credentials", reference, &Known::Nothing);
        assert_eq!(login.exit, Exit::Denied);
        let text = login.to_string();
        let expected = "error: reg.example:5000 refused reg.example:5000/a:b: it needs a login\n  \
                        caused by: no basic auth credentials\n";
        assert!(text.starts_with(expected), "{text}");
        assert!(
            text.contains("hint: `docker login reg.example:5000` on this computer leaves a login"),
            "{text}"
        );
        let limit = failed(
            "toomanyrequests: pull rate limit",
            "python",
            &Known::Nothing,
        );
        assert_eq!(limit.exit, Exit::TryAgain);
        let text = limit.to_string();
        assert!(text.contains("docker.io has had too many"), "{text}");
        assert!(text.contains("; `docker login` on this computer"), "{text}");
        let lost = failed(
            "dial tcp: lookup q: no such host",
            "q.invalid/a",
            &Known::Nothing,
        );
        assert_eq!(lost.exit, Exit::Unavailable);
    }

    #[test]
    fn a_refused_login_is_named_with_what_was_tried_and_never_its_secret() {
        const DENIED: &str = "unauthorized: authentication required";
        let mut login = RegistryLogin {
            server: "quay.io".into(),
            username: "ada".into(),
            password: "hush".into(),
            identity_token: String::new(),
            registry_token: String::new(),
        };
        let found = |login: &RegistryLogin| {
            Known::Login(FoundLogin {
                login: login.clone(),
                source: "docker-credential-pass".into(),
            })
        };
        let text = failed(DENIED, "quay.io/a", &found(&login)).to_string();
        let expected = "error: quay.io refused quay.io/a with the login of ada from \
                        docker-credential-pass\n";
        assert!(text.starts_with(expected), "{text}");
        assert!(
            text.contains("`docker login quay.io` on this computer, if that login has expired"),
            "{text}"
        );
        assert!(!text.contains("hush"), "{text}");
        login.username.clear();
        let gone =
            "pull access denied for a, repository does not exist or may require 'docker login'";
        let text = failed(gone, "quay.io/a", &found(&login)).to_string();
        assert!(
            text.contains("quay.io/a, or none for the login from docker-credential-pass"),
            "{text}"
        );
        let unread =
            Known::Unread(anyhow!("locked").context("docker-credential-pass, which x names"));
        let text = failed(DENIED, "quay.io/a", &unread).to_string();
        assert!(
            text.contains(
                "caused by: without this computer's login: docker-credential-pass, which x names: \
                 locked\n"
            ),
            "{text}"
        );
        let text = failed(DENIED, "quay.io/a", &Known::Off).to_string();
        assert!(text.contains("hint: without --no-registry-login"), "{text}");
        let text = failed(DENIED, "quay.io/a", &Known::Tagged).to_string();
        let hint = "hint: a tag of the drive names the image, so no login of this computer's was sent: \
                    --image quay.io/a sends the one";
        assert!(text.contains(hint), "{text}");
    }
}
