//! The ends of throwaway volumes, which sessions make from the drive's newest snapshot and save nothing
//! of.
//!
//! Such a volume is no state of the drive: [`Observed`] has it apart, so that no rule counts it as the
//! newest, snapshots it, or mounts it for another session. Its generation is never raised. So its host
//! is terminated without a close, and it is deleted while the snapshot that it was made from is still
//! there; without that it may be the only one with the drive's newest state, and is reported.

use super::super::hosts::Client;
use super::super::observed::{Observed, SeenInstance, SeenThrowaway};
use super::super::proof::{DeletionGrounds, TerminationGrounds};
use super::recovery;
use super::recovery::may_delete;
use super::step::{Next, Step, View, Waiting};
use crate::host::Mounted;

/// Whether the instance was launched for a throwaway volume, and has none of the drive's.
pub(super) fn is_host(seen: &Observed, instance: &SeenInstance) -> bool {
    instance.throwaway.is_some() && seen.held_by(&instance.id).next().is_none()
}

/// Plans the end of a throwaway volume. While it is attached to a live instance, that is planned for.
/// `None` if it may not be deleted, or if there is nothing to do.
pub(super) fn end_volume(view: &View, thrown: &SeenThrowaway) -> Option<Next> {
    let (seen, volume) = (view.seen, &thrown.volume);
    if !volume.exists() {
        return None;
    }
    let holder = volume.holder().and_then(|id| seen.instance(id));
    if holder.is_some_and(SeenInstance::is_live) {
        return None;
    }
    if let Some(next) = recovery::release(view, volume) {
        return Some(next);
    }
    if !may_delete(view, volume) {
        // The lists may not show yet whether its session is over.
        return (!view.has_looked()).then(|| view.settle());
    }
    let grounds = DeletionGrounds::prove_discarded(seen, thrown)?;
    Some(Next::Do(vec![Step::DeleteVolume(grounds)]))
}

/// The throwaway volumes that are kept although their sessions are over: the snapshot that they were
/// made from is gone.
pub(in super::super) fn orphans(seen: &Observed) -> impl Iterator<Item = &SeenThrowaway> {
    let has_origin = |thrown: &SeenThrowaway| {
        let mut snapshots = seen.snapshots.iter();
        snapshots.any(|it| thrown.volume.snapshot.as_ref() == Some(&it.id))
    };
    let free = seen.throwaways.iter().filter(|it| it.volume.is_free());
    free.filter(move |it| !has_origin(it))
}

/// Plans the end of a host whose volume is thrown away, unless another session uses it; even then if
/// that is `forced`.
pub(super) fn end_host(view: &View, host: &SeenInstance, forced: bool) -> Next {
    let seen = view.seen;
    if let Some(grounds) = TerminationGrounds::prove(seen, host)
        && (seen.is_mine(host) || seen.is_closed(host))
    {
        return Next::Do(vec![Step::Terminate(grounds)]);
    }
    let starting = Waiting::OtherStarting(host.id.clone());
    let Some(answer) = host.view() else {
        return recovery::silent(view, host, starting);
    };
    let close = || {
        Next::Do(vec![Step::Close {
            instance: host.id.clone(),
            volume: None,
        }])
    };
    match answer.client {
        Client::Other { .. } if answer.closing => view.wait(Waiting::Closing(host.id.clone())),
        Client::Other { .. } if !forced => Next::Busy(host.id.clone()),
        // A closing host takes no client any more.
        Client::Nobody if !answer.closing => {
            let claim = || Next::Do(vec![Step::Claim(host.id.clone())]);
            if answer.mounted == Mounted::Nothing && !seen.is_mine(host) {
                // The session that launched it may be about to log in.
                view.wait_within(starting, host.since, view.timing.login_window)
                    .unwrap_or_else(claim)
            } else {
                claim()
            }
        }
        Client::Nobody | Client::Me | Client::Other { .. } => close(),
    }
}

/// The steps that delete throwaway volumes whose sessions are over, and this one's but for `used`.
pub(super) fn leftovers<'a>(
    view: &'a View<'a>,
    used: Option<&'a SeenThrowaway>,
) -> impl Iterator<Item = Step> + use<'a> {
    let thrown = view.seen.throwaways.iter();
    thrown
        .filter(move |it| used.is_none_or(|used| used.volume.id != it.volume.id))
        .filter(|it| may_delete(view, &it.volume))
        .filter_map(|it| DeletionGrounds::prove_discarded(view.seen, it))
        .map(Step::DeleteVolume)
}
