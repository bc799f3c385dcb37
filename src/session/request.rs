//! The request of a session, and its checks before any connection is opened.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use jiff::Timestamp;

use super::examine::Examination;
use super::local_ports;
use super::worker::Worker;
use crate::access::lease::LEASE;
use crate::config::{LONGEST_WORD, NotifyUrl, Options, Places};
use crate::drive::Goal;
use crate::ec2::Chain;
use crate::failure::{Exit, Failure};
use crate::host::container::CommandId;
use crate::host::runs::Retry;
use crate::host::tries::Results;
use crate::ids::{ContainerName, DriveAt, DriveIn, DriveName};
use crate::launch::image;
use crate::report::Report;

/// The default lease of an instance that is left running on purpose (`~d`): a night.
const DETACHED_LEASE: Duration = Duration::from_hours(8);

/// How long a command may take to end by default when its instance is taken: enough for a checkpoint
/// of some gigabytes.
const NOTICE: Duration = Duration::from_secs(30);

/// The time between a run's last signal and the end of its host's lease: for its record.
const SPARE: Duration = Duration::from_mins(1);

/// The longest that the syncs at the end of a run take; its host's lease ends when they do.
const LAST_SYNC: Duration = Duration::from_hours(1);

/// How many bytes of each output of a command its host keeps by default: hours of a training's
/// lines, and little beside a root disk.
pub(super) const SPOOL: u64 = 64 << 20;

/// The most bytes of a command's words: Linux gives a program a quarter of its stack's limit, which
/// mostly is 8 MiB, for arguments and environment together (execve(2)).
const LONGEST_COMMAND: usize = 1 << 20;

/// How long a session's host is kept without a sign of life from this computer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Leases {
    /// The lease of the session.
    pub(super) session: Duration,
    /// The lease of a command, which needs no terminal and goes on without this computer, and of a
    /// host that is left running.
    pub(super) command: Duration,
}

/// The task of a session, beside the command that it may have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Task {
    /// A shell, or a command, which ends with the session.
    #[default]
    Connect,
    /// A command that needs no session: the host is kept for it.
    Run {
        /// How long it may take.
        limit: Duration,
        /// Whether the session leaves it at once.
        is_detached: bool,
        /// How often it may still be started again after the loss of its instance; none if it never
        /// may.
        tries: Option<u32>,
    },
    /// The next try of a run that a former session has begun; it is left at once.
    Again(Again),
    /// A command that the host keeps: the one whose id has this prefix; without one the only one
    /// that runs, else the latest that has ended.
    Attach(Option<String>),
}

/// The next try of a run that a former session has begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Again {
    /// The run.
    pub run: CommandId,
    /// When the time of all its tries is over.
    pub until: Timestamp,
}

/// A container of the drive with a name, and what is asked of it. The drive's options are about the
/// main one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// The container's name.
    pub name: ContainerName,
    /// The image to make it from; none for the one as before.
    pub image: Option<String>,
    /// The parts of the host that the container is to have.
    pub places: Places,
}

impl Named {
    /// The container of this name, as it is.
    #[must_use]
    pub fn as_it_is(name: ContainerName) -> Self {
        Self {
            name,
            image: None,
            places: Places::default(),
        }
    }
}

/// The flags of a session that change nothing about a drive that is up, as they are typed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ineffective {
    /// The flags of a launch.
    pub launch: Vec<String>,
    /// The flags of a container that another session has started.
    pub container: Vec<String>,
}

/// The request of a session.
#[derive(Debug, Clone)]
pub struct Request {
    /// The drive.
    pub drive: DriveName,
    /// The container in which the session is; none for the main one.
    pub named: Option<Named>,
    /// The drive to begin with a copy of, if this one is not there yet.
    pub fork_of: Option<DriveAt>,
    /// Flags over configuration.
    pub options: Options,
    /// The flags that change nothing if the drive is up.
    pub ineffective: Ineffective,
    /// Whether every question is answered with yes, and not asked.
    pub yes: bool,
    /// The command to run and its arguments; an interactive shell if it is empty.
    pub command: Vec<String>,
    /// The task of the session.
    pub task: Task,
    /// How a run that fails by itself is begun again.
    pub retry: Retry,
    /// Where the results of a run go.
    pub results: Option<Results>,
    /// Who is notified of a run.
    pub notify: Option<NotifyUrl>,
    /// The address to which its host posts by the order that is begun again, without one in `notify`.
    /// Whoever may write on the drive may have written it: nothing is posted to it from here.
    pub posts_to: Option<String>,
    /// The folder in which a build from a clone has criu's archive.
    pub criu: PathBuf,
    /// A script to run on the host before that.
    pub examination: Option<Examination>,
    /// The AWS credentials that programs in the container may use.
    pub credentials: Option<Arc<Chain>>,
    /// The worker that the session is.
    pub worker: Option<Worker>,
}

impl Request {
    /// A request for `drive` with these options, and defaults for the rest.
    #[must_use]
    pub fn new(drive: DriveName, options: Options) -> Self {
        Self {
            drive,
            named: None,
            fork_of: None,
            options,
            ineffective: Ineffective::default(),
            yes: false,
            command: Vec::new(),
            task: Task::Connect,
            retry: Retry::default(),
            results: None,
            notify: None,
            posts_to: None,
            criu: PathBuf::new(),
            examination: None,
            credentials: None,
            worker: None,
        }
    }

    /// The name of the container in which the session is; none for the main one.
    #[must_use]
    pub fn container(&self) -> Option<&ContainerName> {
        self.named.as_ref().map(|named| &named.name)
    }

    /// The drive and the container in which the session is, as they are typed.
    #[must_use]
    pub fn place(&self) -> DriveIn<DriveName> {
        DriveIn {
            drive: self.drive.clone(),
            container: self.container().cloned(),
        }
    }

    /// The parts of the host that the session's container is to have.
    #[must_use]
    pub(super) fn places(&self) -> &Places {
        match &self.named {
            Some(named) => &named.places,
            None => &self.options.places,
        }
    }

    /// Whether it is for an interactive shell.
    #[must_use]
    pub fn is_shell(&self) -> bool {
        self.command.is_empty() && !matches!(self.task, Task::Attach(_) | Task::Again(_))
    }

    /// Whether what it runs has a terminal: a shell, or a command for which that is asked.
    #[must_use]
    pub(super) fn has_terminal(&self) -> bool {
        self.is_shell() || self.options.config.once.terminal
    }

    /// The mounted volume that the session works on.
    #[must_use]
    pub(super) fn goal(&self) -> Goal {
        if self.options.config.once.discard {
            return Goal::Throwaway;
        }
        Goal::Ready {
            from: self.options.config.once.from.clone(),
        }
    }

    /// The leases of a session that begins `now`. One that saves nothing has the shortest for both, unless it
    /// is a worker's.
    #[must_use]
    pub(super) fn leases(&self, now: Timestamp) -> Leases {
        if self.options.config.once.discard && self.worker.is_none() {
            return Leases {
                session: LEASE,
                command: LEASE,
            };
        }
        let keep = self.options.config.keep.map(|keep| keep.0);
        Leases {
            session: keep.unwrap_or(LEASE),
            command: match self.limit(now) {
                // Its keeper ends it before its host closes.
                Some(limit) => limit + self.notice() + SPARE + self.last_sync(),
                None => keep.unwrap_or(DETACHED_LEASE),
            },
        }
    }

    /// How long the last sync of its results may take (`shell/host/results.py`).
    fn last_sync(&self) -> Duration {
        match self.results {
            Some(_) => LAST_SYNC,
            None => Duration::ZERO,
        }
    }

    /// How long its command may take to end when its instance is taken.
    #[must_use]
    pub(super) fn notice(&self) -> Duration {
        self.options.launch.notice.unwrap_or(NOTICE)
    }

    /// The interval between checkpoints; none where nothing is saved, or none is asked for.
    #[must_use]
    pub(super) fn checkpoint(&self) -> Option<Duration> {
        self.options
            .launch
            .checkpoint
            .filter(|_| !self.options.config.once.discard)
    }

    /// Whether the host of its run does something with the run's order.
    pub(super) fn has_order(&self) -> bool {
        self.results.is_some() || self.notify.is_some() || self.posts_to.is_some()
    }

    /// Whether its command may be started again.
    #[must_use]
    pub(super) fn may_restart(&self) -> bool {
        matches!(self.task, Task::Run { tries: Some(_), .. })
    }

    /// Adds what the image's `devcontainer.json` describes, if it has one, to what is asked for.
    pub fn add_described(&mut self) -> Result<(), Failure> {
        let options = &mut self.options;
        let (image, places) = match &mut self.named {
            Some(named) => (named.image.as_deref(), &mut named.places),
            None => (options.image.as_deref(), &mut options.places),
        };
        let Some(build) = image.map(image::build).transpose()?.flatten() else {
            return Ok(());
        };
        let leaves = matches!(
            self.task,
            Task::Run {
                is_detached: true,
                ..
            }
        );
        for forward in build.forwards.into_iter().filter(|_| !leaves) {
            if options
                .config
                .forwards
                .iter()
                .all(|it| it.port != forward.port)
            {
                options.config.forwards.push(forward);
            }
        }
        if !build.mounts.is_empty() {
            places.mounts.get_or_insert(build.mounts);
        }
        if !build.ignored.is_empty() {
            Report::stderr().print(&format!(
                "not honoured in the devcontainer.json of {}: {}",
                build.name,
                build.ignored.join(", ")
            ));
        }
        Ok(())
    }

    /// Refuses a busy port that may not be replaced, and two mounts at one place.
    pub(super) fn check_places(&self) -> Result<(), Failure> {
        if !self.options.config.dry_run {
            local_ports::check_ports(&self.options)?;
        }
        let named = self.named.as_ref();
        let places = [Some(&self.options.places), named.map(|it| &it.places)];
        for places in places.into_iter().flatten() {
            let shares = self.options.shares.as_deref().unwrap_or_default();
            places.check(shares).map_err(|why| {
                Failure::new(Exit::Usage, anyhow!(why)).hint("each needs another CONTAINER")
            })?;
        }
        Ok(())
    }

    /// Refuses words that no program can be started with, and one that only a shell reads as a command:
    /// as ssh has it, but as docker and kubectl have not.
    fn check_words(&self, xdrive: &str) -> Result<(), Failure> {
        let words = &self.command;
        let longest = words.iter().map(String::len).max().unwrap_or(0);
        let all: usize = words.iter().map(|word| word.len() + 1).sum();
        let too_long = if longest >= LONGEST_WORD {
            Some(format!(
                "an argument of CMD has {longest} bytes, and Linux gives a program less than {LONGEST_WORD}"
            ))
        } else if all > LONGEST_COMMAND {
            Some(format!(
                "CMD has {all} bytes, and {LONGEST_COMMAND} at most reach a program"
            ))
        } else {
            None
        };
        if let Some(why) = too_long {
            return Err(Failure::new(Exit::Usage, anyhow!(why))
                .hint("CMD can read as much as it likes from its standard input, or a file"));
        }
        let [word] = &words[..] else {
            return Ok(());
        };
        let is_text = |c: char| c.is_whitespace() || "|&;<>".contains(c);
        let program = word.trim().split(is_text).next().unwrap_or_default();
        // The path of a program may have spaces.
        if program.len() == word.trim().len() || program.contains('/') {
            return Ok(());
        }
        let error = anyhow!("{word:?} is one word: the name of a program");
        let (place, word) = (self.place(), word.replace('\'', "'\\''"));
        let verb = match self.task {
            Task::Run { .. } | Task::Again(_) => "run",
            Task::Connect | Task::Attach(_) => "connect",
        };
        let hint = format!("{xdrive} {verb} {place} -- sh -c '{word}'  has a shell read it");
        Err(Failure::new(Exit::Usage, error).hint(hint))
    }

    /// Refuses what needs a terminal without one, a command that cannot be meant, a busy port that may
    /// not be replaced, and a missing image file. `xdrive` begins the commands in hints.
    pub fn check(&self, xdrive: &str) -> Result<(), Failure> {
        if self.has_terminal() && !self.options.config.dry_run && !crate::terminal::is_interactive()
        {
            let what = if self.is_shell() { "a shell" } else { "-t" };
            return Err(
                Failure::new(Exit::Usage, anyhow!("there is no terminal here for {what}")).hint(
                    format!(
                        "{xdrive} connect {} -- CMD… runs a command without one",
                        self.place()
                    ),
                ),
            );
        }
        if self.options.config.once.discard && self.fork_of.is_some() {
            let error = anyhow!("--discard is for the newest of a drive, not for NAME@N");
            let hint = "without --discard NAME@N works on a fork, a drive that can be deleted";
            return Err(Failure::new(Exit::Usage, error).hint(hint));
        }
        self.check_words(xdrive)?;
        self.check_places()?;
        let named = self.named.as_ref();
        let images = [
            self.options.image.as_deref(),
            named.and_then(|it| it.image.as_deref()),
        ];
        images
            .into_iter()
            .flatten()
            .try_for_each(image::check_image)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::quantity::Lease;

    #[test]
    fn a_host_is_kept_for_a_run_only_once_that_runs() {
        let drive = "demo".parse::<DriveName>().unwrap();
        let limit = Duration::from_hours(24);
        let mut request = Request {
            task: Task::Run {
                limit,
                is_detached: true,
                tries: None,
            },
            ..Request::new(drive, Options::default())
        };
        let command = limit + NOTICE + SPARE;
        let session = LEASE;
        assert_eq!(
            request.leases(Timestamp::UNIX_EPOCH),
            Leases { session, command }
        );
        request.options.config.keep = Some(Lease(LEASE / 2));
        let session = LEASE / 2;
        assert_eq!(
            request.leases(Timestamp::UNIX_EPOCH),
            Leases { session, command }
        );
        request.options.config.once.discard = true;
        let (session, command) = (LEASE, LEASE);
        assert_eq!(
            request.leases(Timestamp::UNIX_EPOCH),
            Leases { session, command }
        );
    }

    /// The faults: `'echo a && echo b'` was launched for and not found; 100 KB were refused by the
    /// host's shell, 300 KB by its sshd.
    #[test]
    fn a_command_that_cannot_be_meant_is_refused_before_anything_is_launched() {
        let drive = "demo".parse::<DriveName>().unwrap();
        let check = |words: &[&str]| {
            let request = Request {
                command: words.iter().map(|word| (*word).to_owned()).collect(),
                ..Request::new(drive.clone(), Options::default())
            };
            let refused = request.check("xdrive").err();
            refused.map(|failure| {
                assert_eq!(failure.exit, Exit::Usage);
                failure.shown(false, failure.exit.code()).to_string()
            })
        };
        for word in ["echo a && echo b", "python train.py", " ls ; ls", "ls|wc"] {
            let refused = check(&[word]).unwrap();
            assert!(refused.contains("is one word"), "{refused}");
            let hint = format!("xdrive connect demo -- sh -c '{word}'  has");
            assert!(refused.contains(&hint), "{refused}");
        }
        for words in [
            &["ls"][..],
            &["/work/my tool"],
            &["./a b"],
            &["ls", "a b"],
            &[" ls "],
        ] {
            assert_eq!(check(words), None, "{words:?}");
        }
        let long = "x".repeat(LONGEST_WORD - 1);
        assert_eq!(check(&["echo", &long, &long]), None);
        let refused = check(&["echo", &format!("{long}x")]).unwrap();
        assert!(refused.contains("has 131072 bytes"), "{refused}");
        assert!(refused.contains("standard input"), "{refused}");
        let refused = check(&[&long[..]; 9]).unwrap();
        assert!(refused.contains("1048576 at most"), "{refused}");
    }

    #[test]
    fn a_shell_that_has_ended_is_kept_as_long_as_its_host_waits() {
        let terminal = include_str!("../../shell/host/terminal.py");
        let line = format!("\nLINGER = {}  #", LEASE.as_secs());
        assert!(terminal.contains(&line), "{line}");
    }
}
