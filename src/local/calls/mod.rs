//! EC2's calls: one table of them ([`table`]), one file for each family.
//!
//! This file finds a call, checks its parameters and the caller's rights, ends it for `DryRun`, and
//! applies planted faults.
//! A call that is not in the table is `InvalidAction`; a parameter that a call does not understand
//! is `UnknownParameter`, never ignored. Codes and messages are those of the EC2 API reference
//! (*Error codes*) and of recorded answers.

mod account;
mod addresses;
mod attachments;
mod blocks;
mod experiments;
mod filter;
mod groups;
mod images;
mod instances;
mod launch;
mod modifications;
mod network;
mod order;
mod page;
mod prices;
mod quotas;
mod request;
mod reservations;
mod rights;
mod shares;
mod snapshots;
mod spot;
mod status;
mod table;
mod tags;
mod volumes;

use super::caller::Caller;
use super::wire::{ApiError, Params, Xml};
use super::world::World;
use super::{Inner, Local, faults};

pub(super) use account::caller_of;
use request::Request;
pub(super) use request::no_such_id;
pub(super) use shares::reached;
pub(super) use spot::price_of;
use table::{CALLS, Run};

/// The elements below an answer's root.
type Answer = Result<Vec<Xml>, ApiError>;

/// The input of a reading call.
struct Reading<'a> {
    request: Request<'a>,
    caller: &'a Caller,
    world: &'a World,
    inner: &'a Inner,
    /// The moment that lists show.
    lists: jiff::Timestamp,
    /// The moment that reads by id show.
    reads: jiff::Timestamp,
    now: jiff::Timestamp,
}

impl Reading<'_> {
    /// The moment to show: reads by id are less stale than lists.
    fn moment(&self, by_id: bool) -> jiff::Timestamp {
        if by_id { self.reads } else { self.lists }
    }
}

/// Carries out one call of `caller`.
pub(super) fn dispatch(
    local: &Local,
    caller: &Caller,
    action: &str,
    params: &Params,
) -> Result<Xml, ApiError> {
    let call = CALLS
        .iter()
        .find(|call| call.name == action)
        .ok_or_else(|| {
            ApiError::client(
                "InvalidAction",
                format!("The action {action} is not valid for this web service."),
            )
        })?;
    let request = Request::new(params, call.parameters)?;
    rights::check(local, caller, action, request)?;
    if request.flag("DryRun")?.unwrap_or(false) {
        return Err(ApiError {
            status: 412,
            code: "DryRunOperation".to_owned(),
            message: "Request would have succeeded, but DryRun flag is set.".to_owned(),
        });
    }
    match call.run {
        Run::Read(read) => {
            let world = local.look()?;
            let lost = if faults::waiting(&world.faults, action, params) {
                local.change(|change| Ok(faults::take(&mut change.world.faults, action, params)))?
            } else {
                None
            };
            if let Some((error, _)) = lost {
                return Err(error);
            }
            let now = world.now(local.clock().now());
            let delays = local.delays();
            let children = read(&Reading {
                request,
                caller,
                world: &world,
                inner: &local.0,
                lists: now - delays.stale_lists,
                reads: now - delays.stale_reads,
                now,
            })?;
            Ok(Xml::node(call.answer, children))
        }
        Run::Write(write) => local.change_as(caller, |change| {
            match faults::take(&mut change.world.faults, action, params) {
                None => Ok(Ok(Xml::node(call.answer, write(request, change)?))),
                // The change succeeds, so that the fault's count is recorded.
                Some((error, carried_out)) => {
                    if carried_out {
                        write(request, change)?;
                    }
                    Ok(Err(error))
                }
            }
        })?,
    }
}
