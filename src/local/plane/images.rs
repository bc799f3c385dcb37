//! The images that instances run: folders of the cache that `shell/local/machine.sh` builds, and for
//! tests `shell/local/second.sh`, and the first with another Debian's name. `root` knows their content.

use std::cmp::Reverse;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use jiff::Timestamp;

use super::PlaneError;

/// An image that instances can run.
#[derive(Debug, Clone)]
pub struct Image {
    /// `ami-…`.
    pub id: String,
    /// The image's name.
    pub name: String,
    /// When it was built.
    pub built: Timestamp,
}

/// The images in `cache`: the current one first, then the newest.
pub(super) fn list(cache: &Path) -> Result<Vec<Image>, PlaneError> {
    let current = fs::read_link(cache.join("machine")).unwrap_or_default();
    let entries = match fs::read_dir(cache) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => {
            return Err(anyhow::Error::new(error)
                .context(format!("reading {}", cache.display()))
                .into());
        }
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.with_context(|| format!("reading {}", cache.display()))?;
        let name = entry.file_name();
        let Some(hash) = name.to_str().and_then(|name| name.strip_prefix("machine-")) else {
            continue;
        };
        if !is_hash(hash) {
            continue;
        }
        let built = fs::metadata(entry.path())
            .and_then(|metadata| metadata.modified())
            .with_context(|| format!("reading {}", entry.path().display()))?;
        let built = Timestamp::try_from(built).context("a tree's date is out of range")?;
        let first = Path::new(&name) == current;
        let image = Image {
            id: format!("ami-{hash}"),
            name: label(&entry.path()),
            built,
        };
        found.push((first, image));
    }
    found.sort_by_key(|(first, image)| Reverse((*first, image.built)));
    Ok(found.into_iter().map(|(_, image)| image).collect())
}

/// The tree of the image `id`.
pub(super) fn tree(cache: &Path, id: &str) -> Result<PathBuf, PlaneError> {
    let hash = id.strip_prefix("ami-").unwrap_or_default();
    let tree = cache.join(format!("machine-{hash}"));
    if is_hash(hash) && tree.is_dir() {
        Ok(tree)
    } else {
        Err(PlaneError::Missing(format!(
            "there is no machine tree for {id} in {} (`xdrive local setup` builds one)",
            cache.display()
        )))
    }
}

/// An image's name in the vendors' form: its system and processor.
fn label(tree: &Path) -> String {
    let release = fs::read_to_string(tree.join("etc/os-release")).unwrap_or_default();
    let field = |key: &str| {
        let line = release
            .lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        line.unwrap_or("unknown").trim_matches('"').to_owned()
    };
    format!(
        "xdrive-local-{}-{}-{}",
        field("ID"),
        field("VERSION_ID"),
        std::env::consts::ARCH
    )
}

/// Ids have 17 hexadecimal digits, like EC2's own.
fn is_hash(text: &str) -> bool {
    text.len() == 17
        && text
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_current_tree_comes_first_and_half_built_ones_never() {
        let cache = tempfile::tempdir().unwrap();
        for name in ["machine-00000000000000001", "machine-00000000000000002"] {
            fs::create_dir_all(cache.path().join(name).join("etc")).unwrap();
        }
        fs::create_dir(cache.path().join("machine-00000000000000003.half")).unwrap();
        std::os::unix::fs::symlink("machine-00000000000000001", cache.path().join("machine"))
            .unwrap();
        let ids: Vec<_> = list(cache.path())
            .unwrap()
            .into_iter()
            .map(|image| image.id)
            .collect();
        assert_eq!(ids, ["ami-00000000000000001", "ami-00000000000000002"]);
        assert!(tree(cache.path(), "ami-00000000000000002").is_ok());
        for id in ["ami-00000000000000003", "ami-../../etc", "ami-"] {
            let error = tree(cache.path(), id).unwrap_err();
            assert!(
                error
                    .to_string()
                    .contains("`xdrive local setup` builds one"),
                "{error}"
            );
        }
    }

    #[test]
    fn without_a_cache_there_are_no_images() {
        assert!(list(Path::new("/nonexistent")).unwrap().is_empty());
    }
}
