//! Pulling an image: the host pulls it from a registry, the session shows the progress.

use anyhow::anyhow;

use super::container_failure;
use crate::failure::{Exit, Failure};
use crate::host::facts::ScriptError;
use crate::host::pull::{Pulled, Refused, registry};
use crate::host::scripts::{Host, Image};
use crate::report::Report;

/// The hint for registries that need a login.
const LOGIN: &str = "xdrive logs in to no registry: `docker pull` and `docker save -o FILE` on a computer \
     that may, and then --image FILE; or --ami, an image whose root has Docker's credentials";

/// Has `host` pull the image `reference`, unless it is on the drive.
pub(super) async fn pull(host: &Host, reference: &str, report: &Report) -> Result<Image, Failure> {
    let short = short(reference);
    let step = report.step(format!("pull {short}"));
    let mut receive = |pulled| step.now(format!("pull {short}: {}", progress(pulled)));
    let pulled = host.pull(reference, &mut receive).await;
    match pulled.map_err(|error| failure(error, reference))? {
        Some(pulled) => step.done(&format!(
            "pulled {reference}: {}, {}",
            layers(pulled.layers),
            size(pulled.bytes)
        )),
        // The drive has the image already: no line is printed.
        None => drop(step),
    }
    Ok(Image::Reference(reference.to_owned()))
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
fn failure(error: ScriptError, reference: &str) -> Failure {
    let ScriptError::NotPulled(words) = error else {
        return container_failure::of(error);
    };
    let registry = registry(reference);
    let (exit, what, hint) = match Refused::of(&words) {
        Refused::Login => (
            Exit::Denied,
            format!("{registry} refused {reference}: it needs a login"),
            LOGIN.to_owned(),
        ),
        Refused::NoImage => (
            Exit::Unavailable,
            format!("{registry} has no image {reference}, or shows it only after a login"),
            format!("is it spelled right? If it is private: {LOGIN}"),
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
            format!("try again later, or name a registry without such a limit; {LOGIN}"),
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
    Failure::new(exit, anyhow!("{}", words.trim()).context(what)).hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn a_registry_that_gives_nothing_is_named_with_what_helps() {
        let failed =
            |words: &str, reference| failure(ScriptError::NotPulled(words.to_owned()), reference);
        let login = failed("no basic auth credentials", "reg.example:5000/a:b");
        assert_eq!(login.exit, Exit::Denied);
        let text = login.to_string();
        assert!(
            text.starts_with(
                "error: reg.example:5000 refused reg.example:5000/a:b: it needs a login\n"
            ),
            "{text}"
        );
        assert!(
            text.contains("caused by: no basic auth credentials"),
            "{text}"
        );
        assert!(
            text.contains("hint: xdrive logs in to no registry"),
            "{text}"
        );
        let limit = failed("toomanyrequests: pull rate limit", "python");
        assert_eq!(limit.exit, Exit::TryAgain);
        assert!(
            limit.to_string().contains("docker.io has had too many"),
            "{limit}"
        );
        let lost = failed("dial tcp: lookup q: no such host", "q.invalid/a");
        assert_eq!(lost.exit, Exit::Unavailable);
    }
}
