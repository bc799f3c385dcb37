//! The steps, carried out as by the real loop: read by id, call, receive the answer.
//!
//! A proof is checked and its call sent in one action: EC2 has no conditional calls that could
//! close the microseconds between the two. Everything before and after is a separate action, with
//! any events between.

use xdrive::drive::observed::Attempt;
use xdrive::drive::plan::Step;
use xdrive::drive::tags::Leaving;
use xdrive::drive::{Contact, Source};
use xdrive::ec2::Zone;
use xdrive::host::Closed;
use xdrive::ids::VolumeId;

use super::broken::Broken;
use super::calls::Call;
use super::client::{At, Client, Rules};
use super::effects::{No, Order};
use super::lease::First;
use super::lists::Seen;
use super::values::{self, generation_number, number};
use super::world::{Deadline, Instance, Mark, Snapshot, Tick, Volume, World};

/// The stage of a step.
#[derive(Debug, Clone, Hash)]
pub(super) enum Stage {
    /// Reads its resource by id.
    Read,
    /// Calls, on the ground of that read.
    Call(Read),
    /// Waits for the answer: the call was carried out, or not; the client does not know yet.
    Answer(Result<Made, Failure>),
}

/// The result of a read by id.
#[derive(Debug, Clone, Hash)]
pub(super) enum Read {
    Nothing,
    /// The end of the lease is recorded at that moment; the lock is next.
    Recorded(Deadline),
    /// The lock is taken; the tags are next.
    Locked,
    /// The instance, and its host's answer, if it was asked.
    Instance(Option<Instance>, Option<Contact>),
    Volume(Option<Volume>, Option<Snapshot>),
    /// A snapshot to prune, and those that supersede it.
    Snapshots(Option<Snapshot>, Vec<(u8, Snapshot)>),
}

/// The answer of a call.
#[derive(Debug, Clone, Hash)]
pub(super) enum Made {
    Nothing,
    Instance(u8, Instance),
    Volume(u8, Volume),
    Snapshot(u8, Snapshot),
    Closed(Closed),
    /// A snapshot's content: whether it is the drive; `None` if not known.
    Content(Option<bool>),
    /// The end of the lease is recorded: at that moment.
    Recorded(Deadline),
    /// The last call of a claim.
    Tagged,
    /// There was nothing to do, or the read forbids it.
    Unneeded,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Failure {
    No(No),
    /// The answer leaves open whether it was carried out.
    Unclear,
    /// The read shows a change: plan anew.
    Changed,
}

/// The fate of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Fate {
    Done,
    /// Carried out, and its answer lost.
    Lost,
    /// Not carried out, with an error.
    Refused,
    /// Not carried out, with an error that leaves it open.
    Unclear,
    /// Carried out twice.
    Twice,
    /// A close that cannot unmount.
    Freeze,
}

impl Stage {
    pub(super) fn first(step: Option<&Step>, client: &mut Client) -> Self {
        match step {
            Some(Step::Attach { .. }) => {
                // In any case the next attachment needs its own raise.
                client.know().me.raised = None;
                Self::Read
            }
            Some(
                Step::Raise { .. }
                | Step::AttachThrowaway { .. }
                | Step::Mount { .. }
                | Step::Snapshot { .. }
                | Step::Terminate(_)
                | Step::DeleteVolume(_)
                | Step::DeleteSnapshot(_)
                | Step::Prune(_)
                | Step::Erase(_),
            ) => Self::Read,
            Some(Step::Detach {
                instance,
                reject: true,
                ..
            }) => {
                client.know().me.rejected.push(instance.clone());
                Self::Call(Read::Nothing)
            }
            _ => Self::Call(Read::Nothing),
        }
    }
}

/// The resource of a step that is read by id, and the snapshot that is read before it.
fn read_first(step: &Step) -> (Option<u8>, Option<u8>) {
    match step {
        Step::Raise { volume, .. }
        | Step::Attach { volume, .. }
        | Step::AttachThrowaway { volume, .. }
        | Step::Snapshot { volume, .. } => (Some(number(volume.as_str())), None),
        Step::Mount { order, .. } => (Some(number(order.volume.as_str())), None),
        Step::DeleteVolume(spent) => (
            Some(number(spent.volume().as_str())),
            spent.snapshot().map(|id| number(id.as_str())),
        ),
        Step::DeleteSnapshot(failed) => (
            Some(number(failed.volume().as_str())),
            Some(number(failed.snapshot().as_str())),
        ),
        _ => (None, None),
    }
}

fn versions<T: Clone + PartialEq>(
    things: &[super::world::Thing<T>],
    id: Option<u8>,
) -> Vec<Option<T>> {
    let thing = things.iter().find(|thing| Some(thing.id) == id);
    thing.map_or_else(|| vec![None], super::world::Thing::versions)
}

impl Client {
    pub(super) fn step(&self) -> Option<&Step> {
        match &self.at {
            At::Acting { steps, .. } => steps.last(),
            _ => None,
        }
    }

    /// The possible results of the current step's read, the truth first.
    pub(super) fn reads_by_id(&self, world: &World) -> Vec<Read> {
        match self.step() {
            Some(Step::Terminate(quiet)) => {
                let id = number(quiet.instance().as_str());
                let versions = versions(&world.instances, Some(id));
                let asks = quiet.must_ask_host(values::moment(world.now));
                let ask = |record: &Instance| {
                    let seen = Seen {
                        id,
                        record: Some(record.clone()),
                        listed: true,
                    };
                    self.contact(world, &seen)
                };
                let contact = world.instance(id).filter(|_| asks).map(ask);
                let read = |record| Read::Instance(record, contact.clone());
                versions.into_iter().map(read).collect()
            }
            Some(Step::Prune(superseded) | Step::Erase(superseded)) => {
                let id = number(superseded.snapshot().as_str());
                let by = superseded.by().iter().map(|id| number(id.as_str()));
                let by = by.filter_map(|id| Some((id, world.snapshot(id)?.clone())));
                let by: Vec<(u8, Snapshot)> = by.collect();
                let versions = versions(&world.snapshots, Some(id));
                let read = |victim| Read::Snapshots(victim, by.clone());
                versions.into_iter().map(read).collect()
            }
            Some(step) => {
                let (volume, snapshot) = read_first(step);
                let snapshots = versions(&world.snapshots, snapshot);
                let volumes = versions(&world.volumes, volume);
                let with = |volume: &Option<Volume>| {
                    let volume = volume.clone();
                    let read = |snapshot: &Option<Snapshot>| {
                        Read::Volume(volume.clone(), snapshot.clone())
                    };
                    snapshots.iter().map(read).collect::<Vec<_>>()
                };
                volumes.iter().flat_map(with).collect()
            }
            None => Vec::new(),
        }
    }

    /// The current step has read: it goes on to its call, or is out of date.
    pub(super) fn read(&mut self, read: Read, now: Tick) {
        if let At::Acting { read, .. } = &mut self.at {
            *read = now;
        }
        let Some(step) = self.step().cloned() else {
            return;
        };
        let stage = match self.judge(&step, read) {
            Ok(read) => Stage::Call(read),
            Err(failure) => Stage::Answer(Err(failure)),
        };
        self.set_stage(stage);
    }

    fn judge(&mut self, step: &Step, read: Read) -> Result<Read, Failure> {
        let Read::Volume(volume, _) = &read else {
            return Ok(read);
        };
        let known = |client: &Self, id: &VolumeId| {
            let known = client.overlay.generations.get(id).copied();
            known.unwrap_or_default()
        };
        match step {
            Step::Raise { volume: id, to } => {
                let volume = volume.as_ref().ok_or(Failure::Changed)?;
                let there = values::generation(volume.generation).max(known(self, id));
                if there >= *to {
                    self.know().generations.insert(id.clone(), there);
                    return Err(Failure::Changed);
                }
            }
            Step::Attach { generation, .. } => {
                let volume = volume.as_ref().ok_or(Failure::Changed)?;
                let raised = generation_number(*generation);
                let is_mine = volume.session == self.session;
                if volume.generation > raised || (volume.generation == raised && !is_mine) {
                    return Err(Failure::Changed);
                }
            }
            Step::AttachThrowaway { .. } => {
                let volume = volume.as_ref().ok_or(Failure::Changed)?;
                if volume.thrown != Some(self.session) {
                    return Err(Failure::Changed);
                }
            }
            // It reads until it sees the raised generation, or gives up.
            Step::Mount { order, .. } => {
                let volume = volume.as_ref().ok_or(Failure::Changed)?;
                if volume.generation != generation_number(order.generation) {
                    return Err(Failure::Changed);
                }
            }
            Step::Snapshot {
                volume: id,
                generation,
                ..
            } => {
                let volume = volume.as_ref().ok_or(Failure::Changed)?;
                let there = values::generation(volume.generation).max(known(self, id));
                if there != *generation {
                    self.know().generations.insert(id.clone(), there);
                    return Err(Failure::Changed);
                }
            }
            _ => {}
        }
        Ok(read)
    }

    /// The snapshot that was just read by id, on whose ground a volume is being deleted right now.
    /// A person may delete it in the same moment, which nothing prevents: EC2 has no conditional
    /// deletion.
    pub(super) fn rests_on(&self) -> Option<u8> {
        match (&self.at, self.step()) {
            (
                At::Acting {
                    stage: Stage::Call(_),
                    ..
                },
                Some(Step::DeleteVolume(spent)),
            ) => spent.snapshot().map(|id| number(id.as_str())),
            _ => None,
        }
    }

    pub(super) fn set_stage(&mut self, next: Stage) {
        if let At::Acting { stage, .. } = &mut self.at {
            *stage = next;
        }
    }

    /// Whether the current call can have this fate.
    pub(super) fn can_meet(&self, fate: Fate) -> bool {
        let closes = matches!(self.step(), Some(Step::Close { .. }));
        fate != Fate::Freeze || closes
    }

    /// Whether EC2 chooses the zone of the current call.
    pub(super) fn is_zone_open(&self) -> bool {
        matches!(self.step(), Some(Step::Launch { zone: None, .. })) && self.launch.is_none()
    }

    /// The current call arrives, or not.
    pub(super) fn call(&mut self, world: &mut World, rules: &Rules, fate: Fate, zone: u8) {
        let Some(step) = self.step().cloned() else {
            return;
        };
        let At::Acting {
            stage: Stage::Call(read),
            ..
        } = &self.at
        else {
            return;
        };
        let read = read.clone();
        let call = match self.prepare(&step, &read, world, rules, zone) {
            Ok(call) => call,
            Err(answer) => {
                self.set_stage(Stage::Answer(answer));
                return;
            }
        };
        let cut = self.cut && call.is_to_host();
        let mut arrive = || {
            if cut {
                Err(No::Unreachable)
            } else {
                call.arrive(world, fate == Fate::Freeze)
            }
        };
        let answer = match fate {
            Fate::Done | Fate::Freeze => arrive().map_err(Failure::No),
            Fate::Lost => {
                // Its answer is lost.
                let _ = arrive();
                Err(Failure::Unclear)
            }
            Fate::Refused => Err(Failure::No(No::State)),
            Fate::Unclear => Err(Failure::Unclear),
            Fate::Twice => {
                let _ = arrive();
                arrive().map_err(Failure::No)
            }
        };
        self.set_stage(Stage::Answer(answer));
    }

    /// The call of a step that passes its last check; else the answer in its place.
    fn prepare(
        &mut self,
        step: &Step,
        read: &Read,
        world: &World,
        rules: &Rules,
        zone: u8,
    ) -> Result<Call, Result<Made, Failure>> {
        let now = world.now;
        let (slot, session) = (self.slot, self.session);
        Ok(match step {
            Step::Launch {
                zone: wanted,
                throwaway,
            } => {
                let wanted = wanted.as_ref().map(values::zone_number);
                let (zone, token) = match self.launch {
                    Some((sent, token)) => (sent.unwrap_or(zone), token),
                    None => (wanted.unwrap_or(zone), self.token()),
                };
                self.launch = Some((Some(zone), token));
                Call::Launch((session, throwaway.then_some(session)), token, zone)
            }
            Step::CreateVolume { zone, from } => self.create(zone, from),
            Step::Claim(id) => {
                self.know().me.attached = None;
                let id = number(id.as_str());
                let first = rules.broken.map_or(First::Record, Broken::first_renewed);
                match (read, world.lease) {
                    (Read::Locked, _) => Call::Claim(session, id, self.held(step)),
                    // A record of another tick is too old.
                    (Read::Recorded(at), Some(_)) if *at != Deadline(now) => {
                        return Err(Err(Failure::Changed));
                    }
                    (Read::Nothing, Some(length)) if first == First::Record => {
                        Call::Record(id, Deadline(now + length))
                    }
                    (_, length) => Call::Lock(id, slot, length.unwrap_or_default()),
                }
            }
            Step::Raise { volume, to } => {
                Call::Raise(session, number(volume.as_str()), generation_number(*to))
            }
            Step::Attach {
                volume, instance, ..
            }
            | Step::AttachThrowaway { volume, instance } => {
                Call::Attach(number(volume.as_str()), number(instance.as_str()))
            }
            Step::Mount { instance, order } => {
                self.know().me.attached = None;
                let order = Order {
                    instance: number(instance.as_str()),
                    volume: number(order.volume.as_str()),
                    session,
                    format: order.blank,
                };
                Call::Mount(order, slot)
            }
            Step::MarkFormatted { volume, .. } => Call::MarkFormatted(number(volume.as_str())),
            Step::KeepOnTermination { instance, .. } => Call::Keep(number(instance.as_str())),
            Step::Close { instance, .. } => Call::Close(number(instance.as_str())),
            Step::Snapshot {
                volume,
                generation,
                kind,
            } => {
                let op = self.token();
                self.know().me.attempts.push(Attempt {
                    volume: volume.clone(),
                    op: values::op(op),
                    kind: *kind,
                    at: values::moment(now),
                });
                let of = number(volume.as_str());
                let run = match read {
                    Read::Volume(volume, _) => volume.as_ref().and_then(|volume| volume.run),
                    _ => None,
                };
                let run = run.filter(|_| rules.broken != Some(Broken::ForgetsRun));
                Call::Snapshot(of, generation_number(*generation), *kind, op, run)
            }
            Step::Verify { snapshot, kind, .. } => Call::Verify(number(snapshot.as_str()), *kind),
            Step::Detach {
                volume, instance, ..
            } => Call::Detach(number(volume.as_str()), number(instance.as_str())),
            Step::Terminate(_)
            | Step::DeleteVolume(_)
            | Step::DeleteSnapshot(_)
            | Step::Prune(_)
            | Step::Erase(_) => {
                return self.destroy(step, read, world, rules);
            }
            Step::Mark { snapshot, leaving } => {
                let mark = match leaving {
                    Leaving::Deleted => Mark::Deleting,
                    Leaving::Renamed(_) => Mark::Renaming,
                };
                Call::Mark(number(snapshot.as_str()), mark)
            }
            Step::Rename { snapshot, .. } => Call::Rename(number(snapshot.as_str())),
            Step::Fork { head, .. } => Call::Fork(number(&head.to_string())),
            Step::CopySnapshot(order) => return self.copy(order, now, rules),
            Step::ShowConsole(_) | Step::MarkUuid { .. } => return Err(Ok(Made::Nothing)),
        })
    }

    /// The call that makes a volume.
    fn create(&mut self, zone: &Zone, from: &Source) -> Call {
        let zone = values::zone_number(zone);
        let thrown = matches!(from, Source::Throwaway(..)).then_some(self.session);
        let from = match from {
            Source::Empty => None,
            Source::Snapshot(id, generation) | Source::Throwaway(id, generation) => {
                Some((number(id.as_str()), generation_number(*generation)))
            }
        };
        let source = from.map(|(id, _)| id);
        let token = match self.order {
            Some((known, of, token)) if known == zone && of == source => token,
            _ => self.token(),
        };
        self.order = Some((zone, source, token));
        Call::CreateVolume((self.session, thrown), token, zone, from)
    }

    /// The volumes that the claimed instance was seen to hold.
    fn held(&self, step: &Step) -> Vec<u8> {
        let (At::Acting { seen, .. }, Step::Claim(id)) = (&self.at, step) else {
            return Vec::new();
        };
        let held = seen.held_by(id);
        held.map(|volume| number(volume.id.as_str())).collect()
    }
}
