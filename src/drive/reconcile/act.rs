//! Carrying out one step. Every call is awaited to its end, and its answer kept in the overlay.

use std::time::Duration;

use crate::ec2::{AttachmentState, Error, Instance, Kind, Volume};
use crate::host::{Closed, MountOrder};
use crate::ids::{Generation, InstanceId, SnapshotId, Uuid, VolumeId, random_id};

use super::super::event::Event;
use super::super::host_error::HostError;
use super::super::hosts::{Hosts, RECORD_LIFE};
use super::super::observed::{Attempt, DEVICE, Observed, Refusal, Verdict};
use super::super::plan::Step;
use super::super::pools::Pool;
use super::super::superblock;
use super::super::tags::{self, Carried, Record, SnapshotKind, SnapshotTags, VolumeTags};
use super::checkpoint::last_checkpoint;
use super::{Reconciler, RunError};

impl<H: Hosts> Reconciler<H> {
    /// Carries out `step`, planned on what was `seen`; returns the id of what it made, or the name
    /// that it gave.
    pub(super) async fn act(
        &mut self,
        step: &Step,
        seen: &Observed,
    ) -> Result<Option<String>, RunError> {
        match step {
            Step::Launch { zone, throwaway } => {
                return self.launch(zone.as_ref(), *throwaway).await.map(Some);
            }
            Step::CreateVolume { zone, from } => {
                return self.create_volume(zone, from).await.map(Some);
            }
            Step::Snapshot {
                volume,
                generation,
                kind,
            } => {
                let made = self.snapshot(volume, *generation, *kind, seen).await;
                return made.map(Some);
            }
            Step::CopySnapshot(order) => return self.copy(order, seen).await.map(Some),
            Step::Claim(instance) => self.claim(instance, seen).await?,
            Step::Raise { volume, to } => self.raise(volume, *to).await?,
            Step::Attach {
                volume,
                instance,
                generation,
            } => {
                self.attach(volume, instance, *generation).await?;
            }
            Step::AttachThrowaway { volume, instance } => {
                self.attach_throwaway(volume, instance).await?;
            }
            Step::Mount { instance, order } => self.mount(instance, order).await?,
            Step::MarkFormatted { volume, generation } => {
                self.mark_formatted(volume, *generation).await?;
            }
            Step::MarkUuid { volume, uuid } => self.mark_uuid(volume, *uuid).await?,
            Step::Verify {
                snapshot,
                uuid,
                kind,
            } => return Ok(self.verify(snapshot, *uuid, *kind).await),
            Step::KeepOnTermination { instance, device } => {
                self.ec2.keep_on_termination(instance, device).await?;
                let held = seen.all_volumes();
                let held = held.filter(|volume| volume.holder() == Some(instance));
                self.overlay
                    .kept
                    .extend(held.map(|volume| volume.id.clone()));
            }
            Step::Close { instance, volume } => {
                let host = self.host(instance)?;
                let closed = self.hosts.close(&host).await?;
                self.overlay.me.closes.insert(instance.clone(), closed);
                if closed != Closed::NotMounted {
                    self.overlay.me.unmounted.clone_from(volume);
                }
                self.overlay.me.closed.clone_from(volume);
            }
            Step::Detach {
                volume,
                instance,
                reject,
            } => {
                if *reject {
                    self.overlay.me.rejected.push(instance.clone());
                }
                self.ec2.detach(volume, instance).await?;
                self.keep_move(volume, AttachmentState::Detaching, instance);
            }
            Step::ShowConsole(instance) => {
                self.record_unanswered(instance);
                self.show_console(instance).await;
            }
            Step::Fork { head, lineage } => {
                let name = self.fork(head, lineage.as_ref()).await?;
                return Ok(Some(name.to_string()));
            }
            Step::Mark { snapshot, leaving } => {
                self.take_up(seen);
                self.mark(snapshot, leaving).await?;
            }
            Step::Rename { snapshot, to } => {
                self.take_up(seen);
                self.rename(snapshot, to).await?;
            }
            Step::Terminate(_)
            | Step::DeleteVolume(_)
            | Step::DeleteSnapshot(_)
            | Step::Prune(_)
            | Step::Erase(_) => {
                self.destroy(step, seen).await?;
            }
        }
        Ok(None)
    }

    /// The instance as last seen.
    pub(super) fn host(&self, id: &InstanceId) -> Result<Instance, RunError> {
        self.seen_instances
            .get(id)
            .cloned()
            .ok_or_else(|| RunError::Changed(format!("{} is gone", id.drive_label(&self.drive))))
    }

    /// Takes the host's lock, then records this session in its tags and its volume's.
    async fn claim(&mut self, id: &InstanceId, seen: &Observed) -> Result<(), RunError> {
        let host = self.host(id)?;
        let who = self.overlay.who.clone();
        let lease = self.wanted.lease;
        // First the tag, then the host, which never runs longer than the tag allows. After a sleep
        // between the two it begins anew.
        let began = self.clock.boot();
        let until = self.clock.now() + lease;
        if tags::until(&host.tags).is_none_or(|there| there < until) {
            self.ec2.tag(id.as_str(), &tags::lease(until)).await?;
        }
        if self.clock.boot().since(began) > RECORD_LIFE {
            return Err(RunError::Changed(format!(
                "the lease of {} was recorded too long ago",
                id.drive_label(&self.drive)
            )));
        }
        self.overlay.me.attached = None;
        self.hosts
            .claim(&host, &who.session, &who.caller, lease)
            .await?;
        let is_known = seen
            .instance(id)
            .is_some_and(|instance| instance.session == who.session);
        if is_known {
            return Ok(());
        }
        let claim = tags::claim(&who);
        self.ec2.tag(id.as_str(), &claim).await?;
        self.overlay.claimed.insert(id.to_string());
        let mut of_drive = claim;
        of_drive.extend(self.wanted.settings.tags());
        let note = self.wanted.note.as_ref();
        of_drive.extend(note.map(tags::noted).unwrap_or_default());
        for volume in seen.held_by(id) {
            let before = self.volume(&volume.id).await?.tags;
            let mut its_own = of_drive.clone();
            its_own.extend(self.mounter(&volume.id, &before, false));
            self.ec2.tag(volume.id.as_str(), &its_own).await?;
            self.overlay.claimed.insert(volume.id.to_string());
        }
        self.overlay.me.announced = Some(self.clock.boot());
        Ok(())
    }

    /// Raises the generation by one. It is never lowered: what is there now is read first.
    async fn raise(&mut self, id: &VolumeId, to: Generation) -> Result<(), RunError> {
        let volume = self.volume(id).await?;
        let there = self.generation(&volume)?;
        if there >= to {
            self.overlay.generations.insert(id.clone(), there);
            return Err(RunError::Changed(format!(
                "{} is at generation {there} already",
                id.drive_label(&self.drive)
            )));
        }
        let mut raised = tags::raised(&self.overlay.who, to);
        raised.extend(self.mounter(id, &volume.tags, self.hosts.forgets()));
        // Settings chosen now become the drive's, even if its volume existed before.
        raised.extend(self.wanted.settings.tags());
        let host = self.host_in(None);
        raised.extend(
            host.map(|host| tags::image(&host.image))
                .unwrap_or_default(),
        );
        raised.extend(
            host.map(|host| self.record(host))
                .unwrap_or_default()
                .tags(),
        );
        self.ec2.tag(id.as_str(), &raised).await?;
        self.overlay.generations.insert(id.clone(), to);
        self.overlay.claimed.insert(id.to_string());
        self.overlay.me.raised = Some((id.clone(), to));
        Ok(())
    }

    /// The record of the generation that `host` is to mount.
    fn record(&self, host: &Instance) -> Record {
        let price = self.wanted.offers.iter().find(|offer| {
            let Pool {
                instance_type,
                zone,
                market,
                ..
            } = &offer.pool;
            *instance_type == host.instance_type
                && *market == host.market
                && zone.as_ref().is_none_or(|zone| *zone == host.zone)
        });
        let price = price.and_then(|offer| offer.price);
        Record::new(host, price, self.wanted.note.clone())
    }

    /// Attaches the volume. Right before, its generation is read again: no other session is seen to
    /// have raised it since. Nothing can be written there before [`Self::mount`].
    async fn attach(
        &mut self,
        id: &VolumeId,
        instance: &InstanceId,
        raised: Generation,
    ) -> Result<(), RunError> {
        // Even if it fails, the next attachment needs a raise of its own.
        self.overlay.me.raised = None;
        let session = self.overlay.session().clone();
        let volume = self.volume(id).await?;
        let is_mine = match tags::read_volume(&volume.tags) {
            Ok(VolumeTags::Drive {
                generation,
                session: by,
                ..
            }) => generation < raised || (generation == raised && by == session),
            Ok(VolumeTags::Root | VolumeTags::Throwaway { .. }) | Err(_) => false,
        };
        if !is_mine {
            return Err(RunError::Changed(format!(
                "another xdrive has raised the generation of {}",
                id.drive_label(&self.drive)
            )));
        }
        let answer = self.ec2.attach(id, instance, DEVICE).await;
        if answer.as_ref().err().is_none_or(may_have_happened) {
            self.keep_move(id, AttachmentState::Attaching, instance);
            self.overlay.me.attached = Some((id.clone(), raised));
        }
        Ok(answer?)
    }

    /// Mounts once the raised generation can be read back, so that nothing is written before that.
    /// It does not wait for EC2 to finish attaching.
    async fn mount(&mut self, id: &InstanceId, order: &MountOrder) -> Result<(), RunError> {
        let host = self.host(id)?;
        let is_raised = |tags: &VolumeTags| match tags {
            VolumeTags::Drive { generation, .. }
            | VolumeTags::Throwaway {
                base: generation, ..
            } => *generation == order.generation,
            VolumeTags::Root => false,
        };
        let before = self.read_back(&order.volume, is_raised).await?.tags;
        // Even if the answer is lost.
        self.overlay.me.attached = None;
        let order = MountOrder {
            frozen: self.frozen(&before),
            ..order.clone()
        };
        let refusal = match self.hosts.mount(&host, &order).await {
            Ok(uuid) => {
                self.overlay.me.reported = Some((order.volume.clone(), uuid));
                None
            }
            Err(HostError::Garbled(_)) => Some(Refusal::Garbled),
            Err(HostError::Damaged(problem)) => Some(Refusal::Damaged(problem)),
            Err(error) => return Err(error.into()),
        };
        self.overlay.me.refused = refusal.map(|why| (order.volume.clone(), why));
        Ok(())
    }

    /// Marks the volume as formatted, and reads that back: the drive is not used before that.
    async fn mark_formatted(&mut self, id: &VolumeId, at: Generation) -> Result<(), RunError> {
        let mut marks = tags::formatted(at);
        let reported = self.overlay.me.reported.clone();
        let uuid = reported.and_then(|(volume, uuid)| (volume == *id).then_some(uuid));
        marks.extend(uuid.map(tags::identified).unwrap_or_default());
        self.ec2.tag(id.as_str(), &marks).await?;
        self.read_back(id, |tags| {
            matches!(
                tags,
                VolumeTags::Drive {
                    formatted: true,
                    ..
                }
            )
        })
        .await?;
        self.overlay.formatted.insert(id.clone());
        self.overlay
            .uuids
            .extend(uuid.map(|uuid| (id.clone(), uuid)));
        Ok(())
    }

    async fn mark_uuid(&mut self, id: &VolumeId, uuid: Uuid) -> Result<(), RunError> {
        self.ec2.tag(id.as_str(), &tags::identified(uuid)).await?;
        self.overlay.uuids.insert(id.clone(), uuid);
        Ok(())
    }

    /// Verifies a snapshot; returns its id if it is sound. If this caller may not read it, that is
    /// reported once and is no failure.
    async fn verify(
        &mut self,
        id: &SnapshotId,
        uuid: Option<Uuid>,
        kind: SnapshotKind,
    ) -> Option<String> {
        let now = self.clock.boot();
        let first = match self.overlay.me.verdicts.get(id) {
            Some(Verdict::Open { first, .. }) => *first,
            _ => now,
        };
        let verdict = match self.ec2.snapshot_block(id, 0).await {
            Ok(block) => match superblock::check(block.as_deref(), uuid, kind) {
                Ok(()) => Verdict::Sound,
                Err(problem) => Verdict::Unsound(problem),
            },
            Err(error) if may_not_be_asked(&error) || now.since(first) >= self.timing.verdict => {
                let why = error.to_string();
                self.emit(Event::Unverified {
                    snapshot: id.clone(),
                    why: why.clone(),
                });
                Verdict::Unverifiable(why)
            }
            Err(_) => Verdict::Open { first, last: now },
        };
        let sound = verdict == Verdict::Sound;
        self.overlay.me.verdicts.insert(id.clone(), verdict);
        sound.then(|| id.to_string())
    }

    /// Takes a snapshot, marked so that it is found if the answer gets lost.
    async fn snapshot(
        &mut self,
        id: &VolumeId,
        generation: Generation,
        kind: SnapshotKind,
        seen: &Observed,
    ) -> Result<String, RunError> {
        let volume = self.volume(id).await?;
        let there = self.generation(&volume)?;
        if there != generation {
            self.overlay.generations.insert(id.clone(), there);
            return Err(RunError::Changed(format!(
                "{} is at generation {there} now",
                id.drive_label(&self.drive)
            )));
        }
        let recorded = match tags::read_volume(&volume.tags) {
            Ok(VolumeTags::Drive { uuid, .. }) => uuid,
            Ok(VolumeTags::Root | VolumeTags::Throwaway { .. }) | Err(_) => None,
        };
        let number = match kind {
            SnapshotKind::Checkpoint => 1 + last_checkpoint(seen, id, generation),
            SnapshotKind::Clean | SnapshotKind::Crashed => 0,
        };
        let own = SnapshotTags {
            generation,
            kind,
            op: random_id()?,
            uuid: recorded.or(self.overlay.uuids.get(id).copied()),
            number,
        };
        let mut carried = Carried::from_volume(&volume.tags);
        let wanted = self.wanted.settings.own_tags();
        carried.settings = carried.settings.with_own(&wanted);
        let tags = tags::snapshot(&self.drive, &self.overlay.who, &own, &carried);
        self.overlay.me.attempts.push(Attempt {
            volume: id.clone(),
            op: own.op.clone(),
            kind,
            at: self.clock.boot(),
        });
        match self.ec2.create_snapshot(id, &tags).await {
            Ok(mut snapshot) => {
                let made = snapshot.id.to_string();
                if snapshot.tags.is_empty() {
                    snapshot.tags = tags;
                }
                let at = self.clock.boot();
                self.overlay
                    .snapshots
                    .insert(snapshot.id.clone(), (snapshot, at));
                Ok(made)
            }
            Err(error) => {
                if !may_have_happened(&error) {
                    self.overlay.me.attempts.pop();
                }
                Err(error.into())
            }
        }
    }

    /// Keeps an attachment or detachment in the overlay: the lists may not show it yet.
    pub(super) fn keep_move(
        &mut self,
        volume: &VolumeId,
        how: AttachmentState,
        instance: &InstanceId,
    ) {
        let moved = (how, instance.clone(), self.clock.boot());
        self.overlay.moves.insert(volume.clone(), moved);
    }

    /// The volume, read by id.
    pub(super) async fn volume(&self, id: &VolumeId) -> Result<Volume, RunError> {
        self.ec2.volume(id).await?.ok_or_else(|| {
            let volume = id.drive_label(&self.drive);
            RunError::Changed(format!("{volume} is gone, or not to be seen yet"))
        })
    }

    /// The generation of a volume that was read just now, and never lower than this process knows it.
    fn generation(&self, volume: &Volume) -> Result<Generation, RunError> {
        let id = &volume.id;
        let known = self
            .overlay
            .generations
            .get(id)
            .copied()
            .unwrap_or_default();
        match tags::read_volume(&volume.tags) {
            Ok(VolumeTags::Drive { generation, .. }) => Ok(generation.max(known)),
            Ok(VolumeTags::Root) => Err(RunError::Changed(format!(
                "{} is a root disk",
                id.after("the")
            ))),
            Ok(VolumeTags::Throwaway { .. }) => Err(RunError::Changed(format!(
                "{} is thrown away, and no state of the drive",
                id.after("the")
            ))),
            Err(problem) => {
                let volume = id.drive_label(&self.drive);
                Err(RunError::Changed(format!("{volume}: {problem}")))
            }
        }
    }

    /// Reads the volume's tags by id until they show what was written.
    async fn read_back(
        &self,
        id: &VolumeId,
        is_written: impl Fn(&VolumeTags) -> bool,
    ) -> Result<Volume, RunError> {
        let began = self.clock.boot();
        let mut pause = Duration::from_millis(5);
        loop {
            let volume = self.volume(id).await?;
            if tags::read_volume(&volume.tags).is_ok_and(|tags| is_written(&tags)) {
                return Ok(volume);
            }
            if self.clock.boot().since(began) > self.timing.settle {
                return Err(RunError::Changed(format!(
                    "{} does not show the tag that was written",
                    id.drive_label(&self.drive)
                )));
            }
            tokio::time::sleep(pause.min(self.timing.poll)).await;
            pause *= 2;
        }
    }
}

/// Whether another attempt cannot help: the caller lacks the permission, or there is no such
/// service.
pub(super) fn may_not_be_asked(error: &Error) -> bool {
    error.kind == Kind::Denied
        || matches!(
            error.code.as_str(),
            "InvalidAction" | "UnknownOperationException"
        )
}

/// Whether a call that failed so may have been carried out.
pub(super) fn may_have_happened(error: &Error) -> bool {
    matches!(error.kind, Kind::Ambiguous | Kind::Server)
}
