//! A beginning close to a race: the first client gets as far as one of its calls, undisturbed, and
//! is suspended there. What comes next is what the check is about.

use xdrive::drive::plan::Step;

use super::actions::Action;
use super::check::{Asleep, Setup, State};
use super::client::{At, Rules};
use super::steps::{Fate, Stage};

/// Longer than any run takes.
const PATIENCE: usize = 400;

impl State {
    /// The first client gets that far and stops.
    pub(super) fn fall_asleep(&mut self, asleep: Asleep, setup: &Setup, rules: &Rules) {
        let before = |step: &Step| matches!(asleep, Asleep::Before(before) if before(step));
        for _ in 0..PATIENCE {
            let now = self.world.now;
            let slot = 0;
            let action = match &self.clients[0].at {
                _ if self.clients[0].has_to_renew(&self.world) => {
                    let late = matches!(asleep, Asleep::Renewing(_))
                        && matches!(self.clients[0].at, At::Inside { .. })
                        && self.clients[0]
                            .keep
                            .is_some_and(|keep| keep.renewed.is_some());
                    self.take(Action::Renew(slot), setup, rules);
                    if late {
                        self.clients[0].suspended = true;
                        return;
                    }
                    continue;
                }
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
                At::Inside { .. } if matches!(asleep, Asleep::Inside) => {
                    self.clients[0].suspended = true;
                    return;
                }
                At::Inside { .. } if let Asleep::Renewing(late) = asleep => {
                    for _ in 0..late {
                        self.world.tick(false);
                    }
                    continue;
                }
                At::Inside { wrote: true } => Action::Leave(slot),
                At::Over(_) => break,
            };
            self.take(action, setup, rules);
        }
        panic!("{}: the first client never comes to that step", setup.name);
    }
}
