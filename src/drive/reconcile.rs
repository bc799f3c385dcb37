//! The loop: observe, plan, act, and look again.
//!
//! It carries out what `plan` decides. A call that changes the cloud is always awaited to its end,
//! even after an interrupt: only its answer has the id of the new resource. When something fails
//! for good, what this session made is ended first, and both outcomes are reported.

mod act;
mod checkpoint;
mod checks;
mod copy;
mod destroy;
mod leave;
mod make;
mod mounter;
mod run;
mod sweep;
mod throwaway;
mod unusable;
mod wait;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::watch;

use crate::clock::Clock;
use crate::ec2::{self, Ec2, GibiBytes, Instance, Tags, Zone};
use crate::ids::{DriveName, Generation, InstanceId, SessionId, SnapshotId, SubnetId, VolumeId};

use super::event::Event;
use super::host_error::HostError;
use super::hosts::{Client, Hosts};
use super::kept::Kept;
use super::observed::Observed;
use super::overlay::Overlay;
use super::plan::Goal;
use super::pools::{Chosen, Offer, Refused, reserved_elsewhere};
use super::quotas::Reached;
use super::stuck::{Left, Stuck, Why};
use super::tags::{Identity, Note, Settings};
use super::timing::Timing;
use super::used::{Ended, Used};

pub use checkpoint::Checkpoint;
pub use leave::is_left;
pub use unusable::{How, UnusableHost};

/// How new instances and volumes are made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The offers to launch from, best first; the next is tried when one has no capacity.
    pub offers: Vec<Offer>,
    /// The size of a new drive. (A restored one grows to the size among its settings.)
    pub size: GibiBytes,
    /// How long a host runs after the last renewal by a client.
    pub lease: Duration,
    /// The drive's own settings, written on its volumes and carried by its snapshots.
    pub settings: Settings,
    /// The settings of a new drive, where `settings` has none of these.
    pub new_settings: Settings,
    /// The user's note on the generation that is mounted.
    pub note: Option<Note>,
    /// The subnet, and the role, of new instances.
    pub placement: Placement,
}

impl Wanted {
    /// The subnet or reservation, in words, that is in another zone than the volume, which is `pinned` to its
    /// own, or than the subnet.
    fn elsewhere(&self, pinned: Option<&Zone>) -> Option<String> {
        let Placement { subnet, zone, .. } = &self.placement;
        if let (Some(pinned), Some(subnet), Some(there)) = (pinned, subnet, zone)
            && pinned != there
        {
            return Some(format!("{subnet} is in {there}"));
        }
        let place = pinned.or(zone.as_ref())?;
        let words = reserved_elsewhere(&self.offers, place)?;
        Some(match pinned {
            Some(_) => words,
            None => format!("{words}, and the subnet in {place}"),
        })
    }

    /// Whether the launch is for a capacity reservation.
    fn is_reserved(&self) -> bool {
        let first = self.offers.first();
        first.is_some_and(|offer| offer.pool.reservation.is_some())
    }
}

/// The subnet, zone and role of new instances of any pool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Placement {
    /// The subnet; none takes the default one of each zone.
    pub subnet: Option<SubnetId>,
    /// The subnet's zone: pools elsewhere are not tried.
    pub zone: Option<Zone>,
    /// The instance profile, by name or ARN, of the IAM role that instances get.
    pub instance_profile: Option<String>,
}

/// The running choice of what to launch.
pub type Choosing = Pin<Box<dyn Future<Output = Result<Chosen, Refused>>>>;

/// Begins a choice, again after one that failed.
pub type Choose = Box<dyn FnMut() -> Choosing>;

/// How a run ended.
#[derive(Debug)]
pub enum Outcome {
    /// The drive is mounted on this host, and this process has the host's client lock.
    Ready {
        /// The host.
        instance: Box<Instance>,
        /// The drive's volume.
        volume: VolumeId,
        /// The generation it is mounted at.
        generation: Generation,
    },
    /// The drive is off its host: no instance runs, and the volume can be mounted elsewhere.
    Parked {
        /// The snapshot of it that was begun.
        snapshot: Option<(SnapshotId, Generation)>,
    },
    /// The drive is saved, and no instance runs.
    Saved {
        /// The drive's newest snapshot; none if there is no drive.
        snapshot: Option<(SnapshotId, Generation)>,
        /// The resources that are still billed: snapshots.
        left: Left,
    },
    /// The drive has no resource left.
    Deleted,
    /// All of the drive has the other name.
    Renamed,
    /// The drive has the copy that it was to begin with.
    Copied {
        /// The copy.
        snapshot: SnapshotId,
        /// The generation from which it goes on.
        generation: Generation,
    },
    /// Undone: this session never attached the drive, which is as it was before.
    Unwound {
        /// The resources that are still billed: those that were there before.
        left: Left,
    },
    /// Another live xdrive has the drive. The resources that this run made are gone again.
    Busy(Holder),
    /// The run cannot go on safely. The resources that it made are gone again where possible.
    Stuck(Stuck),
    /// Interrupted after the instance ended; the next run does the rest.
    StoppedWaiting(Left),
    /// The run failed for good.
    Failed(RunFailure),
}

/// The session that has the drive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The instance.
    pub instance: InstanceId,
    /// The ARN of the session's caller.
    pub owner: String,
    /// Since when, as the host reports; else when the instance was launched.
    pub since: String,
    /// Whether this is a session with `--discard`, which nobody can join.
    pub discards: bool,
}

impl Holder {
    /// The session on an instance, as its host reports it, else by the instance's tags.
    fn from_seen(seen: &Observed, id: &InstanceId) -> Self {
        let instance = seen.instance(id);
        let (owner, since) = match instance.and_then(|instance| instance.client()) {
            Some(Client::Other { owner, since }) => (owner.clone(), since.clone()),
            _ => instance.map_or_else(Default::default, |instance| {
                (instance.owner.clone(), instance.launched.to_string())
            }),
        };
        Self {
            instance: id.clone(),
            owner,
            since,
            discards: instance.is_some_and(|instance| instance.throwaway.is_some()),
        }
    }
}

/// A failed run, and the outcome of ending what it had made.
#[derive(Debug)]
pub struct RunFailure {
    /// The first error.
    pub error: RunError,
    /// The outcome of ending this session's own resources after that.
    pub also: Option<Box<Outcome>>,
    /// The resources that are still billed.
    pub left: Left,
}

/// The launch for which no pool had capacity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoCapacity {
    /// The zone of the existing volume, if there is one.
    pub zone: Option<Zone>,
    /// How many pools were tried.
    pub tried: usize,
    /// How many pools there were.
    pub of: usize,
    /// Whether on-demand pools were among them.
    pub on_demand: bool,
    /// The subnet or reservation that is in another zone, in words, if that is why.
    pub elsewhere: Option<String>,
    /// Whether the launch was for a capacity reservation.
    pub is_reserved: bool,
    /// The error of the last pool; none if none could be tried.
    pub last: Option<ec2::Error>,
    /// The quotas that were reached.
    pub reached: Vec<Reached>,
}

/// The launch that the account's plan refused: it allows only types of the free tier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("this account is on AWS's Free plan, which does not launch {}: {last}", .types.join(", "))]
pub struct FreePlan {
    /// The instance types it refused.
    pub types: Vec<String>,
    /// The types of the same architectures that it launches, where that is known.
    pub eligible: Vec<String>,
    /// EC2's last error.
    pub last: ec2::Error,
}

impl std::error::Error for NoCapacity {}

impl fmt::Display for NoCapacity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_quota =
            |error: &ec2::Error| matches!(error.kind, ec2::Kind::SpotQuota | ec2::Kind::VcpuQuota);
        f.write_str(if self.last.as_ref().is_some_and(is_quota) {
            "the account's quota is reached"
        } else {
            "no capacity"
        })?;
        if let Some(zone) = &self.zone {
            write!(f, " in {zone}, where the drive's volume is")?;
        }
        if self.tried < self.of && self.reached.is_empty() {
            write!(f, " ({} of {} places tried)", self.tried, self.of)?;
        }
        for reached in &self.reached {
            write!(f, ": {reached}")?;
        }
        match (&self.last, &self.elsewhere) {
            (Some(last), _) => write!(f, ": {last}"),
            (None, Some(words)) => write!(f, ": {words}"),
            (None, None) => f.write_str(": nothing that is wanted is sold there"),
        }
    }
}

/// The error that ended a run, or a step.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A call to EC2 failed.
    #[error(transparent)]
    Ec2(#[from] ec2::Error),
    /// A call to the host failed.
    #[error(transparent)]
    Host(HostError),
    /// No pool has capacity.
    #[error(transparent)]
    NoCapacity(Box<NoCapacity>),
    /// The account's plan launches none of the types that were tried.
    #[error(transparent)]
    FreePlan(Box<FreePlan>),
    /// No pool meets the requirements.
    #[error(transparent)]
    Pools(Refused),
    /// A setting is invalid.
    #[error("{0}")]
    Invalid(String),
    /// A thing changed under a step, which is planned anew.
    #[error("{0}")]
    Changed(String),
    /// Another session has the drive: that of a live xdrive.
    #[error("the drive is in use on {} by {}", .0.instance.short_label(), .0.owner)]
    Busy(Holder),
    /// The run cannot go on safely.
    #[error("{0}")]
    Stuck(Why),
    /// The system has no randomness.
    #[error("no random numbers: {0}")]
    Random(#[from] getrandom::Error),
}

impl From<HostError> for RunError {
    fn from(error: HostError) -> Self {
        match error {
            HostError::Ec2(error) => Self::Ec2(error),
            error => Self::Host(error),
        }
    }
}

impl From<Refused> for RunError {
    fn from(refused: Refused) -> Self {
        match refused {
            // As any other failed call: some are worth retrying.
            Refused::Ec2(error) => Self::Ec2(error),
            refused => Self::Pools(refused),
        }
    }
}

/// The loop of one session over one drive.
pub struct Reconciler<H: Hosts> {
    drive: DriveName,
    ec2: Ec2,
    hosts: H,
    clock: Clock,
    timing: Timing,
    wanted: Wanted,
    /// Replaces the wanted offers at the first launch.
    choose: Option<Choose>,
    overlay: Overlay,
    /// The instances of the last sweep, for the calls to their hosts.
    seen_instances: BTreeMap<InstanceId, Instance>,
    /// The instances and disks of all sweeps, and when each was over.
    used: Used,
    /// The cost of the snapshots of the last sweep.
    kept: Kept,
    /// The resources that were billed by the last sweep, and those made since: a run whose sweeps
    /// fail can still report them.
    left: Left,
    /// The last instance that could not be used, and why.
    unusable: Option<UnusableHost>,
    /// The root device of each image that was launched; `None` where its name is not known.
    root_devices: BTreeMap<String, Option<String>>,
    /// The volume whose tags do not say yet that this session has it mounted.
    unnoted: Option<VolumeId>,
    /// Instances whose end was reported.
    reported_ended: BTreeSet<InstanceId>,
    /// Instances that were reported not to answer.
    reported_silent: BTreeSet<InstanceId>,
    /// Whether getting ready was interrupted: no further pool is tried. Shared with the run, which is
    /// interrupted while a step is carried out.
    is_ending: Rc<Cell<bool>>,
    /// Shared with the run, which emits events while a step is carried out.
    events: Rc<RefCell<dyn FnMut(Event)>>,
}

impl<H: Hosts> Reconciler<H> {
    /// The session `who` with `drive`; makes no call.
    #[expect(
        clippy::too_many_arguments,
        reason = "each is one thing that a session needs, and none goes with another"
    )]
    pub fn new(
        drive: DriveName,
        who: Identity,
        ec2: Ec2,
        hosts: H,
        clock: Clock,
        timing: Timing,
        wanted: Wanted,
        events: impl FnMut(Event) + 'static,
    ) -> Self {
        let overlay = Overlay::new(who);
        Self {
            drive,
            ec2,
            hosts,
            clock,
            timing,
            wanted,
            choose: None,
            overlay,
            seen_instances: BTreeMap::new(),
            used: Used::default(),
            kept: Kept::default(),
            left: Left::default(),
            unusable: None,
            root_devices: BTreeMap::new(),
            unnoted: None,
            reported_ended: BTreeSet::new(),
            reported_silent: BTreeSet::new(),
            is_ending: Rc::default(),
            events: Rc::new(RefCell::new(events)),
        }
    }

    /// The hosts, for the session once the drive is ready.
    pub fn hosts(&mut self) -> &mut H {
        &mut self.hosts
    }

    /// Has all that is made from now on carry the tags of the account's own among the drive's
    /// `settings`, beside those that are wanted. Returns all of them.
    pub fn carry(&mut self, settings: &Settings) -> Tags {
        let wanted = self.wanted.settings.own_tags();
        let own = settings.clone().with_own(&wanted).own_tags();
        self.wanted.settings = self.wanted.settings.clone().with_own(&own);
        own
    }

    /// Launches what `choose` chooses from now on. It is awaited when there is something to launch,
    /// and only then, so that the choice and the first sweeps run in parallel.
    pub fn choose_pools(&mut self, choose: Choose) {
        self.choose = Some(choose);
    }

    /// The user says that this instance hangs: once it does not answer it is ended, if EC2's own check of it
    /// has failed for long enough ([`crate::drive::proof::HUNG`]).
    pub fn take_for_hung(&mut self, instance: InstanceId) {
        self.overlay.me.hung = Some(instance);
    }

    /// Records no note of this session from now on.
    pub fn forget_note(&mut self) {
        self.wanted.note = None;
    }

    /// The snapshots of the last sweep, and what they cost.
    #[must_use]
    pub fn kept_snapshots(&self) -> Kept {
        self.kept
    }

    /// Has the drive's own `settings` outrank those that were wanted when this run began: somebody has set them since.
    pub fn prefer(&mut self, settings: &Settings) {
        self.wanted.settings = settings.over(&self.wanted.settings);
    }

    /// The instances and disks that were there while this run looked, and are over since.
    #[must_use]
    pub fn endings(&self) -> Ended {
        self.used.endings()
    }

    /// The bytes that have come from hosts to this computer.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.hosts.received()
    }

    /// Whether this process has launched the instance.
    #[must_use]
    pub fn has_launched(&self, instance: &InstanceId) -> bool {
        self.overlay.instances.contains_key(instance)
    }

    /// The place of new instances of any pool.
    #[must_use]
    pub fn placement(&self) -> &Placement {
        &self.wanted.placement
    }

    fn emit(&self, event: Event) {
        (self.events.borrow_mut())(event);
    }

    /// The session's id.
    #[must_use]
    pub fn session(&self) -> &SessionId {
        self.overlay.session()
    }

    /// Runs until `goal` is reached or cannot be reached.
    ///
    /// `interrupts` counts SIGINT, SIGTERM and a closed terminal. The first one while getting ready
    /// turns the goal into [`Goal::Ended`]. Later ones, and the first while saving, end the waiting
    /// once no instance runs any more, and have one terminated that was left to EC2; before that they are answered by
    /// [`Event::CannotStop`]. A goal
    /// that the same run reaches later ([`Goal::goes_on_later`]) is stopped between two steps.
    pub async fn run(&mut self, goal: Goal, interrupts: &mut watch::Receiver<u32>) -> Outcome {
        // Launches of an earlier run, whose host was used, do not count.
        self.overlay.me.launches = 0;
        self.overlay.me.failed.clear();
        self.is_ending.set(false);
        // On the heap: the futures of the SDK's calls are large.
        Box::pin(run::Run::new(goal, self.left.clone()).run(self, interrupts)).await
    }
}
