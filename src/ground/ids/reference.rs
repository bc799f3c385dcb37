//! References to images of registries.

use std::fmt;
use std::str::FromStr;

/// The endings of image archives.
const ARCHIVES: [&str; 5] = [".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.zst"];

/// Parts of the names of files by which images are built.
const DESCRIPTIONS: [&str; 3] = ["Dockerfile", "Containerfile", "devcontainer.json"];

/// The longest tag, in bytes.
const LONGEST_TAG: usize = 128;

/// The longest reference, in bytes: names have 255 at most, and a digest behind them.
const LONGEST: usize = 512;

/// The reference of a registry's image: `[HOST[:PORT]/]NAME[:TAG][@DIGEST]` (the grammar of the
/// distribution project's package `reference`). None of them is the path of a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImageReference(String);

/// The text that is no registry's image.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no image of a registry")]
pub struct InvalidReference(String);

impl ImageReference {
    /// The reference as it was given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whether a text ends as the names of image archives do.
#[must_use]
pub fn is_archive(given: &str) -> bool {
    ARCHIVES.iter().any(|ending| given.ends_with(ending))
}

impl FromStr for ImageReference {
    type Err = InvalidReference;

    fn from_str(given: &str) -> Result<Self, InvalidReference> {
        let last = given.rsplit('/').next().unwrap_or(given);
        let is_file = is_archive(given) || DESCRIPTIONS.iter().any(|name| last.contains(name));
        if given.len() <= LONGEST && !is_file && is_reference(given) {
            return Ok(Self(given.to_owned()));
        }
        Err(InvalidReference(given.to_owned()))
    }
}

fn is_reference(given: &str) -> bool {
    let (named, digest) = match given.split_once('@') {
        Some((named, digest)) => (named, Some(digest)),
        None => (given, None),
    };
    let slash = named.rfind('/').map_or(0, |at| at + 1);
    let (name, tag) = match named[slash..].find(':') {
        Some(colon) => (&named[..slash + colon], Some(&named[slash + colon + 1..])),
        None => (named, None),
    };
    let path = match name.split_once('/') {
        Some((host, path)) if !is_component(host) && is_host(host) => path,
        _ => name,
    };
    path.split('/').all(is_component) && tag.is_none_or(is_tag) && digest.is_none_or(is_digest)
}

fn is_host(given: &str) -> bool {
    let (host, port) = match given.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (given, None),
    };
    let is_label = |label: &str| {
        let is_inner = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
        label.bytes().all(is_inner) && !label.starts_with('-') && !label.ends_with('-')
    };
    let is_six = |inner: &str| {
        let mut bytes = inner.bytes();
        !inner.is_empty() && bytes.all(|b| b.is_ascii_hexdigit() || b == b':')
    };
    let inner = host.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    let is_name = || {
        host.split('.')
            .all(|label| !label.is_empty() && is_label(label))
    };
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
    inner.map_or_else(is_name, is_six) && port.is_none_or(is_port)
}

/// Whether it is a part of a name: lower-case letters and digits, between them `.`, `_`, `__` or
/// hyphens.
fn is_component(given: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let mut separators = given.split(is_inner).filter(|it| !it.is_empty());
    let is_separator = |it: &str| matches!(it, "." | "_" | "__") || it.bytes().all(|b| b == b'-');
    given.starts_with(is_inner) && given.ends_with(is_inner) && separators.all(is_separator)
}

fn is_tag(given: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    given.starts_with(is_word)
        && given.len() <= LONGEST_TAG
        && given.chars().all(|c| is_word(c) || matches!(c, '.' | '-'))
}

fn is_digest(given: &str) -> bool {
    let Some((algorithm, hex)) = given.split_once(':') else {
        return false;
    };
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '.' | '_' | '-');
    algorithm.starts_with(|c: char| c.is_ascii_alphabetic())
        && algorithm.chars().all(is_word)
        && hex.len() >= 32
        && hex.bytes().all(|b| b.is_ascii_hexdigit())
}

impl fmt::Display for ImageReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_that_docker_pulls_are_parsed() {
        let digest = format!("python@sha256:{}", "0a".repeat(32));
        for given in [
            "python",
            "python:3.12-slim",
            "library/a__b--c.d_e:v1",
            "docker.io/library/python",
            "quay.io/jupyter/minimal-notebook:x",
            "localhost:5000/a",
            "127.0.0.1:5000/team/a:b",
            "[::1]:5000/a",
            "Build.example/a",
            "xdrive/replaced/tools:20261127T000000Z",
            &digest,
        ] {
            let parsed = given.parse::<ImageReference>();
            assert_eq!(parsed.as_ref().map(ImageReference::as_str), Ok(given));
        }
    }

    #[test]
    fn nothing_that_a_shell_or_a_file_system_reads_is_a_reference() {
        for given in [
            "",
            "/etc/passwd",
            "./image",
            "../image",
            "~/.aws/credentials",
            "~",
            ".",
            "image.tar",
            "images/image.tgz",
            "x/Dockerfile",
            "python:gpu.Dockerfile",
            "devcontainer.json",
            "a//b",
            "a/../b",
            "a/",
            "A",
            "python:",
            "python:../x",
            "python@",
            "python@sha256:../../etc",
            "-v",
            "--help",
            "a b",
            "a;b",
            "$(id)",
            "`id`",
            "a\nb",
            "a\u{1b}[31m",
            "a\\b",
            "C:\\x",
            "http://host/a",
            "@file",
            "host:port/a",
            &"a".repeat(600),
        ] {
            given.parse::<ImageReference>().unwrap_err();
        }
    }
}
