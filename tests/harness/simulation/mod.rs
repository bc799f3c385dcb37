//! A drive's life on paper: the real reconciler and the real SDK against the EC2 in a folder,
//! with hosts that are small state machines and volumes whose contents are lists of notes.
//!
//! Time is tokio's, paused: a quarter of an hour takes none. [`wire`] fails, repeats or cuts off
//! single calls and checks the promises at every call that could break one; [`host`] checks them
//! at every mount. [`life`] repeats a run with each of its calls failing.

pub mod host;
pub mod life;
pub mod wire;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use aws_smithy_runtime_api::client::http::SharedHttpClient;
use tokio::sync::watch;
use xdrive::clock::Clock;
use xdrive::cloud::folder;
use xdrive::drive::reconcile::Checkpoint;
use xdrive::drive::tags::{Identity, Settings, VolumeTags, read_volume};
use xdrive::drive::{Event, Goal, Outcome, Reconciler, Timing, Wanted};
use xdrive::ec2::{Ec2, InstanceState, Market, SnapshotState, VolumeState};
use xdrive::ids::{DriveName, SessionId};
use xdrive::local::plane::PaperPlane;
use xdrive::local::{Local, OpenOptions, Settings as LocalSettings};

use crate::evidence::may_terminate;
use host::{PaperHosts, wanted};
use wire::{Calls, Fault, Wire};

/// The content of a volume or snapshot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Content {
    /// Whether it was ever formatted, and as which file system.
    pub formatted: bool,
    pub uuid: [u8; 16],
    /// The notes that users wrote and synced.
    pub notes: BTreeSet<u32>,
}

/// A paper host's state.
#[derive(Debug, Clone, Default)]
pub struct HostState {
    /// The process that holds its client lock.
    pub client: Option<u32>,
    /// The process that closed it, for good.
    pub closed_by: Option<u32>,
    pub mounted: Option<String>,
    pub unmounted: Option<String>,
}

/// The state that no API shows: contents, hosts, and broken promises.
#[derive(Debug, Clone, Default)]
pub struct Hidden {
    pub contents: BTreeMap<String, Content>,
    pub hosts: BTreeMap<String, HostState>,
    /// Every note that was acknowledged to a user.
    pub acknowledged: BTreeSet<u32>,
    /// Every note of a session that saves nothing.
    pub discarded: BTreeSet<u32>,
    /// Promises that were broken.
    pub broken: Vec<String>,
}

/// An EC2 in a folder, its hosts and contents.
pub struct World {
    pub hidden: Arc<Mutex<Hidden>>,
    pub clock: Clock,
    timing: Timing,
    local: Local,
    /// The folder without staleness: its true state.
    pub truth: Ec2,
    stale: Staleness,
    /// The drive's own settings.
    pub settings: RefCell<Settings>,
    processes: RefCell<u32>,
    dir: tempfile::TempDir,
}

/// The staleness of lists and of reads by id.
#[derive(Debug, Clone, Copy)]
pub struct Staleness {
    pub lists: u64,
    pub reads: u64,
}

pub const FRESH: Staleness = Staleness { lists: 0, reads: 0 };
pub const STALE: Staleness = Staleness {
    lists: 1000,
    reads: 200,
};

/// The trouble of one run of xdrive.
#[derive(Debug, Clone, Default)]
pub struct Trouble {
    /// The fault, and its call, counted from 1 among those that change something, or among those
    /// that only look.
    pub fault: Option<(Calls, usize, Fault)>,
    /// Interrupts, after so many events each.
    pub interrupts: Vec<usize>,
    /// How long every answer takes.
    pub slow: Duration,
}

/// The record of a run.
#[derive(Debug)]
pub struct RunReport {
    /// None if it was killed.
    pub outcome: Option<Outcome>,
    /// How many calls changed something, and how many only looked.
    pub changes: usize,
    pub looks: usize,
    pub events: Vec<Event>,
}

/// The task of a run of xdrive.
#[derive(Debug, Clone)]
pub enum Ask {
    /// Connect, write a note, save.
    Session(u32),
    /// Connect, write a note, take so many checkpoints, and save or be killed.
    Checkpoints {
        note: u32,
        times: usize,
        killed: bool,
    },
    /// Connect and be killed in the shell, after a note.
    KilledInShell(u32),
    /// Connect with `--discard`, write a note, leave.
    Discard(u32),
    /// Connect with `--from`.
    From(xdrive::drive::stuck::Head, u32),
    /// `xdrive stop`.
    Stop,
}

impl World {
    pub fn new(stale: Staleness) -> Self {
        let clock = Clock::tokio("2026-01-01T00:00:00Z".parse().unwrap());
        Self::open(folder(), stale, clock, Hidden::default())
    }

    /// Copies the world with its past.
    pub fn copy(&self) -> Self {
        let dir = folder();
        for entry in std::fs::read_dir(self.dir.path()).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_file() {
                std::fs::copy(entry.path(), dir.path().join(entry.file_name())).unwrap();
            }
        }
        let hidden = self.hidden().clone();
        let copy = Self::open(dir, self.stale, self.clock.clone(), hidden);
        *copy.processes.borrow_mut() = *self.processes.borrow();
        *copy.settings.borrow_mut() = self.settings.borrow().clone();
        copy
    }

    fn open(dir: tempfile::TempDir, stale: Staleness, clock: Clock, hidden: Hidden) -> Self {
        let open = |stale| open(dir.path(), &clock, stale, Duration::ZERO);
        let local = open(stale);
        let truth = folder::ec2(&open(FRESH));
        // As close to the lists' staleness as possible: an announcement is just not missed.
        let settle = Duration::from_millis(stale.lists + 20);
        let timing = Timing {
            poll: Duration::from_millis(60 + stale.lists / 2),
            ..Timing::local(settle)
        };
        Self {
            hidden: Arc::new(Mutex::new(hidden)),
            clock,
            timing,
            local,
            truth,
            stale,
            settings: RefCell::default(),
            processes: RefCell::new(0),
            dir,
        }
    }

    /// Writes `text` into the folder's `settings.toml`, for every later run.
    pub fn set(&self, text: &str) {
        std::fs::write(self.dir.path().join("settings.toml"), text).unwrap();
    }

    /// From now on waits only some seconds for hosts: waiting costs looks.
    pub fn hurry(&mut self) {
        self.timing = Timing {
            no_ssh: Duration::from_secs(3),
            boot: Duration::from_secs(9),
            checked: Duration::from_secs(1),
            checks_gap: Duration::from_millis(500),
            silent: Duration::from_secs(1),
            ..self.timing.clone()
        };
    }

    /// The folder, with answers delayed by `slow`.
    fn slowed(&self, slow: Duration) -> Local {
        open(self.dir.path(), &self.clock, self.stale, slow)
    }

    pub fn hidden(&self) -> MutexGuard<'_, Hidden> {
        self.hidden.lock().unwrap()
    }

    /// The folder, for changes that only the cloud makes.
    pub fn local(&self) -> &Local {
        &self.local
    }

    /// Runs one process of xdrive to its end, whatever happens to it.
    pub async fn run(&self, ask: Ask, trouble: Trouble) -> RunReport {
        let process = {
            let mut processes = self.processes.borrow_mut();
            *processes += 1;
            *processes
        };
        let wire = Wire::new(self, &self.slowed(trouble.slow), trouble.fault);
        let http = SharedHttpClient::new(wire.clone());
        let ec2 = folder::ec2_through(&self.local, http);
        let events = Rc::new(RefCell::new(Vec::new()));
        let (interrupts, mut interrupted) = watch::channel(0);
        let written = Rc::clone(&events);
        let mut due = trouble.interrupts;
        due.sort_unstable();
        let record = move |event: Event| {
            written.borrow_mut().push(event);
            let count = written.borrow().len();
            interrupts.send_modify(|sent| {
                let fired = due.iter().filter(|after| **after <= count).count();
                *sent = u32::try_from(fired).unwrap();
            });
        };
        let who = Identity::new(
            SessionId(format!("session-{process}")),
            format!("arn:aws:iam::000000000000:user/{process}"),
        );
        let mut reconciler = Reconciler::new(
            drive(),
            who,
            ec2,
            PaperHosts::new(self, process),
            self.clock.clone(),
            self.timing.clone(),
            Wanted {
                settings: self.settings.borrow().clone(),
                ..wanted(Market::OnDemand)
            },
            record,
        );
        let life = Box::pin(async {
            let mut checkpoints = 0;
            let (from, note, in_shell) = match ask {
                Ask::Checkpoints {
                    note,
                    times,
                    killed,
                } => {
                    checkpoints = times;
                    (None, note, killed)
                }
                Ask::Session(note) => (None, note, false),
                Ask::KilledInShell(note) => (None, note, true),
                Ask::From(chosen, note) => (Some(chosen), note, false),
                Ask::Discard(note) => {
                    let by = (&mut reconciler, &mut interrupted);
                    return Some(self.discard(process, by, note).await);
                }
                Ask::Stop => {
                    let goal = Goal::Saved { even_if_used: true };
                    return Some(reconciler.run(goal, &mut interrupted).await);
                }
            };
            let outcome = reconciler.run(Goal::Ready { from }, &mut interrupted).await;
            let Outcome::Ready {
                instance, volume, ..
            } = &outcome
            else {
                return Some(outcome);
            };
            self.write(process, instance.id.as_str(), volume.as_str(), note);
            for _ in 0..checkpoints {
                let taken = reconciler.checkpoint().await.unwrap();
                assert!(matches!(taken, Checkpoint::Taken(_)), "{taken:?}");
                tokio::time::sleep(Duration::from_mins(2)).await;
            }
            if in_shell {
                return None;
            }
            let goal = Goal::Saved {
                even_if_used: false,
            };
            Some(reconciler.run(goal, &mut interrupted).await)
        });
        let outcome = tokio::select! {
            biased;
            () = wire.killed() => None,
            outcome = tokio::time::timeout(Duration::from_hours(2), life) => {
                outcome.expect("a run ends within two hours")
            }
        };
        drop(reconciler);
        let events = events.borrow().clone();
        RunReport {
            outcome,
            changes: wire.count(Calls::Changes),
            looks: wire.count(Calls::Looks),
            events,
        }
    }

    /// A session that saves nothing, with a note.
    async fn discard(
        &self,
        process: u32,
        (by, interrupted): (&mut Reconciler<PaperHosts>, &mut watch::Receiver<u32>),
        note: u32,
    ) -> Outcome {
        let outcome = by.run(Goal::Throwaway, interrupted).await;
        let Outcome::Ready {
            instance, volume, ..
        } = &outcome
        else {
            return outcome;
        };
        self.hidden().discarded.insert(note);
        self.write(process, instance.id.as_str(), volume.as_str(), note);
        by.run(Goal::Ended, interrupted).await
    }

    /// A user of `process` writes a note and syncs it.
    fn write(&self, process: u32, instance: &str, volume: &str, note: u32) {
        let mut hidden = self.hidden();
        let host = hidden.hosts.get(instance);
        let closed_by = host.and_then(|host| host.closed_by);
        if closed_by.is_some_and(|other| other != process) {
            // Another client has closed it since: nothing can be written or acknowledged.
            return;
        }
        let mounted = host.and_then(|host| host.mounted.clone());
        if mounted.as_deref() != Some(volume) {
            hidden
                .broken
                .push(format!("ready, but {volume} is not mounted on {instance}"));
            return;
        }
        hidden.contents.get_mut(volume).unwrap().notes.insert(note);
        if !hidden.discarded.contains(&note) {
            hidden.acknowledged.insert(note);
        }
    }

    /// Cuts the power of the running instance, without notice.
    pub async fn cut_power(&self) {
        for instance in self.truth.instances(&drive()).await.unwrap() {
            if matches!(
                instance.state,
                InstanceState::Pending | InstanceState::Running
            ) {
                self.truth
                    .terminate(may_terminate(&instance.id))
                    .await
                    .unwrap();
                self.hidden().hosts.remove(instance.id.as_str());
            }
        }
        tokio::time::sleep(Duration::from_mins(1)).await;
    }

    /// Lists resources that are billed although the run ended without naming them. A killed run can
    /// name none, nor one that made none and never read the three lists.
    pub async fn unreported(&self, report: &RunReport) -> Vec<String> {
        let Some(outcome) = &report.outcome else {
            return Vec::new();
        };
        if report.changes == 0 && report.looks <= 3 {
            return Vec::new();
        }
        // Wait for what is shutting down.
        tokio::time::sleep(Duration::from_secs(30)).await;
        let reported = format!("{outcome:?}");
        let mut unreported = Vec::new();
        for instance in self.truth.instances(&drive()).await.unwrap() {
            let is_over = matches!(
                instance.state,
                InstanceState::ShuttingDown | InstanceState::Terminated
            );
            if !is_over && !reported.contains(instance.id.as_str()) {
                unreported.push(format!("{} runs, and was not reported", instance.id));
            }
        }
        for volume in self.truth.volumes(&drive()).await.unwrap() {
            let is_over = matches!(volume.state, VolumeState::Deleting | VolumeState::Deleted);
            // A root disk goes with its instance.
            let is_reported = volume
                .attachment
                .iter()
                .filter(|_| matches!(read_volume(&volume.tags), Ok(VolumeTags::Root)))
                .any(|attachment| reported.contains(attachment.instance.as_str()))
                || reported.contains(volume.id.as_str());
            if !is_over && !is_reported {
                unreported.push(format!("{} is there, and was not reported", volume.id));
            }
        }
        unreported
    }

    /// Lists the resources that are left besides snapshots, and the notes that the newest snapshot
    /// lacks.
    pub async fn problems(&self) -> Vec<String> {
        tokio::time::sleep(Duration::from_mins(1)).await;
        let mut problems = self.hidden().broken.clone();
        for instance in self.truth.instances(&drive()).await.unwrap() {
            if instance.state != InstanceState::Terminated {
                problems.push(format!("{} is {:?}", instance.id, instance.state));
            }
        }
        for volume in self.truth.volumes(&drive()).await.unwrap() {
            if volume.state != VolumeState::Deleted {
                problems.push(format!("{} is {:?}", volume.id, volume.state));
            }
        }
        let mut newest = None;
        for snapshot in self.truth.snapshots(&drive()).await.unwrap() {
            if snapshot.state != SnapshotState::Completed {
                problems.push(format!("{} is {:?}", snapshot.id, snapshot.state));
            }
            let generation: u64 = snapshot.tags["xdrive:generation"].parse().unwrap();
            newest = newest.max(Some((generation, snapshot.id.to_string())));
        }
        let hidden = self.hidden();
        let kept = newest
            .and_then(|(_, id)| hidden.contents.get(&id).cloned())
            .unwrap_or_default();
        for note in hidden.acknowledged.difference(&kept.notes) {
            problems.push(format!("note {note} is not in the newest snapshot"));
        }
        problems
    }
}

pub fn drive() -> DriveName {
    "demo".parse().unwrap()
}

fn open(dir: &Path, clock: &Clock, stale: Staleness, slow: Duration) -> Local {
    let mut options = OpenOptions::new(dir, PaperPlane, clock.clone());
    options.settings = LocalSettings {
        stale_lists_ms: Some(stale.lists),
        stale_reads_ms: Some(stale.reads),
        calls_take_ms: Some(slow.as_millis().try_into().unwrap()),
        ..LocalSettings::default()
    };
    Local::open(options).unwrap()
}

/// A folder in memory if possible: thousands of small writes follow.
fn folder() -> tempfile::TempDir {
    let memory = std::path::Path::new("/dev/shm");
    if memory.is_dir() {
        tempfile::tempdir_in(memory).unwrap()
    } else {
        tempfile::tempdir().unwrap()
    }
}
