//! Pulls as data: their progress, and the reasons for failures.
//!
//! dockerd's errors are text, its own and its registry's, which differ by version and by registry.
//! That text is parsed here only; text that is not recognised is printed unchanged.

use std::str::FromStr;

/// The progress of a pull.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pulled {
    /// Layers that are in place.
    pub done: u32,
    /// All layers that are known.
    pub layers: u32,
    /// Compressed bytes that were downloaded.
    pub bytes: u64,
    /// All bytes to download, once that is known.
    pub total: Option<u64>,
}

impl FromStr for Pulled {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut numbers = text
            .split(' ')
            .map(|word| word.parse::<u64>().map_err(drop));
        let mut next = || numbers.next().ok_or(())?;
        let mut count = || next().and_then(|number| u32::try_from(number).map_err(drop));
        let (done, layers) = (count()?, count()?);
        Ok(Self {
            done,
            layers,
            bytes: next()?,
            total: Some(next()?).filter(|total| *total > 0),
        })
    }
}

/// Why an image could not be pulled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The registry requires a login, or refuses the given one.
    Login,
    /// The registry has no such image, or shows it only after a login.
    NoImage,
    /// The registry has the image, but not this tag or digest.
    NoTag,
    /// The image has no programs for this machine's architecture.
    Architecture,
    /// The registry has had too many pulls from this address.
    TooMany,
    /// No registry answers under that name.
    Unreachable,
    /// The image is larger than what is left on the drive.
    Full,
    /// Any other refusal.
    Other,
}

impl Refused {
    /// The reason behind dockerd's error. (Docker 20.10 to 29, against Docker Hub, quay.io,
    /// ghcr.io, Amazon ECR and the registry of Docker's own distribution.)
    #[must_use]
    pub fn from_error(words: &str) -> Self {
        let words = words.to_lowercase();
        let says = |any: &[&str]| any.iter().any(|part| words.contains(part));
        // As a word: a port may have the same digits.
        let has_word = |it: &str| words.split(|c: char| !c.is_alphanumeric()).any(|w| w == it);
        if says(&["no space left on device", "not enough space"]) {
            Self::Full
        } else if says(&["toomanyrequests", "too many requests", "rate limit"]) {
            Self::TooMany
        } else if says(&[
            "no matching manifest for",
            "does not match the specified platform",
        ]) {
            Self::Architecture
        } else if says(&[
            "may require 'docker login'",
            "name unknown",
            "repository does not exist",
        ]) {
            Self::NoImage
        } else if says(&[
            "manifest unknown",
            "not found: manifest",
            "no such manifest",
        ]) {
            Self::NoTag
        } else if says(&[
            "no basic auth credentials",
            "unauthorized",
            "authentication required",
            "denied",
            "403 forbidden",
        ]) || has_word("401")
        {
            Self::Login
        } else if says(&["dial tcp", "lookup ", "timeout", "deadline exceeded"])
            || says(&[
                "connection re",
                "no route to host",
                "unreachable",
                "tls",
                "x509",
            ])
            || says(&["server gave http response", "eof"])
        {
            Self::Unreachable
        } else if says(&["not found"]) {
            Self::NoImage
        } else {
            Self::Other
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_progress_of_a_pull_is_parsed() {
        let pulled = |total| Pulled {
            done: 5,
            layers: 14,
            bytes: 210,
            total,
        };
        assert_eq!("5 14 210 840".parse(), Ok(pulled(Some(840))));
        assert_eq!("5 14 210 0".parse(), Ok(pulled(None)));
        for nonsense in ["", "5 14", "5 14 x 0", "-1 14 0 0"] {
            assert_eq!(nonsense.parse::<Pulled>(), Err(()), "{nonsense:?}");
        }
    }

    #[test]
    fn the_words_of_every_registry_mean_something() {
        for (words, meaning) in [
            (
                "Get \"https://127.0.0.1:5000/v2/a/manifests/b\": no basic auth credentials",
                Refused::Login,
            ),
            (
                "unauthorized: access to the requested resource is not authorized",
                Refused::Login,
            ),
            ("error from registry: denied\ndenied", Refused::Login),
            (
                "Head \"https://ghcr.io/v2/a/b/manifests/latest\": denied: denied",
                Refused::Login,
            ),
            (
                "pull access denied for a/b, repository does not exist or may require 'docker \
                 login': denied: requested access to the resource is denied",
                Refused::NoImage,
            ),
            (
                "manifest for quay.io/a/b:c not found: manifest unknown: manifest unknown",
                Refused::NoTag,
            ),
            (
                "repository 1.dkr.ecr.eu-west-1.amazonaws.com/a not found: name unknown: The \
                 repository does not exist",
                Refused::NoImage,
            ),
            (
                "no matching manifest for linux/arm64/v8 in the manifest list entries",
                Refused::Architecture,
            ),
            (
                "toomanyrequests: You have reached your pull rate limit",
                Refused::TooMany,
            ),
            (
                "Get \"https://a.invalid/v2/\": dial tcp: lookup a.invalid on 127.0.0.1:53: read \
                 udp: connection refused",
                Refused::Unreachable,
            ),
            (
                "Get \"https://10.0.0.1/v2/\": net/http: request canceled while waiting for \
                 connection (Client.Timeout exceeded while awaiting headers)",
                Refused::Unreachable,
            ),
            (
                "Get \"https://10.0.0.1:5000/v2/\": http: server gave HTTP response to HTTPS client",
                Refused::Unreachable,
            ),
            (
                "write /v1/docker/tmp/GetImageBlob1: no space left on device",
                Refused::Full,
            ),
            (
                "Get \"https://a.invalid/v2/\": dial tcp: lookup a.invalid on 127.0.0.1:53: read \
                 udp 127.0.0.1:40181->127.0.0.1:53: read: connection refused",
                Refused::Unreachable,
            ),
            ("received unexpected HTTP status: 401", Refused::Login),
            ("something else happened", Refused::Other),
        ] {
            assert_eq!(Refused::from_error(words), meaning, "{words}");
        }
    }
}
