//! A user with a home, and an EC2 in a folder.

mod running;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use portable_pty::CommandBuilder;
use serde_json::Value;
use tempfile::TempDir;
use xdrive::local::Local;
use xdrive::local::plane::Plane;

use crate::local_instances::Mount;
use harness::cloud::{open, plane};
use harness::home::environment;
use harness::{DEADLINE, Distance, Far, Pty, eventually_within, id, leaks, small_image};

pub(crate) use running::{Ended, Running};

/// How long a whole session may take on a busy machine.
pub(crate) const SESSION: Duration = Duration::from_mins(3);

/// A home, a state directory, an image. The test fails if anything of it is left when it is
/// dropped.
pub(crate) struct Site {
    /// The machines and disks of the EC2, beside its API.
    pub(crate) plane: Arc<dyn Plane>,
    /// Whether the test makes machines and disks by itself, without sessions: those that are left
    /// in the end are swept away.
    is_swept: bool,
    /// The file systems of the folder, if it has some of its own; unmounted before it goes.
    mounts: Vec<Mount>,
    folder: Arc<TempDir>,
    /// The home's name: a laptop each.
    home: &'static str,
    /// The network in which xdrive runs, if it is far from its hosts.
    far: Option<Far>,
}

impl Site {
    pub(super) fn new() -> Self {
        Self::laptop(Arc::new(tempfile::tempdir().unwrap()), "home")
    }

    /// Makes a site for machines and disks that a test makes by itself, in `folder`, on which
    /// `mounts` are.
    pub(crate) fn of_machines(folder: TempDir, mounts: Vec<Mount>) -> Self {
        let mut site = Self::laptop(Arc::new(folder), "home");
        fs::create_dir(site.dir()).unwrap();
        site.is_swept = true;
        site.mounts = mounts;
        site
    }

    /// Makes a site whose EC2 has these settings.
    pub(crate) fn with_settings(settings: &str) -> Self {
        let site = Self::new();
        site.set(settings);
        site
    }

    /// A second laptop, with its own home and key, and the same EC2.
    pub(super) fn other_laptop(&self) -> Self {
        Self::laptop(Arc::clone(&self.folder), "other-home")
    }

    /// The laptop, at this distance from its hosts.
    pub(super) fn far_away(&self, distance: Distance) -> Self {
        let mut site = Self::laptop(Arc::clone(&self.folder), self.home);
        site.far = Some(Far::new(distance));
        site
    }

    fn laptop(folder: Arc<TempDir>, home: &'static str) -> Self {
        fs::create_dir_all(folder.path().join(home)).unwrap();
        Self {
            plane: Arc::new(plane(&folder.path().join("state"))),
            is_swept: false,
            mounts: Vec::new(),
            folder,
            home,
            far: None,
        }
    }

    /// How many connections to hosts there were from afar.
    pub(super) fn connections(&self) -> usize {
        self.far.as_ref().map_or(0, Far::passed)
    }

    /// Sets the distance of a far laptop from now on.
    pub(super) fn moves(&self, distance: Distance) {
        self.far.as_ref().unwrap().moves(distance);
    }

    /// How many round trips were waited for from afar, one after the other.
    pub(super) fn round_trips(&self) -> usize {
        self.far.as_ref().map_or(0, Far::round_trips)
    }

    /// The words that start xdrive in its network.
    fn program(&self) -> Vec<String> {
        let enter = self.far.iter().flat_map(Far::words);
        enter
            .chain([env!("CARGO_BIN_EXE_xdrive").to_owned()])
            .collect()
    }

    /// The EC2, for reads and changes beside its API.
    pub(crate) fn local(&self) -> Local {
        open(&self.dir()).unwrap()
    }

    /// Gives the EC2 these settings, and no others.
    pub(crate) fn set(&self, settings: &str) {
        fs::create_dir_all(self.dir()).unwrap();
        fs::write(self.dir().join("settings.toml"), settings).unwrap();
    }

    /// Writes the user's configuration.
    pub(super) fn configure(&self, text: &str) {
        let folder = self.home().join(".config/xdrive");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("config.toml"), text).unwrap();
    }

    pub(super) fn home(&self) -> PathBuf {
        self.folder.path().join(self.home)
    }

    pub(crate) fn dir(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The image of the drives that need no Jupyter: some programs of this computer.
    pub(super) fn image(&self) -> String {
        let tar = self.path("small.tar");
        small_image(&tar);
        tar.into_os_string().into_string().unwrap()
    }

    /// `xdrive --local` with these arguments, without the tester's environment.
    pub(super) fn command(&self, arguments: &[&str]) -> Command {
        self.words(&[&["--local"], arguments].concat())
    }

    /// xdrive with these arguments alone, and nothing on standard input.
    pub(super) fn words(&self, arguments: &[&str]) -> Command {
        let program = self.program();
        let program: Vec<&str> = program.iter().map(String::as_str).collect();
        self.of_user(&[&program[..], arguments].concat())
    }

    /// Any program and its arguments, likewise.
    pub(super) fn of_user(&self, words: &[&str]) -> Command {
        let mut command = Command::new(words[0]);
        command
            .env_clear()
            .envs(self.environment())
            .args(&words[1..])
            .current_dir(self.folder.path())
            .stdin(Stdio::null());
        command
    }

    fn environment(&self) -> [(&'static str, String); 5] {
        environment(&self.home(), &self.dir())
    }

    /// Runs the command in a terminal.
    pub(super) fn in_terminal(&self, arguments: &[&str]) -> Pty {
        let program = self.program();
        let words = program.iter().map(String::as_str).chain(["--local"]);
        let words: Vec<&str> = words.chain(arguments.iter().copied()).collect();
        self.program_in_terminal(&words)
    }

    /// Runs another program in a terminal, with the same environment.
    pub(super) fn program_in_terminal(&self, words: &[&str]) -> Pty {
        let mut command = CommandBuilder::new(words[0]);
        command.env_clear();
        for (name, value) in self.environment() {
            command.env(name, value);
        }
        command.args(&words[1..]);
        command.cwd(self.folder.path());
        Pty::start(command)
    }

    /// Runs xdrive to its end without anything on standard input.
    pub(super) fn run(&self, arguments: &[&str]) -> Ended {
        self.start(arguments).end()
    }

    /// Starts xdrive without anything on standard input. Its standard error goes to a file, so that
    /// it can be read meanwhile.
    pub(super) fn start(&self, arguments: &[&str]) -> Running {
        self.start_command(self.command(arguments))
    }

    /// Starts this command likewise.
    pub(super) fn start_command(&self, mut command: Command) -> Running {
        let file = tempfile::Builder::new()
            .prefix("stderr")
            .tempfile_in(self.folder.path())
            .unwrap();
        let (file, path) = file.keep().unwrap();
        command.stderr(file);
        let mut running = Running::start(&mut command);
        running.errors_file = Some(path);
        running
    }

    /// A session of `drive` that runs `command` in the small image.
    pub(super) fn session(&self, drive: &str, command: &[&str]) -> Ended {
        let image = self.image();
        let arguments = [&["connect", drive, "--image", &image, "--"], command].concat();
        self.run(&arguments)
    }

    /// A drive in the output of `xdrive list --json`.
    pub(super) fn drive(&self, name: &str) -> Value {
        let listed = self.run(&["list", "--json"]);
        assert_eq!(listed.code(), 0, "{listed:?}");
        let drives: Vec<Value> = serde_json::from_str(&listed.stdout).unwrap();
        drives
            .into_iter()
            .find(|drive| drive["drive"] == name)
            .unwrap_or(Value::Null)
    }

    /// The newest instance of `drive`: beside it may be one before, until EC2 takes that.
    pub(super) fn instance(&self, drive: &str) -> String {
        let drive = self.drive(drive);
        let things = drive["things"].as_array().unwrap().iter();
        let instances = things.filter(|thing| thing["kind"] == "instance");
        let newest = instances.max_by_key(|thing| thing["since"].as_str().unwrap().to_owned());
        newest.unwrap()["id"].as_str().unwrap().to_owned()
    }

    /// Interrupts the instance of `drive`, so many seconds from now; its id.
    pub(super) fn interrupt(&self, drive: &str, seconds: u32) -> String {
        let instance = self.instance(drive);
        let seconds = seconds.to_string();
        self.run(&["local", "interrupt", &instance, "--in", &seconds])
            .is(0);
        instance
    }

    /// The kinds of a drive's resources, one for each.
    pub(super) fn kinds(&self, name: &str) -> Vec<String> {
        let drive = self.drive(name);
        let things = drive["things"].as_array().cloned().unwrap_or_default();
        let kinds = things
            .iter()
            .map(|thing| thing["kind"].as_str().unwrap().to_owned());
        kinds.collect()
    }

    /// Checks that the drive is `snapshots` snapshots and nothing else, and that no part of the
    /// running system belongs to this site.
    pub(super) fn is_saved(&self, name: &str, snapshots: usize) {
        // An instance that is undone is listed for a moment.
        eventually_within(
            DEADLINE,
            || format!("{snapshots} snapshots alone, but {:?}", self.kinds(name)),
            || self.kinds(name) == vec!["snapshot"; snapshots],
        );
        if snapshots > 0 {
            assert_eq!(self.drive(name)["state"], "saved");
        }
        self.has_no_leaks();
    }

    /// Checks that nothing of it is left in the running system.
    pub(crate) fn has_no_leaks(&self) {
        // The supervisor of a terminated instance clears up in parallel with the session.
        eventually_within(
            DEADLINE,
            || format!("no leaks, but {:#?}", leaks(&self.dir())),
            || {
                let none = !self.dir().exists() || leaks(&self.dir()).is_empty();
                // A program that another test starts holds copies of this process's locks until
                // its exec: a user of the disks that ended meanwhile took it for another user and
                // left the unmounting to it, so one more user follows.
                if !none && self.is_swept {
                    self.plane.delete_volume(&id("vol")).unwrap();
                }
                none
            },
        );
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        // The last laptop checks.
        if Arc::strong_count(&self.folder) > 1 || !self.dir().exists() {
            return;
        }
        let panics = std::thread::panicking();
        if !panics && !self.is_swept {
            self.has_no_leaks();
            return;
        }
        match self.plane.sweep(&[], &[], &[]) {
            Err(error) if panics => eprintln!("cannot clean up: {error}"),
            swept => swept.unwrap(),
        }
        if !panics {
            self.has_no_leaks();
        }
    }
}
