//! The context of an image's build: what is in a folder, but for what its `.dockerignore` names.
//!
//! Its digest covers names, kinds, permissions and contents, and no times: a fresh checkout of the
//! same files is the same image. It is packed while it is sent, and never kept on this computer.

use std::fs::{self, File, Metadata};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use sha2::{Digest as _, Sha256};

/// The name in the context of a Dockerfile that is not in its folder.
const OUTSIDE: &str = ".xdrive.Dockerfile";

/// A folder, and the Dockerfile by which its image is built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Context {
    folder: PathBuf,
    dockerfile: PathBuf,
}

/// A file, link or folder of the context.
struct Part {
    /// The path in the context.
    name: PathBuf,
    path: PathBuf,
    metadata: Metadata,
}

impl Context {
    /// The context in `folder`; both must be there.
    pub(super) fn new(folder: &Path, dockerfile: &Path) -> io::Result<Self> {
        let folder = fs::canonicalize(folder)?;
        let dockerfile = fs::canonicalize(dockerfile)?;
        for (path, is_right) in [
            (&folder, folder.is_dir()),
            (&dockerfile, dockerfile.is_file()),
        ] {
            if !is_right {
                let why = format!("{} is of another kind", path.display());
                return Err(io::Error::other(why));
            }
        }
        Ok(Self { folder, dockerfile })
    }

    /// The folder.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The Dockerfile's path in the context.
    pub(crate) fn dockerfile(&self) -> PathBuf {
        let inside = self.dockerfile.strip_prefix(&self.folder);
        inside.map_or_else(|_| OUTSIDE.into(), Path::to_owned)
    }

    /// The text of the Dockerfile.
    pub(super) fn text(&self) -> io::Result<String> {
        let bytes = fs::read(&self.dockerfile)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The digest of all that is sent, in hexadecimal, and how many bytes its files have.
    pub(crate) fn digest(&self) -> anyhow::Result<(String, u64)> {
        let mut digest = Sha256::new();
        let mut bytes = 0;
        for part in self.parts()? {
            let name = part.name.as_os_str().as_encoded_bytes();
            let kind = match &part.metadata {
                it if it.is_dir() => "folder".to_owned(),
                it if it.is_symlink() => format!("link {}", part.target()?.display()),
                it => format!("file {}", it.len()),
            };
            let mode = part.metadata.permissions().mode() & 0o7777;
            digest.update(format!("{mode:o} {kind}\n{}\n", name.len()));
            digest.update(name);
            if part.metadata.is_file() {
                let mut file = part.open()?;
                bytes += io::copy(&mut file, &mut Hashing(&mut digest))
                    .with_context(|| part.unreadable())?;
            }
        }
        Ok((hex::encode(digest.finalize()), bytes))
    }

    /// Writes the context to `into` as a tar archive, everything owned by root.
    pub(crate) fn pack(&self, into: impl Write) -> anyhow::Result<()> {
        let mut archive = tar::Builder::new(into);
        for part in self.parts()? {
            let mut header = tar::Header::new_gnu();
            header.set_metadata(&part.metadata);
            header.set_uid(0);
            header.set_gid(0);
            if part.metadata.is_symlink() {
                header.set_size(0);
                archive.append_link(&mut header, &part.name, part.target()?)?;
            } else if part.metadata.is_dir() {
                archive.append_data(&mut header, &part.name, io::empty())?;
            } else {
                // One that grows meanwhile is cut at the size that was announced.
                let length = part.metadata.len();
                let mut file = part.open()?.take(length).chain(io::repeat(0)).take(length);
                archive.append_data(&mut header, &part.name, &mut file)?;
            }
        }
        archive.into_inner()?.flush()?;
        Ok(())
    }

    /// Lists the whole context, each folder before its content.
    fn parts(&self) -> anyhow::Result<Vec<Part>> {
        let rules = Rules::read(self)?;
        let mut parts = Vec::new();
        self.add(Path::new(""), &rules, &mut parts)?;
        let dockerfile = self.dockerfile();
        if !parts.iter().any(|part| part.name == dockerfile) {
            let metadata = fs::metadata(&self.dockerfile)?;
            parts.push(Part {
                name: dockerfile,
                path: self.dockerfile.clone(),
                metadata,
            });
        }
        Ok(parts)
    }

    fn add(&self, below: &Path, rules: &Rules, parts: &mut Vec<Part>) -> anyhow::Result<()> {
        let folder = self.folder.join(below);
        let unreadable = || format!("cannot read {}", folder.display());
        let entries = fs::read_dir(&folder).with_context(unreadable)?;
        let mut names = entries
            .map(|entry| entry.map(|entry| entry.file_name()))
            .collect::<Result<Vec<_>, _>>()
            .with_context(unreadable)?;
        names.sort();
        for name in names {
            let name = below.join(name);
            let path = self.folder.join(&name);
            let metadata = fs::symlink_metadata(&path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            let is_folder = metadata.is_dir();
            let is_ignored = rules.ignore(&name, is_folder);
            let is_known = is_folder || metadata.is_file() || metadata.is_symlink();
            // Docker leaves sockets out, too; in an ignored folder something may not be ignored.
            if is_known && !is_ignored {
                let name = name.clone();
                parts.push(Part {
                    name,
                    path,
                    metadata,
                });
            }
            if is_folder && (!is_ignored || rules.has_exceptions) {
                self.add(&name, rules, parts)?;
            }
        }
        Ok(())
    }
}

impl Part {
    fn unreadable(&self) -> String {
        format!("cannot read {}", self.path.display())
    }

    fn open(&self) -> anyhow::Result<File> {
        File::open(&self.path).with_context(|| self.unreadable())
    }

    fn target(&self) -> anyhow::Result<PathBuf> {
        fs::read_link(&self.path).with_context(|| self.unreadable())
    }
}

/// Writes into a digest.
struct Hashing<'a>(&'a mut Sha256);

impl Write for Hashing<'_> {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        self.0.update(part);
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The rules of a `.dockerignore` (Docker's documentation, *Build context*): as git's, but each is
/// for a path from the top, the last one that fits a path or a folder that it is in decides, and what
/// is in an ignored folder may be excepted.
struct Rules {
    /// In order: whether a rule is an exception, and its pattern.
    lines: Vec<(bool, Gitignore)>,
    has_exceptions: bool,
    /// Files that are sent whatever the rules are.
    kept: Vec<PathBuf>,
}

impl Rules {
    /// The Dockerfile's own, `NAME.dockerignore`, or else those of the folder.
    fn read(context: &Context) -> anyhow::Result<Self> {
        let mut own = context.dockerfile.clone().into_os_string();
        own.push(".dockerignore");
        for file in [PathBuf::from(own), context.folder.join(".dockerignore")] {
            match fs::read_to_string(&file) {
                Ok(text) => return Self::parse(&text, vec![context.dockerfile()]),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    return Err(error).with_context(|| format!("cannot read {}", file.display()));
                }
            }
        }
        Self::parse("", Vec::new())
    }

    fn parse(text: &str, kept: Vec<PathBuf>) -> anyhow::Result<Self> {
        let mut rules = Vec::new();
        for line in text.trim_start_matches('\u{feff}').lines() {
            let line = if line.starts_with('#') {
                ""
            } else {
                line.trim()
            };
            let (is_exception, pattern) = match line.strip_prefix('!') {
                Some(pattern) => (true, pattern.trim()),
                None => (false, line),
            };
            let parts = pattern.split('/').filter(|it| !matches!(*it, "" | "."));
            let parts: Vec<&str> = parts.collect();
            if parts.contains(&"..") {
                bail!(".dockerignore: {line:?} leads out of the folder");
            }
            if parts.is_empty() {
                // Docker: `.` or `/` alone is no rule.
                continue;
            }
            let mut builder = GitignoreBuilder::new("");
            builder.add_line(None, &format!("/{}", parts.join("/")))?;
            rules.push((is_exception, builder.build()?));
        }
        Ok(Self {
            has_exceptions: rules.iter().any(|(is_exception, _)| *is_exception),
            lines: rules,
            kept,
        })
    }

    fn ignore(&self, name: &Path, is_folder: bool) -> bool {
        if self.kept.iter().any(|kept| kept == name) {
            return false;
        }
        let fits = |(_, pattern): &&(bool, Gitignore)| {
            let found = pattern.matched_path_or_any_parents(name, is_folder);
            found.is_ignore()
        };
        let last = self.lines.iter().rev().find(fits);
        last.is_some_and(|(is_exception, _)| !is_exception)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        folder
    }

    fn context(folder: &Path) -> Context {
        Context::new(folder, &folder.join("Dockerfile")).unwrap()
    }

    fn names(context: &Context) -> Vec<String> {
        let parts = context.parts().unwrap();
        let names = parts.iter().map(|it| it.name.to_str().unwrap().to_owned());
        names.collect()
    }

    #[test]
    fn files_that_dockerignore_names_are_left_out() {
        let rules =
            "# a comment\n*.log\n/build/\n**/cache\n!build/kept\na/*/c\n./x\nDockerfile\n \n/\n";
        let files = [
            (".dockerignore", rules),
            ("Dockerfile", ""),
            ("top.log", ""),
            ("a/deep.log", ""),
            ("build/gone", ""),
            ("build/kept", ""),
            ("a/cache/x", ""),
            ("a/b/c", ""),
            ("a/b/d", ""),
            ("x/y", ""),
        ];
        let folder = folder(&files);
        assert_eq!(
            names(&context(folder.path())),
            [
                ".dockerignore",
                "Dockerfile",
                "a",
                "a/b",
                "a/b/d",
                "a/deep.log",
                "build/kept"
            ]
        );
        fs::write(folder.path().join("Dockerfile.dockerignore"), "*\n!a/b/c").unwrap();
        let sent = names(&context(folder.path()));
        assert_eq!(sent, ["Dockerfile", "a/b/c"]);
        fs::write(folder.path().join("Dockerfile.dockerignore"), "../x").unwrap();
        let error = context(folder.path()).parts().err().unwrap().to_string();
        assert!(error.contains("leads out"), "{error}");
    }

    #[test]
    fn the_digest_is_of_what_is_sent_and_not_of_times() {
        let files = [("Dockerfile", "FROM scratch\n"), ("a b/ü", "one")];
        let (first, second) = (folder(&files), folder(&files));
        let digest = |folder: &tempfile::TempDir| context(folder.path()).digest().unwrap();
        let old = fs::File::open(second.path().join("a b/ü")).unwrap();
        old.set_modified(std::time::UNIX_EPOCH).unwrap();
        assert_eq!(digest(&first), digest(&second));
        assert_eq!(digest(&first).1, 16);
        let before = digest(&first).0;
        fs::write(first.path().join("a b/ü"), "two").unwrap();
        assert_ne!(digest(&first).0, before);
        fs::write(first.path().join("a b/ü"), "one").unwrap();
        assert_eq!(digest(&first).0, before);
        let path = first.path().join("a b/ü");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        assert_ne!(digest(&first).0, before);
    }

    #[test]
    fn the_archive_has_links_as_they_are_and_a_dockerfile_from_elsewhere() {
        let folder = folder(&[("elsewhere/Dockerfile", "FROM x"), ("context/file", "text")]);
        let inside = folder.path().join("context");
        std::os::unix::fs::symlink("/etc/passwd", inside.join("link")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(inside.join("socket")).unwrap();
        let context = Context::new(&inside, &folder.path().join("elsewhere/Dockerfile")).unwrap();
        let mut packed = Vec::new();
        context.pack(&mut packed).unwrap();
        let mut archive = tar::Archive::new(&packed[..]);
        let found: Vec<String> = archive
            .entries()
            .unwrap()
            .map(|entry| {
                let mut entry = entry.unwrap();
                let name = entry.path().unwrap().display().to_string();
                let link = entry.link_name().unwrap();
                let link = link.map(|it| it.display().to_string());
                let mut text = String::new();
                entry.read_to_string(&mut text).unwrap();
                format!("{name} {} {text}", link.unwrap_or_default())
            })
            .collect();
        assert_eq!(
            found,
            [
                "file  text",
                "link /etc/passwd ",
                ".xdrive.Dockerfile  FROM x"
            ]
        );
    }
}
