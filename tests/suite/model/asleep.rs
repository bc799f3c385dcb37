//! A beginning close to a race: a client runs up to one of its calls, undisturbed, and is suspended
//! there. The check begins then.

use super::actions::Action;
use super::check::{Asleep, Setup, State};
use super::client::{At, Rules};
use super::steps::{Fate, Stage};
use super::world::Tick;

/// Longer than any run takes.
const TIMEOUT: usize = 400;

impl State {
    /// Wakes a client, which runs to that point and stops; others do nothing meanwhile.
    pub(super) fn fall_asleep(&mut self, slot: u8, asleep: Asleep, setup: &Setup, rules: &Rules) {
        match asleep {
            Asleep::On(late) => return self.pass(late),
            Asleep::Dropped => {
                let hosts = self.world.hosts.iter_mut();
                let own = hosts.filter(|host| host.client == Some(slot));
                return own.for_each(|host| host.client = None);
            }
            _ => {}
        }
        let index = usize::from(slot);
        self.clients[index].suspended = false;
        for _ in 0..TIMEOUT {
            if self.is_there(slot, asleep) {
                self.clients[index].suspended = true;
                return;
            }
            let works = matches!(self.clients[index].at, At::Inside { .. })
                && !self.clients[index].has_to_renew(&self.world);
            if let Asleep::Renewing(late) = asleep
                && works
            {
                self.pass(late);
            } else if let Some(action) = self.undisturbed(slot) {
                self.take(action, setup, rules);
            }
        }
        panic!("{}: the client never comes to that step", setup.name);
    }

    fn pass(&mut self, ticks: Tick) {
        for _ in 0..ticks {
            self.world.tick(false);
        }
    }

    /// Whether the client is where it is to be suspended.
    fn is_there(&self, slot: u8, asleep: Asleep) -> bool {
        let client = &self.clients[usize::from(slot)];
        match (asleep, &client.at) {
            (Asleep::Before(before), At::Acting { stage, steps, .. }) => {
                matches!(stage, Stage::Call(_)) && steps.last().is_some_and(before)
            }
            (Asleep::Again(before), At::Acting { stage, steps, .. }) => {
                matches!(stage, Stage::Read) && steps.last().is_some_and(before)
            }
            (Asleep::Reading, At::Snapshots { .. } | At::Instances { .. })
            | (Asleep::Asking, At::Rest { .. }) => true,
            (Asleep::Tending(before), At::Tending) => client.tending.is_some_and(before),
            (Asleep::Inside, At::Inside { .. }) => !client.has_to_renew(&self.world),
            (Asleep::Renewing(_), At::Inside { .. }) => {
                let keep = client.keep.as_ref();
                keep.is_some_and(|keep| keep.renewed.is_some() && keep.recorded.is_some())
            }
            _ => false,
        }
    }

    /// The client's next action if nothing else happens.
    fn undisturbed(&self, slot: u8) -> Option<Action> {
        let now = self.world.now;
        let client = &self.clients[usize::from(slot)];
        if client.has_to_renew(&self.world) {
            return Some(Action::Renew(slot));
        }
        Some(match &client.at {
            At::Off => Action::Start(slot),
            At::Rest { until } if *until > now => Action::Tick { idle: false },
            At::Rest { .. } | At::Snapshots { .. } | At::Instances { .. } | At::Volumes { .. } => {
                Action::Look { slot, mix: 0 }
            }
            At::Acting { stage, .. } => match stage {
                Stage::Read => Action::Read { slot, mix: 0 },
                Stage::Call(_) => Action::Call {
                    slot,
                    fate: Fate::Done,
                    zone: 0,
                },
                Stage::Answer(_) => Action::Answer(slot),
            },
            At::Tending => Action::Tend { slot, mix: 0 },
            At::Inside { wrote: false } => Action::Write(slot),
            At::Inside { wrote: true } => Action::Leave(slot),
            At::Over(_) => return None,
        })
    }
}
