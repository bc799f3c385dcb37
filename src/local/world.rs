//! The world: all records together, changed by time and machines.
//!
//! Most transitions are stamps in the records and happen by themselves. Of two only the machine
//! knows the moment: its switching off ([`World::end`]), and its release of a volume. The next call
//! that finds one records it under the lock.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::catalog;
use super::delays::Delays;
use super::experiment::{Experiment, Template};
use super::faults::Fault;
use super::plane::{Allowed, Firewall, Guarded, Origin};
use super::records::{
    Address, CapacityReservation, Ending, FileSystem, Group, Instance, InstanceState, Peer, Rule,
    Snapshot, Tags, Target, Volume,
};

/// The format of the state file.
pub(super) const VERSION: u32 = 1;

/// An effect on the data plane that a call has begun. If the process dies before the call ends, the
/// next holder of the lock completes or undoes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Intent {
    /// Files or machines are made or removed: recovery removes those without a record.
    Sweep,
    /// A volume is plugged in: recovery unplugs it, unless it is recorded as attached.
    Attach { volume: String, instance: String },
    /// A volume is unplugged.
    Detach { volume: String, instance: String },
    /// An interruption is announced: recovery announces it again, as recorded.
    Interrupt { instance: String },
}

/// The whole content of the state file.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(Debug))]
#[serde(deny_unknown_fields)]
pub(super) struct World {
    pub(super) version: u32,
    /// Whether the records have real machines and disks.
    pub(super) real: bool,
    pub(super) region: String,
    /// The last moment at which something was changed.
    last: Timestamp,
    /// How far this world's time is ahead of a clock that was set back, in milliseconds.
    ahead: i64,
    /// How many instances were ever launched.
    pub(super) launches: u32,
    pub(super) instances: BTreeMap<String, Instance>,
    pub(super) volumes: BTreeMap<String, Volume>,
    pub(super) snapshots: BTreeMap<String, Snapshot>,
    pub(super) groups: BTreeMap<String, Group>,
    /// The templates of Fault Injection Service.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) templates: BTreeMap<String, Template>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) experiments: BTreeMap<String, Experiment>,
    /// The Elastic IP addresses.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) addresses: BTreeMap<String, Address>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) capacity_reservations: BTreeMap<String, CapacityReservation>,
    /// The file systems of Elastic File System.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) file_systems: BTreeMap<String, FileSystem>,
    /// The mount targets of those.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) targets: BTreeMap<String, Target>,
    pub(super) faults: Vec<Fault>,
    pub(super) unfinished: Option<Intent>,
}

impl World {
    /// An empty world: the default security group and nothing else.
    pub(super) fn new(real: bool, region: &str, now: Timestamp) -> Self {
        // A default security group lets its own instances in (VPC user guide, *Default security
        // groups*), which groups that are made do not.
        let among_itself = Peer::Group(catalog::DEFAULT_GROUP.to_owned());
        let everywhere = Peer::Cidr("0.0.0.0/0".to_owned());
        let group = Group {
            name: "default".to_owned(),
            description: "default VPC security group".to_owned(),
            created: now,
            ingress: vec![Rule::everything(
                "sgr-00000000000000002".to_owned(),
                among_itself,
            )],
            egress: vec![Rule::everything(
                "sgr-00000000000000001".to_owned(),
                everywhere,
            )],
            tags: Tags::default(),
        };
        Self {
            version: VERSION,
            real,
            region: region.to_owned(),
            last: now,
            ahead: 0,
            launches: 0,
            instances: BTreeMap::new(),
            volumes: BTreeMap::new(),
            snapshots: BTreeMap::new(),
            groups: BTreeMap::from([(catalog::DEFAULT_GROUP.to_owned(), group)]),
            templates: BTreeMap::new(),
            experiments: BTreeMap::new(),
            addresses: BTreeMap::new(),
            capacity_reservations: BTreeMap::new(),
            file_systems: BTreeMap::new(),
            targets: BTreeMap::new(),
            faults: Vec::new(),
            unfinished: None,
        }
    }

    /// The world's time, given the clock's. It never runs backwards, since resources made before
    /// would not exist yet.
    pub(super) fn now(&self, clock: Timestamp) -> Timestamp {
        if self.last <= clock {
            return clock;
        }
        (clock + SignedDuration::from_millis(self.ahead)).max(self.last)
    }

    /// [`World::now`] at the beginning of a change; from there on time passes as the clock's does.
    pub(super) fn advance(&mut self, clock: Timestamp) -> Timestamp {
        let now = self.now(clock);
        self.ahead = now
            .duration_since(clock)
            .as_millis()
            .try_into()
            .unwrap_or(0);
        self.last = now;
        now
    }

    /// The instance `id` as of `at`, with its state, while it is listed.
    pub(super) fn instance(
        &self,
        id: &str,
        at: Timestamp,
        delays: &Delays,
    ) -> Option<(&Instance, InstanceState)> {
        let instance = self.instances.get(id)?;
        let state = instance.state(at)?;
        let gone = instance
            .termination
            .and_then(|ending| ending.done)
            .is_some_and(|done| done + delays.listed <= at);
        (!gone).then_some((instance, state))
    }

    /// The Elastic IP address that `instance` has at `at`.
    pub(super) fn elastic(&self, instance: &str, at: Timestamp) -> Option<Ipv4Addr> {
        let mut all = self.addresses.values();
        all.find_map(|address| {
            let held = address.association(at)?;
            (held.instance == instance).then_some(address.ip)
        })
    }

    /// The volumes attached to `instance` at `at`.
    pub(super) fn attached_to(
        &self,
        instance: &str,
        at: Timestamp,
    ) -> impl Iterator<Item = (&String, &Volume)> {
        self.volumes.iter().filter(move |(_, volume)| {
            volume.state(at).is_some()
                && volume
                    .attachment(at)
                    .is_some_and(|attachment| attachment.instance == instance)
        })
    }

    /// Records that `id` begins to end. It is terminated; or stopped, if it ran, switched itself
    /// off, and has that shutdown behaviour.
    pub(super) fn begin_end(&mut self, id: &str, ending: Ending) {
        let Some(instance) = self.instances.get_mut(id) else {
            return;
        };
        let switched_off = ending.by_itself && !ending.failed;
        if switched_off && !instance.terminates_itself && instance.spot.is_none() {
            instance.stop.get_or_insert(ending);
        } else {
            instance.termination.get_or_insert(ending);
        }
    }

    /// Records that the machine behind `id` is off since `done`. The volumes of a terminated
    /// instance are detached, or deleted with it: returns the volumes to remove.
    pub(super) fn end(&mut self, id: &str, done: Timestamp) -> Vec<String> {
        let Some(instance) = self.instances.get_mut(id) else {
            return Vec::new();
        };
        if let Some(ending) = &mut instance.termination {
            ending.done.get_or_insert(done);
        } else if let Some(ending) = &mut instance.stop {
            ending.done.get_or_insert(done);
            return Vec::new();
        }
        for address in self.addresses.values_mut() {
            let held = address.association(done);
            if held.is_some_and(|held| held.instance == id) {
                address.disassociate(done);
            }
        }
        let mut removed = Vec::new();
        for (volume_id, volume) in &mut self.volumes {
            let Some(attachment) = volume.attachment_mut(done) else {
                continue;
            };
            if attachment.instance != id {
                continue;
            }
            let leaves = attachment
                .detached
                .map_or(done, |detached| detached.min(done));
            attachment.detached = Some(leaves);
            if attachment.deletes(done) {
                volume.deleting = Some(done);
                volume.deleted = Some(done);
                removed.push(volume_id.clone());
            }
        }
        removed
    }

    /// Removes records that no answer can show any more, however stale.
    pub(super) fn forget(&mut self, now: Timestamp, delays: &Delays) {
        /// How long records are kept: longer than any limit counts back (a snapshot deleted while
        /// pending still counts).
        const KEPT: Duration = Duration::from_mins(2);
        /// The greatest staleness of lists in another process's settings.
        const STALEST: Duration = Duration::from_mins(1);
        /// How long Fault Injection Service lists an experiment (user guide, *Quotas*).
        const EXPERIMENTS: Duration = Duration::from_hours(120 * 24);
        let horizon = now - delays.stalest().max(STALEST);
        let past = |stamp: Option<Timestamp>, keep: Duration| {
            stamp.is_some_and(|stamp| stamp + keep <= horizon)
        };
        self.instances.retain(|_, instance| {
            !past(
                instance.termination.and_then(|ending| ending.done),
                delays.listed,
            )
        });
        self.volumes.retain(|_, volume| !past(volume.deleted, KEPT));
        self.experiments
            .retain(|_, experiment| experiment.started + EXPERIMENTS > horizon);
        self.snapshots
            .retain(|_, snapshot| !past(snapshot.deleted, KEPT));
        self.file_systems.retain(|_, it| !past(it.deleted, KEPT));
        self.targets.retain(|_, it| !past(it.deleted, KEPT));
        for volume in self.volumes.values_mut() {
            volume
                .attachments
                .retain(|attachment| !past(attachment.detached, Duration::ZERO));
            volume.tags.forget_before(horizon);
        }
        for instance in self.instances.values_mut() {
            instance.tags.forget_before(horizon);
            if let Some(spot) = &mut instance.spot {
                spot.tags.forget_before(horizon);
            }
        }
        for snapshot in self.snapshots.values_mut() {
            snapshot.tags.forget_before(horizon);
        }
        for address in self.addresses.values_mut() {
            let associations = &mut address.associations;
            associations.retain(|it| !past(it.until, Duration::ZERO));
            address.tags.forget_before(horizon);
        }
        for group in self.groups.values_mut() {
            group.tags.forget_before(horizon);
        }
    }

    /// What may reach the instances that have a machine, by their groups' rules. This computer may
    /// reach all of them if `is_open_to_host`.
    pub(super) fn firewall(&self, is_open_to_host: bool) -> Firewall {
        let machines = || {
            let all = self.instances.iter();
            all.filter(|(_, instance)| instance.has_machine())
        };
        let members = |group: &String| {
            let members = machines().filter(|(_, instance)| instance.groups.contains(group));
            members.map(|(id, _)| id.clone()).collect()
        };
        let allowed = |rule: &Rule| {
            let from = match &rule.peer {
                Peer::Group(id) => Origin::Instances(members(id)),
                Peer::Cidr(_) => Origin::Range(rule.peer.ipv4()?.to_owned()),
            };
            Some(Allowed {
                protocol: rule.protocol.clone(),
                ports: rule.from.zip(rule.to),
                from,
            })
        };
        let guarded = machines().map(|(id, instance)| {
            let groups = instance.groups.iter().filter_map(|id| self.groups.get(id));
            let rules = groups.flat_map(|group| &group.ingress);
            let elastic = self.elastic(id, self.last);
            Guarded {
                instance: id.clone(),
                allowed: rules.filter_map(allowed).collect(),
                elastic: elastic.map(|ip| (ip, instance.machine.address)),
            }
        });
        Firewall {
            guarded: guarded.collect(),
            is_open_to_host,
        }
    }

    /// The ids of the resources that must exist on the data plane: instances with a machine, then
    /// volumes, then snapshots with a file.
    pub(super) fn standing(&self) -> (Vec<&str>, Vec<&str>, Vec<&str>) {
        let instances = self
            .instances
            .iter()
            .filter(|(_, instance)| instance.has_machine());
        let volumes = self
            .volumes
            .iter()
            .filter(|(_, volume)| !volume.root && volume.deleting.is_none());
        let snapshots = self
            .snapshots
            .iter()
            .filter(|(_, snapshot)| snapshot.deleting.is_none());
        (
            instances.map(|(id, _)| id.as_str()).collect(),
            volumes.map(|(id, _)| id.as_str()).collect(),
            snapshots.map(|(id, _)| id.as_str()).collect(),
        )
    }
}
