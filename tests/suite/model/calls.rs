//! Calls under way, and a client's handling of their answers.

use xdrive::clock::BootTime;
use xdrive::drive::observed::{Refusal, Verdict};
use xdrive::drive::plan::Step;
use xdrive::drive::tags::{RunState, SnapshotKind};
use xdrive::ec2::AttachmentState;
use xdrive::host::Closed;
use xdrive::ids::{InstanceId, SnapshotId, VolumeId};

use super::client::{At, Client, End};
use super::copies::Original;
use super::effects::{No, Order};
use super::lease::Keep;
use super::steps::{Failure, Made, Read, Stage};
use super::values;
use super::world::{Deadline, Mark, Tick, World};

/// A call of a client.
#[derive(Debug, Clone)]
pub(super) enum Call {
    Launch((u8, Option<u8>), u8, u8),
    CreateVolume((u8, Option<u8>), u8, u8, Option<(u8, u8)>),
    Record(u8, Deadline),
    Lock(u8, u8, Tick),
    Claim(u8, u8, Vec<u8>),
    Raise(u8, u8, u8),
    Attach(u8, u8),
    Mount(Order, u8),
    MarkFormatted(u8),
    Keep(u8),
    Close(u8),
    Snapshot(u8, u8, SnapshotKind, u8, Option<RunState>),
    Verify(u8, SnapshotKind),
    Detach(u8, u8),
    Terminate(u8),
    DeleteVolume(u8),
    DeleteSnapshot(u8),
    Mark(u8, Mark),
    /// Erases a snapshot that the user was shown, or another one.
    Erase(u8, bool),
    Rename(u8),
    Fork(u8),
    /// Of that original, by that session, with its own number.
    Copy(Original, u8, u8),
}

/// The continuation of a step.
enum Went {
    On,
    Again(Stage),
    Failed,
}

impl Call {
    /// Whether it goes to a host, by SSH.
    pub(super) fn is_to_host(&self) -> bool {
        matches!(self, Self::Lock(..) | Self::Mount(..) | Self::Close(_))
    }

    /// The call is carried out.
    pub(super) fn arrive(&self, world: &mut World, freeze: bool) -> Result<Made, No> {
        match self {
            Self::Launch(..) if !world.has_capacity => return Err(No::Capacity),
            Self::Launch(session, token, zone) => {
                let (id, instance) = world.launch(*session, *token, *zone);
                return Ok(Made::Instance(id, instance));
            }
            Self::CreateVolume(session, token, zone, from) => {
                let (id, volume) = world.create_volume(*session, *token, *zone, *from)?;
                return Ok(Made::Volume(id, volume));
            }
            Self::Snapshot(of, generation, kind, op, run) => {
                let (id, snapshot) = world.create_snapshot(*of, *generation, *kind, *op, *run)?;
                return Ok(Made::Snapshot(id, snapshot));
            }
            Self::Record(id, until) => {
                world.record_lease(*id, *until);
                return Ok(Made::Recorded(Deadline(world.now)));
            }
            Self::Lock(id, client, lease) => world.lock(*id, *client, *lease)?,
            Self::Claim(session, id, volumes) => {
                world.change_instance(*id, |instance| instance.session = *session);
                for volume in volumes {
                    world.change_volume(*volume, |volume| volume.session = *session);
                }
                return Ok(Made::Tagged);
            }
            Self::Raise(session, id, to) => {
                if world.volume(*id).is_none() {
                    return Err(No::State);
                }
                world.change_volume(*id, |volume| {
                    volume.generation = *to;
                    volume.session = *session;
                });
            }
            Self::Attach(volume, instance) => world.attach(*volume, *instance)?,
            Self::Mount(order, client) => world.mount(*order, *client)?,
            Self::MarkFormatted(id) => {
                world.change_volume(*id, |volume| volume.formatted = true);
            }
            Self::Keep(id) => {
                world.change_instance(*id, |instance| {
                    if let Some((_, dies_with_it)) = &mut instance.disk {
                        *dies_with_it = false;
                    }
                });
                if let Some((volume, _)) = world.instance(*id).and_then(|instance| instance.disk) {
                    world.change_volume(volume, |volume| {
                        if let Some(attachment) = &mut volume.attachment {
                            attachment.dies_with_it = false;
                        }
                    });
                }
            }
            Self::Close(id) => return Ok(Made::Closed(world.close(*id, freeze)?)),
            Self::Verify(id, kind) => return Ok(Made::Content(world.look_into(*id, *kind))),
            Self::Detach(volume, instance) => world.detach(*volume, *instance)?,
            Self::Terminate(id) => world.terminate(*id),
            Self::DeleteVolume(id) => world.delete_volume(*id)?,
            Self::DeleteSnapshot(id) => world.delete_snapshot(*id),
            Self::Mark(id, mark) => {
                world.change_snapshot(*id, |snapshot| snapshot.mark = Some(*mark));
            }
            Self::Erase(id, was_shown) => world.erase(*id, *was_shown),
            Self::Rename(id) => world.rename(*id),
            Self::Fork(id) => world.set_aside(*id),
            Self::Copy(original, session, token) => {
                let (id, copy) = world.copy_original(*original, *session, *token);
                return Ok(Made::Snapshot(id, copy));
            }
        }
        Ok(Made::Nothing)
    }
}

impl Client {
    /// The client receives the answer of the current call.
    pub(super) fn receive(&mut self, world: &World) {
        let At::Acting {
            seen, steps, stage, ..
        } = &self.at
        else {
            return;
        };
        let (Some(step), Stage::Answer(answer)) = (steps.last().cloned(), stage.clone()) else {
            return;
        };
        if let Step::Mark { .. } | Step::Rename { .. } | Step::Erase(_) = &step {
            let all = seen.snapshots.iter().map(|snapshot| snapshot.id.clone());
            let all: Vec<SnapshotId> = all.collect();
            self.know().me.leaving.extend(all);
        }
        let is_out = matches!(answer, Err(Failure::No(No::Capacity)));
        let went = match answer {
            Ok(made) => self.remember(&step, made, world),
            Err(_) if let Step::Prune(superseded) = &step => {
                // A snapshot that could not be pruned is no failure.
                let id = superseded.snapshot().clone();
                self.know().me.not_pruned.insert(id);
                Went::On
            }
            Err(failure) => {
                self.regret(&step, failure, world);
                Went::Failed
            }
        };
        match went {
            Went::On => self.on(world.now),
            Went::Again(next) => {
                if let At::Acting { stage, .. } = &mut self.at {
                    *stage = next;
                }
            }
            // Nobody waits for capacity.
            Went::Failed if is_out => self.end(End::Busy, world.now),
            // It pauses, and plans anew.
            Went::Failed => {
                self.at = At::Rest {
                    until: world.now + 1,
                };
            }
        }
    }

    /// The current step is finished.
    fn on(&mut self, now: u16) {
        let At::Acting { steps, .. } = &mut self.at else {
            return;
        };
        steps.pop();
        let next = steps.last().cloned();
        if next.is_none() {
            self.at = At::Rest { until: now };
            return;
        }
        let next = Stage::first(next.as_ref(), self);
        if let At::Acting { stage, .. } = &mut self.at {
            *stage = next;
        }
    }

    fn moved(&mut self, volume: &VolumeId, how: AttachmentState, to: &InstanceId, now: u16) {
        if let (AttachmentState::Attaching, Some(Step::Attach { generation, .. })) =
            (how, self.step().cloned())
        {
            self.know().me.attached = Some((volume.clone(), generation));
        }
        let moved = (how, to.clone(), values::moment(now));
        self.know().moves.insert(volume.clone(), moved);
    }

    fn remember(&mut self, step: &Step, made: Made, world: &World) -> Went {
        let now = values::moment(world.now);
        match (step, made) {
            (Step::Launch { .. }, Made::Instance(id, record)) => {
                self.launch = None;
                let value = values::instance(id, &record);
                let overlay = self.know();
                overlay.me.launches += 1;
                overlay.me.announced = Some(now);
                overlay.instances.insert(value.id.clone(), (value, now));
            }
            (Step::CreateVolume { .. }, Made::Volume(id, record)) => {
                self.order = None;
                let value = values::volume(id, &record);
                let overlay = self.know();
                overlay.me.announced = Some(now);
                overlay.volumes.insert(value.id.clone(), (value, now));
            }
            (Step::Snapshot { .. }, Made::Snapshot(id, record)) => {
                let value = values::snapshot(id, &record);
                self.know().snapshots.insert(value.id.clone(), (value, now));
            }
            (Step::Claim(id), made) => {
                return self.claimed(id, &made, world);
            }
            (Step::Raise { volume, to }, _) => {
                let overlay = self.know();
                overlay.generations.insert(volume.clone(), *to);
                overlay.claimed.insert(volume.to_string());
                overlay.me.raised = Some((volume.clone(), *to));
            }
            (Step::MarkFormatted { volume, .. }, _) => {
                if !reads_back(world, volume, |record| record.formatted) {
                    return Went::Failed;
                }
                self.know().formatted.insert(volume.clone());
            }
            (
                Step::Attach {
                    volume, instance, ..
                }
                | Step::AttachThrowaway { volume, instance },
                _,
            ) => self.moved(volume, AttachmentState::Attaching, instance, world.now),
            (
                Step::Detach {
                    volume, instance, ..
                },
                _,
            ) => self.moved(volume, AttachmentState::Detaching, instance, world.now),
            (Step::Mount { .. }, _) => self.know().me.refused = None,
            (Step::Verify { snapshot, .. }, Made::Content(content)) => {
                self.judge_content(snapshot, content, now);
            }
            (Step::Close { instance, volume }, Made::Closed(closed)) => {
                let me = &mut self.know().me;
                me.closes.insert(instance.clone(), closed);
                if closed != Closed::NotMounted {
                    me.unmounted.clone_from(volume);
                }
                me.closed.clone_from(volume);
            }
            (Step::KeepOnTermination { instance, .. }, _) => {
                if let At::Acting { seen, .. } = &self.at {
                    let held = seen.held_by(instance).map(|volume| volume.id.clone());
                    let held: Vec<VolumeId> = held.collect();
                    self.know().kept.extend(held);
                }
            }
            (Step::Terminate(quiet), _) => self.note_gone(quiet.instance()),
            (Step::DeleteVolume(spent), _) => self.note_gone(spent.volume()),
            (Step::DeleteSnapshot(failed), _) => self.note_gone(failed.snapshot()),
            (Step::Prune(grounds) | Step::Erase(grounds), _) => self.note_gone(grounds.snapshot()),
            (Step::Mark { snapshot, leaving }, _) => {
                let overlay = self.know();
                overlay.leaving.insert(snapshot.clone(), leaving.clone());
                overlay.me.announced = Some(now);
            }
            (Step::Rename { snapshot, .. }, _) => self.note_gone(snapshot),
            (Step::Fork { head, .. }, _) => self.note_gone(head),
            (Step::CopySnapshot(_), Made::Snapshot(id, record)) => {
                let value = values::snapshot(id, &record);
                let overlay = self.know();
                overlay.me.announced = Some(now);
                overlay.snapshots.insert(value.id.clone(), (value, now));
            }
            _ => {}
        }
        Went::On
    }

    fn judge_content(&mut self, id: &SnapshotId, content: Option<bool>, now: BootTime) {
        let first = match self.overlay.me.verdicts.get(id) {
            Some(Verdict::Open { first, .. }) => *first,
            _ => now,
        };
        let verdict = match content {
            Some(true) => Verdict::Sound,
            Some(false) => Verdict::Unsound("not the drive".to_owned()),
            None if now.since(first) >= values::VERDICT => {
                Verdict::Unverifiable("nobody".to_owned())
            }
            None => Verdict::Open { first, last: now },
        };
        self.know().me.verdicts.insert(id.clone(), verdict);
    }

    fn note_gone(&mut self, id: &impl ToString) {
        self.know().gone.insert(id.to_string());
    }

    /// The end of the lease is recorded, then the lock is taken, then the tags are written, unless
    /// they are the same already.
    fn claimed(&mut self, id: &InstanceId, made: &Made, world: &World) -> Went {
        let At::Acting { seen, .. } = &self.at else {
            return Went::On;
        };
        let mine = seen
            .instance(id)
            .is_some_and(|instance| instance.session == values::session(self.session));
        if let Made::Recorded(at) = made {
            return Went::Again(Stage::Call(Read::Recorded(*at)));
        }
        if !matches!(made, Made::Tagged) {
            self.keep = world.lease.map(|_| Keep {
                instance: values::number(id.as_str()),
                renewed: None,
                recorded: None,
            });
        }
        if mine {
            return Went::On;
        }
        if !matches!(made, Made::Tagged) {
            return Went::Again(Stage::Call(Read::Locked));
        }
        let held: Vec<String> = seen
            .held_by(id)
            .map(|volume| volume.id.to_string())
            .collect();
        let overlay = self.know();
        overlay.claimed.insert(id.to_string());
        overlay.claimed.extend(held);
        overlay.me.announced = Some(values::moment(world.now));
        Went::On
    }

    fn regret(&mut self, step: &Step, failure: Failure, world: &World) {
        let unclear = failure == Failure::Unclear;
        match step {
            Step::Launch { .. } | Step::CreateVolume { .. } | Step::CopySnapshot(_) if unclear => {
                self.know().me.unsure = Some(values::moment(world.now));
            }
            Step::Verify { snapshot, .. } => {
                self.judge_content(snapshot, None, values::moment(world.now));
            }
            Step::Launch { .. } => self.launch = None,
            Step::CreateVolume { .. } => self.order = None,
            Step::Snapshot { .. } if failure != Failure::Changed && !unclear => {
                self.know().me.attempts.pop();
            }
            Step::Attach {
                volume, instance, ..
            }
            | Step::AttachThrowaway { volume, instance }
                if unclear =>
            {
                self.moved(volume, AttachmentState::Attaching, instance, world.now);
            }
            Step::Mount { order, .. } if failure == Failure::No(No::Damaged) => {
                let why = Refusal::Damaged("it is blank".to_owned());
                self.know().me.refused = Some((order.volume.clone(), why));
            }
            _ => {}
        }
    }
}

/// Whether a tag that was just written can be read back: some read shows it.
fn reads_back(
    world: &World,
    id: &VolumeId,
    is_written: impl Fn(&super::world::Volume) -> bool,
) -> bool {
    let id = values::number(id.as_str());
    let thing = world.volumes.iter().find(|thing| thing.id == id);
    let versions = thing.map(super::world::Thing::versions).unwrap_or_default();
    versions.iter().flatten().any(is_written)
}
