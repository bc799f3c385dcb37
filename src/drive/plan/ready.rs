//! The way to a mounted drive. It begins with the first of these that exists: live instance,
//! surviving volume, pending snapshot, newest completed snapshot, an empty volume.

use crate::ec2::Zone;
use crate::host::Mounted;
use crate::ids::Generation;

use super::super::hosts::Client;
use super::super::mount;
use super::super::observed::{Refusal, SeenInstance, SeenVolume};
use super::super::proof::{DeletionGrounds, TerminationGrounds};
use super::super::source::Source;
use super::super::stuck::{Head, Why};
use super::lineage;
use super::lineage::Newest;
use super::recovery::may_delete;
use super::step::{Done, Next, Step, View, Waiting};
use super::{choose, recovery, throwaway, verify};

/// Plans towards a mounted drive.
pub(super) fn ready(view: &View, from: Option<&Head>) -> Next {
    let seen = view.seen;
    let host = match choose_host(view) {
        Ok(host) => host,
        Err(next) => return next,
    };
    let losers = losers(view, host);
    if !losers.is_empty() {
        return Next::Do(losers);
    }
    if let Some(theirs) = host.filter(|host| throwaway::is_host(seen, host)) {
        return throwaway::end_host(view, theirs, false);
    }
    let approach = host.map(|host| approach(view, host));
    if let Some(Approach::Not(next @ Next::Busy(_))) = approach {
        return next;
    }
    if let Some(leaving) = lineage::leaving(seen) {
        return view.stuck(Why::Leaving(leaving.clone()));
    }
    if let Some(next) = from.and_then(|head| choose::choose(view, head)) {
        return next;
    }
    if !seen.unreadable.is_empty() {
        return view.stuck(Why::Unreadable(seen.unreadable.clone()));
    }
    let newest = lineage::newest(seen);
    if let Newest::Forked(heads) = newest {
        return view.stuck(Why::Forked(heads));
    }
    if let Some(foreign) = lineage::foreign(seen, &newest, from) {
        return view.stuck(foreign);
    }
    let is_held = match approach {
        Some(Approach::Held) => true,
        Some(Approach::Booting) => false,
        Some(Approach::Not(next)) => return next,
        None => return launch(view, &newest),
    };
    let Some(host) = host else {
        return launch(view, &newest);
    };
    let next = OwnHost {
        view,
        host,
        is_held,
    }
    .plan(&newest);
    with_leftovers(view, &newest, host, next)
}

/// The one live instance to use: the one with the drive attached, else the earliest.
fn choose_host<'a>(view: &View<'a>) -> Result<Option<&'a SeenInstance>, Next> {
    let seen = view.seen;
    let usable = |instance: &&SeenInstance| {
        // One that this session has left is one of its losers.
        let is_left = seen.is_mine(instance) && seen.is_closed(instance);
        instance.is_live() && !is_left && !seen.me.rejected.contains(&instance.id)
    };
    let holders: Vec<&SeenInstance> = seen
        .instances
        .iter()
        .filter(|instance| instance.is_live() && seen.held_by(&instance.id).next().is_some())
        .collect();
    if holders.len() > 1 {
        let heads = holders
            .iter()
            .flat_map(|holder| seen.held_by(&holder.id))
            .map(|volume| (Head::Volume(volume.id.clone()), volume.generation))
            .collect();
        return Err(view.stuck(Why::Forked(heads)));
    }
    let earliest = || {
        seen.instances
            .iter()
            .filter(usable)
            .min_by_key(|instance| (instance.launched, &instance.id))
    };
    Ok(holders.first().copied().or_else(earliest))
}

/// The steps that end this session's other instances, and its volumes that were for them.
fn losers(view: &View, host: Option<&SeenInstance>) -> Vec<Step> {
    let seen = view.seen;
    let instances = seen
        .instances
        .iter()
        .filter(|instance| instance.is_live() && host.is_none_or(|host| host.id != instance.id))
        .filter(|instance| seen.is_mine(instance) && !recovery::is_spared(view, instance))
        .filter_map(|instance| TerminationGrounds::prove(seen, instance))
        .map(Step::Terminate);
    let lost = host.is_some_and(|host| !seen.is_mine(host));
    let volumes = seen
        .volumes
        .iter()
        .filter(move |volume| lost && volume.session == seen.me.session)
        .filter(|volume| volume.is_unused())
        .filter_map(|volume| DeletionGrounds::prove(seen, volume))
        .map(Step::DeleteVolume);
    instances.chain(volumes).collect()
}

pub(super) enum Approach {
    /// The host answers, and this process has its client lock.
    Held,
    /// The host is this session's and does not answer yet.
    Booting,
    /// The host cannot be used as it is.
    Not(Next),
}

pub(super) fn approach(view: &View, host: &SeenInstance) -> Approach {
    let seen = view.seen;
    let is_mine = seen.is_mine(host);
    let Some(answer) = host.view() else {
        let waiting = if is_mine {
            Waiting::Host(host.id.clone())
        } else {
            Waiting::OtherStarting(host.id.clone())
        };
        return match recovery::silent(view, host, waiting) {
            Next::Wait(..) if is_mine => Approach::Booting,
            next => Approach::Not(next),
        };
    };
    let closing = || view.wait(Waiting::Closing(host.id.clone()));
    let is_closed = seen.is_closed(host);
    Approach::Not(match answer.client {
        Client::Other { .. } if answer.closing => closing(),
        Client::Other { .. } => Next::Busy(host.id.clone()),
        // A host that has begun to close is never mounted on again.
        Client::Nobody | Client::Me if is_closed => match recovery::end(view, host) {
            Next::Do(steps) if steps.is_empty() => closing(),
            next => next,
        },
        Client::Nobody | Client::Me if answer.closing => Next::Do(vec![Step::Close {
            instance: host.id.clone(),
            volume: seen
                .held_by(&host.id)
                .next()
                .map(|volume| (volume.id.clone(), volume.generation)),
        }]),
        Client::Me => return Approach::Held,
        Client::Nobody => {
            let claim = || Next::Do(vec![Step::Claim(host.id.clone())]);
            if is_mine || answer.mounted != Mounted::Nothing {
                claim()
            } else {
                // The session that launched it may be about to log in.
                let starting = Waiting::OtherStarting(host.id.clone());
                view.wait_within(starting, host.since, view.timing.login_window)
                    .unwrap_or_else(claim)
            }
        }
    })
}

/// Without a host: launches one, in the zone of the drive's volume if there is one.
fn launch(view: &View, newest: &Newest) -> Next {
    let zone = match newest {
        Newest::Volume(volume) => match volume_problem(view, volume) {
            Some(next) => return next,
            None => Some(volume.zone.clone()),
        },
        Newest::Snapshot(_) | Newest::Nothing => {
            spare(view, newest, None).map(|volume| volume.zone.clone())
        }
        other => return not_mountable(view, other),
    };
    if view.seen.me.launches >= view.timing.launches {
        return view.stuck(Why::NoHost(view.seen.me.launches));
    }
    let mut steps: Vec<Step> = recovery::terminate_stopped(view.seen).collect();
    steps.push(Step::Launch {
        zone,
        throwaway: false,
    });
    Next::Do(steps)
}

/// The next step where nothing can be mounted from the newest state.
pub(super) fn not_mountable(view: &View, newest: &Newest) -> Next {
    match newest {
        Newest::Pending(snapshot) => view.wait(Waiting::Copy(snapshot.id.clone())),
        Newest::Failed(snapshot) => view.stuck(Why::NewestFailed {
            failed: snapshot.id.clone(),
            older: lineage::older(view.seen, snapshot),
        }),
        Newest::Forked(heads) => view.stuck(Why::Forked(heads.clone())),
        Newest::Nothing | Newest::Volume(_) | Newest::Snapshot(_) => view.settle(),
    }
}

/// Why a volume cannot be attached now; `None` if it can.
fn volume_problem(view: &View, volume: &SeenVolume) -> Option<Next> {
    if volume.state == crate::ec2::VolumeState::Error {
        return Some(view.stuck(Why::VolumeError(volume.id.clone())));
    }
    recovery::release(view, volume)
}

/// A never-attached volume made from exactly the newest state; the earliest, if there are several.
fn spare<'a>(view: &View<'a>, newest: &Newest, zone: Option<&Zone>) -> Option<&'a SeenVolume> {
    let fits = |volume: &&SeenVolume| match newest {
        Newest::Snapshot(snapshot) => {
            volume.snapshot.as_ref() == Some(&snapshot.id) && volume.base == snapshot.generation
        }
        Newest::Nothing => volume.blank && volume.base == Generation::EMPTY,
        _ => false,
    };
    // A new drive's first volume still counts once its generation is raised, if this process did
    // it.
    let is_announced = |volume: &SeenVolume| {
        let announced = view.seen.me.raised.as_ref();
        announced
            .is_some_and(|(id, generation)| *id == volume.id && *generation == volume.generation)
    };
    view.seen
        .volumes
        .iter()
        .filter(|volume| volume.exists() && volume.holder().is_none())
        .filter(|volume| volume.is_unused() || is_announced(volume))
        .filter(|volume| volume.state != crate::ec2::VolumeState::Error)
        .filter(fits)
        .filter(|volume| zone.is_none_or(|zone| volume.zone == *zone))
        .min_by_key(|volume| (volume.created, &volume.id))
}

/// The host that this session has.
struct OwnHost<'a> {
    view: &'a View<'a>,
    host: &'a SeenInstance,
    /// Whether this process has its client lock.
    is_held: bool,
}

impl OwnHost<'_> {
    fn plan(&self, newest: &Newest) -> Next {
        let view = self.view;
        let held = view
            .seen
            .held_by(&self.host.id)
            .find(|volume| volume.exists());
        if let Newest::Volume(volume) = newest {
            return match held {
                Some(held) if held.id == volume.id => self.mount(volume),
                Some(other) => self.put_away(other),
                None => volume_problem(view, volume).unwrap_or_else(|| self.attach(volume)),
            };
        }
        if let Some(held) = held {
            let is_new_drive =
                matches!(newest, Newest::Nothing) && lineage::is_certainly_empty(view.seen, held);
            return if is_new_drive {
                self.mount(held)
            } else {
                self.put_away(held)
            };
        }
        let from = match newest {
            Newest::Nothing => Source::Empty,
            Newest::Snapshot(snapshot) => {
                Source::Snapshot(snapshot.id.clone(), snapshot.generation)
            }
            other => return not_mountable(view, other),
        };
        match spare(view, newest, Some(&self.host.zone)) {
            Some(volume) => volume_problem(view, volume).unwrap_or_else(|| self.attach(volume)),
            // A new drive is made only when certainly nothing of this name exists.
            None if from == Source::Empty && !view.is_settled() => view.settle(),
            None => match view.seen.me.failed.last() {
                Some(last) if view.seen.me.failed.len() >= view.timing.volumes => {
                    view.stuck(Why::NoVolume(last.clone()))
                }
                _ => Next::Do(vec![Step::CreateVolume {
                    zone: self.host.zone.clone(),
                    from,
                }]),
            },
        }
    }

    /// The next step with a free volume: raise its generation, then attach it.
    fn attach(&self, volume: &SeenVolume) -> Next {
        let view = self.view;
        if volume.zone != self.host.zone {
            return match TerminationGrounds::prove(view.seen, self.host) {
                Some(grounds) => Next::Do(vec![Step::Terminate(grounds)]),
                None => view.wait(Waiting::Host(self.host.id.clone())),
            };
        }
        if !self.is_held {
            return view.wait(Waiting::Host(self.host.id.clone()));
        }
        if !view.is_settled() {
            return view.settle();
        }
        let announced = (volume.id.clone(), volume.generation);
        if view.seen.me.raised == Some(announced) && self.is_newest(volume) {
            return Next::Do(vec![Step::Attach {
                volume: volume.id.clone(),
                instance: self.host.id.clone(),
                generation: volume.generation,
            }]);
        }
        raise(volume)
    }

    /// Whether no final snapshot has the volume's generation or a higher one.
    fn is_newest(&self, volume: &SeenVolume) -> bool {
        !volume.is_unused()
            && self
                .view
                .seen
                .snapshots
                .iter()
                .filter(|snapshot| snapshot.is_final())
                .all(|snapshot| snapshot.generation < volume.generation)
    }

    /// The next step with an attached volume: mount it, and record its format before it is used.
    /// While EC2 has it as attaching, its host may have the device already, and waits for it.
    fn mount(&self, volume: &SeenVolume) -> Next {
        let view = self.view;
        match recovery::release(view, volume) {
            Some(Next::Wait(Waiting::Attaching(_), _)) if self.is_held => {}
            Some(next) => return next,
            None => {}
        }
        let Some(answer) = self.host.view().filter(|_| self.is_held) else {
            return view.wait(Waiting::Host(self.host.id.clone()));
        };
        if !self.is_newest(volume) {
            return raise(volume);
        }
        match &answer.mounted {
            Mounted::Volume(mounted) if *mounted == volume.id => {
                if lineage::is_certainly_empty(view.seen, volume) {
                    return Next::Do(vec![Step::MarkFormatted {
                        volume: volume.id.clone(),
                        generation: volume.generation,
                    }]);
                }
                if let Some((reported, uuid)) = &view.seen.me.reported
                    && *reported == volume.id
                    && volume.uuid.is_none()
                {
                    return Next::Do(vec![Step::MarkUuid {
                        volume: volume.id.clone(),
                        uuid: *uuid,
                    }]);
                }
                Next::Done(Done::Ready {
                    instance: self.host.id.clone(),
                    volume: volume.id.clone(),
                    generation: volume.generation,
                })
            }
            Mounted::Volume(_) | Mounted::Frozen(_) => self.put_away(volume),
            Mounted::Nothing => match &view.seen.me.refused {
                Some((refused, why)) if *refused == volume.id => self.refused(volume, why),
                _ => Next::Do(vec![Step::Mount {
                    instance: self.host.id.clone(),
                    order: mount::order(volume, lineage::is_certainly_empty(view.seen, volume)),
                }]),
            },
        }
    }

    /// The next step after a mount that was refused. A new drive whose format was cut off is
    /// detached, to be made anew.
    fn refused(&self, volume: &SeenVolume, why: &Refusal) -> Next {
        let problem = match why {
            Refusal::Garbled if lineage::is_certainly_empty(self.view.seen, volume) => {
                return self.detach(volume);
            }
            Refusal::Garbled => "it holds no file system",
            Refusal::Damaged(problem) => problem,
        };
        self.view
            .stuck(Why::Damaged(volume.id.clone(), problem.to_owned()))
    }

    /// The next step with a volume on this host that is not the one to be mounted there.
    fn put_away(&self, volume: &SeenVolume) -> Next {
        if let Some(next) = recovery::release(self.view, volume) {
            return next;
        }
        let mounted = self.host.view().map(|answer| &answer.mounted);
        match mounted {
            Some(Mounted::Nothing) if self.is_held => self.detach(volume),
            Some(_) if self.is_held => Next::Do(vec![Step::Close {
                instance: self.host.id.clone(),
                volume: Some((volume.id.clone(), volume.generation)),
            }]),
            _ => self.view.wait(Waiting::Host(self.host.id.clone())),
        }
    }

    fn detach(&self, volume: &SeenVolume) -> Next {
        Next::Do(vec![Step::Detach {
            volume: volume.id.clone(),
            instance: self.host.id.clone(),
            reject: false,
        }])
    }
}

fn raise(volume: &SeenVolume) -> Next {
    Next::Do(vec![Step::Raise {
        volume: volume.id.clone(),
        to: volume.generation.next(),
    }])
}

/// Adds the steps that end leftovers: never-attached volumes that are not to be used, saved ones
/// that are behind, stopped instances.
fn with_leftovers(view: &View, newest: &Newest, host: &SeenInstance, next: Next) -> Next {
    if !matches!(next, Next::Do(_) | Next::Wait(..)) {
        return next;
    }
    let seen = view.seen;
    let used = spare(view, newest, Some(&host.zone)).map(|volume| &volume.id);
    let head = match newest {
        Newest::Volume(volume) => Some(&volume.id),
        _ => None,
    };
    let steps: Vec<Step> = seen
        .volumes
        .iter()
        .filter(|volume| Some(&volume.id) != used && Some(&volume.id) != head)
        .filter(|volume| may_delete(view, volume))
        .filter_map(|volume| match DeletionGrounds::prove(seen, volume) {
            Some(grounds) => Some(Step::DeleteVolume(grounds)),
            None => look(view, volume),
        })
        .chain(recovery::terminate_stopped(seen))
        .chain(throwaway::leftovers(view, None))
        .collect();
    and_also(next, steps)
}

/// The next steps, and these beside them: before waiting.
pub(super) fn and_also(next: Next, steps: Vec<Step>) -> Next {
    match next {
        _ if steps.is_empty() => next,
        Next::Do(mut planned) => {
            planned.extend(steps);
            Next::Do(planned)
        }
        _ => Next::Do(steps),
    }
}

/// The step that verifies the snapshot of a volume that may be deleted after it.
fn look(view: &View, volume: &SeenVolume) -> Option<Step> {
    let free = volume.is_free() && !volume.is_unused();
    match verify::verify(view, volume).filter(|_| free) {
        Some(Next::Do(steps)) => steps.into_iter().next(),
        _ => None,
    }
}
