//! The container's image: an archive on this computer, a folder to build it from, or a registry's.

mod archive;
mod build;
mod context;
mod devcontainer;
mod dockerfile;
mod folder;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;

use std::path::{Path, PathBuf};

use crate::failure::{Exit, Failure};
use crate::ids::is_archive;

pub(crate) use archive::arch;
pub(crate) use build::{Base, Build, PostCreate};
pub(crate) use context::Context;

/// Where an image comes from.
pub(crate) enum ImageSource {
    /// An archive that `docker save` wrote.
    Archive(PathBuf),
    /// A folder, or a file in it, by which it is built on the host.
    Folder(PathBuf),
    /// A reference to a registry.
    Reference(String),
}

impl ImageSource {
    /// Parses `--image`: a text that looks like a path or ends like an archive is one, as is one
    /// that ends like a Dockerfile; any other is a reference.
    pub(crate) fn parse(given: &str) -> Self {
        let is_path = given.starts_with(['/', '.', '~']) || is_archive(given);
        let path = Path::new(given);
        if folder::is_built(path, is_path) {
            Self::Folder(path.to_owned())
        } else if is_path {
            Self::Archive(path.to_owned())
        } else {
            Self::Reference(given.to_owned())
        }
    }
}

/// Refuses an archive that cannot be read, before anything is launched for it.
pub(crate) fn check_image(given: &str) -> Result<(), Failure> {
    match ImageSource::parse(given) {
        ImageSource::Archive(path) => source_of(&path).map(drop),
        ImageSource::Folder(path) => folder::read(&path).map(drop),
        ImageSource::Reference(_) => Ok(()),
    }
}

/// Refuses a default image that was not built.
pub(crate) fn check_default(image: &str) -> Result<(), Failure> {
    check_image(image).map_err(|failure| {
        failure.hint("xdrive local setup builds the image of new drives; --image names another one")
    })
}

/// Reads the build that the folder or file at `path` describes.
pub(crate) fn described(path: &Path) -> Result<Build, Failure> {
    folder::read(path)
}

/// Reads the build of an image, if it is built.
pub(crate) fn build(given: &str) -> Result<Option<Build>, Failure> {
    match ImageSource::parse(given) {
        ImageSource::Folder(path) => folder::read(&path).map(Some),
        ImageSource::Archive(_) | ImageSource::Reference(_) => Ok(None),
    }
}

/// The path of an image, if it is an archive.
pub(crate) fn file(given: &str) -> Option<PathBuf> {
    match ImageSource::parse(given) {
        ImageSource::Archive(path) => Some(path),
        ImageSource::Folder(_) | ImageSource::Reference(_) => None,
    }
}

/// The name of an archive on the drive: its file name, size and time, so that the same file is not
/// sent twice and a newer one is.
pub(crate) fn source_of(path: &Path) -> Result<String, Failure> {
    let real = std::fs::canonicalize(path).map_err(|error| unreadable(path, error))?;
    let metadata = real.metadata().map_err(|error| unreadable(path, error))?;
    if !metadata.is_file() {
        let error = std::io::Error::other("it is not a file");
        return Err(unreadable(path, error));
    }
    let changed = metadata
        .modified()
        .ok()
        .and_then(|time| jiff::Timestamp::try_from(time).ok())
        .map_or_else(String::new, |time| format!(", {time:.0}"));
    let name = real.file_name().unwrap_or_default().to_string_lossy();
    Ok(format!("{name} ({} bytes{changed})", metadata.len()))
}

/// The failure of an archive that cannot be read.
pub(crate) fn unreadable(path: &Path, error: std::io::Error) -> Failure {
    let error =
        anyhow::Error::new(error).context(format!("cannot read the image {}", path.display()));
    Failure::new(Exit::Unavailable, error).hint(
        "--image takes a registry reference, the path of an archive that `docker save` wrote, or a \
         folder that has a Dockerfile",
    )
}
