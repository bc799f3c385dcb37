//! The architecture of an image archive.
//!
//! `docker save` writes a tar archive whose `manifest.json` names each image's configuration, which
//! is in the archive as well; where only an `index.json` exists, it names a manifest that names the
//! configuration (Docker image specification v1.2, *Combined Image JSON + Filesystem Changeset
//! Format*; OCI image layout specification). Only the archive's headers and those few small files
//! are read, so that it takes no longer for gigabytes of layers. An archive whose architecture is
//! not clear (compressed, of files alone, for several) counts as without one, and is accepted.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use serde_json::Value;

use crate::ec2::Arch;

/// The most files that are read of an archive: an image has two or three for each of its layers.
const FILES: usize = 10_000;

/// The longest manifest or configuration, in bytes.
const LONGEST: u64 = 1 << 20;

/// The architecture of the programs in an archive, if that is clear.
pub(crate) fn arch(path: &Path) -> Option<Arch> {
    let mut archive = Archive::open(path).ok()?;
    let configurations = archive.configurations()?;
    let mut found = configurations.iter().map(|name| {
        let configuration = archive.json(name)?;
        match configuration["architecture"].as_str()? {
            // Go's names.
            "amd64" => Some(Arch::X86_64),
            "arm64" => Some(Arch::Arm64),
            _ => None,
        }
    });
    let first = found.next()??;
    found.all(|arch| arch == Some(first)).then_some(first)
}

/// A tar archive, and the place of each file in it.
struct Archive {
    file: File,
    /// Offset and length.
    files: BTreeMap<String, (u64, u64)>,
}

impl Archive {
    /// Reads the headers, not the files' content.
    fn open(path: &Path) -> io::Result<Self> {
        let mut archive = tar::Archive::new(File::open(path)?);
        let mut files = BTreeMap::new();
        for entry in archive.entries_with_seek()?.take(FILES) {
            let entry = entry?;
            let path = entry.path()?;
            let name = path.strip_prefix(".").unwrap_or(&path).to_string_lossy();
            files.insert(name.into_owned(), (entry.raw_file_position(), entry.size()));
        }
        let file = archive.into_inner();
        Ok(Self { file, files })
    }

    /// The names of the images' configurations.
    fn configurations(&mut self) -> Option<Vec<String>> {
        if let Some(manifest) = self.json("manifest.json") {
            let images = manifest.as_array()?.iter();
            let names = images.map(|image| image["Config"].as_str().map(str::to_owned));
            return names.collect();
        }
        let index = self.json("index.json")?;
        let manifests = index["manifests"].as_array()?;
        let manifests = manifests.iter().map(|manifest| {
            let manifest = self.json(&blob(&manifest["digest"])?)?;
            blob(&manifest["config"]["digest"])
        });
        manifests.collect()
    }

    fn json(&mut self, name: &str) -> Option<Value> {
        let (at, length) = *self.files.get(name)?;
        if length > LONGEST {
            return None;
        }
        let mut text = Vec::new();
        self.file.seek(SeekFrom::Start(at)).ok()?;
        let mut part = (&self.file).take(length);
        part.read_to_end(&mut text).ok()?;
        serde_json::from_slice(&text).ok()
    }
}

/// The path of that digest's content in an OCI layout.
fn blob(digest: &Value) -> Option<String> {
    let (algorithm, hex) = digest.as_str()?.split_once(':')?;
    Some(format!("blobs/{algorithm}/{hex}"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;

    /// The archive of a folder with these files.
    fn archive(files: &[(&str, &str)], flag: &str) -> Option<Arch> {
        let dir = tempfile::tempdir().unwrap();
        let tree = dir.path().join("tree");
        for (name, text) in files {
            let path = tree.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let tar = dir.path().join("image.tar");
        let mut command = Command::new("tar");
        let made = command.arg(flag).arg(&tar).arg("-C").arg(&tree).arg(".");
        assert!(made.status().unwrap().success());
        arch(&tar)
    }

    const LAYER: (&str, &str) = ("blobs/sha256/1a", "not looked at");
    const AMD: (&str, &str) = ("blobs/sha256/2b", r#"{"architecture": "amd64"}"#);
    const ARM: (&str, &str) = ("blobs/sha256/3c", r#"{"architecture": "arm64"}"#);

    #[test]
    fn archives_that_docker_saves_have_an_architecture() {
        let manifest = r#"[{"Config": "blobs/sha256/3c", "Layers": ["blobs/sha256/1a"]}]"#;
        let files = [LAYER, ARM, ("manifest.json", manifest)];
        assert_eq!(archive(&files, "-cf"), Some(Arch::Arm64));
        let manifest = r#"[{"Config": "abc.json", "Layers": []}]"#;
        let files = [("manifest.json", manifest), ("abc.json", AMD.1)];
        assert_eq!(archive(&files, "-cf"), Some(Arch::X86_64));
    }

    #[test]
    fn an_oci_layout_has_it_behind_a_manifest() {
        let index = r#"{"manifests": [{"digest": "sha256:4d"}]}"#;
        let manifest = r#"{"config": {"digest": "sha256:2b"}}"#;
        let files = [
            LAYER,
            AMD,
            ("index.json", index),
            ("blobs/sha256/4d", manifest),
        ];
        assert_eq!(archive(&files, "-cf"), Some(Arch::X86_64));
    }

    #[test]
    fn none_or_two_architectures_are_not_guessed_at() {
        let both = r#"[{"Config": "blobs/sha256/2b"}, {"Config": "blobs/sha256/3c"}]"#;
        let files = [AMD, ARM, ("manifest.json", both)];
        assert_eq!(archive(&files, "-cf"), None);
        let one = r#"[{"Config": "blobs/sha256/2b"}]"#;
        let files = [AMD, ("manifest.json", one)];
        assert_eq!(archive(&files, "-czf"), None, "compressed");
        assert_eq!(archive(&[("manifest.json", one)], "-cf"), None, "half");
        assert_eq!(archive(&[("bin/sh", "a program")], "-cf"), None, "files");
        let other = r#"{"architecture": "riscv64"}"#;
        let files = [("blobs/sha256/2b", other), ("manifest.json", one)];
        assert_eq!(archive(&files, "-cf"), None, "for others");
        let dir = tempfile::tempdir().unwrap();
        let text = dir.path().join("text.tar");
        fs::write(&text, "x".repeat(2000)).unwrap();
        assert_eq!(arch(&text), None, "no archive");
    }
}
