//! The drive's run, which is begun again where its host was lost: its tries, its record on the drive, its
//! end; and capacity, without which no host is launched.
//!
//! The record is on the disk that is mounted, and goes wherever its bytes go. What is true of the run is
//! kept beside it, and every beginning is checked against that. Left out: the end of a run's time.

use xdrive::drive::tags::{RunState, RunTags, WantedRun};
use xdrive::ec2::Tags;
use xdrive::host::container::CommandId;
use xdrive::host::runs::Run;

use super::values;
use super::world::{Deadline, Mount, Promise, World};

/// The slot of the run itself as a client of its host: no xdrive.
pub(super) const RUN: u8 = 9;

/// The exit status of a try that the close of its host ended.
const CLOSED: u8 = 143;

/// Why an instance ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Why {
    ByEc2,
    ByCaller,
    ByItself,
}

/// The record of the run on a drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Record {
    /// The number of the last try that has begun.
    pub(super) begun: u8,
    /// The instance on which that was.
    pub(super) on: u8,
    /// Its exit status, and whether its host had begun to close.
    pub(super) ended: Option<(u8, bool)>,
}

/// What is true of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Truth {
    /// The tries that have begun, one bit each.
    begun: u16,
    /// Whether it has ended well, or a stop of its user has ended.
    is_over: bool,
    /// Whether somebody has ended its host in the console, and may want it no more.
    may_stop: bool,
}

impl Why {
    /// The reason as EC2 has it.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::ByEc2 => "Server.SpotInstanceTermination: Spot instance termination",
            Self::ByCaller => "Client.UserInitiatedShutdown: User initiated shutdown",
            Self::ByItself => "Client.InstanceInitiatedShutdown: Instance initiated shutdown",
        }
    }
}

impl Record {
    /// The record as xdrive reads it, on a host where the run runs or not; none if no try has begun.
    pub(super) fn read(self, runs: bool) -> Option<Run> {
        let status = self.ended.map(|(status, _)| status);
        let closing = self.ended.is_some_and(|(_, closing)| closing);
        (self.begun > 0).then(|| Run {
            id: id().as_str().to_owned(),
            command: "train".to_owned(),
            container: String::new(),
            number: Some(self.begun.into()),
            began: f64::from(self.on),
            ended: None,
            status,
            closing: closing.then(|| "EC2 takes the machine".to_owned()),
            is_lost: status.is_none() && !runs,
            is_frozen: false,
            freezing: None,
            is_kept: false,
            last: String::new(),
            first: [0; 2],
            results: None,
        })
    }
}

fn id() -> CommandId {
    CommandId::parse("1f00c2").unwrap()
}

/// The tags of a run in this state.
pub(super) fn tags(state: Option<RunState>) -> RunTags {
    let run = state.map(|state| WantedRun {
        id: id(),
        container: None,
        state,
        launch: String::new(),
        until: values::wall(1),
        exit: None,
        waits: None,
        tended: None,
        told: None,
    });
    RunTags::read(&run.map(|run| run.tags()).unwrap_or_default())
}

/// The state of the run, in the tags of a part.
pub(super) fn state(tags: &Tags) -> Option<RunState> {
    Some(WantedRun::read(tags)?.state)
}

impl World {
    /// The drive's run has begun once, on the instance of the drive, or on one that is gone since.
    pub(super) fn has_begun(mut self) -> Self {
        self.run = Some(Truth {
            begun: 0b10,
            ..Truth::default()
        });
        let mut record = Record {
            begun: 1,
            on: 0,
            ended: Some((CLOSED, true)),
        };
        let host = self.hosts.first_mut().map(|host| {
            (host.run, host.client) = (Some(1), Some(RUN));
            (record.on, record.ended) = (host.instance, None);
            host.mounted
        });
        let part = match host {
            Some(Mount::Writable(volume)) => volume,
            _ => self.snapshots.last().map_or(0, |newest| newest.id),
        };
        self.bytes_mut(part).run = record;
        // Long ago: no list lacks it.
        let wanted = Some(RunState::Wanted);
        let volumes = self.volumes.iter_mut().filter(|it| it.id == part);
        volumes
            .filter_map(|it| it.now.as_mut())
            .for_each(|it| it.run = wanted);
        let snapshots = self.snapshots.iter_mut().filter(|it| it.id == part);
        snapshots
            .filter_map(|it| it.now.as_mut())
            .for_each(|it| it.run = wanted);
        self
    }

    /// Writes how far the run is on a volume or a snapshot.
    fn mark(&mut self, part: u8, state: RunState) {
        self.change_volume(part, |volume| volume.run = Some(state));
        self.change_snapshot(part, |snapshot| snapshot.run = Some(state));
    }

    /// Marks one part that says that the run is wanted; false if none does.
    pub(super) fn mark_next(&mut self, state: RunState) -> bool {
        let wanted = Some(RunState::Wanted);
        let volumes = self
            .volumes
            .iter()
            .filter_map(|it| Some((it.id, it.now.as_ref()?.run)));
        let snapshots = self
            .snapshots
            .iter()
            .filter_map(|it| Some((it.id, it.now.as_ref()?.run)));
        let mut parts = volumes.chain(snapshots);
        let next = parts.find(|(_, run)| *run == wanted).map(|(id, _)| id);
        if let Some(part) = next {
            self.mark(part, state);
        }
        next.is_some()
    }

    /// The record on the drive that a host has mounted, if it serves a client; and whether the run is there.
    pub(super) fn record_on(&self, instance: u8) -> Option<(u8, Record, bool)> {
        let host = self.host(instance).filter(|host| !host.closing)?;
        match host.mounted {
            Mount::Writable(volume) => Some((volume, self.bytes(volume).run, host.run.is_some())),
            Mount::Nothing | Mount::Frozen(_) => None,
        }
    }

    /// Begins a try, whose number is a `fence`: false if that one has begun. The run is a client of its
    /// host from then on, for as long as it takes.
    pub(super) fn begin_try(&mut self, instance: u8, number: u8, fence: bool) -> bool {
        let Some((volume, record, _)) = self.record_on(instance) else {
            return false;
        };
        if fence && record.begun >= number {
            return false;
        }
        let mut truth = self.run.unwrap_or_default();
        if truth.begun & 1 << number != 0 {
            self.broken.insert(Promise::BegunTwice);
        }
        if truth.is_over {
            self.broken.insert(Promise::BegunOver);
        }
        truth.begun |= 1 << number;
        self.run = Some(truth);
        self.bytes_mut(volume).run = Record {
            begun: number,
            on: instance,
            ended: None,
        };
        if let Some(host) = self.host_mut(instance) {
            (host.run, host.client) = (Some(number), Some(RUN));
            host.ends = Deadline::NEVER;
        }
        self.change_instance(instance, |record| record.until = Deadline::NEVER);
        true
    }

    /// The try on a host ends with the status, on record before anything else of the host does.
    fn end_try(&mut self, instance: u8, status: u8) {
        let Some(host) = self.host_mut(instance).filter(|host| host.run.is_some()) else {
            return;
        };
        let is_closing = host.closing;
        host.run = None;
        host.client = host.client.filter(|client| *client != RUN);
        if let Mount::Writable(volume) = host.mounted {
            self.bytes_mut(volume).run.ended = Some((status, is_closing));
        }
    }

    /// The close of a host ends what runs there.
    pub(super) fn close_try(&mut self, instance: u8) {
        self.end_try(instance, CLOSED);
    }

    /// The command of the run ends well. Its host closes by itself.
    pub(super) fn finish_run(&mut self, instance: u8) {
        self.end_try(instance, 0);
        if let Some(truth) = &mut self.run {
            truth.is_over = true;
        }
        if let Some(host) = self.host_mut(instance) {
            host.closing = true;
            host.off_in = host.off_in.or(Some(2));
        }
    }

    /// The user's stop has ended.
    pub(super) fn stop_run(&mut self) {
        if let Some(truth) = &mut self.run {
            truth.is_over = true;
        }
    }

    /// Somebody ends the host of a run in the console.
    pub(super) fn may_stop_run(&mut self) {
        if let Some(truth) = &mut self.run {
            truth.may_stop = true;
        }
    }

    /// Records why an instance ends, as long as that matters to anybody.
    pub(super) fn note_why(&mut self, instance: u8, why: Why) {
        if self.run.is_some() {
            self.change_instance(instance, |record| {
                record.why.get_or_insert(why);
            });
        }
    }

    /// Whether nothing is to be done for the run: it runs, or is over and marked so.
    pub(super) fn is_run_settled(&self) -> bool {
        let runs = self.hosts.iter().any(|it| it.run.is_some() && !it.closing);
        let volumes = self.volumes.iter().filter_map(|it| it.now.as_ref()?.run);
        let snapshots = self.snapshots.iter().filter_map(|it| it.now.as_ref()?.run);
        // The furthest counts.
        let is_wanted = volumes.chain(snapshots).max() == Some(RunState::Wanted);
        let truth = self.run.unwrap_or_default();
        runs || (!is_wanted && (truth.is_over || truth.may_stop))
    }

    /// The time of a run is over, and its host's lease with it.
    pub(super) fn drop_run(&mut self) {
        let end = Deadline(self.now + 1);
        let hosts = self.hosts.iter_mut().filter(|host| host.run.is_some());
        let ids = hosts.map(|host| {
            (host.run, host.ends) = (None, end);
            host.instance
        });
        for id in ids.collect::<Vec<_>>() {
            self.change_instance(id, |record| record.until = end);
        }
    }
}
