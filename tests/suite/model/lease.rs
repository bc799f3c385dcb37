//! Leases: how long a host lives without a sign of life, its renewals, and its record.
//!
//! A lease ends on the host's own clock, which no trouble in EC2 delays. Then the host latches,
//! unmounts a tick later, and is off after another. Its clients renew it once a third of it has
//! passed: the record first, then the host, each in a call of its own; a client may be suspended,
//! cut off or killed between the two. Renewals go on beside a client's other work, so a due one
//! precedes everything else in that tick.

use xdrive::drive::lease_left;
use xdrive::ec2::InstanceState;

use super::broken::Broken;
use super::client::{At, Client, End, Rules};
use super::runs::Why;
use super::values;
use super::world::{Deadline, Mount, Tick, World};

/// How long after its boot a host waits for its first client.
const FIRST_SIGN: Tick = 4;

/// Longer than any host takes to switch itself off: its boot, its first sign or its lease, a close,
/// and the end.
const TIMEOUT: Tick = 24;

/// A client's knowledge of its lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Keep {
    pub(super) instance: u8,
    /// When it was renewed last; `None` if not since the lock was taken.
    pub(super) renewed: Option<Tick>,
    /// When the record of an unfinished renewal was written, before the host's part.
    pub(super) recorded: Option<Tick>,
}

/// The first half of a renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum First {
    Record,
    Host,
}

impl World {
    /// Every host lives under a lease of that length from now on.
    pub(super) fn begin_leases(&mut self, length: Tick) {
        self.lease = Some(length);
        let end = Deadline(self.now + length);
        for host in &mut self.hosts {
            host.ends = if host.run.is_some() {
                Deadline::NEVER
            } else {
                end
            };
        }
        for thing in &mut self.instances {
            if let Some(instance) = &mut thing.now {
                instance.until = end;
            }
        }
    }

    /// The end of the lease that a launch records: that of a host whose first client comes at the
    /// last moment.
    pub(super) fn until_of_a_launch(&self) -> Deadline {
        self.lease.map_or(Deadline::NEVER, |length| {
            Deadline(self.now + FIRST_SIGN + length)
        })
    }

    /// When a host that boots now switches itself off without a client.
    pub(super) fn end_of_a_boot(&self) -> Deadline {
        self.lease
            .map_or(Deadline::NEVER, |_| Deadline(self.now + FIRST_SIGN))
    }

    /// Records that the lease ends then, unless it ends later.
    pub(super) fn record_lease(&mut self, instance: u8, until: Deadline) {
        self.change_instance(instance, |record| {
            if record.until.0 < until.0 {
                record.until = until;
            }
        });
    }

    /// A host that does not close lives that much longer.
    pub(super) fn refresh(&mut self, instance: u8, length: Tick) {
        let end = self.now + length;
        if let Some(host) = self.host_mut(instance).filter(|host| !host.closing)
            && host.ends.0 < end
        {
            host.ends = Deadline(end);
        }
    }

    /// Hosts whose lease is over close, unmount, and switch off.
    pub(super) fn leases_run_out(&mut self) {
        let over = |host: &super::world::Host| (host.instance, self.now.checked_sub(host.ends.0));
        let over: Vec<(u8, Option<Tick>)> = self.hosts.iter().map(over).collect();
        for (id, since) in over {
            match since {
                None => {}
                Some(0) => {
                    if let Some(host) = self.host_mut(id) {
                        host.closing = true;
                    }
                }
                Some(1) => self.unmount(id),
                Some(_) => self.end(id, Why::ByItself),
            }
        }
    }

    /// Whether every instance ends by itself without further signs of life, and loses nothing. (One
    /// that hangs cannot, and a stopped one runs no clock.)
    pub(super) fn ends_by_itself(&self) -> bool {
        let mut world = self.clone();
        world.drop_run();
        for _ in 0..TIMEOUT {
            world.tick(false);
        }
        let runs = world.instances.iter().any(|thing| {
            let state = thing.now.as_ref().map(|instance| instance.state);
            let is_live = matches!(state, Some(InstanceState::Pending | InstanceState::Running));
            is_live && world.host(thing.id).is_some()
        });
        let written = |host: &super::world::Host| matches!(host.mounted, Mount::Writable(_));
        let is_written = world.hosts.iter().any(written);
        !runs && !is_written && world.acknowledged & !world.kept_data() == 0
    }
}

impl World {
    /// Whether EC2's own check says that an instance hangs.
    pub(super) fn is_hung(&self, instance: u8, rules: &Rules) -> bool {
        self.hung.contains(&instance) || rules.broken == Some(Broken::HungUnchecked)
    }
}

impl Client {
    /// The user says that the drive's host hangs. Nothing follows if EC2's check does not say so.
    pub(super) fn take_for_hung(&mut self, world: &World, rules: &Rules) {
        let is_live = |id: &u8| world.instance(*id).is_some_and(|it| it.state.is_live());
        let live = world.instances.iter().map(|it| it.id).find(is_live);
        match live {
            Some(id) if world.is_hung(id, rules) => {
                self.know().me.hung = Some(values::instance_id(id));
            }
            Some(_) => self.over(End::Busy),
            None => {}
        }
    }

    /// Whether a renewal is due, or half done.
    pub(super) fn has_to_renew(&self, world: &World) -> bool {
        let (Some(keep), Some(length)) = (self.keep, world.lease) else {
            return false;
        };
        let third = (length / 3).max(1);
        let is_young = |at: Tick| world.now - at < third;
        !matches!(self.at, At::Off | At::Over(_))
            && !self.suspended
            && (keep.recorded.is_some() || !keep.renewed.is_some_and(is_young))
    }

    /// The next half of a renewal.
    pub(super) fn renew(&mut self, world: &mut World, first: First) {
        let (Some(mut keep), Some(length)) = (self.keep, world.lease) else {
            return;
        };
        let now = world.now;
        let began = keep.recorded.unwrap_or(now);
        let is_first = keep.recorded.is_none();
        if is_first == (first == First::Record) {
            world.record_lease(keep.instance, Deadline(now + length));
        } else {
            let spent = values::ticks(u32::from(now - began));
            let left = lease_left(values::ticks(u32::from(length)), spent);
            let left = left.map_or(0, values::whole_ticks);
            self.renew_at_host(world, keep.instance, left);
        }
        if is_first {
            keep.recorded = Some(now);
        } else {
            keep.recorded = None;
            keep.renewed = Some(began);
        }
        self.keep = Some(keep);
        let is_there = world.instance(keep.instance).is_some();
        if !is_there
            || self
                .overlay
                .gone
                .contains(values::instance_id(keep.instance).as_str())
        {
            self.keep = None;
        }
    }

    /// Renews by the hold's line, which arrives if the hold still exists.
    fn renew_at_host(&self, world: &mut World, instance: u8, length: Tick) {
        let holds = world
            .host(instance)
            .is_some_and(|host| host.client == Some(self.slot));
        if holds && !self.cut {
            world.refresh(instance, length);
        }
    }
}
