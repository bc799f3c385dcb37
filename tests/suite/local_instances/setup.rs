//! `xdrive local setup`: what it finds, what it says is missing, how it ends.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use harness::{DEADLINE, Pty, cache, eventually_within, write_script};
use portable_pty::CommandBuilder;
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use super::missing::without;

/// The links to what set-up builds.
const LINKS: [&str; 2] = ["machine", "jupyter.tar"];

/// A computer where nothing was built, with programs in place of those that build.
struct Machine {
    dir: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for folder in ["bin", "home"] {
            fs::create_dir(dir.path().join(folder)).unwrap();
        }
        fs::create_dir_all(dir.path().join("cache/local")).unwrap();
        let computer = Self { dir };
        // It has pip, and everything is downloaded.
        computer.program("python3", "exit 0");
        computer
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn program(&self, name: &str, script: &str) {
        let path = self.path("bin").join(name);
        write_script(&path, &format!("#!/bin/sh\n{script}\n"));
    }

    /// The environment of everything that runs on it.
    fn environment(&self) -> [(&'static str, String); 4] {
        let text = |path: PathBuf| path.to_str().unwrap().to_owned();
        let path = std::env::var("PATH").unwrap();
        [
            ("HOME", text(self.path("home"))),
            ("XDRIVE_CACHE", text(self.path("cache"))),
            ("XDRIVE_LOCAL_DIR", text(self.path("state"))),
            ("PATH", format!("{}:{path}", text(self.path("bin")))),
        ]
    }

    fn setup(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xdrive"));
        command.args(["local", "setup"]).envs(self.environment());
        command
    }

    /// Has it what was built in this cache, without the links to it; their targets.
    fn has_what_is_built(&self) -> [PathBuf; 2] {
        LINKS.map(|link| {
            let built = fs::read_link(cache().join("local").join(link)).unwrap();
            let here = self.path("cache/local").join(&built);
            symlink(cache().join("local").join(&built), here).unwrap();
            built
        })
    }

    /// The files in the cache, but for locks, logs and downloads.
    fn built(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.path("cache/local")).unwrap();
        let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.retain(|path| {
            let extension = path.extension().unwrap_or_default();
            extension != "lock" && extension != "log" && !path.ends_with("downloads")
        });
        paths
    }
}

fn eventually(what: &str, reached: impl FnMut() -> bool) {
    eventually_within(DEADLINE, || what.to_owned(), reached);
}

fn reported(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
#[ignore = "needs root and the machine tree"]
fn trees_that_the_repositorys_scripts_built_are_found_and_not_built_again() {
    let computer = Machine::new();
    computer.program(
        "debootstrap",
        "echo run >>$XDRIVE_CACHE/debootstrap; exit 1",
    );
    let targets = computer.has_what_is_built();
    let output = computer.setup().output().unwrap();
    assert!(output.status.success(), "{}", reported(&output));
    assert!(reported(&output).ends_with("ready for xdrive --local connect NAME\n"));
    for (link, target) in LINKS.iter().zip(&targets) {
        let here = computer.path("cache/local").join(link);
        assert_eq!(&fs::read_link(here).unwrap(), target);
    }
    assert_eq!(computer.built().len(), 4, "{:?}", computer.built());
    assert!(!computer.path("cache/debootstrap").exists());
}

#[test]
#[ignore = "needs root and the machine tree"]
fn a_tree_that_no_link_names_any_more_is_removed_unless_it_is_used() {
    let computer = Machine::new();
    let [newest, _] = computer.has_what_is_built();
    let tree = |number: u8| PathBuf::from(format!("machine-{number:017}"));
    let path = |name: PathBuf| computer.path("cache/local").join(name);
    for number in 1..=4 {
        fs::create_dir(path(tree(number))).unwrap();
    }
    // The one until now, another Debian's, one that an instance runs on, one that was left behind.
    symlink(tree(1), path("machine".into())).unwrap();
    symlink(tree(2), path("trixie".into())).unwrap();
    let used = File::open(path(tree(3))).unwrap();
    flock(&used, FlockOperation::LockShared).unwrap();
    let output = computer.setup().output().unwrap();
    assert!(output.status.success(), "{}", reported(&output));
    assert_eq!(fs::read_link(path("machine".into())).unwrap(), newest);
    let is_kept = |number| path(tree(number)).exists();
    assert_eq!([1, 2, 3, 4].map(is_kept), [false, true, true, false]);
    assert!(path(newest).exists());
}

#[test]
#[ignore = "needs root (a mount namespace)"]
fn all_that_a_computer_lacks_is_named_before_anything_is_built() {
    let dir = tempfile::tempdir().unwrap();
    let hidden = ["debootstrap", "flock", "mkfs.xfs"];
    let (code, report) = without(&hidden, dir.path(), &["local", "setup"]);
    let expected = "error: this computer cannot be set up for --local\n  \
                    not installed: debootstrap, flock, mkfs.xfs\n\n\
                    hint: apt-get install debootstrap util-linux xfsprogs && xdrive local setup\n";
    assert_eq!((code, report.as_str()), (Some(69), expected));
    assert!(!dir.path().join("home").exists(), "something was made");
    let (code, report) = without(&["dpkg"], dir.path(), &["local", "setup"]);
    assert_eq!(code, Some(69), "{report}");
    assert!(report.contains("neither Debian nor Ubuntu"), "{report}");
}

#[test]
#[ignore = "needs root"]
fn a_root_who_may_not_mount_is_refused_before_anything_is_built() {
    let computer = Machine::new();
    computer.program("debootstrap", "touch $XDRIVE_CACHE/began");
    let mut setup = Command::new("setpriv");
    setup.args(["--bounding-set", "-sys_admin"]);
    setup.args([env!("CARGO_BIN_EXE_xdrive"), "local", "setup"]);
    let output = setup.envs(computer.environment()).output().unwrap();
    let report = reported(&output);
    assert_eq!(output.status.code(), Some(69), "{report}");
    for words in [
        "\n  root may mount nothing in a namespace of its own here, as in a container: unshare: ",
        "hint: Debian or Ubuntu can, on x86_64 or arm64, in a virtual machine too",
    ] {
        assert!(report.contains(words), "{words:?} in {report}");
    }
    assert!(!computer.path("cache/began").exists());
}

#[test]
#[ignore = "needs root (a mount namespace)"]
fn an_interrupted_setup_ends_what_it_began_and_the_next_one_says_why_it_fails() {
    let computer = Machine::new();
    computer.program(
        "debootstrap",
        "echo $$ >$XDRIVE_CACHE/began; exec sleep 1000",
    );
    let mut child = computer.setup().stderr(Stdio::piped()).spawn().unwrap();
    let began = computer.path("cache/began");
    let number = || fs::read_to_string(&began).unwrap_or_default();
    eventually("debootstrap", || number().ends_with('\n'));
    let builder = Pid::from_raw(number().trim().parse().unwrap()).unwrap();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    eventually("the end", || child.try_wait().unwrap().is_some());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", reported(&output));
    assert!(reported(&output).contains("`xdrive local setup` goes on"));
    eventually("the builder's end", || test_kill_process(builder).is_err());
    assert!(computer.built().is_empty(), "{:?}", computer.built());

    computer.program("debootstrap", "echo E: no mirror; exit 1");
    let output = computer.setup().output().unwrap();
    let report = reported(&output);
    assert_eq!(output.status.code(), Some(69), "{report}");
    for words in [
        "image: could not unpack the base system\n  E: no mirror",
        "hint: the whole output is in ",
    ] {
        assert!(report.contains(words), "{words:?} in {report}");
    }
    assert!(computer.built().is_empty(), "{:?}", computer.built());
}

#[test]
#[ignore = "needs root"]
fn the_first_local_connect_at_a_terminal_offers_it() {
    let computer = Machine::new();
    computer.program("debootstrap", "echo E: no mirror; exit 1");
    // To the end with 69, after which `shown` is on the screen.
    let connect = |answer: &str, shown: &str| {
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_xdrive"));
        command.args(["--local", "connect", "demo"]);
        for (name, value) in computer.environment() {
            command.env(name, value);
        }
        let mut pty = Pty::start(command);
        pty.see("build them now? [y/N]");
        pty.type_in(answer);
        assert_eq!(pty.wait_within(DEADLINE), 69, "{}", pty.contents());
        pty.see(shown);
        pty.contents()
    };
    connect("\r", "hint: xdrive local setup builds it");
    let report = connect("y\r", "E: no mirror");
    assert!(!report.contains("launch"), "{report}");
}
