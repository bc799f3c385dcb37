//! The repository that a folder is in, and what its git makes of it: where rules are beside the
//! `.gitignore` files, which ignored files are tracked all the same, and whether case counts.
//!
//! The installed git is asked, since its configuration has includes, conditions and scopes. It is
//! given no chance to run a program or to reach a network that the repository's configuration names.
//! Where there is none, or where it refuses (`safe.directory`), the files that it would most likely
//! read are read here.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

/// The name of a repository's own folder, in its top folder.
pub(super) const REPOSITORY: &str = ".git";

/// The variables that lead git elsewhere than where it is started (`git rev-parse --local-env-vars`, but for
/// its configuration).
const ELSEWHERE: [&str; 7] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_COMMON_DIR",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
];

/// The rules of a folder beside its `.gitignore` files.
#[derive(Debug, Default)]
pub(super) struct Repository {
    /// The top folder, or the one that was asked for where there is no repository.
    pub(super) top: PathBuf,
    /// The user's rules, then the repository's, which outrank them.
    pub(super) excludes: Vec<PathBuf>,
    /// Whether the case of letters in rules does not count.
    pub(super) folds: bool,
    /// The tracked files that rules name, by their paths from the top.
    tracked: HashSet<Vec<u8>>,
    /// The folders that these are in.
    above_tracked: HashSet<Vec<u8>>,
    /// The files that this is from, as they were before they were read.
    sources: Vec<(PathBuf, Stamp)>,
}

/// A mark that changes with a file; none of one that is not there.
type Stamp = Option<(u64, u64, SystemTime)>;

fn stamp(path: &Path) -> Stamp {
    let found = fs::metadata(path).ok()?;
    Some((found.ino(), found.len(), found.modified().ok()?))
}

impl Repository {
    /// The repository that `folder`, a canonical path, is in; asked of `git` where it is given.
    pub(super) fn find(folder: &Path, git: Option<&str>) -> Self {
        let Some(top) = top_of(folder) else {
            return Self {
                excludes: user_excludes(git, folder),
                top: folder.to_owned(),
                ..Self::default()
            };
        };
        let folders = GitFolders::read(&top);
        let mut sources = folders.sources();
        sources.extend(git.map(|it| Git(it, &top).sources()).unwrap_or_default());
        let sources = sources.into_iter().map(|it| {
            let stamp = stamp(&it);
            (it, stamp)
        });
        let sources = sources.collect();
        let asked = git.and_then(|git| Git(git, &top).repository());
        let found = asked.unwrap_or_else(|| folders.repository(&top));
        Self { sources, ..found }
    }

    /// Whether everything that it was read from is as it was.
    pub(super) fn is_current(&self) -> bool {
        let mut sources = self.sources.iter();
        !self.sources.is_empty() && sources.all(|(path, before)| stamp(path) == *before)
    }

    /// Whether git tracks `path`, from the top on, or something in it; of what no rule names nothing is
    /// known.
    pub(super) fn tracks(&self, path: &[u8], is_folder: bool) -> bool {
        self.tracked.contains(path) || (is_folder && self.above_tracked.contains(path))
    }

    fn track(&mut self, path: &[u8]) {
        let slashes = path.iter().enumerate().filter(|(_, it)| **it == b'/');
        let above = slashes.map(|(at, _)| path[..at].to_vec());
        self.above_tracked.extend(above);
        self.tracked.insert(path.to_vec());
    }
}

/// Whether a folder is the top of a repository, as git decides it.
pub(super) fn is_top(folder: &Path) -> bool {
    let file = folder.join(REPOSITORY);
    let folders = GitFolders::read(folder);
    file.symlink_metadata().is_ok() && folders.are_git()
}

/// The top of the repository that `folder` is in. One that git does not take for one, since it is not
/// whole, counts where there is no other: its rules are meant.
fn top_of(folder: &Path) -> Option<PathBuf> {
    let whole = folder.ancestors().find(|it| is_top(it));
    let has_any = |it: &&Path| it.join(REPOSITORY).symlink_metadata().is_ok();
    let found = whole.or_else(|| folder.ancestors().find(has_any));
    found.map(Path::to_owned)
}

/// Where a repository keeps what is its own and what all its worktrees share
/// (gitrepository-layout(5)).
struct GitFolders {
    own: PathBuf,
    common: PathBuf,
}

impl GitFolders {
    fn read(top: &Path) -> Self {
        let named = top.join(REPOSITORY);
        let own = match fs::read(&named) {
            // A worktree's, or a submodule's.
            Ok(content) => match content.strip_prefix(b"gitdir: ") {
                Some(path) => top.join(of_line(path)),
                None => named,
            },
            Err(_) => named,
        };
        let common = match fs::read(own.join("commondir")) {
            Ok(content) => own.join(of_line(&content)),
            Err(_) => own.clone(),
        };
        Self { own, common }
    }

    /// Whether git takes them for a repository's.
    fn are_git(&self) -> bool {
        let is_folder = |name: &str| self.common.join(name).is_dir();
        let head = self.own.join("HEAD");
        let is_head = |content: Vec<u8>| {
            let text = String::from_utf8_lossy(&content);
            let text = text.trim();
            let named = text.strip_prefix("ref:").map(str::trim_start);
            let is_id = |id: &str| id.len() >= 40 && id.bytes().all(|it| it.is_ascii_hexdigit());
            named.map_or_else(|| is_id(text), |it| it.starts_with("refs/"))
        };
        let link = fs::read_link(&head);
        let has_head = match link {
            Ok(target) => target.starts_with("refs") || fs::read(&head).is_ok_and(is_head),
            Err(_) => fs::read(&head).is_ok_and(is_head),
        };
        has_head && is_folder("objects") && is_folder("refs")
    }

    fn sources(&self) -> Vec<PathBuf> {
        let own = ["HEAD", "index", "commondir", "config.worktree"].map(|it| self.own.join(it));
        let mut all = own.to_vec();
        all.push(self.common.join("config"));
        let home = std::env::var_os("HOME").map(PathBuf::from);
        all.extend(home.map(|it| it.join(".gitconfig")));
        all.extend(config_home().map(|it| it.join("git/config")));
        all
    }

    /// The repository, without a git. Nothing is known of what is tracked.
    fn repository(&self, top: &Path) -> Repository {
        let config = fs::read(self.common.join("config")).unwrap_or_default();
        let own = value(&config, "excludesfile").map(|path| vec![top.join(expanded(&path))]);
        let mut excludes = own.unwrap_or_else(|| user_excludes(None, top));
        excludes.push(self.common.join("info/exclude"));
        Repository {
            top: top.to_owned(),
            excludes,
            folds: value(&config, "ignorecase").is_some_and(|it| it == "true"),
            ..Repository::default()
        }
    }
}

/// A path in a file of git's.
fn of_line(content: &[u8]) -> PathBuf {
    let end = content.iter().rposition(|it| !matches!(it, b'\n' | b'\r'));
    let path = &content[..end.map_or(0, |it| it + 1)];
    PathBuf::from(OsStr::from_bytes(path))
}

/// A value of the section `core` in a configuration, as `git config` writes it. Includes are not
/// followed.
fn value(config: &[u8], key: &str) -> Option<String> {
    let text = String::from_utf8_lossy(config);
    let mut is_core = false;
    let mut found = None;
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            is_core = line.eq_ignore_ascii_case("[core]");
        } else if is_core
            && let Some((name, value)) = line.split_once('=')
            && name.trim().eq_ignore_ascii_case(key)
        {
            let value = value.trim();
            let inner = value.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
            found = Some(inner.unwrap_or(value).to_owned());
        }
    }
    found
}

/// The folder of the user's configuration.
fn config_home() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|it: &OsString| !it.is_empty());
    let home = || Some(PathBuf::from(set("HOME")?).join(".config"));
    set("XDG_CONFIG_HOME").map(PathBuf::from).or_else(home)
}

/// A path in the user's configuration.
fn expanded(path: &str) -> PathBuf {
    match (path.strip_prefix("~/"), std::env::var_os("HOME")) {
        (Some(below), Some(home)) => PathBuf::from(home).join(below),
        _ => PathBuf::from(path),
    }
}

/// The user's rules where nothing in their configuration says otherwise.
fn default_excludes() -> Vec<PathBuf> {
    let file = config_home().map(|it| it.join("git/ignore"));
    file.into_iter().collect()
}

/// The user's rules for `folder`.
fn user_excludes(git: Option<&str>, folder: &Path) -> Vec<PathBuf> {
    if let Some(asked) = git.and_then(|git| Git(git, folder).excludes_file()) {
        return asked;
    }
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let files = [
        home.map(|it| it.join(".gitconfig")),
        config_home().map(|it| it.join("git/config")),
    ];
    let read = |file: PathBuf| value(&fs::read(file).ok()?, "excludesfile");
    match files.into_iter().flatten().find_map(read) {
        // An empty one is none.
        Some(path) if path.is_empty() => Vec::new(),
        Some(path) => vec![folder.join(expanded(&path))],
        None => default_excludes(),
    }
}

/// A git, and the folder that it is asked in.
struct Git<'a>(&'a str, &'a Path);

impl Git<'_> {
    /// The repository whose top its folder is; none where this git does not see it so.
    fn repository(&self) -> Option<Repository> {
        let Self(_, top) = self;
        let seen = of_line(&self.ask(&["rev-parse", "--show-toplevel"])?);
        if seen != *top {
            return None;
        }
        let exclude = of_line(&self.ask(&["rev-parse", "--git-path", "info/exclude"])?);
        let mut excludes = self.excludes_file()?;
        excludes.push(top.join(exclude));
        let mut found = Repository {
            top: seen,
            excludes,
            folds: self.value(&["--type=bool", "core.ignoreCase"])? == [b"true"],
            ..Repository::default()
        };
        let named = [
            "ls-files",
            "-z",
            "--cached",
            "--ignored",
            "--exclude-standard",
        ];
        for path in self.ask(&named)?.split(|byte| *byte == 0) {
            if !path.is_empty() {
                found.track(path);
            }
        }
        Some(found)
    }

    /// The user's rules (gitignore(5)): of `core.excludesFile`, or where they are without that.
    fn excludes_file(&self) -> Option<Vec<PathBuf>> {
        if let Some(path) = self.value(&["--type=path", "core.excludesFile"])?.pop() {
            let path = PathBuf::from(OsString::from_vec(path));
            // From the top on, as git goes there before it opens it. An empty one is none.
            let is_set = !path.as_os_str().is_empty();
            return Some(is_set.then(|| self.1.join(path)).into_iter().collect());
        }
        Some(default_excludes())
    }

    /// The files of its configuration.
    fn sources(&self) -> Vec<PathBuf> {
        let listed = self.ask(&["config", "--list", "--show-origin", "--name-only", "-z"]);
        let listed = listed.unwrap_or_default();
        let entries = listed.split(|byte| *byte == 0);
        let files = entries.filter_map(|entry| entry.strip_prefix(b"file:"));
        let files: HashSet<&[u8]> = files.collect();
        let paths = files.into_iter().map(OsStr::from_bytes);
        paths.map(|it| self.1.join(it)).collect()
    }

    /// A value of its configuration: its bytes, nothing if it is not set; none if it fails.
    fn value(&self, asked: &[&str]) -> Option<Vec<Vec<u8>>> {
        let arguments = [&["config", "-z"], asked].concat();
        let answer = self.command(&arguments).output().ok()?;
        match answer.status.code() {
            Some(0) => Some(vec![answer.stdout.strip_suffix(b"\0")?.to_vec()]),
            Some(1) => Some(Vec::new()),
            _ => None,
        }
    }

    /// The answer; none if it fails.
    fn ask(&self, arguments: &[&str]) -> Option<Vec<u8>> {
        let answer = self.command(arguments).output().ok()?;
        answer.status.success().then_some(answer.stdout)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let Self(program, folder) = self;
        let mut git = Command::new(program);
        git.args([
            "-c",
            "core.fsmonitor=false",
            "-c",
            "core.hooksPath=/dev/null",
        ])
        .args(arguments)
        .current_dir(folder)
        .env("GIT_OPTIONAL_LOCKS", "0")
        .env("GIT_NO_LAZY_FETCH", "1")
        .env("GIT_ALLOW_PROTOCOL", "none")
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stderr(Stdio::null());
        for name in ELSEWHERE {
            git.env_remove(name);
        }
        git
    }
}
