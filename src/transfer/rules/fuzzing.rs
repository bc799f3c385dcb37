//! The rules of a `.gitignore` of anybody's, as a fuzzer makes them up, beside the git of this computer,
//! whose answers are the right ones.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, BufRead as _, BufReader, PipeReader, PipeWriter, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use super::FILE;
use super::pattern::Patterns;

/// A git that answers which paths are ignored, one after the other.
struct Git {
    top: PathBuf,
    /// The folders that were made, a new one for each file of rules: git reads each file once.
    made: u64,
    asked: PipeWriter,
    answers: BufReader<PipeReader>,
    _child: Child,
}

impl Git {
    /// In a folder of its own below the one that the environment names; none if it names none.
    fn start(folds: bool) -> Option<Self> {
        let above = std::env::var_os("XDRIVE_FUZZ_GIT")?;
        let process = std::process::id();
        let top = Path::new(&above).join(format!("{process}-{folds}"));
        fs::create_dir_all(&top).ok()?;
        let git = |arguments: &[&str]| {
            let mut git = Command::new("git");
            git.args(["-c", &format!("core.ignoreCase={folds}")]);
            git.args(["-c", "core.excludesFile=/dev/null"]);
            git.args(arguments).current_dir(&top);
            git.env("GIT_CONFIG_NOSYSTEM", "1").env_remove("GIT_DIR");
            git
        };
        let made = git(&["init", "-q"]).status();
        assert!(made.expect("git is here").success(), "a repository");
        let mut asking = git(&["check-ignore", "--stdin", "-z", "-v", "-n", "--no-index"]);
        let (input, asked) = io::pipe().expect("a pipe");
        let (answers, output) = io::pipe().expect("a pipe");
        // It ends with the input, and is waited for by nobody: the fuzzer ends then, too.
        asking.stdin(input).stdout(output);
        let child = asking.spawn().expect("git is here");
        Some(Self {
            top,
            made: 0,
            asked,
            answers: BufReader::new(answers),
            _child: child,
        })
    }

    /// Whether git ignores `path` by these rules.
    fn ignores(&mut self, rules: &[u8], path: &[u8], is_folder: bool) -> bool {
        self.made += 1;
        let name = format!("d{}", self.made);
        let folder = self.top.join(&name);
        fs::create_dir(&folder).expect("a folder");
        fs::write(folder.join(FILE), rules).expect("a file");
        if is_folder {
            let made = fs::create_dir_all(folder.join(OsStr::from_bytes(path)));
            made.expect("a folder");
        }
        let asked = [name.as_bytes(), b"/", path, b"\0"].concat();
        self.asked.write_all(&asked).expect("git asks on");
        self.asked.flush().expect("git asks on");
        // File, line, pattern, path.
        let mut fields: [Vec<u8>; 4] = Default::default();
        for field in &mut fields {
            self.answers.read_until(0, field).expect("git answers");
            assert_eq!(field.pop(), Some(0), "git answers");
        }
        fs::remove_dir_all(&folder).expect("a folder");
        let pattern = &fields[2];
        !pattern.is_empty() && !pattern.starts_with(b"!")
    }
}

thread_local! {
    /// By whether case does not count.
    static GITS: RefCell<BTreeMap<bool, Option<Git>>> = const { RefCell::new(BTreeMap::new()) };
}

/// A path that git and a file system take.
fn is_path(path: &[u8]) -> bool {
    let names = path.split(|byte| *byte == b'/');
    path.len() < 200
        && names.into_iter().all(|name| {
            let is_own = name.eq_ignore_ascii_case(b".git") || name == FILE.as_bytes();
            !matches!(name, b"" | b"." | b"..") && !is_own && !name.contains(&0)
        })
}

/// Whether these rules ignore `path`: by themselves, or by the folders that it is in.
fn is_ignored(patterns: &Patterns, path: &[u8], is_folder: bool) -> bool {
    let slashes = path.iter().enumerate().filter(|(_, it)| **it == b'/');
    let mut above = slashes.map(|(at, _)| &path[..at]);
    above.any(|folder| patterns.say(folder, true) == Some(true))
        || patterns.say(path, is_folder) == Some(true)
}

/// Reads an input: how, a path up to the first line's end, and rules.
pub(crate) fn compare(input: &[u8]) {
    let Some((how, rest)) = input.split_first() else {
        return;
    };
    let (folds, is_folder) = (how & 1 != 0, how & 2 != 0);
    let mut parts = rest.splitn(2, |byte| *byte == b'\n');
    let path = parts.next().unwrap_or_default();
    let rules = parts.next().unwrap_or_default();
    let patterns = Patterns::parse(rules, folds);
    let folded = if folds {
        path.to_ascii_lowercase()
    } else {
        path.to_vec()
    };
    let own = is_ignored(&patterns, &folded, is_folder);
    if !is_path(path) {
        return;
    }
    GITS.with_borrow_mut(|gits| {
        let git = gits.entry(folds).or_insert_with(|| Git::start(folds));
        if let Some(git) = git {
            let right = git.ignores(rules, path, is_folder);
            let rules = rules.escape_ascii();
            assert_eq!(own, right, "{} by {rules}", path.escape_ascii());
        }
    });
}
