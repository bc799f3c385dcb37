//! Spot interruptions, by an experiment of Fault Injection Service, by tests, or by `xdrive local
//! interrupt`: EC2's API has no call for them.
//!
//! The notice is in the instance's metadata and in the status of its spot request at once. The
//! instance's supervisor ends it at the announced moment (the next call records a paper instance's
//! end), so that nothing depends on the process that asked.

use std::time::Duration;

use jiff::Timestamp;

use super::Local;
use super::calls::no_such_id;
use super::change::Change;
use super::records::{InstanceState, Interruption};
use super::wire::ApiError;
use super::world::Intent;

impl Local {
    /// Interrupts the spot instance `id`: the notice comes now, and the instance ends `after` from
    /// now at the latest, as by a power cut (two minutes on EC2). Returns the moment of the end; of
    /// two interruptions the earlier end holds.
    ///
    /// Refuses an unknown id, an on-demand instance, and one that is not running.
    pub fn interrupt(&self, id: &str, after: Duration) -> Result<Timestamp, ApiError> {
        self.change(|change| interrupt(change, id, after))
    }

    /// Sends the spot instance `id` a rebalance recommendation: it is at elevated risk of
    /// interruption. Returns the moment of the notice. Refuses what [`Local::interrupt`] refuses.
    pub fn recommend_rebalance(&self, id: &str) -> Result<Timestamp, ApiError> {
        self.change(|change| {
            running_spot(change, id)?;
            change.local.0.plane.recommend_rebalance(id, change.now)?;
            Ok(change.now)
        })
    }

    /// EC2's status check of the instance `id` fails from now on, and has failed since then: it hangs.
    pub fn impair(&self, id: &str, since: Timestamp) -> Result<(), ApiError> {
        self.change(|change| {
            let instance = change.world.instances.get_mut(id);
            instance.ok_or_else(|| no_such_id(id))?.impaired = Some(since);
            Ok(())
        })
    }
}

/// [`Local::interrupt`] as a part of a change.
pub(super) fn interrupt(
    change: &mut Change<'_>,
    id: &str,
    after: Duration,
) -> Result<Timestamp, ApiError> {
    let now = change.now;
    running_spot(change, id)?;
    // It must be possible before it is recorded.
    change.local.0.plane.can_interrupt()?;
    // The metadata service counts in seconds: it must not announce a later end than the real one.
    let at = whole_second(now + after).max(now);
    let Some(spot) = change
        .world
        .instances
        .get_mut(id)
        .and_then(|instance| instance.spot.as_mut())
    else {
        return Err(no_such_id(id));
    };
    let interruption = match spot.interruption {
        Some(known) => Interruption {
            at: known.at.min(at),
            ..known
        },
        None => Interruption { noticed: now, at },
    };
    spot.interruption = Some(interruption);
    let left = interruption.at.duration_since(now).unsigned_abs();
    let intent = Intent::Interrupt {
        instance: id.to_owned(),
    };
    change.effect(intent, |plane| plane.interrupt(id, interruption.at, left))?;
    Ok(interruption.at)
}

/// Refuses all but a running spot instance.
pub(super) fn running_spot(change: &Change<'_>, id: &str) -> Result<(), ApiError> {
    let found = change.world.instance(id, change.now, change.local.delays());
    let (instance, state) = found.ok_or_else(|| no_such_id(id))?;
    if instance.spot.is_none() {
        return Err(ApiError::client(
            "UnsupportedOperation",
            format!("The instance '{id}' is not a Spot Instance: it is never interrupted"),
        ));
    }
    if !matches!(state, InstanceState::Pending | InstanceState::Running) {
        return Err(ApiError::client(
            "IncorrectInstanceState",
            format!("The instance '{id}' is not in a state from which it can be interrupted"),
        ));
    }
    Ok(())
}

/// The last whole second by `at`.
fn whole_second(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}
