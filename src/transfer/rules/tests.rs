//! Rules beside the git of this computer, whose answers are the right ones.

mod repositories;

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

use super::*;

/// Names that rules meet.
#[rustfmt::skip]
const NAMES: &[&[u8]] = &[
    b"a", b"b", b"ab", b"aab", b"abc", b"a.log", b"B", b"Ab.Log", b"a b", b" a", b"a ", b"{a,b}",
    b"a.py", b"x-1", b"[a]", b"!a", b"#a", b"a\\b", b"\xffb", b"a\nb", b"\xc3\xbc", b"-", b"]",
    b"*", b"$a", b"~a", b".a", b"a\tb", b"...",
];

/// Parts of rules.
#[rustfmt::skip]
const PARTS: &[&[u8]] = &[
    b"a", b"b", b"c", b"ab", b"*", b"*", b"**", b"***", b"?", b"/", b"/", b"**/", b"/**", b"/**/",
    b"[ab]", b"[!a]", b"[^b]", b"[a-c]", b"[c-a]", b"[]a]", b"[!]a]", b"[a", b"[", b"]", b"[/]",
    b"[[:alpha:]]", b"[[:upper:]]", b"[[:punct:]]", b"[![:digit:]a]", b"[[:foo:]]",
    b"[[:space:]]", b"[[:alpha]", b"[[:]", b"[a\\]]", b"[\\a-c]", b"[a-]", b"[-a]", b"[A-C]",
    b"[B]", b"\\a", b"\\*", b"\\", b"\\ ", b" ", b"  ", b"{a,b}", b"{", b"}", b"{}", b",", b".",
    b".log", b".py", b"!", b"#", b"\\!", b"\\#", b"A", b"B", b"\\B", b"-", b"\t", b"\xff",
    b"\xc3\xbc", b"\r", b"\0", b"$", b"\\$", b"~", b"a/b", b"[[:cntrl:]]", b"[[:graph:]]",
    b"[[:print:]]", b"[[:xdigit:][:blank:]]", b"[[:lower:]-z]", b"[a-\\c]",
];

/// Numbers that are the same in every run (xorshift64*).
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        println!("seed {seed}");
        Self(seed)
    }

    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        let number = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33;
        usize::try_from(number).unwrap() % bound
    }

    fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }

    fn pick<'a>(&mut self, all: &[&'a [u8]]) -> &'a [u8] {
        all[self.below(all.len())]
    }

    fn rules(&mut self) -> Vec<u8> {
        let mut rules = Vec::new();
        if self.one_in(20) {
            rules.extend(b"\xef\xbb\xbf");
        }
        for _ in 0..=self.below(4) {
            rules.extend(["", "", "", "!", "/"][self.below(5)].bytes());
            if self.one_in(4) {
                rules.extend(self.pick(NAMES));
            } else {
                for _ in 0..=self.below(5) {
                    rules.extend(self.pick(PARTS));
                }
            }
            rules.extend(["", "", "", "/", "\r", " "][self.below(6)].bytes());
            rules.push(b'\n');
        }
        rules.truncate(rules.len() - self.below(2));
        rules
    }

    fn path(&mut self) -> Vec<u8> {
        let names: Vec<&[u8]> = (0..=self.below(3)).map(|_| self.pick(NAMES)).collect();
        names.join(&b'/')
    }
}

fn join(folder: &Path, path: &[u8]) -> PathBuf {
    folder.join(OsStr::from_bytes(path))
}

/// A git in `folder`, which is not led elsewhere as the one of [`Rules`] is not.
fn command(folder: &Path) -> Command {
    let mut git = Command::new("git");
    git.current_dir(folder).env_remove("GIT_DIR");
    git
}

fn git(folder: &Path, arguments: &[&str]) {
    let settings = [
        "user.name=a",
        "user.email=a@b",
        "protocol.file.allow=always",
    ];
    let mut git = command(folder);
    git.args(settings.iter().flat_map(|it| ["-c", it]));
    let answer = git.args(arguments).output().unwrap();
    let errors = String::from_utf8_lossy(&answer.stderr);
    assert!(answer.status.success(), "{arguments:?}: {errors}");
}

/// The paths that git says it ignores, of those in `folder`.
fn ignored_by_git(folder: &Path, paths: &[Vec<u8>]) -> HashSet<Vec<u8>> {
    let mut git = command(folder);
    git.args(["check-ignore", "--stdin", "-z"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut git = git.spawn().unwrap();
    let mut input = git.stdin.take().unwrap();
    let asked = [paths.join(&0), vec![0]].concat();
    let asking = std::thread::spawn(move || input.write_all(&asked));
    let answer = git.wait_with_output().unwrap();
    asking.join().unwrap().unwrap();
    let folder = folder.display();
    assert!(matches!(answer.status.code(), Some(0 | 1)), "{folder}");
    let ignored = answer.stdout.split(|it| *it == 0);
    ignored.map(<[u8]>::to_vec).collect()
}

/// Whether a walk from a folder with these rules down to `path` leaves it out.
fn leaves_out(mut rules: Rules, folder: &Path, path: &[u8]) -> bool {
    let mut here = folder.to_owned();
    let names: Vec<&[u8]> = path.split(|it| *it == b'/').collect();
    for (at, name) in names.iter().enumerate() {
        here.push(OsStr::from_bytes(name));
        let is_folder = at + 1 < names.len() || (here.is_dir() && !here.is_symlink());
        if rules.ignores(&here, is_folder) {
            return true;
        }
        if at + 1 < names.len() {
            rules = rules.within(&here).unwrap();
        }
    }
    false
}

/// Makes a file or folder at a path, unless something is in the way.
fn make(random: &mut Random, folder: &Path, path: &[u8]) -> bool {
    let path = join(folder, path);
    // Git answers nothing about what is beyond a link.
    let mut above = path
        .ancestors()
        .skip(1)
        .take_while(|it| it.starts_with(folder));
    if above.any(Path::is_symlink) || path.is_symlink() {
        return false;
    }
    if fs::create_dir_all(path.parent().unwrap()).is_err() {
        return false;
    }
    match random.below(4) {
        0 => fs::create_dir_all(&path).is_ok(),
        1 => path.exists() || symlink("..", &path).is_ok(),
        _ => path.exists() || fs::write(&path, "").is_ok(),
    }
}

/// Compares ten thousand random sets of rules in random trees with git; half of them without case.
#[test]
fn ten_thousand_rule_sets_mean_what_they_mean_to_git() {
    for (seed, folds) in [(1, false), (2, true)] {
        let mut random = Random::new(seed);
        let top = tempfile::tempdir().unwrap();
        let top = top.path().canonicalize().unwrap();
        git(&top, &["init", "--quiet"]);
        git(
            &top,
            &[
                "config",
                "core.ignoreCase",
                if folds { "true" } else { "false" },
            ],
        );
        let whole = Rules::read(&top, &Repositories::default()).unwrap();
        let mut paths = Vec::new();
        let mut own = HashSet::new();
        for case in 0..5_000 {
            let folder = format!("case{case}");
            fs::create_dir(top.join(&folder)).unwrap();
            fs::write(top.join(&folder).join(FILE), random.rules()).unwrap();
            let mut some = Vec::new();
            for _ in 0..4 {
                let path = random.path();
                if make(&mut random, &top.join(&folder), &path) {
                    some.push([folder.as_bytes(), b"/", &path].concat());
                }
            }
            // Weaker or stronger rules further down.
            if random.one_in(2)
                && let Some(path) = some.first()
            {
                let path = join(&top, path);
                if path.is_dir() && !path.is_symlink() {
                    fs::write(path.join(FILE), random.rules()).unwrap();
                    let below = random.pick(NAMES);
                    some.push(
                        [
                            path.strip_prefix(&top).unwrap().as_os_str().as_bytes(),
                            b"/",
                            below,
                        ]
                        .concat(),
                    );
                }
            }
            for path in some {
                if leaves_out(whole.clone(), &top, &path) {
                    own.insert(path.clone());
                }
                paths.push(path);
            }
        }
        let right = ignored_by_git(&top, &paths);
        let mut wrong = String::new();
        for path in &paths {
            if right.contains(path) != own.contains(path) {
                let is_right = right.contains(path);
                let _ = writeln!(wrong, "{}: git: {is_right}", path.escape_ascii());
            }
        }
        assert!(wrong.is_empty(), "{wrong}");
        assert!(right.len() > 1_000, "{}", right.len());
    }
}
