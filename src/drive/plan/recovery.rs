//! Recovery: the step out of each unusual state of instances and volumes.

use crate::ec2::{AttachmentState, InstanceState};
use crate::host::{Closed, Mounted};

use super::step::{Next, Step, View, Waiting};
use crate::drive::hosts::Contact;
use crate::drive::observed::{Observed, SeenInstance, SeenLease, SeenVolume};
use crate::drive::proof::TerminationGrounds;
use crate::drive::stuck::Why;

/// The steps, before any others, for volumes that would be deleted with their instance.
pub(super) fn keep_volumes(seen: &Observed) -> Option<Vec<Step>> {
    let steps: Vec<Step> = seen
        .all_volumes()
        .filter(|volume| volume.exists())
        .filter_map(|volume| volume.attachment.as_ref())
        .filter(|attachment| {
            attachment.delete_on_termination && attachment.state == AttachmentState::Attached
        })
        .filter(|attachment| {
            let instance = seen.instance(&attachment.instance);
            instance.is_some_and(|instance| {
                instance.is_live() || instance.state == InstanceState::Stopped
            })
        })
        .map(|attachment| Step::KeepOnTermination {
            instance: attachment.instance.clone(),
            device: attachment.device.clone(),
        })
        .collect();
    (!steps.is_empty()).then_some(steps)
}

/// The next step for a volume that is attaching, detaching, or attached to an instance which is not
/// live. `None` if it is free, attached to a live instance, or mounted there.
pub(super) fn release(view: &View, volume: &SeenVolume) -> Option<Next> {
    let Some(attachment) = &volume.attachment else {
        return (!volume.is_free()).then(|| view.wait(Waiting::Volume(volume.id.clone())));
    };
    let detach = |reject| {
        Next::Do(vec![Step::Detach {
            volume: volume.id.clone(),
            instance: attachment.instance.clone(),
            reject,
        }])
    };
    let waiting = Waiting::Release(volume.id.clone());
    let holder = view.seen.instance(&attachment.instance);
    let state = holder.map_or(InstanceState::Terminated, |holder| holder.state);
    // A volume may have been attached for days before its instance began to end.
    let since = holder.map_or(volume.since, |holder| holder.since.max(volume.since));
    match (state, attachment.state) {
        (_, AttachmentState::Detached) => (!volume.is_free()).then(|| view.wait(waiting)),
        (InstanceState::Stopped, AttachmentState::Attached) => Some(detach(false)),
        (InstanceState::Pending | InstanceState::Running, AttachmentState::Attached) => None,
        // EC2's state lags: the host has it mounted.
        (InstanceState::Pending | InstanceState::Running, AttachmentState::Attaching)
            if holder.is_some_and(|holder| is_mounted(holder, volume)) =>
        {
            None
        }
        (InstanceState::Pending | InstanceState::Running, AttachmentState::Attaching) => {
            let attaching = Waiting::Attaching(volume.id.clone());
            let wait = view.wait_within(attaching, volume.since, view.timing.attaching);
            Some(wait.unwrap_or_else(|| detach(true)))
        }
        (_, attached) => {
            // A closed host has unmounted: a detach does no harm once EC2 has had time to detach by
            // itself.
            let overdue = view.now.since(since) >= view.timing.attaching;
            let is_closed = holder.is_some_and(|holder| view.seen.is_closed(holder));
            if overdue && is_closed && attached == AttachmentState::Attached {
                return Some(detach(false));
            }
            let wait = view.wait_within(waiting, since, view.timing.shutting_down);
            Some(wait.unwrap_or_else(|| view.stuck(Why::NeverEnds(attachment.instance.clone()))))
        }
    }
}

/// Whether the host has the volume mounted, or had it when it froze.
fn is_mounted(host: &SeenInstance, volume: &SeenVolume) -> bool {
    match host.view().map(|view| &view.mounted) {
        Some(Mounted::Volume(mounted) | Mounted::Frozen(mounted)) => *mounted == volume.id,
        Some(Mounted::Nothing) | None => false,
    }
}

/// The next step for an instance that does not answer: wait, and longer while EC2 reports that it
/// boots; then replace it if the drive is certainly not mounted there. Otherwise its silence proves
/// nothing until its lease is long past. One that refuses this laptop's key is in use until then.
pub(super) fn silent(view: &View, instance: &SeenInstance, waiting: Waiting) -> Next {
    let is_over = |lease: SeenLease| view.now >= lease.off_by;
    if instance.contact == Contact::KeyRefused && !instance.lease.is_some_and(is_over) {
        return Next::Busy(instance.id.clone());
    }
    let is_hung = view.seen.me.hung.as_ref() == Some(&instance.id);
    if is_hung && let Some(grounds) = TerminationGrounds::prove(view.seen, instance) {
        return Next::Do(vec![Step::Terminate(grounds)]);
    }
    if let Some(wait) = view.wait_within(waiting.clone(), instance.since, view.timing.no_ssh) {
        return wait;
    }
    if let Some(wait) = boot(view, instance, waiting) {
        return wait;
    }
    match TerminationGrounds::prove(view.seen, instance) {
        Some(grounds) => Next::Do(vec![
            Step::ShowConsole(instance.id.clone()),
            Step::Terminate(grounds),
        ]),
        None => instance
            .lease
            .and_then(|lease| {
                let waiting = Waiting::Lease(instance.id.clone(), lease.until);
                view.until(waiting, lease.off_by)
            })
            .unwrap_or_else(|| view.stuck(Why::Unreachable(instance.id.clone()))),
    }
}

/// Waits on for an instance that has not answered in time and, as EC2 reports, still boots or has
/// just booted; `None` if neither is so, or its time for that is over.
fn boot(view: &View, instance: &SeenInstance, waiting: Waiting) -> Option<Next> {
    if instance.is_booting(view.now, view.timing) {
        return view.wait_within(waiting, instance.made, view.timing.boot);
    }
    let passed = instance.checks.filter(|seen| seen.checks.have_passed())?;
    view.wait_within(waiting, passed.since, view.timing.checked)
}

/// Whether a closed host is left to EC2, which takes it and bills nothing for it. All of its volumes were unmounted, and
/// leave it now.
pub(super) fn is_spared(view: &View, instance: &SeenInstance) -> bool {
    let seen = view.seen;
    let is_at_rest = |volume: &SeenVolume| {
        let known = Some((volume.id.clone(), volume.generation));
        seen.me.unmounted == known || seen.is_whole(instance, volume)
    };
    let is_frozen = match instance.view() {
        Some(view) => view.mounted != Mounted::Nothing,
        None => seen.me.closes.get(&instance.id) != Some(&Closed::Unmounted),
    };
    instance.spared.is_some_and(|until| view.now < until)
        && seen.is_closed(instance)
        && !is_frozen
        && seen.held_by(&instance.id).all(is_at_rest)
        && seen.throwaways_on(&instance.id).next().is_none()
}

/// The next step to the end of an instance: it is terminated, or left to EC2 without its volumes.
pub(super) fn end(view: &View, instance: &SeenInstance) -> Next {
    let seen = view.seen;
    let spared = instance.spared.filter(|_| is_spared(view, instance));
    let Some(until) = spared else {
        let grounds = TerminationGrounds::prove(seen, instance);
        return Next::Do(grounds.map(Step::Terminate).into_iter().collect());
    };
    let held: Vec<&SeenVolume> = seen.held_by(&instance.id).collect();
    let attached = held.iter().filter(|volume| {
        let attachment = volume.attachment.as_ref();
        attachment.is_some_and(|it| it.state == AttachmentState::Attached)
    });
    let steps: Vec<Step> = attached
        .map(|volume| Step::Detach {
            volume: volume.id.clone(),
            instance: instance.id.clone(),
            reject: false,
        })
        .collect();
    if !steps.is_empty() {
        return Next::Do(steps);
    }
    if let Some(volume) = held.first() {
        return view.wait(Waiting::Release(volume.id.clone()));
    }
    Next::Wait(Waiting::Taking(instance.id.clone()), until.since(view.now))
}

/// The steps that terminate stopped instances without a volume.
pub(super) fn terminate_stopped(seen: &Observed) -> impl Iterator<Item = Step> + '_ {
    seen.instances
        .iter()
        .filter(|instance| instance.state == InstanceState::Stopped)
        .filter_map(|instance| TerminationGrounds::prove(seen, instance))
        .map(Step::Terminate)
}

/// Whether this session may delete a volume that there are grounds to delete: it is its own, or the
/// lists have everything older than the first sweep and the volume's session has no live instance.
pub(super) fn may_delete(view: &View, volume: &SeenVolume) -> bool {
    let seen = view.seen;
    let has_owner = seen.instances.iter().any(|instance| {
        instance.is_live() && instance.session == volume.session && !seen.is_mine(instance)
    });
    volume.session == seen.me.session || (view.has_looked() && !has_owner)
}
