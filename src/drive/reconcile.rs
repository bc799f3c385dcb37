//! The loop: observe, plan, act, and look again.
//!
//! It carries out what `plan` says and decides nothing about drives itself. A call that changes
//! the cloud is always awaited to its end, also after an interrupt: what was asked for and not
//! heard back from would otherwise be found by nobody until the next run. When something fails for
//! good, what this session made is ended first, and both stories are told.

mod act;
mod checkpoint;
mod checks;
mod destroy;
mod make;
mod run;
mod sweep;
mod unusable;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::watch;

use crate::clock::Clock;
use crate::ec2::{
    self, Ec2, GibiBytes, Instance, InstanceId, SnapshotId, SubnetId, VolumeId, Zone,
};

use super::event::Event;
use super::hosts::{HostError, Hosts};
use super::kept::Kept;
use super::name::{DriveName, Generation, SessionId};
use super::overlay::Overlay;
use super::plan::Goal;
use super::pools::{Chosen, Offer, Refused};
use super::quotas::Reached;
use super::stuck::{Left, Stuck, Why};
use super::tags::{Identity, Settings};
use super::timing::Timing;

pub use checkpoint::Checkpoint;
pub use unusable::{How, UnusableHost};

/// What new things shall be like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// What to launch, best first; the next is tried when one has no capacity. What is still being
    /// chosen takes its place at the first launch ([`Reconciler::choose_pools`]).
    pub offers: Vec<Offer>,
    /// How large a new drive is. (A restored one grows to the size among its settings.)
    pub size: GibiBytes,
    /// How long an instance lives without a sign of life from its clients.
    pub lease: Duration,
    /// The drive's own settings, written on its volumes and carried by its snapshots.
    pub settings: Settings,
    /// Where in the account's network, and with which role.
    pub placement: Placement,
}

/// Where instances are launched, whatever pool they come from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Placement {
    /// In this subnet; none takes the default one of each zone.
    pub subnet: Option<SubnetId>,
    /// The subnet's zone: no pool elsewhere is of use.
    pub zone: Option<Zone>,
    /// The instance profile, by name or ARN, of the IAM role that instances get.
    pub instance_profile: Option<String>,
}

/// A choice under way: of what to launch, by the time that it is needed.
pub type Choosing = Pin<Box<dyn Future<Output = Result<Chosen, Refused>>>>;

/// Begins a choice; once more after one that failed in passing.
pub type Choose = Box<dyn FnMut() -> Choosing>;

/// How a run ended.
#[derive(Debug)]
pub enum Outcome {
    /// The drive is mounted on this host, and this process holds it.
    Ready {
        /// The host.
        instance: Box<Instance>,
        /// The drive's volume.
        volume: VolumeId,
        /// The generation it is mounted at.
        generation: Generation,
    },
    /// Off its host: nothing runs, and the volume waits to be mounted elsewhere.
    Parked {
        /// The snapshot that was begun of it.
        snapshot: Option<(SnapshotId, Generation)>,
    },
    /// Saved, and nothing runs.
    Saved {
        /// The drive's newest snapshot; none if there is no drive.
        snapshot: Option<(SnapshotId, Generation)>,
        /// What is still billed: snapshots.
        left: Left,
    },
    /// Undone: the drive is as it was before this session, which never attached it.
    Unwound {
        /// What is billed all the same: what was there before.
        left: Left,
    },
    /// Another live xdrive has the drive. What this run made is gone again.
    Busy(Holder),
    /// It cannot go on safely. What this run made is gone again where that could be.
    Stuck(Stuck),
    /// Told to stop waiting, after the instance ended; the next run does the rest.
    StoppedWaiting(Left),
    /// It failed for good.
    Failed(Failure),
}

/// Who has the drive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// On which instance.
    pub instance: InstanceId,
    /// Whose it is: a caller's ARN.
    pub owner: String,
    /// Since when, as the host says; else when it was launched.
    pub since: String,
}

/// What failed, and how ending what had been made went.
#[derive(Debug)]
pub struct Failure {
    /// What failed first.
    pub error: RunError,
    /// What failed while ending this session's own things after that.
    pub also: Option<Box<Outcome>>,
    /// What is still billed.
    pub left: Left,
}

/// Nothing was to be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoCapacity {
    /// The zone that a waiting volume pins, if one does.
    pub zone: Option<Zone>,
    /// How many pools were tried.
    pub tried: usize,
    /// How many could have been.
    pub of: usize,
    /// Whether on-demand ones were among them.
    pub on_demand: bool,
    /// The subnet that is wanted and its zone, where that is another one than the volume's.
    pub elsewhere: Option<(SubnetId, Zone)>,
    /// What the last one answered; none if none could be tried.
    pub last: Option<ec2::Error>,
    /// The quotas that stood in the way.
    pub reached: Vec<Reached>,
}

/// The account is on a plan that launches only what the free tier has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("this account is on AWS's Free plan, which does not launch {}: {last}", .types.join(", "))]
pub struct FreePlan {
    /// What it does not launch.
    pub types: Vec<String>,
    /// What it does, as far as that is known, of the same architectures.
    pub eligible: Vec<String>,
    /// EC2's own words.
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
            (None, Some((subnet, zone))) => write!(f, ": {subnet} is in {zone}"),
            (None, None) => f.write_str(": nothing that is wanted is sold there"),
        }
    }
}

/// What can fail.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// EC2 said no, or did not answer.
    #[error(transparent)]
    Ec2(#[from] ec2::Error),
    /// The host said no.
    #[error(transparent)]
    Host(HostError),
    /// Every pool that can be used has no capacity.
    #[error(transparent)]
    NoCapacity(Box<NoCapacity>),
    /// The account's plan has none of the types that were tried.
    #[error(transparent)]
    FreePlan(Box<FreePlan>),
    /// Nothing can be launched as it is wanted.
    #[error(transparent)]
    Pools(Refused),
    /// What is wanted cannot be.
    #[error("{0}")]
    Invalid(String),
    /// A thing changed under a step, which will be planned anew.
    #[error("{0}")]
    Changed(String),
    /// Another live xdrive has the drive.
    #[error("the drive is in use on {} by {}", .0.instance, .0.owner)]
    Busy(Holder),
    /// It cannot go on safely.
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
            // As any other call that failed: some of those pass.
            Refused::Ec2(error) => Self::Ec2(error),
            refused => Self::Pools(refused),
        }
    }
}

/// One session's way with one drive.
pub struct Reconciler<H: Hosts> {
    drive: DriveName,
    ec2: Ec2,
    hosts: H,
    clock: Clock,
    timing: Timing,
    wanted: Wanted,
    /// What replaces the wanted pools once it is known.
    choose: Option<Choose>,
    overlay: Overlay,
    /// The instances of the last look, for what is asked of hosts.
    seen_instances: BTreeMap<InstanceId, Instance>,
    /// What the snapshots of the last look cost.
    kept: Kept,
    /// What was billed by the last look, and what was made since: a run that sees nothing any more
    /// can still say it.
    left: Left,
    /// Why the last instance that was launched in vain could not be used.
    unusable: Option<UnusableHost>,
    /// What the root device of each image is called that was launched; none where EC2 knows it by
    /// no name that is known here.
    root_devices: BTreeMap<String, Option<String>>,
    /// Instances whose end, or silence, was told.
    mourned: BTreeSet<InstanceId>,
    told_silent: BTreeSet<InstanceId>,
    /// Shared with the run that carries a step out, which may have to tell something meanwhile.
    events: Rc<RefCell<dyn FnMut(Event)>>,
}

impl<H: Hosts> Reconciler<H> {
    /// A session `who` with `drive`; nothing is called yet.
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
            kept: Kept::default(),
            left: Left::default(),
            unusable: None,
            root_devices: BTreeMap::new(),
            mourned: BTreeSet::new(),
            told_silent: BTreeSet::new(),
            events: Rc::new(RefCell::new(events)),
        }
    }

    /// The host side, for what comes after the drive is ready.
    pub fn hosts(&mut self) -> &mut H {
        &mut self.hosts
    }

    /// Launches from what is chosen from now on. It is waited for when there is something to
    /// launch, and only then, so that the choice and the first looks go on side by side.
    pub fn choose_pools(&mut self, choose: Choose) {
        self.choose = Some(choose);
    }

    /// The snapshots of the last look, and what they cost.
    #[must_use]
    pub fn kept(&self) -> Kept {
        self.kept
    }

    /// Where instances are launched, whatever pool they come from.
    #[must_use]
    pub fn placement(&self) -> &Placement {
        &self.wanted.placement
    }

    fn emit(&self, event: Event) {
        (self.events.borrow_mut())(event);
    }

    /// This session.
    #[must_use]
    pub fn session(&self) -> &SessionId {
        self.overlay.session()
    }

    /// Works until `goal` is reached or cannot be.
    ///
    /// `interrupts` counts what a person did to stop it (SIGINT, SIGTERM, a closed terminal). The
    /// first one while getting ready turns the goal into [`Goal::Ended`]; later ones, and the
    /// first while saving, end the waiting once no instance runs any more, and are answered by
    /// [`Event::CannotStop`] before.
    pub async fn run(&mut self, goal: Goal, interrupts: &mut watch::Receiver<u32>) -> Outcome {
        // A host that served for a while was not launched in vain.
        self.overlay.me.launches = 0;
        self.overlay.me.failed.clear();
        // On the heap: the futures of the SDK's calls are large.
        Box::pin(run::Run::new(goal, self.left.clone()).run(self, interrupts)).await
    }
}
