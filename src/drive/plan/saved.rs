//! The way to a saved drive: close the host, snapshot, terminate at once, wait for the snapshot,
//! delete the volume. A volume that was never attached is deleted at once.

use crate::ec2::{InstanceState, SnapshotState, VolumeState};

use super::super::hosts::Client;
use super::super::observed::{Attempt, SeenInstance, SeenSnapshot, SeenVolume};
use super::super::proof::{DeletionGrounds, FailedSnapshot, saves};
use super::super::stuck::Why;
use super::super::tags::SnapshotKind;
use super::lineage;
use super::lineage::Newest;
use super::recovery::may_delete;
use super::step::{Done, Next, Step, View, Waiting};
use super::{checkpoint, recovery, throwaway, verify};

/// Plans the end of this session's own things; nothing else is touched.
pub(super) fn end(view: &View) -> Next {
    Ending::new(view, Scope::Mine).plan()
}

/// Plans to take the drive off its host, up to a snapshot that was begun.
pub(super) fn parked(view: &View) -> Next {
    whole(view, false, true)
}

/// Plans the saving of the whole drive.
pub(super) fn saved(view: &View, even_if_used: bool) -> Next {
    whole(view, even_if_used, false)
}

fn whole(view: &View, even_if_used: bool, parks: bool) -> Next {
    let seen = view.seen;
    if !seen.unreadable.is_empty() {
        return Ending::stuck_after_mine(view, Why::Unreadable(seen.unreadable.clone()));
    }
    let newest = lineage::newest(seen);
    let why = match &newest {
        Newest::Forked(heads) => Some(Why::Forked(heads.clone())),
        Newest::Failed(snapshot) => Some(Why::NewestFailed {
            failed: snapshot.id.clone(),
            older: lineage::older(seen, snapshot),
        }),
        Newest::Nothing | Newest::Volume(_) | Newest::Snapshot(_) | Newest::Pending(_) => {
            lineage::foreign(seen, &newest, None)
        }
    };
    if let Some(why) = why {
        return Ending::stuck_after_mine(view, why);
    }
    let is_handed_on = !even_if_used && is_handed_on(view);
    let whole = Scope::Whole { even_if_used };
    let scope = if is_handed_on { Scope::Handed } else { whole };
    let mut ending = Ending::new(view, scope);
    ending.parks = parks;
    ending.plan()
}

/// Whether another session has claimed the drive since this process closed it: that session saves
/// what it makes and takes, and this one does not wait for it. (An instance that answers and has no
/// client is about to be claimed, or its client was killed: this session waits to see which, since
/// no other may come.)
fn is_handed_on(view: &View) -> bool {
    let seen = view.seen;
    seen.me.closed.is_some()
        && seen.instances.iter().any(|instance| {
            instance.is_live()
                && instance.session != seen.me.session
                && !seen.is_mine(instance)
                && !throwaway::is_host(seen, instance)
                && instance.client() != Some(&Client::Nobody)
        })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// The resources of this session.
    Mine,
    /// The resources of this session, and the pending snapshots: another session has the drive by
    /// now.
    Handed,
    /// The whole drive.
    Whole { even_if_used: bool },
}

/// The findings of a pass over the drive's resources, by precedence: steps come before waiting, and
/// a verdict comes only when nothing else is left.
struct Ending<'a> {
    view: &'a View<'a>,
    scope: Scope,
    /// The volumes are kept, and no snapshot is waited for.
    parks: bool,
    steps: Vec<Step>,
    wait: Option<Next>,
    stuck: Option<Why>,
    busy: Option<Next>,
}

impl<'a> Ending<'a> {
    fn new(view: &'a View<'a>, scope: Scope) -> Self {
        Self {
            view,
            scope,
            parks: false,
            steps: Vec::new(),
            wait: None,
            stuck: None,
            busy: None,
        }
    }

    /// Saves this session's own things first, then is stuck.
    fn stuck_after_mine(view: &'a View<'a>, why: Why) -> Next {
        let mut ending = Self::new(view, Scope::Mine);
        ending.stuck = Some(why);
        ending.plan()
    }

    fn plan(mut self) -> Next {
        let seen = self.view.seen;
        for volume in seen.volumes.iter().filter(|volume| volume.exists()) {
            if self.covers_volume(volume) {
                self.volume(volume);
            }
        }
        for thrown in &seen.throwaways {
            if self.covers_volume(&thrown.volume) {
                self.take_some(throwaway::end_volume(self.view, thrown));
            }
        }
        for instance in &seen.instances {
            if self.covers(instance) {
                self.instance(instance);
            }
        }
        if let Scope::Whole { .. } = self.scope {
            self.steps.extend(recovery::terminate_stopped(seen));
        }
        if self.scope != Scope::Mine && !self.parks {
            self.pending();
        }
        self.verdict()
    }

    fn verdict(mut self) -> Next {
        if !self.steps.is_empty() {
            // A verification may take a while: what stops a bill goes first.
            let is_look = |step: &Step| matches!(step, Step::Verify { .. });
            self.steps.sort_by_key(is_look);
            return Next::Do(self.steps);
        }
        if let Some(wait) = self.wait {
            return wait;
        }
        if let Some(why) = self.stuck {
            return self.view.stuck(why);
        }
        if let Some(busy) = self.busy {
            return busy;
        }
        let unsure = self.view.seen.me.unsure;
        let is_sure = unsure.is_none_or(|moment| self.view.shows(moment));
        if !is_sure || (self.scope != Scope::Mine && !self.view.has_looked()) {
            return self.view.settle();
        }
        // Last, and never in the way of the save.
        let superseded = checkpoint::prune(self.view.seen);
        if self.scope != Scope::Mine && !self.parks && !superseded.is_empty() {
            return Next::Do(superseded);
        }
        Next::Done(if self.parks {
            Done::Parked(lineage::last_begun(self.view.seen))
        } else {
            Done::Saved(lineage::last_saved(self.view.seen))
        })
    }

    fn take_some(&mut self, next: Option<Next>) {
        if let Some(next) = next {
            self.take(next);
        }
    }

    fn take(&mut self, next: Next) {
        match next {
            Next::Do(steps) => self.steps.extend(steps),
            Next::Wait(..) => self.wait = self.wait.take().or(Some(next)),
            Next::Busy(_) => self.busy = self.busy.take().or(Some(next)),
            Next::Stuck(stuck) => self.stuck = self.stuck.take().or(Some(stuck.why)),
            Next::Done(_) => {}
        }
    }

    fn covers(&self, instance: &SeenInstance) -> bool {
        let seen = self.view.seen;
        // A session that has closed its drive leaves what another one throws away to that.
        let is_abandoned = instance.client() == Some(&Client::Nobody);
        let is_theirs = throwaway::is_host(seen, instance) && !is_abandoned;
        let is_left = seen.me.closed.is_some() && is_theirs;
        let is_whole = matches!(self.scope, Scope::Whole { .. });
        (is_whole && !is_left) || seen.is_mine(instance)
    }

    fn covers_volume(&self, volume: &SeenVolume) -> bool {
        let seen = self.view.seen;
        let holder = volume.holder().and_then(|id| seen.instance(id));
        match (self.scope, holder) {
            (Scope::Whole { .. }, _) => true,
            (_, Some(holder)) if holder.is_live() => seen.is_mine(holder),
            _ => volume.session == seen.me.session,
        }
    }

    /// Plans for a volume.
    fn volume(&mut self, volume: &SeenVolume) {
        let seen = self.view.seen;
        if !lineage::is_used(seen, volume) && volume.holder().is_none() {
            // Never attached, or never used: it is deleted.
            if !may_delete(self.view, volume) {
                return self.wait_for_look();
            }
            return match DeletionGrounds::prove(seen, volume) {
                Some(grounds) => self.steps.push(Step::DeleteVolume(grounds)),
                None => self.take(self.view.wait(Waiting::Volume(volume.id.clone()))),
            };
        }
        let holder = volume.holder().and_then(|id| seen.instance(id));
        if let Some(host) = holder
            && host.is_live()
            && !seen.is_closed(host)
        {
            return match recovery::release(self.view, volume) {
                Some(next) => self.take(next),
                None => self.close(host, volume),
            };
        }
        let is_closed = holder.is_some_and(|host| seen.is_closed(host));
        let is_whole = holder.is_some_and(|host| seen.is_whole(host, volume));
        if lineage::is_certainly_empty(seen, volume) {
            // It is deleted once it is detached.
            return self.take_some(recovery::release(self.view, volume));
        }
        if is_closed || volume.is_free() {
            return self.snapshot(volume, is_closed, is_whole);
        }
        self.take_some(recovery::release(self.view, volume));
    }

    /// Waits until the lists show whether another session's thing is in use.
    fn wait_for_look(&mut self) {
        if !self.view.has_looked() {
            self.take(self.view.settle());
        }
    }

    /// Closes the drive on a live host that has not closed.
    fn close(&mut self, host: &SeenInstance, volume: &SeenVolume) {
        let close = Next::Do(vec![Step::Close {
            instance: host.id.clone(),
            volume: Some((volume.id.clone(), volume.generation)),
        }]);
        let forced = self.scope == Scope::Whole { even_if_used: true };
        let next = match host.view() {
            None => recovery::silent(self.view, host, Waiting::Host(host.id.clone())),
            Some(answer) => match answer.client {
                Client::Other { .. } if answer.closing => {
                    self.view.wait(Waiting::Closing(host.id.clone()))
                }
                Client::Other { .. } if !forced => Next::Busy(host.id.clone()),
                // Sessions that joined this one go on: the last to leave saves. But none can go on
                // where this one cannot.
                Client::Me if answer.guests > 0 && !answer.closing && !forced && !self.parks => {
                    Next::Busy(host.id.clone())
                }
                // A closing host takes no client any more, and needs none.
                Client::Nobody if !answer.closing => Next::Do(vec![Step::Claim(host.id.clone())]),
                Client::Nobody | Client::Me | Client::Other { .. } => close,
            },
        };
        self.take(next);
    }

    /// The volume is at rest, or may be: snapshot it, or go on with the existing snapshot.
    /// `is_closed` and `is_whole` are by its host's report.
    fn snapshot(&mut self, volume: &SeenVolume, is_closed: bool, is_whole: bool) {
        let seen = self.view.seen;
        if self.parks && lineage::is_being_saved(seen, volume) {
            return;
        }
        if let Some(grounds) = DeletionGrounds::prove(seen, volume) {
            // Failed attempts go first: without the volume nothing would prove them useless.
            let failed = seen.snapshots_of(&volume.id);
            let useless = failed.filter_map(|snapshot| FailedSnapshot::prove(seen, snapshot));
            self.steps.extend(useless.map(Step::DeleteSnapshot));
            return self.steps.push(Step::DeleteVolume(grounds));
        }
        let saving: Vec<&SeenSnapshot> = seen
            .snapshots_of(&volume.id)
            .filter(|snapshot| saves(snapshot, volume))
            .collect();
        let by = |state| saving.iter().filter(move |it| it.state == state);
        if by(SnapshotState::Completed).next().is_some() {
            // Saved: verify a snapshot, wait until its instance releases the volume, and until
            // every list has a snapshot that stands for the volume.
            self.take_some(verify::verify(self.view, volume));
            self.take_some(recovery::release(self.view, volume));
            let standing = by(SnapshotState::Completed).filter(|it| verify::stands(seen, it));
            if standing.clone().next().is_some() && !standing.clone().any(|it| it.is_everywhere) {
                self.take(self.view.settle());
            }
            return;
        }
        if let Some(snapshot) = by(SnapshotState::Pending).next() {
            return self.take(self.view.wait(Waiting::Copy(snapshot.id.clone())));
        }
        if volume.state == VolumeState::Error {
            self.stuck = Some(Why::VolumeError(volume.id.clone()));
            return;
        }
        let known = Some((volume.id.clone(), volume.generation));
        // Two sessions may have raised the volume to the same generation at once: the one with an
        // instance may mount it, and a snapshot of now would pass for that one's save.
        let is_alone = (seen.instances.iter())
            .all(|instance| seen.is_mine(instance) || self.is_over(instance));
        let is_own = seen.me.closed == known || (seen.me.raised == known && is_alone);
        if !is_own && !self.view.has_looked() {
            // The session that closed it may have taken the snapshot already.
            return self.take(self.view.settle());
        }
        let is_known = is_own || is_closed;
        if !is_known && !self.is_abandoned(volume) {
            return self.wait_for_abandonment(volume);
        }
        // A host that has closed may have restarted before that, in the middle of its work: only
        // what was unmounted since, or was raised and never mounted, is certainly whole: never
        // attached, or attached and closed by this process alone.
        let was_unmounted = is_whole || seen.me.unmounted == known;
        let was_never_mounted =
            seen.me.raised == known || (seen.me.attached == known && seen.me.closed == known);
        let was_clean = || was_never_mounted && lineage::was_clean(seen, volume);
        let kind = if is_known && (was_unmounted || was_clean()) {
            SnapshotKind::Clean
        } else {
            SnapshotKind::Crashed
        };
        self.attempt(volume, &saving, kind);
    }

    /// Whether no session can be about to mount a free volume at the generation it shows: no other
    /// instance is live, and the session that raised it launched one before, which would be listed
    /// by now.
    fn is_abandoned(&self, volume: &SeenVolume) -> bool {
        let mut instances = self.view.seen.instances.iter();
        instances.all(|instance| self.is_over(instance)) && self.view.shows(volume.since)
    }

    /// Whether nothing can be mounted on the instance any more.
    fn is_over(&self, instance: &SeenInstance) -> bool {
        let seen = self.view.seen;
        !instance.is_live() || seen.is_closed(instance) || throwaway::is_host(seen, instance)
    }

    fn wait_for_abandonment(&mut self, volume: &SeenVolume) {
        if !self.view.shows(volume.since) {
            self.take(self.view.settle());
        } else if self.scope == Scope::Mine {
            // Another session's instance is live and may mount the volume: that session saves it.
            let other = self
                .view
                .seen
                .instances
                .iter()
                .find(|instance| instance.is_live());
            self.busy = other.map(|instance| Next::Busy(instance.id.clone()));
        }
        // Otherwise the live instances are dealt with first, each by its own rule.
    }

    /// Snapshots the volume, unless an earlier attempt may still turn up or failed just now.
    fn attempt(&mut self, volume: &SeenVolume, failed: &[&SeenSnapshot], kind: SnapshotKind) {
        let seen = self.view.seen;
        let timing = self.view.timing;
        let attempts: Vec<_> = seen
            .me
            .attempts
            .iter()
            .filter(|attempt| attempt.volume == volume.id)
            .collect();
        let last = attempts.last().map(|attempt| attempt.at);
        // Checkpoints keep their distance too, but were no attempts to save.
        let is_attempt = |attempt: &&&Attempt| attempt.kind != SnapshotKind::Checkpoint;
        let attempts: Vec<_> = attempts.iter().filter(is_attempt).collect();
        let is_lost = |op: &str| !seen.snapshots.iter().any(|snapshot| snapshot.op == op);
        let unseen = attempts
            .iter()
            .any(|attempt| is_lost(&attempt.op) && !self.view.shows(attempt.at));
        if unseen {
            return self.take(self.view.settle());
        }
        // A volume may have snapshots of several sessions: only failed attempts count.
        let came_to_one = |op: &str| {
            let mut snapshots = seen.snapshots.iter();
            snapshots.any(|snapshot| snapshot.op == op && snapshot.state != SnapshotState::Error)
        };
        let in_vain = attempts.iter().filter(|attempt| !came_to_one(&attempt.op));
        let tried = u32::try_from(in_vain.count().max(failed.len())).unwrap_or(u32::MAX);
        if tried >= timing.snapshot_tries {
            self.stuck = Some(Why::SnapshotsFail(volume.id.clone()));
            return;
        }
        let since = last.or_else(|| failed.iter().map(|snapshot| snapshot.since).max());
        let gap = Waiting::SnapshotGap(volume.id.clone());
        let wait = since.and_then(|since| self.view.wait_within(gap, since, timing.snapshot_gap));
        if let Some(wait) = wait {
            return self.take(wait);
        }
        let useless = failed
            .iter()
            .filter_map(|snapshot| FailedSnapshot::prove(seen, snapshot));
        self.steps.extend(useless.map(Step::DeleteSnapshot));
        self.steps.push(Step::Snapshot {
            volume: volume.id.clone(),
            generation: volume.generation,
            kind,
        });
    }

    /// Plans for an instance.
    fn instance(&mut self, instance: &SeenInstance) {
        let seen = self.view.seen;
        if instance.state == InstanceState::Stopping {
            let stopping = Waiting::Termination(instance.id.clone());
            let limit = self.view.timing.shutting_down;
            let next = self.view.wait_within(stopping, instance.since, limit);
            self.take(next.unwrap_or_else(|| self.view.stuck(Why::NeverEnds(instance.id.clone()))));
            return;
        }
        if !instance.is_live() {
            return;
        }
        if seen.held_by(&instance.id).any(SeenVolume::exists) {
            // Once the snapshot is begun the instance is terminated, even if the snapshot fails:
            // the volume survives. Until then `volume` plans for it.
            let taken = seen.held_by(&instance.id).all(|volume| {
                lineage::is_certainly_empty(seen, volume)
                    || seen
                        .snapshots_of(&volume.id)
                        .any(|snapshot| saves(snapshot, volume))
            });
            if taken && seen.is_closed(instance) {
                self.take(recovery::end(self.view, instance));
            }
            return;
        }
        if throwaway::is_host(seen, instance) {
            let forced = self.scope == Scope::Whole { even_if_used: true };
            return self.take(throwaway::end_host(self.view, instance, forced));
        }
        if seen.is_mine(instance) {
            // A session that moves does not wait for EC2.
            if !(self.parks && recovery::is_spared(self.view, instance)) {
                self.take(recovery::end(self.view, instance));
            }
            return;
        }
        let next = self.foreign(instance);
        self.take(next);
    }

    /// Plans for an instance of another session without a volume: in use, about to be, or
    /// abandoned.
    fn foreign(&self, instance: &SeenInstance) -> Next {
        let view = self.view;
        let starting = || Waiting::OtherStarting(instance.id.clone());
        let Some(answer) = instance.view() else {
            return recovery::silent(view, instance, starting());
        };
        match answer.client {
            Client::Other { .. } if answer.closing => {
                view.wait(Waiting::Closing(instance.id.clone()))
            }
            Client::Other { .. } => Next::Busy(instance.id.clone()),
            Client::Nobody | Client::Me => view
                .wait_within(starting(), instance.since, view.timing.login_window)
                .unwrap_or_else(|| Next::Do(vec![Step::Claim(instance.id.clone())])),
        }
    }

    /// Waits for pending snapshots: the drive is saved when they are completed.
    fn pending(&mut self) {
        let seen = self.view.seen;
        let pending = seen
            .snapshots
            .iter()
            .find(|snapshot| snapshot.state == SnapshotState::Pending && snapshot.is_final());
        if let Some(snapshot) = pending {
            self.take(self.view.wait(Waiting::Copy(snapshot.id.clone())));
        }
    }
}
