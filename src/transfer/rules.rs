//! What git ignores (gitignore(5)) in a folder that is synchronized.

use std::fmt;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder, gitconfig_excludes_path};

/// What a folder's rules are in.
const FILE: &str = ".gitignore";

/// What a repository is in. It is not sent: two writers would break it, and `git push` sends it.
const REPOSITORY: &str = ".git";

/// The rules for what is in one folder.
#[derive(Debug, Clone)]
pub(super) struct Rules(Arc<Level>);

#[derive(Debug)]
struct Level {
    own: Gitignore,
    /// Those of the folder above; weaker.
    above: Option<Rules>,
}

impl Rules {
    /// The rules for what is in `top`: its own, and those of the repository that it is in, if it is in
    /// one, and of the user's. Lines that make no sense are none, as with git. Fails where a file of
    /// rules is there and cannot be read: by a part of them too much would be sent, and deleted.
    pub(super) fn of(top: &Path) -> io::Result<Self> {
        let global = match gitconfig_excludes_path() {
            Some(file) => read(top, &file)?,
            None => Gitignore::empty(),
        };
        let mut rules = Self::below(None, global);
        let mut folders: Vec<&Path> = top.ancestors().collect();
        let repository = folders.iter().position(|it| it.join(REPOSITORY).exists());
        folders.truncate(repository.map_or(1, |it| it + 1));
        folders.reverse();
        if repository.is_some() {
            let exclude = folders[0].join(REPOSITORY).join("info/exclude");
            rules = Self::below(Some(rules), read(folders[0], &exclude)?);
        }
        for folder in folders {
            rules = rules.within(folder)?;
        }
        Ok(rules)
    }

    /// The rules for what is in `folder`, which is in a folder with these rules. Fails as
    /// [`Rules::of`].
    pub(super) fn within(&self, folder: &Path) -> io::Result<Self> {
        let own = read(folder, &folder.join(FILE))?;
        if own.is_empty() {
            return Ok(self.clone());
        }
        Ok(Self::below(Some(self.clone()), own))
    }

    fn below(above: Option<Self>, own: Gitignore) -> Self {
        Self(Arc::new(Level { own, above }))
    }

    /// Whether git ignores `path`, which need not exist, in the folder of these rules.
    pub(super) fn ignores(&self, path: &Path, is_folder: bool) -> bool {
        if path.file_name().is_some_and(|name| name == REPOSITORY) {
            return true;
        }
        let mut rules = Some(self);
        while let Some(Self(level)) = rules {
            match level.own.matched(path, is_folder) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => rules = level.above.as_ref(),
            }
        }
        false
    }
}

/// The rules in `file` for what is in `folder`; none without that file.
fn read(folder: &Path, file: &Path) -> io::Result<Gitignore> {
    use ErrorKind::{IsADirectory, NotADirectory, NotFound};
    let content = match fs::read(file) {
        Ok(content) => content,
        Err(error) if matches!(error.kind(), NotFound | NotADirectory | IsADirectory) => {
            return Ok(Gitignore::empty());
        }
        Err(error) => return Err(unreadable(file, &error)),
    };
    // As an editor may begin a file: U+FEFF.
    let content = content.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&content);
    let mut builder = GitignoreBuilder::new(folder);
    for line in content.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        // The builder's own reading ends at a line that is not UTF-8. A line that makes no sense is
        // none.
        let _invalid = builder.add_line(None, &text(line));
    }
    builder.build().map_err(|error| unreadable(file, &error))
}

fn unreadable(file: &Path, error: &impl fmt::Display) -> io::Error {
    io::Error::other(format!("{} cannot be read: {error}", file.display()))
}

/// A line as text. A byte that is not UTF-8 becomes `?`, which matches it as any other one.
fn text(line: &[u8]) -> String {
    let mut text = String::new();
    for chunk in line.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| '?'));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn the_nearest_rule_counts_and_a_repositorys_reach_into_its_folders() {
        let top = tempfile::tempdir().unwrap();
        let top = top.path();
        fs::create_dir_all(top.join("repository/.git/info")).unwrap();
        fs::create_dir_all(top.join("repository/a/b")).unwrap();
        fs::write(top.join(".gitignore"), "outside\n").unwrap();
        let repository = top.join("repository");
        fs::write(repository.join(".gitignore"), "*.log\n/only-here\nbuild/\n").unwrap();
        fs::write(repository.join(".git/info/exclude"), "mine\n").unwrap();
        fs::write(repository.join("a/b/.gitignore"), "!kept.log\nx/y\n").unwrap();
        let folder = repository.join("a");
        let rules = Rules::of(&folder).unwrap();
        let ignores = |name: &str, is_folder| rules.ignores(&folder.join(name), is_folder);
        assert!(ignores("x.log", false) && ignores("kept.log", false));
        assert!(ignores("mine", false) && ignores(".git", true));
        assert!(ignores("build", true) && !ignores("build", false));
        assert!(!ignores("only-here", false) && !ignores("outside", false));
        assert!(!ignores(".gitignore", false));
        let below = folder.join("b");
        let rules = rules.within(&below).unwrap();
        assert!(rules.ignores(&below.join("x.log"), false));
        assert!(!rules.ignores(&below.join("kept.log"), false));
        let deeper = below.join("x");
        let rules = rules.within(&deeper).unwrap();
        assert!(rules.ignores(&deeper.join("y"), false));
        // Without a repository the folder's own rules are all.
        let alone = Rules::of(top).unwrap();
        assert!(alone.ignores(&top.join("outside"), false));
    }

    #[test]
    fn every_line_counts_whatever_stands_before_it() {
        let top = tempfile::tempdir().unwrap();
        let top = top.path();
        let lines = b"\xef\xbb\xbffirst\r\n# gr\xfcn\ngr\xfcn\n{a\n!kept.log\n*.log\nlast";
        fs::write(top.join(FILE), lines).unwrap();
        let rules = Rules::of(top).unwrap();
        let ignores = |name: &[u8]| rules.ignores(&top.join(OsStr::from_bytes(name)), false);
        for name in [&b"first"[..], b"gr\xfcn", b"kept.log", b"last"] {
            assert!(ignores(name), "{name:?}");
        }
        assert!(!ignores(b"gr\xc3\xbcn") && !ignores(b"other"));
    }

    #[test]
    fn rules_that_are_there_and_cannot_be_read_are_an_error() {
        let top = tempfile::tempdir().unwrap();
        let top = top.path();
        for name in ["file", "folder", "loop"] {
            fs::create_dir(top.join(name)).unwrap();
        }
        // A link to itself: nobody can read it, not even root.
        symlink(FILE, top.join("loop").join(FILE)).unwrap();
        fs::create_dir(top.join("folder").join(FILE)).unwrap();
        fs::write(top.join("file/name"), "").unwrap();
        let rules = Rules::of(top).unwrap();
        for none in ["folder", "file/name", "nothing"] {
            assert!(rules.within(&top.join(none)).is_ok(), "{none}");
        }
        let error = rules.within(&top.join("loop")).unwrap_err().to_string();
        assert!(error.contains("loop/.gitignore cannot be read"), "{error}");
        Rules::of(&top.join("loop")).unwrap_err();
    }
}
