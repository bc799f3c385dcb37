//! What git ignores (gitignore(5)) in a folder that is synchronized.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

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
    /// one, and of the user's. Rules that cannot be read, and lines that make no sense, are none, as
    /// with git.
    pub(super) fn of(top: &Path) -> Self {
        let (global, _) = GitignoreBuilder::new(top).build_global();
        let mut rules = Self::below(None, global);
        let mut folders: Vec<&Path> = top.ancestors().collect();
        let repository = folders.iter().position(|it| it.join(REPOSITORY).exists());
        folders.truncate(repository.map_or(1, |it| it + 1));
        folders.reverse();
        if repository.is_some() {
            let exclude = folders[0].join(REPOSITORY).join("info/exclude");
            rules = Self::below(Some(rules), read(folders[0], exclude));
        }
        for folder in folders {
            rules = rules.within(folder);
        }
        rules
    }

    /// The rules for what is in `folder`, which is in a folder with these rules.
    pub(super) fn within(&self, folder: &Path) -> Self {
        let own = read(folder, folder.join(FILE));
        if own.is_empty() {
            return self.clone();
        }
        Self::below(Some(self.clone()), own)
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

fn read(folder: &Path, file: PathBuf) -> Gitignore {
    let mut builder = GitignoreBuilder::new(folder);
    // Without the file there are no rules.
    let _none = builder.add(file);
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}

#[cfg(test)]
mod tests {
    use std::fs;

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
        let rules = Rules::of(&folder);
        let ignores = |name: &str, is_folder| rules.ignores(&folder.join(name), is_folder);
        assert!(ignores("x.log", false) && ignores("kept.log", false));
        assert!(ignores("mine", false) && ignores(".git", true));
        assert!(ignores("build", true) && !ignores("build", false));
        assert!(!ignores("only-here", false) && !ignores("outside", false));
        assert!(!ignores(".gitignore", false));
        let below = folder.join("b");
        let rules = rules.within(&below);
        assert!(rules.ignores(&below.join("x.log"), false));
        assert!(!rules.ignores(&below.join("kept.log"), false));
        let deeper = below.join("x");
        assert!(rules.within(&deeper).ignores(&deeper.join("y"), false));
        // Without a repository the folder's own rules are all.
        let alone = Rules::of(top);
        assert!(alone.ignores(&top.join("outside"), false));
    }
}
