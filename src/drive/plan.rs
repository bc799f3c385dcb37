//! The plan: one pure function from a goal and what was observed to the next steps.
//!
//! It knows no SDK, no clock and no I/O, and has no state. The same [`Observed`] leads to the same
//! steps, however the last run ended. A step that destroys carries the grounds for it, which only
//! an [`Observed`] gives ([`proof`](super::proof)).
//!
//! The way to a mounted drive is: announce (launch and create, tagged), settle, raise the
//! generation, attach, read the generation back, mount. The first write comes after the last of
//! these, so every other process can read the generation of what was written.
//!
//! It must never raise a generation before the lists are settled, choose an older state while a
//! newer one may exist, choose between two lineages, or take a host's silence for a proof.

mod checkpoint;
mod choose;
mod copied;
mod discard;
mod leaving;
mod lineage;
mod ready;
mod recovery;
mod saved;
mod step;
mod throwaway;
mod verify;

use crate::clock::BootTime;

use super::observed::Observed;
use super::timing::Timing;

pub use checkpoint::Skipped;
pub(super) use checkpoint::{outdated, prune};
pub use step::{Done, Goal, Next, Step, Waiting};
pub(super) use throwaway::orphans;

use step::View;

/// Decides what to do next about what was `seen`, `now` (boot-time clock).
#[must_use]
pub fn plan(goal: &Goal, seen: &Observed, now: BootTime, timing: &Timing) -> Next {
    let view = View { seen, now, timing };
    if let Some(steps) = recovery::keep_volumes(seen) {
        return Next::Do(steps);
    }
    match goal {
        Goal::Ready { from } => ready::ready(&view, from.as_ref()),
        Goal::Throwaway => discard::ready(&view),
        Goal::Ended => saved::end(&view),
        Goal::Parked => saved::parked(&view),
        Goal::Saved { even_if_used } => saved::saved(&view, *even_if_used),
        Goal::Deleted { shown } => leaving::deleted(&view, shown),
        Goal::Renamed(to) => leaving::renamed(&view, to),
        Goal::Copied(order) => copied::copied(&view, order),
    }
}

/// The step that takes a checkpoint of the drive in use, or why none can be taken now.
pub(super) fn checkpoint(seen: &Observed, now: BootTime, timing: &Timing) -> Result<Step, Skipped> {
    checkpoint::checkpoint(&View { seen, now, timing })
}

#[cfg(test)]
mod tests;
