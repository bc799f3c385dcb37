//! A run of xdrive: the real plan on the real overlay, between looks that may be stale.
//!
//! A look is three separate reads, in the order of the real loop; anything may happen between them.
//! [`super::steps`] carries out what `plan` decides.

use std::collections::BTreeSet;
use std::sync::Arc;

use xdrive::clock::BootTime;
use xdrive::drive::observed::Observed;
use xdrive::drive::overlay::{Overlay, Sweep};
use xdrive::drive::plan::{Done, Goal, Next, Step, plan};
use xdrive::drive::stuck::{Head, Left};
use xdrive::drive::tags::RunState;
use xdrive::drive::{Client as Holder, Contact, HostView, Timing};
use xdrive::ec2::InstanceState;
use xdrive::host::Mounted;

use super::broken::Broken;
use super::copies::Original;
use super::digest;
use super::lease::Keep;
use super::lists::{Offer, Seen};
use super::steps::Stage;
use super::tender::{After, Tending};
use super::values;
use super::world::{Instance, Mount, Snapshot, Tick, Volume, World};

/// The runs of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Run {
    /// `xdrive connect`: work, and the end of it.
    Connect,
    /// `xdrive stop`.
    Stop,
    /// `xdrive stop` on a laptop that reaches no host: leases have to run out.
    StopFromAfar,
    /// `xdrive stop --hung`.
    StopHung,
    /// `xdrive connect --from` that volume, or snapshot.
    FromVolume(u8),
    FromSnapshot(u8),
    /// `xdrive connect --discard`.
    Discard,
    /// `xdrive delete`.
    Delete,
    /// `xdrive rename`.
    Rename,
    /// `xdrive fork` of that, which makes this drive.
    Fork(Original),
    /// A pass of `xdrive tend`.
    Tend,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum End {
    Saved,
    /// It is in use, or there is no capacity.
    Busy,
    Stuck(Left),
    Killed,
}

/// The rules of a client.
#[derive(Debug, Clone)]
pub(super) struct Rules {
    pub(super) timing: Timing,
    pub(super) broken: Option<Broken>,
}

#[derive(Debug, Clone)]
pub(super) struct Client {
    pub(super) slot: u8,
    pub(super) session: u8,
    /// The number of runs that it began.
    pub(super) began: u8,
    pub(super) goal: Goal,
    /// The run's end, once its own resources are ended.
    pub(super) verdict: Option<End>,
    pub(super) overlay: Arc<Overlay>,
    /// The token of a launch, and of a volume's order, whose answer was lost.
    pub(super) launch: Option<(Option<u8>, u8)>,
    pub(super) order: Option<(u8, Option<u8>, u8)>,
    pub(super) orders: u8,
    /// The lease that it renews.
    pub(super) keep: Option<Keep>,
    /// What it does for the drive's run.
    pub(super) tending: Option<Tending>,
    pub(super) suspended: bool,
    /// Whether no host answers it.
    pub(super) cut: bool,
    pub(super) at: At,
}

/// The state of a client.
#[derive(Debug, Clone)]
pub(super) enum At {
    /// Not begun.
    Off,
    /// Rests until it looks again.
    Rest {
        until: Tick,
    },
    /// A parallel sweep has read the snapshots too soon.
    Snapshots {
        began: Tick,
        snapshots: Vec<Seen<Snapshot>>,
    },
    /// Instances and hosts are read.
    Instances {
        began: Tick,
        instances: Vec<(Seen<Instance>, Contact)>,
        /// The snapshots that a parallel sweep read too soon.
        early: Option<Vec<Seen<Snapshot>>>,
    },
    /// Volumes too.
    Volumes {
        began: Tick,
        stored: Tick,
        instances: Vec<(Seen<Instance>, Contact)>,
        volumes: Vec<Seen<Volume>>,
        early: Option<Vec<Seen<Snapshot>>>,
    },
    /// Carries out steps, the last one first in line.
    Acting {
        seen: Arc<Observed>,
        steps: Vec<Step>,
        /// The digest of this plan, without its moments.
        label: u64,
        /// When what the step rests on was read by id.
        read: Tick,
        stage: Stage,
    },
    /// Acts for the drive's run, on a host or at the tags.
    Tending,
    /// The drive is mounted and a user works.
    Inside {
        wrote: bool,
    },
    Over(End),
}

impl Client {
    pub(super) fn new(slot: u8) -> Self {
        Self {
            slot,
            session: 0,
            began: 0,
            goal: Goal::Ended,
            verdict: None,
            overlay: Arc::new(Overlay::new(values::who(0))),
            launch: None,
            order: None,
            orders: 0,
            keep: None,
            tending: None,
            suspended: false,
            cut: false,
            at: At::Off,
        }
    }

    pub(super) fn start(&mut self, run: Run, world: &World) {
        self.session = self.slot * 4 + self.began + 1;
        self.began += 1;
        self.goal = match run {
            Run::Connect => Goal::Ready { from: None },
            Run::Discard => Goal::Throwaway,
            Run::FromVolume(id) => Goal::Ready {
                from: Some(Head::Volume(values::volume_id(id))),
            },
            Run::FromSnapshot(id) => Goal::Ready {
                from: Some(Head::Snapshot(values::snapshot_id(id))),
            },
            Run::Stop | Run::StopFromAfar | Run::StopHung => Goal::Saved { even_if_used: true },
            Run::Tend => Goal::Saved {
                even_if_used: false,
            },
            Run::Delete => Goal::Deleted {
                shown: world.snapshot_ids(),
            },
            Run::Rename => Goal::Renamed(values::other_name()),
            Run::Fork(original) => Goal::Copied(Box::new(values::copy_order(original))),
        };
        self.cut = run == Run::StopFromAfar;
        self.forget();
        self.at = At::Rest { until: world.now };
        match run {
            Run::Tend => self.tend(Tending::Look, world),
            Run::Stop | Run::StopFromAfar if world.run.is_some() => {
                self.tend(Tending::Mark(RunState::Stopped, After::Stop), world);
            }
            _ => {}
        }
    }

    /// The process ends, and its knowledge with it.
    pub(super) fn forget(&mut self) {
        self.verdict = None;
        self.overlay = Arc::new(Overlay::new(values::who(self.session)));
        self.launch = None;
        self.order = None;
        self.orders = 0;
        self.keep = None;
        self.tending = None;
    }

    pub(super) fn over(&mut self, end: End) {
        self.forget();
        self.at = At::Over(end);
    }

    pub(super) fn know(&mut self) -> &mut Overlay {
        Arc::make_mut(&mut self.overlay)
    }

    pub(super) fn token(&mut self) -> u8 {
        self.orders += 1;
        self.session * 16 + self.orders
    }

    /// Whether it only waits for time to pass, or for its user.
    pub(super) fn waits(&self, now: Tick) -> bool {
        match self.at {
            _ if self.suspended => true,
            At::Rest { until } => until > now,
            At::Off | At::Inside { .. } | At::Over(_) => true,
            _ => false,
        }
    }

    /// The number of possible results of this client's next read.
    pub(super) fn reads(&self, world: &World, rules: &Rules) -> u16 {
        match &self.at {
            At::Rest { .. } | At::Snapshots { .. } => self.instances(world, rules).count(),
            At::Instances { .. } => self.volumes(world, rules).count(),
            At::Volumes { .. } => self.snapshots(world, rules).count(),
            _ => 0,
        }
    }

    fn instances(&self, world: &World, rules: &Rules) -> Offer<Instance> {
        Offer::from_things(&world.instances, |id| {
            let (_, at) = self.overlay.instances.get(&values::instance_id(id))?;
            Some(is_young(*at, world, rules))
        })
    }

    fn volumes(&self, world: &World, rules: &Rules) -> Offer<Volume> {
        Offer::from_things(&world.volumes, |id| {
            let (_, at) = self.overlay.volumes.get(&values::volume_id(id))?;
            Some(is_young(*at, world, rules))
        })
    }

    fn snapshots(&self, world: &World, rules: &Rules) -> Offer<Snapshot> {
        Offer::from_things(&world.snapshots, |id| {
            let (_, at) = self.overlay.snapshots.get(&values::snapshot_id(id))?;
            Some(is_young(*at, world, rules))
        })
    }

    /// The next read of a look; the last one ends in a plan.
    pub(super) fn look(&mut self, world: &World, rules: &Rules, mix: u16) {
        let now = world.now;
        match std::mem::replace(&mut self.at, At::Off) {
            At::Rest { .. } if rules.broken == Some(Broken::ParallelSweep) => {
                self.at = At::Snapshots {
                    began: now,
                    snapshots: self.snapshots(world, rules).pick(mix),
                };
            }
            at @ (At::Rest { .. } | At::Snapshots { .. }) => {
                let (began, early) = match at {
                    At::Snapshots { began, snapshots } => (began, Some(snapshots)),
                    _ => (now, None),
                };
                let seen = self.instances(world, rules).pick(mix);
                let ask = |seen: Seen<Instance>| {
                    let contact = self.contact(world, &seen);
                    (seen, contact)
                };
                self.at = At::Instances {
                    began,
                    instances: seen.into_iter().map(ask).collect(),
                    early,
                };
            }
            At::Instances {
                began,
                instances,
                early,
            } => {
                self.at = At::Volumes {
                    began,
                    stored: now,
                    instances,
                    volumes: self.volumes(world, rules).pick(mix),
                    early,
                };
            }
            At::Volumes {
                began,
                stored,
                instances,
                volumes,
                early,
            } => {
                let snapshots = || self.snapshots(world, rules).pick(mix);
                let snapshots = early.unwrap_or_else(snapshots);
                let sweep = self.sweep(began, stored, &instances, &volumes, &snapshots);
                self.decide(sweep, world, rules);
            }
            other => self.at = other,
        }
    }

    /// The answer of an instance's host: always the truth, if it answers.
    pub(super) fn contact(&self, world: &World, seen: &Seen<Instance>) -> Contact {
        let record = seen.record.as_ref();
        let running = record.is_some_and(|record| record.state == InstanceState::Running);
        let gone = &self.overlay.gone;
        if !running || gone.contains(values::instance_id(seen.id).as_str()) {
            return Contact::NotAsked;
        }
        let Some(host) = world.host(seen.id).filter(|_| !self.cut) else {
            return Contact::Unreachable;
        };
        Contact::Reached(HostView {
            client: match host.client {
                None => Holder::Nobody,
                Some(slot) if slot == self.slot => Holder::Me,
                Some(_) => Holder::Other {
                    owner: "another".to_owned(),
                    since: "before".to_owned(),
                },
            },
            guests: 0,
            closing: host.closing,
            noticed: host.noticed,
            mounted: match host.mounted {
                Mount::Nothing => Mounted::Nothing,
                Mount::Writable(id) => Mounted::Volume(values::volume_id(id)),
                Mount::Frozen(id) => Mounted::Frozen(values::volume_id(id)),
            },
            unmounted: host.unmounted.map(values::volume_id),
        })
    }

    fn sweep(
        &self,
        began: Tick,
        stored: Tick,
        instances: &[(Seen<Instance>, Contact)],
        volumes: &[Seen<Volume>],
        snapshots: &[Seen<Snapshot>],
    ) -> Sweep {
        let mut unlisted = BTreeSet::new();
        let overlay = &self.overlay;
        let instances = instances.iter().map(|(seen, contact)| {
            let id = values::instance_id(seen.id);
            if !seen.listed {
                unlisted.insert(id.to_string());
            }
            let value = match &seen.record {
                Some(record) => values::instance(seen.id, record),
                None => overlay.instances[&id].0.clone(),
            };
            (value, contact.clone())
        });
        let instances = instances.collect();
        let volumes = volumes.iter().map(|seen| {
            let id = values::volume_id(seen.id);
            if !seen.listed {
                unlisted.insert(id.to_string());
            }
            match &seen.record {
                Some(record) => values::volume(seen.id, record),
                None => overlay.volumes[&id].0.clone(),
            }
        });
        let volumes = volumes.collect();
        let snapshots = snapshots.iter().map(|seen| match &seen.record {
            Some(record) => values::snapshot(seen.id, record),
            None => overlay.snapshots[&values::snapshot_id(seen.id)].0.clone(),
        });
        Sweep {
            began: values::moment(began),
            wall: values::wall(began),
            stored: values::moment(stored),
            instances,
            volumes,
            snapshots: snapshots.collect(),
            unlisted,
        }
    }

    /// Forgets what was made, once it may be in no list any more.
    fn cleanup(&mut self, sweep: &Sweep, world: &World, rules: &Rules) {
        let young = |at| is_young(at, world, rules);
        let overlay = self.know();
        overlay.instances.retain(|id, (_, at)| {
            young(*at) || sweep.instances.iter().any(|(seen, _)| seen.id == *id)
        });
        overlay
            .volumes
            .retain(|id, (_, at)| young(*at) || sweep.volumes.iter().any(|seen| seen.id == *id));
        overlay
            .snapshots
            .retain(|id, (_, at)| young(*at) || sweep.snapshots.iter().any(|seen| seen.id == *id));
    }

    fn decide(&mut self, mut sweep: Sweep, world: &World, rules: &Rules) {
        self.cleanup(&sweep, world, rules);
        if let Some(broken) = rules.broken {
            broken.distort_look(&mut sweep);
        }
        if self.only_looks() {
            return self.tend_drive(&sweep, world, rules);
        }
        let mut seen = self.know().observe(sweep, &rules.timing);
        if let Some(broken) = rules.broken {
            broken.distort(&mut seen, &self.goal);
        }
        let now = world.now;
        let next = plan(&self.goal, &seen, values::moment(now), &rules.timing);
        self.follow(next, seen, world);
    }

    fn follow(&mut self, next: Next, seen: Observed, world: &World) {
        let now = world.now;
        match next {
            Next::Wait(..) => self.at = At::Rest { until: now + 1 },
            Next::Do(mut steps) => {
                steps.reverse();
                self.at = At::Acting {
                    label: digest::label(&steps, &seen),
                    seen: Arc::new(seen),
                    stage: Stage::first(steps.last(), self),
                    read: now,
                    steps,
                };
            }
            Next::Done(Done::Ready { instance, .. }) if self.tending == Some(Tending::Bring) => {
                self.tending = Some(Tending::Read(values::number(instance.as_str())));
                self.at = At::Tending;
            }
            Next::Done(Done::Ready { .. }) => self.at = At::Inside { wrote: false },
            Next::Done(Done::Saved(_)) if self.tends_saved(world) => {}
            Next::Done(
                Done::Saved(_) | Done::Parked(_) | Done::Deleted | Done::Renamed | Done::Copied(..),
            ) => {
                let end = self.verdict.take().unwrap_or(End::Saved);
                self.over(end);
            }
            Next::Busy(_) => self.end(End::Busy, now),
            Next::Stuck(stuck) => self.end(End::Stuck(stuck.left), now),
        }
    }

    /// On the way to a mounted drive, a session's own resources are ended first.
    pub(super) fn end(&mut self, end: End, now: Tick) {
        if self.goal.is_mounted() {
            self.goal = Goal::Ended;
            self.verdict = Some(end);
            self.at = At::Rest { until: now };
        } else {
            let end = self.verdict.take().unwrap_or(end);
            self.over(end);
        }
    }

    /// The user leaves.
    pub(super) fn leave(&mut self, now: Tick) {
        self.goal = match self.goal {
            Goal::Throwaway => Goal::Ended,
            _ => Goal::Saved {
                even_if_used: false,
            },
        };
        self.at = At::Rest { until: now };
    }
}

/// Whether a resource made then may be missing in a list.
fn is_young(made: BootTime, world: &World, rules: &Rules) -> bool {
    values::moment(world.now).since(made) <= rules.timing.settle
}
