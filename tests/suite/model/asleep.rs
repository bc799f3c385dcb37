//! A beginning close to a race: the first client gets as far as one of its calls, undisturbed, and
//! is suspended there. What comes next is what the check is about.

use xdrive::drive::plan::Step;

use super::check::{Action, Setup, State};
use super::client::{At, Rules};
use super::steps::{Fate, Stage};

/// Longer than any run takes.
const PATIENCE: usize = 400;

impl State {
    /// The first client stops right before the call of a step for which `before` is true.
    pub(super) fn fall_asleep(&mut self, before: fn(&Step) -> bool, setup: &Setup, rules: &Rules) {
        for _ in 0..PATIENCE {
            let now = self.world.now;
            let slot = 0;
            let action = match &self.clients[0].at {
                At::Off => Action::Start(slot),
                At::Rest { until } if *until > now => Action::Tick { idle: false },
                At::Rest { .. } | At::Instances { .. } | At::Volumes { .. } => {
                    Action::Look { slot, mix: 0 }
                }
                At::Acting { stage, steps, .. } => match stage {
                    Stage::Read => Action::Read { slot, mix: 0 },
                    Stage::Call(_) if steps.last().is_some_and(before) => {
                        self.clients[0].suspended = true;
                        return;
                    }
                    Stage::Call(_) => Action::Call {
                        slot,
                        fate: Fate::Done,
                        zone: 0,
                    },
                    Stage::Answer(_) => Action::Answer(slot),
                },
                At::Inside { wrote: false } => Action::Write(slot),
                At::Inside { wrote: true } => Action::Leave(slot),
                At::Over(_) => break,
            };
            self.take(action, setup, rules);
        }
        panic!("{}: the first client never comes to that step", setup.name);
    }
}
