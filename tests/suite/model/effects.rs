//! The effects of calls, and the check of the promises about terminating and mounting, against the
//! true mounts and disks.

use xdrive::drive::tags::{RunState, SnapshotKind};
use xdrive::ec2::{AttachmentState, InstanceState, SnapshotState, VolumeState};
use xdrive::host::Closed;

use super::runs::Why;
use super::world::{Attachment, Host, Instance, Mount, Promise, Snapshot, Tick, Volume, World};

/// A refusal by EC2 or a host: nothing was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum No {
    /// The resource's state forbids this, or it does not exist.
    State,
    /// The host does not answer.
    Unreachable,
    /// Busy: another client has the host.
    Busy,
    /// EC2 has no instance now.
    Capacity,
    /// The volume is blank, and was not to be formatted.
    Damaged,
}

impl World {
    /// Launches an instance; the same token makes no second one.
    pub(super) fn launch(
        &mut self,
        (session, thrown): (u8, Option<u8>),
        token: u8,
        zone: u8,
    ) -> (u8, Instance) {
        let known = self.instances.iter().find_map(|thing| {
            let instance = thing.now.clone()?;
            (instance.token == token).then_some((thing.id, instance))
        });
        known.unwrap_or_else(|| {
            let instance = Instance {
                state: InstanceState::Pending,
                zone,
                session,
                token,
                until: self.until_of_a_launch(),
                disk: None,
                thrown,
                why: None,
            };
            (self.add_instance(instance.clone()), instance)
        })
    }

    pub(super) fn create_volume(
        &mut self,
        (session, thrown): (u8, Option<u8>),
        token: u8,
        zone: u8,
        from: Option<(u8, u8)>,
    ) -> Result<(u8, Volume), No> {
        let known = self.volumes.iter().find_map(|thing| {
            let volume = thing.now.clone()?;
            (volume.token == token).then_some((thing.id, volume))
        });
        if let Some(known) = known {
            return Ok(known);
        }
        let whole = |id| {
            let snapshot = self.snapshot(id);
            snapshot.is_some_and(|snapshot| snapshot.state == SnapshotState::Completed)
        };
        if !from.is_none_or(|(id, _)| whole(id)) {
            return Err(No::State);
        }
        let base = from.map_or(0, |(_, generation)| generation);
        let origin = from.and_then(|(id, _)| self.snapshot(id));
        let run = origin.and_then(|it| it.run).filter(|_| thrown.is_none());
        let volume = Volume {
            state: VolumeState::Creating,
            zone,
            session,
            token,
            snapshot: from.map(|(id, _)| id),
            attachment: None,
            base,
            generation: base,
            blank: from.is_none(),
            formatted: false,
            thrown,
            run,
        };
        Ok((self.add_volume(volume.clone()), volume))
    }

    pub(super) fn create_snapshot(
        &mut self,
        of: u8,
        generation: u8,
        kind: SnapshotKind,
        op: u8,
        run: Option<RunState>,
    ) -> Result<(u8, Snapshot), No> {
        let Some(volume) = self.volume(of) else {
            return Err(No::State);
        };
        if !matches!(volume.state, VolumeState::Available | VolumeState::InUse) {
            return Err(No::State);
        }
        self.demand_kept(of);
        let earlier = self.snapshots.iter().filter_map(|thing| thing.now.as_ref());
        let earlier =
            earlier.filter(|made| made.volume == Some(of) && made.generation == generation);
        let last = earlier.map(|made| made.number).max().unwrap_or_default();
        let snapshot = Snapshot {
            number: if kind == SnapshotKind::Checkpoint {
                last + 1
            } else {
                0
            },
            state: SnapshotState::Pending,
            volume: Some(of),
            generation,
            kind,
            op,
            mark: None,
            forked: None,
            run,
        };
        Ok((self.add_snapshot(snapshot.clone(), of), snapshot))
    }

    pub(super) fn attach(&mut self, volume: u8, instance: u8) -> Result<(), No> {
        let zone = self
            .instance(instance)
            .filter(|host| host.state == InstanceState::Running && host.disk.is_none())
            .map(|host| host.zone);
        let free = self
            .volume(volume)
            .filter(|disk| disk.state == VolumeState::Available && disk.attachment.is_none())
            .map(|disk| disk.zone);
        if zone.is_none() || zone != free {
            return Err(No::State);
        }
        self.change_volume(volume, |disk| {
            disk.state = VolumeState::InUse;
            disk.attachment = Some(Attachment {
                instance,
                state: AttachmentState::Attaching,
                dies_with_it: false,
            });
        });
        self.change_instance(instance, |host| host.disk = Some((volume, false)));
        Ok(())
    }

    pub(super) fn detach(&mut self, volume: u8, instance: u8) -> Result<(), No> {
        let attached = self.volume(volume).and_then(|disk| disk.attachment);
        if attached.is_none_or(|attached| attached.instance != instance) {
            return Err(No::State);
        }
        self.change_volume(volume, |disk| {
            if let Some(attachment) = &mut disk.attachment {
                attachment.state = AttachmentState::Detaching;
            }
        });
        Ok(())
    }

    /// The drive is detached from its instance for good.
    pub(super) fn let_go(&mut self, volume: u8) {
        let attached = self.volume(volume).and_then(|disk| disk.attachment);
        self.change_volume(volume, |disk| {
            disk.attachment = None;
            disk.state = VolumeState::Available;
        });
        if let Some(attached) = attached {
            self.change_instance(attached.instance, |host| host.disk = None);
            let Some(host) = self.host_mut(attached.instance) else {
                return;
            };
            host.mounted = Mount::Nothing;
        }
    }

    /// The device of an attaching volume appears.
    pub(super) fn plug_in(&mut self, volume: u8) {
        self.change_volume(volume, |disk| {
            if let Some(attachment) = &mut disk.attachment {
                attachment.state = AttachmentState::Attached;
            }
        });
    }

    /// xdrive ends an instance.
    pub(super) fn terminate(&mut self, instance: u8) {
        let mounted = self.host(instance).map(|host| host.mounted);
        if let Some(Mount::Writable(volume)) = mounted
            && !self.is_thrown(volume)
        {
            self.broken.insert(Promise::Terminated);
        }
        self.end(instance, Why::ByCaller);
    }

    /// An instance ends, for any reason.
    pub(super) fn end(&mut self, instance: u8, why: Why) {
        self.lose_host(instance);
        self.note_why(instance, why);
        self.change_instance(instance, |host| {
            if host.state != InstanceState::Terminated {
                host.state = InstanceState::ShuttingDown;
            }
        });
    }

    pub(super) fn delete_volume(&mut self, id: u8) -> Result<(), No> {
        let Some(volume) = self.volume(id) else {
            // Under any drive's name.
            self.aside.retain(|(known, _)| *known != id);
            return Ok(());
        };
        let free = matches!(volume.state, VolumeState::Available | VolumeState::Error);
        if !free || volume.attachment.is_some() {
            return Err(No::State);
        }
        self.demand_origin(id);
        self.remove_volume(id);
        Ok(())
    }

    fn reach(&mut self, instance: u8) -> Result<&mut Host, No> {
        self.host_mut(instance).ok_or(No::Unreachable)
    }

    /// A client takes the lock, which extends the host's lease.
    pub(super) fn lock(&mut self, instance: u8, client: u8, lease: Tick) -> Result<(), No> {
        let host = self.reach(instance)?;
        match host.client {
            Some(other) if other != client => Err(No::Busy),
            // A closing host accepts no client.
            _ if host.closing => Ok(()),
            _ => {
                host.client = Some(client);
                self.refresh(instance, lease);
                Ok(())
            }
        }
    }

    pub(super) fn mount(&mut self, order: Order, client: u8) -> Result<(), No> {
        let Order {
            instance,
            volume,
            session,
            format,
        } = order;
        let host = self.reach(instance)?;
        if host.client != Some(client) || host.closing {
            return Err(No::State);
        }
        let already = host.mounted == Mount::Writable(volume);
        let attached = self.volume(volume).and_then(|disk| disk.attachment);
        let here = attached.filter(|attached| attached.instance == instance);
        match here.map(|attached| attached.state) {
            _ if already => return Ok(()),
            Some(AttachmentState::Attached) => {}
            // The host waits for the device.
            Some(AttachmentState::Attaching) => self.plug_in(volume),
            _ => return Err(No::State),
        }
        if !self.bytes(volume).formatted {
            if !format {
                return Err(No::Damaged);
            }
            self.bytes_mut(volume).formatted = true;
        }
        self.bytes_mut(volume).dirty = true;
        self.demand_own(volume, session);
        let missing = self.acknowledged & !self.bytes(volume).data;
        if missing != 0 {
            self.broken.insert(Promise::OlderMounted);
        }
        let is_written = |host: &Host| match host.mounted {
            Mount::Writable(other) => host.instance != instance && !self.is_thrown(other),
            Mount::Nothing | Mount::Frozen(_) => false,
        };
        if !self.is_thrown(volume) && self.hosts.iter().any(is_written) {
            self.broken.insert(Promise::TwoWriters);
        }
        self.reach(instance)?.mounted = Mount::Writable(volume);
        Ok(())
    }

    pub(super) fn close(&mut self, instance: u8, freeze: bool) -> Result<Closed, No> {
        let host = self.reach(instance)?;
        host.closing = true;
        if freeze && let Mount::Writable(volume) = host.mounted {
            self.close_try(instance);
            self.bytes_mut(volume).dirty = false;
            let host = self.reach(instance)?;
            host.off_in = Some(1);
            host.mounted = Mount::Frozen(volume);
        }
        if let Some(Mount::Frozen(_)) = self.host(instance).map(|host| host.mounted) {
            return Ok(Closed::Frozen);
        }
        self.unmount(instance);
        Ok(match self.reach(instance)?.unmounted {
            Some(_) => Closed::Unmounted,
            None => Closed::NotMounted,
        })
    }

    /// The host unmounts what it has, as it should.
    pub(super) fn unmount(&mut self, instance: u8) {
        self.close_try(instance);
        let Some(host) = self.host_mut(instance) else {
            return;
        };
        if let Mount::Writable(volume) = std::mem::replace(&mut host.mounted, Mount::Nothing) {
            host.unmounted = Some(volume);
            self.bytes_mut(volume).dirty = false;
        }
    }

    /// Whether the file system in a snapshot is as it had to be left; `None` if the snapshot is not
    /// known.
    pub(super) fn look_into(&self, snapshot: u8, kind: SnapshotKind) -> Option<bool> {
        self.snapshot(snapshot)?;
        let bytes = self.bytes(snapshot);
        Some(bytes.formatted && !(kind == SnapshotKind::Clean && bytes.dirty))
    }

    /// A user writes something, and gets an acknowledgement.
    pub(super) fn write(&mut self, client: u8) -> bool {
        let mounted = self.hosts.iter().find_map(|host| match host.mounted {
            Mount::Writable(volume) if host.client == Some(client) => Some(volume),
            _ => None,
        });
        let Some(volume) = mounted else {
            return false;
        };
        let datum = 1 << self.written;
        self.written += 1;
        self.bytes_mut(volume).data |= datum;
        if !self.is_thrown(volume) {
            self.acknowledged |= datum;
        }
        true
    }
}

/// An order to mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Order {
    pub(super) instance: u8,
    pub(super) volume: u8,
    pub(super) session: u8,
    pub(super) format: bool,
}
