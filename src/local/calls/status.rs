//! `DescribeInstanceStatus`: the status checks of instances.
//!
//! EC2 checks each running instance once a minute: whether its hardware can be reached (*system*),
//! and whether its own network answers (*instance*). Until both have an answer they are
//! `initializing`, for some minutes after a launch, and for as long as a large type takes to boot
//! (EC2 user guide, *Status checks for Amazon EC2 instances*). On EC2 a reboot restarts them; here
//! it does not.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::filter::{Field, Filters};
use super::instances::{all_exist, stamp, state_node};
use super::page::Page;
use super::{Answer, Reading};
use crate::delays::Delays;
use crate::records::{Instance, InstanceState};
use crate::wire::Xml;

/// The result of one check: its `status`, and its `reachability`, if that applies.
#[derive(Debug, Clone, Copy)]
struct Check {
    status: &'static str,
    reachability: Option<&'static str>,
    failed: Option<Timestamp>,
}

const NOT_APPLICABLE: Check = Check {
    status: "not-applicable",
    reachability: None,
    failed: None,
};
const INITIALIZING: Check = Check {
    status: "initializing",
    reachability: Some("initializing"),
    failed: None,
};
const PASSED: Check = Check {
    status: "ok",
    reachability: Some("passed"),
    failed: None,
};

impl Check {
    fn failed(since: Timestamp) -> Self {
        Self {
            status: "impaired",
            reachability: Some("failed"),
            failed: Some(since),
        }
    }
}

/// The check of the system, and that of the instance.
fn checks(
    instance: &Instance,
    state: InstanceState,
    at: Timestamp,
    delays: &Delays,
) -> (Check, Check) {
    let known = instance.boot_ends() + delays.checks;
    match state {
        InstanceState::Running if at < known => (INITIALIZING, INITIALIZING),
        InstanceState::Running if instance.boot.fails => (PASSED, Check::failed(known)),
        InstanceState::Running => match instance.impaired {
            Some(since) => (PASSED, Check::failed(since)),
            None => (PASSED, PASSED),
        },
        _ => (NOT_APPLICABLE, NOT_APPLICABLE),
    }
}

/// `DescribeInstanceStatus`: of running instances, unless all are requested.
pub(super) fn describe(reading: &Reading<'_>) -> Answer {
    let request = reading.request;
    let ids = request.list("InstanceId");
    let at = reading.moment(!ids.is_empty());
    let delays = &reading.inner.delays;
    let world = reading.world;
    let is_any = request.flag("IncludeAllInstances")?.unwrap_or(false);
    all_exist(&ids, world, at, delays)?;
    let filters = Filters::new(
        request,
        &[
            "availability-zone",
            "instance-state-code",
            "instance-state-name",
            "instance-status.reachability",
            "instance-status.status",
            "system-status.reachability",
            "system-status.status",
        ],
        false,
    )?;
    let page = Page::new(request, "DescribeInstanceStatus", 5, !ids.is_empty())?;
    let mut found = Vec::new();
    for id in world.instances.keys() {
        let Some((instance, state)) = world.instance(id, at, delays) else {
            continue;
        };
        let (system, own) = checks(instance, state, at, delays);
        let is_asked_for = ids.is_empty() || ids.contains(&id.as_str());
        let is_shown = is_any || state == InstanceState::Running;
        let passes = filters.pass(&BTreeMap::new(), |filter| match filter {
            "availability-zone" => Field::one(&instance.zone),
            "instance-state-code" => Field::one(state as u16),
            "instance-state-name" => Field::one(state.name()),
            "instance-status.reachability" => Field::maybe(own.reachability),
            "instance-status.status" => Field::one(own.status),
            "system-status.reachability" => Field::maybe(system.reachability),
            "system-status.status" => Field::one(system.status),
            _ => Field::Unknown,
        })?;
        if is_asked_for && is_shown && passes {
            let item = vec![
                Xml::text("instanceId", id),
                Xml::text("availabilityZone", &instance.zone),
                state_node("instanceState", state),
                summary("systemStatus", system),
                summary("instanceStatus", own),
            ];
            found.push((id.clone(), item));
        }
    }
    Ok(page.answer("instanceStatusSet", found))
}

fn summary(name: &'static str, check: Check) -> Xml {
    let detail = |reachability| {
        let mut detail = vec![
            Xml::text("name", "reachability"),
            Xml::text("status", reachability),
        ];
        detail.extend(
            check
                .failed
                .map(|since| Xml::text("impairedSince", stamp(since))),
        );
        detail
    };
    let mut summary = vec![Xml::text("status", check.status)];
    if let Some(reachability) = check.reachability {
        summary.push(Xml::list("details", [detail(reachability)]));
    }
    Xml::node(name, summary)
}
