//! The way to a mounted throwaway volume: of a drive that is wholly saved and at rest.
//!
//! A session that wants one and a session that wants the drive may begin at once: as between two of the
//! latter, the earliest instance wins. The volume is made while the instance boots, and attached once
//! the lists are settled: only then is it certain that its snapshot is the newest.

use super::super::hosts::Client;
use super::super::mount;
use super::super::observed::{Observed, Refusal, SeenInstance, SeenSnapshot, SeenThrowaway};
use super::super::proof::TerminationGrounds;
use super::super::source::Source;
use super::super::stuck::Why;
use super::lineage::{self, Newest};
use super::ready::{Approach, and_also, approach, not_mountable};
use super::recovery;
use super::step::{Done, Next, Step, View, Waiting};
use super::throwaway::{end_host, is_host, leftovers};
use crate::ec2::VolumeState;
use crate::host::Mounted;

/// Plans towards a throwaway volume that is mounted.
pub(super) fn ready(view: &View) -> Next {
    let seen = view.seen;
    let own = live(seen).filter(|it| is_own(seen, it) && !seen.me.rejected.contains(&it.id));
    let host = own.min_by_key(|it| (it.launched, &it.id));
    let superfluous: Vec<Step> = live(seen)
        .filter(|it| is_own(seen, it) && host.is_none_or(|host| host.id != it.id))
        .filter_map(|it| TerminationGrounds::prove(seen, it))
        .map(Step::Terminate)
        .collect();
    if !superfluous.is_empty() {
        return Next::Do(superfluous);
    }
    let earlier = live(seen)
        .filter(|it| !is_own(seen, it))
        .filter(|it| host.is_none_or(|host| (it.launched, &it.id) < (host.launched, &host.id)))
        .min_by_key(|it| (it.launched, &it.id));
    if let Some(theirs) = earlier {
        return match theirs.client() {
            _ if is_host(seen, theirs) => end_host(view, theirs, false),
            Some(Client::Nobody) => view.stuck(Why::NotAtRest),
            _ => Next::Busy(theirs.id.clone()),
        };
    }
    if let Some(leaving) = lineage::leaving(seen) {
        return view.stuck(Why::Leaving(leaving.clone()));
    }
    if !seen.unreadable.is_empty() {
        return view.stuck(Why::Unreadable(seen.unreadable.clone()));
    }
    if seen.volumes.iter().any(|it| lineage::is_used(seen, it)) {
        return view.stuck(Why::NotAtRest);
    }
    let newest = lineage::newest(seen);
    if let Some(foreign) = lineage::foreign(seen, &newest, None) {
        return view.stuck(foreign);
    }
    let newest = match newest {
        Newest::Snapshot(newest) => newest,
        Newest::Nothing => return view.stuck(Why::NothingSaved),
        other => return not_mountable(view, &other),
    };
    let volume = fitting(view, newest, host);
    let next = match host {
        None => launch(view, volume),
        Some(host) => on(view, host, newest, volume),
    };
    if !matches!(next, Next::Do(_) | Next::Wait(..)) {
        return next;
    }
    and_also(next, leftovers(view, volume).collect())
}

fn live(seen: &Observed) -> impl Iterator<Item = &SeenInstance> {
    seen.instances.iter().filter(|it| it.is_live())
}

/// Whether this session launched the instance for its own throwaway volume.
fn is_own(seen: &Observed, instance: &SeenInstance) -> bool {
    instance.throwaway.as_ref() == Some(&seen.me.session) && seen.is_mine(instance)
}

/// The throwaway volume that this session made of the newest snapshot, where the host can have it.
fn fitting<'a>(
    view: &View<'a>,
    newest: &SeenSnapshot,
    host: Option<&SeenInstance>,
) -> Option<&'a SeenThrowaway> {
    let seen = view.seen;
    seen.throwaways
        .iter()
        .filter(|it| it.volume.session == seen.me.session && it.volume.exists())
        .filter(|it| it.volume.state != VolumeState::Error)
        .filter(|it| it.volume.snapshot.as_ref() == Some(&newest.id))
        .filter(|it| host.is_none_or(|host| host.zone == it.volume.zone))
        .min_by_key(|it| (it.volume.created, &it.volume.id))
}

fn launch(view: &View, volume: Option<&SeenThrowaway>) -> Next {
    if view.seen.me.launches >= view.timing.launches {
        return view.stuck(Why::NoHost(view.seen.me.launches));
    }
    // That of a host that could not be used may be there.
    let zone = volume.map(|it| it.volume.zone.clone());
    Next::Do(vec![Step::Launch {
        zone,
        throwaway: true,
    }])
}

/// The next step with this session's host.
fn on(
    view: &View,
    host: &SeenInstance,
    newest: &SeenSnapshot,
    volume: Option<&SeenThrowaway>,
) -> Next {
    let is_held = match approach(view, host) {
        Approach::Held => true,
        Approach::Booting => false,
        Approach::Not(next) => return next,
    };
    let Some(volume) = volume.map(|it| &it.volume) else {
        return match view.seen.me.failed.last() {
            Some(last) if view.seen.me.failed.len() >= view.timing.volumes => {
                view.stuck(Why::NoVolume(last.clone()))
            }
            _ => Next::Do(vec![Step::CreateVolume {
                zone: host.zone.clone(),
                from: Source::Throwaway(newest.id.clone(), newest.generation),
            }]),
        };
    };
    match recovery::release(view, volume) {
        Some(Next::Wait(Waiting::Attaching(_), _)) if is_held => {}
        Some(next) => return next,
        None => {}
    }
    let Some(answer) = host.view().filter(|_| is_held) else {
        return view.wait(Waiting::Host(host.id.clone()));
    };
    if volume.holder().is_none() {
        // What the drive's newest state is, is known then.
        if !view.is_settled() {
            return view.settle();
        }
        return Next::Do(vec![Step::AttachThrowaway {
            volume: volume.id.clone(),
            instance: host.id.clone(),
        }]);
    }
    match &answer.mounted {
        Mounted::Volume(mounted) if *mounted == volume.id => Next::Done(Done::Ready {
            instance: host.id.clone(),
            volume: volume.id.clone(),
            generation: volume.generation,
        }),
        Mounted::Volume(_) | Mounted::Frozen(_) => view.stuck(Why::NotAtRest),
        Mounted::Nothing => match &view.seen.me.refused {
            Some((refused, why)) if *refused == volume.id => {
                let problem = match why {
                    Refusal::Garbled => "it holds no file system".to_owned(),
                    Refusal::Damaged(problem) => problem.clone(),
                };
                view.stuck(Why::Damaged(volume.id.clone(), problem))
            }
            _ => Next::Do(vec![Step::Mount {
                instance: host.id.clone(),
                order: mount::order(volume, false),
            }]),
        },
    }
}
