//! Folders that images are built from, by a Dockerfile or a `devcontainer.json`.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::build::{Base, Build};
use super::context::Context;
use super::devcontainer;
use crate::failure::{Exit, Failure};

/// Names of files by which an image is built.
const DOCKERFILES: [&str; 2] = ["Dockerfile", "Containerfile"];
const DEVCONTAINER: &str = "devcontainer.json";

/// Where a folder may have its `devcontainer.json` (containers.dev, *Development container
/// specification*).
const DEVCONTAINERS: [&str; 3] = [
    ".devcontainer/devcontainer.json",
    ".devcontainer.json",
    DEVCONTAINER,
];

/// Whether `path` is something that an image is built from: a folder, or a file with the name of one
/// that builds are described by. A folder is one only if it `is_path`, and no reference.
pub(super) fn is_built(path: &Path, is_path: bool) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let is_file = |known: &str| {
        let rest = name.strip_prefix(known);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            || name
                .strip_suffix(known)
                .is_some_and(|rest| rest.ends_with('.'))
    };
    DOCKERFILES.iter().any(|known| is_file(known))
        || name == DEVCONTAINER
        || name == DEVCONTAINERS[1]
        || (is_path && path.is_dir())
}

/// Reads what `path` describes, a folder or a file. `path` need not be there.
pub(super) fn read(path: &Path) -> Result<Build, Failure> {
    let failure = |error: anyhow::Error| {
        let error = error.context(format!("no image can be built from {}", path.display()));
        Failure::new(Exit::Unavailable, error).hint(
            "--image takes a folder that has a Dockerfile or a devcontainer.json, or the path of \
             such a file",
        )
    };
    let file = file(path).map_err(|error| failure(error.into()))?;
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    if name.ends_with(DEVCONTAINER) {
        let caller = |name: &str| std::env::var(name).ok();
        let read = devcontainer::read(&file, &caller);
        let shown = || format!("{}", file.display());
        return read.with_context(shown).map_err(failure);
    }
    let folder = file.parent().filter(|it| !it.as_os_str().is_empty());
    let context = Context::new(folder.unwrap_or(Path::new(".")), &file);
    let context = context.map_err(|error| failure(error.into()))?;
    let name = context.folder().file_name().unwrap_or_default();
    Ok(Build {
        name: name.to_string_lossy().into_owned(),
        base: Base::Context(context),
        arguments: Vec::new(),
        target: None,
        variables: Vec::new(),
        user: None,
        commands: Vec::new(),
        forwards: Vec::new(),
        mounts: Vec::new(),
        ignored: Vec::new(),
    })
}

/// The file that describes the build.
fn file(path: &Path) -> io::Result<PathBuf> {
    if !path.metadata()?.is_dir() {
        return Ok(path.to_owned());
    }
    let names = DEVCONTAINERS.iter().chain(&DOCKERFILES);
    let mut files = names.map(|name| path.join(name));
    files.find(|file| file.is_file()).ok_or_else(|| {
        io::Error::other("the folder has neither a devcontainer.json nor a Dockerfile")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_built_and_a_file_by_its_name() {
        let folder = tempfile::tempdir().unwrap();
        assert!(is_built(folder.path(), true));
        assert!(!is_built(folder.path(), false));
        for name in [
            "Dockerfile",
            "x/Containerfile",
            "Dockerfile.dev",
            "gpu.Dockerfile",
            "a/devcontainer.json",
            ".devcontainer.json",
        ] {
            assert!(is_built(Path::new(name), false), "{name}");
        }
        for name in [
            "image.tar",
            "python:3",
            "Dockerfiles",
            "dockerfile",
            "gone/folder",
        ] {
            assert!(!is_built(Path::new(name), true), "{name}");
        }
    }

    #[test]
    fn a_devcontainer_goes_before_a_dockerfile() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let why = read(path).unwrap_err().to_string();
        assert!(why.contains("neither a devcontainer.json nor"), "{why}");
        std::fs::write(path.join("Dockerfile"), "FROM x").unwrap();
        let plain = read(path).unwrap();
        assert!(matches!(plain.base, Base::Context(_)));
        assert_eq!(plain.addition("base"), None);
        let text = "{\"image\": \"x\", \"containerEnv\": {\"A\": \"a \\\"b\\\" $c \\\\\"}, \
                    \"remoteUser\": \"jo\"}";
        std::fs::write(path.join(".devcontainer.json"), text).unwrap();
        let described = read(path).unwrap();
        assert_eq!(described.base, Base::Reference("x".into()));
        assert_eq!(
            described.addition("base").unwrap(),
            "FROM base\nENV A=\"a \\\"b\\\" \\$c \\\\\"\nUSER jo\n"
        );
        let named = read(&path.join("Dockerfile")).unwrap();
        assert_eq!(named, plain);
        let mut other = plain.clone();
        other.user = Some("jo".into());
        assert_ne!(plain.digest("1"), other.digest("1"));
        assert_ne!(plain.digest("1"), plain.digest("2"));
        assert_eq!(plain.digest("1"), named.digest("1"));
        assert!(read(&path.join("gone")).is_err());
    }
}
