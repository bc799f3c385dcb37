//! Events without xdrive: time, and everything that the cloud, a console user or a laptop can do.

use xdrive::ec2::{AttachmentState, InstanceState, SnapshotState, VolumeState};

use super::runs::{RUN, Why};
use super::world::{Deadline, Host, Mount, Snapshot, World};

/// An event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Event {
    /// A spot instance is taken away without notice, or the hardware fails.
    Death(u8),
    /// The two minutes: the host begins to close, and is off soon after.
    Notice(u8),
    /// The instance's system hangs: it writes nothing more, and does not switch itself off.
    Hang(u8),
    /// The system restarts: nothing is mounted, and no client attached.
    Reboot(u8),
    /// The client's connection breaks: the host releases its lock.
    Disconnect(u8),
    /// A person stops the instance at the console.
    ConsoleStop(u8),
    /// A person terminates the instance there.
    ConsoleTerminate(u8),
    /// A person deletes a volume there.
    ConsoleDeleteVolume(u8),
    /// A person deletes a snapshot there.
    ConsoleDeleteSnapshot(u8),
    /// AWS cannot make the snapshot.
    SnapshotError(u8),
    /// A person copies a snapshot, tags and all.
    Copy(u8),
    /// The command of the drive's run ends well.
    RunEnds(u8),
    /// EC2 launches no instance; and launches them again.
    CapacityGoes,
    CapacityComes,
}

/// The sorts of events and of trouble that a configuration can allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Fault {
    Death,
    Notice,
    Hang,
    Reboot,
    Disconnect,
    Console,
    SnapshotError,
    Copy,
    RunEnds,
    Capacity,
    /// A client is killed.
    Crash,
    /// A client is suspended, for as long as it takes.
    Suspend,
    /// EC2 stands still for a tick.
    SlowCloud,
    /// A call is carried out and its answer lost.
    Lost,
    /// A call is refused, or fails in a way that leaves open whether it was carried out.
    Refused,
    /// A call is carried out twice.
    Twice,
    /// The host cannot unmount by its deadline: it freezes the drive and switches itself off.
    Freeze,
    /// A person takes a checkpoint, between two other things.
    Checkpoint,
    /// No host can be reached by a client, for as long as it takes.
    Cut,
}

impl World {
    /// The events that these faults allow now.
    pub(super) fn possible(&self, faults: &[Fault]) -> Vec<Event> {
        let mut events = Vec::new();
        for fault in faults {
            let hosts = self.hosts.iter().map(|host| host.instance);
            match fault {
                Fault::Death => events.extend(hosts.map(Event::Death)),
                Fault::Notice => events.extend(
                    self.hosts
                        .iter()
                        .filter(|host| host.off_in.is_none())
                        .map(|host| Event::Notice(host.instance)),
                ),
                Fault::Hang => events.extend(hosts.map(Event::Hang)),
                Fault::Reboot => events.extend(hosts.map(Event::Reboot)),
                Fault::Disconnect => events.extend(
                    self.hosts
                        .iter()
                        .filter(|host| host.client.is_some())
                        .map(|host| Event::Disconnect(host.instance)),
                ),
                Fault::Console => {
                    events.extend(hosts.clone().map(Event::ConsoleStop));
                    events.extend(hosts.map(Event::ConsoleTerminate));
                    self.console_deletes(&mut events);
                }
                Fault::SnapshotError => {
                    events.extend(
                        self.with_state(SnapshotState::Pending)
                            .map(Event::SnapshotError),
                    );
                }
                Fault::RunEnds => {
                    let runs = self.hosts.iter().filter(|host| host.run.is_some());
                    events.extend(runs.map(|host| Event::RunEnds(host.instance)));
                }
                Fault::Capacity if self.has_capacity => events.push(Event::CapacityGoes),
                Fault::Copy => {
                    events.extend(self.with_state(SnapshotState::Completed).map(Event::Copy));
                }
                _ => {}
            }
        }
        events
    }

    fn with_state(&self, state: SnapshotState) -> impl Iterator<Item = u8> + '_ {
        self.snapshots
            .iter()
            .filter(move |thing| thing.now.as_ref().is_some_and(|now| now.state == state))
            .map(|thing| thing.id)
    }

    fn console_deletes(&self, events: &mut Vec<Event>) {
        for thing in &self.volumes {
            if let Some(volume) = &thing.now
                && volume.attachment.is_none()
                && volume.state == VolumeState::Available
            {
                events.push(Event::ConsoleDeleteVolume(thing.id));
            }
        }
        for thing in &self.snapshots {
            if thing.now.is_some() {
                events.push(Event::ConsoleDeleteSnapshot(thing.id));
            }
        }
    }

    pub(super) fn happen(&mut self, event: Event) {
        match event {
            Event::Death(id) => self.end(id, Why::ByEc2),
            Event::ConsoleTerminate(id) => {
                self.may_stop_run();
                self.end(id, Why::ByCaller);
            }
            Event::Notice(id) => {
                self.note_why(id, Why::ByEc2);
                if let Some(host) = self.host_mut(id) {
                    (host.closing, host.noticed) = (true, true);
                    host.off_in = Some(2);
                }
            }
            Event::Reboot(id) => {
                // A begun close goes on: the latch is on the disk. So is the end of the lease, and
                // a client that comes back gets a moment.
                let (now, boot) = (self.now, self.end_of_a_boot());
                if let Some(host) = self.host_mut(id) {
                    (host.client, host.run) = (None, None);
                    host.mounted = Mount::Nothing;
                    host.unmounted = None;
                    host.ends = Deadline(host.ends.0.max(now + 1).min(boot.0));
                }
            }
            Event::Hang(id) => {
                self.hung.push(id);
                self.lose_host(id);
            }
            Event::Disconnect(id) => {
                if let Some(host) = self.host_mut(id) {
                    host.client = host.client.filter(|client| *client == RUN);
                }
            }
            Event::ConsoleStop(id) => {
                self.may_stop_run();
                self.lose_host(id);
                self.change_instance(id, |host| host.state = InstanceState::Stopping);
            }
            Event::ConsoleDeleteVolume(id) => {
                self.remove_volume(id);
                self.forgive();
            }
            Event::ConsoleDeleteSnapshot(id) => {
                self.remove_snapshot(id);
                self.forgive();
            }
            Event::SnapshotError(id) => {
                self.change_snapshot(id, |snapshot| snapshot.state = SnapshotState::Error);
            }
            Event::Copy(id) => self.copy(id),
            Event::RunEnds(id) => self.finish_run(id),
            Event::CapacityGoes => self.has_capacity = false,
            Event::CapacityComes => self.has_capacity = true,
        }
    }

    fn copy(&mut self, id: u8) {
        if let Some(original) = self.snapshot(id).cloned() {
            let copy = Snapshot {
                volume: None,
                ..original
            };
            self.add_snapshot(copy, id);
        }
    }

    /// A tick passes. What takes time in EC2 takes one tick, or longer where `idle`.
    pub(super) fn tick(&mut self, idle: bool) {
        self.now += 1;
        self.leases_run_out();
        if !idle {
            self.hosts_go_on();
            self.instances_go_on();
            self.volumes_go_on();
            for id in self.with_state(SnapshotState::Pending).collect::<Vec<_>>() {
                self.change_snapshot(id, |snapshot| snapshot.state = SnapshotState::Completed);
            }
        }
        self.prune();
    }

    fn hosts_go_on(&mut self) {
        let leaving = self.hosts.iter_mut().filter_map(|host| {
            let left = host.off_in?;
            host.off_in = Some(left.saturating_sub(1));
            Some((host.instance, left))
        });
        for (id, left) in leaving.collect::<Vec<_>>() {
            if left == 0 {
                self.end(id, Why::ByItself);
            } else if self.host(id).is_some_and(is_written) {
                self.unmount(id);
            }
        }
    }

    fn instances_go_on(&mut self) {
        for index in 0..self.instances.len() {
            let id = self.instances[index].id;
            let Some(instance) = self.instances[index].now.clone() else {
                continue;
            };
            match instance.state {
                InstanceState::Pending => {
                    self.change_instance(id, |host| host.state = InstanceState::Running);
                    let ends = self.end_of_a_boot();
                    self.hosts.push(Host {
                        instance: id,
                        client: None,
                        closing: false,
                        mounted: Mount::Nothing,
                        unmounted: None,
                        off_in: None,
                        noticed: false,
                        ends,
                        run: None,
                    });
                }
                InstanceState::ShuttingDown => {
                    self.change_instance(id, |host| host.state = InstanceState::Terminated);
                    if let Some((volume, dies_with_it)) = instance.disk {
                        self.let_go(volume);
                        if dies_with_it {
                            self.remove_volume(volume);
                        }
                    }
                }
                InstanceState::Stopping => {
                    self.change_instance(id, |host| host.state = InstanceState::Stopped);
                }
                // It stays listed until no client needs it.
                InstanceState::Terminated if self.instances[index].past().is_empty() => {
                    self.instances[index].now = None;
                }
                _ => {}
            }
        }
    }

    fn volumes_go_on(&mut self) {
        let ids: Vec<u8> = self.volumes.iter().map(|thing| thing.id).collect();
        for id in ids {
            let Some(volume) = self.volume(id).cloned() else {
                continue;
            };
            if volume.state == VolumeState::Creating {
                self.change_volume(id, |disk| disk.state = VolumeState::Available);
            }
            let Some(attachment) = volume.attachment else {
                continue;
            };
            let mounted = self
                .host(attachment.instance)
                .is_some_and(|host| host.mounted != Mount::Nothing);
            match attachment.state {
                AttachmentState::Attaching => self.plug_in(id),
                AttachmentState::Detaching if !mounted => self.let_go(id),
                _ => {}
            }
        }
    }
}

fn is_written(host: &Host) -> bool {
    matches!(host.mounted, Mount::Writable(_))
}
