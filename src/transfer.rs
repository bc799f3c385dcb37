//! Copies of files between this computer and a container.
//!
//! A file is written under a name of its own, and gets the one that it is to have once it is whole.
//! A large one that was begun is taken up where it stopped, if what is there has the same digest as
//! the beginning of the source, or was read from the same file of a snapshot: no file is ever a
//! mixture of two. What is there already by size and time of change is not sent again, so a copy that
//! was cut off goes on when it is begun again.
//!
//! It knows neither sessions nor drives, never prints, and connects to nothing: [`Stop::Lost`] asks
//! for other servers, with which the same [`Transfer`] goes on.

mod down;
mod engine;
mod jobs;
mod local;
mod order;
mod part;
mod paths;
pub(crate) mod place;
mod progress;
mod rules;
mod servers;
mod state;
mod up;
pub(crate) mod watch;

use std::sync::Arc;

#[cfg(fuzzing)]
pub(crate) use rules::fuzzing;
use state::State;

pub(crate) use order::{Copying, Order, Sync};
pub(crate) use part::{PartError, show};
pub(crate) use progress::{Progress, size};
pub(crate) use servers::Servers;
pub(crate) use state::{Problem, Stop};

/// A copy under way, which may go through the hands of several connections.
#[derive(Debug)]
pub(crate) struct Transfer {
    order: Order,
    state: Arc<State>,
}

impl Transfer {
    pub(crate) fn new(order: Order, ignores_times: bool) -> Self {
        Self {
            order,
            state: Arc::new(State::new(ignores_times)),
        }
    }

    /// How far it is.
    pub(crate) fn progress(&self) -> &Progress {
        &self.state.progress
    }

    /// The sources that could not be copied.
    pub(crate) fn problems(&self) -> Vec<Problem> {
        self.state.problems()
    }

    /// From now on what was copied is looked at again, and counted anew.
    pub(crate) fn begin_again(&self) {
        self.state.begin_again();
    }

    /// Copies, or goes on with it. What cannot be copied is a problem, and the rest is copied.
    pub(crate) async fn run(&self, servers: Servers) -> Result<(), Stop> {
        self.state.begin();
        servers.begin();
        let state = Arc::clone(&self.state);
        match self.order.clone() {
            Order::Up { sources, to } => up::copy(&sources, to, servers, state).await,
            Order::Sync { folder, to, sync } => up::sync(folder, to, sync, servers, state).await,
            Order::Down { sources, to } => down::copy(sources, to, servers, state).await,
        }
    }
}

#[cfg(test)]
mod tests;
