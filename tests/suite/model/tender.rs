//! A pass of `xdrive tend` over the drive, and what a stop does for its run: between the plan's own looks
//! and steps, by the functions that the command calls.

use std::sync::Arc;

use xdrive::drive::overlay::{Overlay, Sweep};
use xdrive::drive::plan::Goal;
use xdrive::drive::tags::{self, RunState, SnapshotKind, WantedRun};
use xdrive::drive::tend::{self, Ended, OnHost, is_saved_first, on_host};
use xdrive::ec2::{Instance, SnapshotState, Tags};
use xdrive::host::runs::Run;

use super::broken::Broken;
use super::client::{At, Client, End, Rules};
use super::runs::{self, Why};
use super::values;
use super::world::World;

/// What a client does next for the drive's run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Tending {
    /// Looks whether it is wanted and its host gone.
    Look,
    /// Saves the drive, before it reads the record there: after this instance's end.
    Save(Last),
    Judge(Last),
    /// Brings the drive up.
    Bring,
    /// Reads the record on the host.
    Read(u8),
    /// Begins the try of this number there.
    Begin(u8, u8),
    /// Marks the drive's parts.
    Mark(RunState, After),
    /// Saves the drive for its user, who wants the run no more.
    Stop,
}

/// The instance that was launched last, and why it ended, as long as EC2 knows it.
type Last = Option<(u8, Option<Why>)>;

/// What follows once the drive's parts are marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum After {
    Over,
    /// The session leaves the drive.
    Leave,
    /// The stop begins, and ends.
    Stop,
    Stopped,
}

impl Client {
    /// The client's own first step for the run.
    pub(super) fn tend(&mut self, first: Tending, world: &World) {
        self.tending = Some(first);
        self.at = match first {
            Tending::Mark(..) => At::Tending,
            _ => At::Rest { until: world.now },
        };
    }

    /// Whether the look is one at what the drive has, of which no plan is made.
    pub(super) fn only_looks(&self) -> bool {
        matches!(self.tending, Some(Tending::Look | Tending::Judge(_)))
    }

    /// Decides by what a look has shown.
    pub(super) fn tend_drive(&mut self, sweep: &Sweep, world: &World, rules: &Rules) {
        let instances = sweep.instances.iter().map(|(instance, _)| instance);
        if instances.clone().any(|it| it.state.is_live()) {
            return self.over(End::Saved);
        }
        match self.tending {
            Some(Tending::Judge(last)) => {
                let newest = newest(sweep);
                let was_closed = newest
                    .as_ref()
                    .is_some_and(|(kind, _)| *kind == SnapshotKind::Clean);
                let record = newest.and_then(|(_, id)| recorded(world.bytes(id).run, false, rules));
                let reason = last.and_then(|(id, why)| Some((id, why?.reason())));
                let last = reason.map(|(id, why)| Ended {
                    launched: values::instance_stamp(id),
                    why,
                    was_closed,
                });
                match tend::next(record.as_ref(), last) {
                    tend::Next::Bring => self.bring(world),
                    tend::Next::Over(state, _) => {
                        self.tend(Tending::Mark(state, After::Over), world);
                    }
                }
            }
            _ if is_wanted(sweep) => {
                let last = last(instances);
                let why = |id| world.instance(id).and_then(|it| it.why);
                let last = last.map(|id| (id, why(id)));
                let reason = last.and_then(|(_, why)| why).map(Why::reason);
                if is_saved_first(reason, !sweep.volumes.is_empty(), false) {
                    self.goal = Goal::Saved {
                        even_if_used: false,
                    };
                    self.tend(Tending::Save(last), world);
                } else {
                    self.bring(world);
                }
            }
            _ => self.over(End::Saved),
        }
    }

    fn bring(&mut self, world: &World) {
        self.goal = Goal::Ready { from: None };
        self.tend(Tending::Bring, world);
    }

    /// The drive is saved. Whether something follows for its run.
    pub(super) fn tends_saved(&mut self, world: &World) -> bool {
        match self.tending {
            Some(Tending::Save(last)) => {
                // The drive is opened anew.
                self.overlay = Arc::new(Overlay::new(values::who(self.session)));
                self.tend(Tending::Judge(last), world);
            }
            Some(Tending::Stop) => {
                self.tend(Tending::Mark(RunState::Stopped, After::Stopped), world);
            }
            _ => return false,
        }
        true
    }

    /// The number of possible results of the next action for the run.
    pub(super) fn tend_reads(&self, world: &World) -> u16 {
        match self.tending {
            Some(Tending::Read(instance)) => {
                let there = world.record_on(instance);
                let volume = there.and_then(|(id, ..)| world.volumes.iter().find(|it| it.id == id));
                u16::try_from(volume.map_or(1, |it| it.versions().len())).unwrap()
            }
            _ => 1,
        }
    }

    /// The next action for the run, on a host or at the tags.
    pub(super) fn tend_on(&mut self, world: &mut World, rules: &Rules, mix: u16) {
        match self.tending {
            Some(Tending::Mark(state, after)) => {
                if !world.mark_next(state) {
                    self.marked(after, world);
                }
            }
            Some(Tending::Read(instance)) if !self.cut => {
                let Some((volume, record, runs)) = world.record_on(instance) else {
                    return self.tend_no_more(world);
                };
                let record = recorded(record, runs, rules);
                match on_host(record.as_ref()) {
                    OnHost::Over(status) => {
                        let state = RunState::ended_with(status);
                        self.tend(Tending::Mark(state, After::Leave), world);
                    }
                    OnHost::There => self.over(End::Saved),
                    OnHost::Begins if is_wanted_there(world, volume, mix) => {
                        let begun = world.bytes(volume).run.begun;
                        self.tending = Some(Tending::Begin(instance, begun + 1));
                    }
                    OnHost::Begins => self.tend_no_more(world),
                }
            }
            Some(Tending::Begin(instance, number)) if !self.cut => {
                let fence = rules.broken != Some(Broken::NoFence);
                let is_there = |world: &World| world.record_on(instance).is_some_and(|it| it.2);
                if world.begin_try(instance, number, fence) || is_there(world) {
                    self.over(End::Saved);
                } else {
                    self.tend_no_more(world);
                }
            }
            _ => self.tend_no_more(world),
        }
    }

    fn marked(&mut self, after: After, world: &mut World) {
        match after {
            After::Over => self.over(End::Saved),
            After::Leave => self.tend_no_more(world),
            After::Stop => self.tend(Tending::Stop, world),
            After::Stopped => {
                world.stop_run();
                self.over(End::Saved);
            }
        }
    }

    /// The session leaves the drive.
    fn tend_no_more(&mut self, world: &World) {
        self.tending = None;
        self.leave(world.now);
    }
}

/// The instance that was launched last.
fn last<'a>(instances: impl Iterator<Item = &'a Instance>) -> Option<u8> {
    let last = instances.max_by_key(|it| it.launched)?;
    Some(values::number(last.id.as_str()))
}

/// Whether the drive's parts say that its run is wanted.
fn is_wanted(sweep: &Sweep) -> bool {
    let volumes = sweep.volumes.iter().map(|it| &it.tags);
    let parts: Vec<&Tags> = volumes
        .chain(sweep.snapshots.iter().map(|it| &it.tags))
        .collect();
    WantedRun::of_drive(&parts).is_some()
}

/// Whether the volume that is mounted says so, in the version `mix` of its record.
fn is_wanted_there(world: &World, volume: u8, mix: u16) -> bool {
    let thing = world.volumes.iter().find(|it| it.id == volume);
    let versions = thing.map(super::world::Thing::versions).unwrap_or_default();
    let read = versions.into_iter().nth(mix.into()).flatten();
    let tags = read.map(|read| values::volume(volume, &read).tags);
    tags.and_then(|tags| runs::state(&tags)) == Some(RunState::Wanted)
}

/// The newest snapshot that can be read.
fn newest(sweep: &Sweep) -> Option<(SnapshotKind, u8)> {
    let completed = sweep.snapshots.iter();
    let completed = completed.filter(|it| it.state == SnapshotState::Completed);
    let newest = completed
        .filter_map(|it| Some((tags::read_snapshot(&it.tags).ok()?, it)))
        .max_by_key(|(tags, _)| (tags.generation, tags.kind, tags.number));
    newest.map(|(tags, it)| (tags.kind, values::number(it.id.as_str())))
}

/// The record as the client reads it.
fn recorded(record: runs::Record, runs: bool, rules: &Rules) -> Option<Run> {
    let record = record.read(runs)?;
    Some(match rules.broken {
        Some(broken) => broken.distort_record(record),
        None => record,
    })
}
