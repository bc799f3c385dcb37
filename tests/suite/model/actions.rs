//! The possible next actions, and their effects on the world, a client and the budget.

use super::broken::Broken;
use super::check::{Checked, Old, Setup, State};
use super::client::{At, Client, End, Rules, Run};
use super::events::{Event, Fault};
use super::lease::First;
use super::runs::RUN;
use super::steps::{Fate, Read, Stage};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Action {
    Tick {
        idle: bool,
    },
    Start(u8),
    /// A read of a look: the truth is mix 0.
    Look {
        slot: u8,
        mix: u16,
    },
    /// The read by id of a step.
    Read {
        slot: u8,
        mix: u8,
    },
    Call {
        slot: u8,
        fate: Fate,
        zone: u8,
    },
    Answer(u8),
    /// Half a renewal of its lease.
    Renew(u8),
    Write(u8),
    /// An action for the drive's run.
    Tend {
        slot: u8,
        mix: u16,
    },
    Checkpoint(u8),
    Leave(u8),
    Kill(u8),
    /// The laptop sleeps, or the process is stopped; and goes on.
    Suspend(u8),
    Resume(u8),
    /// No host answers this client; and hosts answer again.
    Cut(u8),
    Mend(u8),
    Happen(Event),
}

impl Checked {
    pub(super) fn client_actions(&self, state: &State, client: &Client, actions: &mut Vec<Action>) {
        let (slot, now) = (client.slot, state.world.now);
        if client.suspended {
            actions.push(Action::Resume(slot));
            return;
        }
        let is_last = matches!(client.at, At::Volumes { .. });
        let may_be_old = self.setup.old == Old::Any || is_last;
        let mixes = |count: u16| {
            if state.budget.stale > 0 && may_be_old {
                count
            } else {
                count.min(1)
            }
        };
        if client.has_to_renew(&state.world) {
            actions.push(Action::Renew(slot));
            return self.troubles(state, client, actions);
        }
        match &client.at {
            At::Off => actions.push(Action::Start(slot)),
            At::Over(_) => {
                let runs = self.setup.clients[usize::from(slot)].len();
                if usize::from(client.began) < runs {
                    actions.push(Action::Start(slot));
                }
                return;
            }
            At::Rest { until } if *until > now => {}
            At::Rest { .. } | At::Snapshots { .. } | At::Instances { .. } | At::Volumes { .. } => {
                let reads = client.reads(&state.world, &self.rules);
                actions.extend((0..mixes(reads)).map(|mix| Action::Look { slot, mix }));
            }
            At::Acting { stage, .. } => match stage {
                Stage::Read => {
                    let count = client.reads_by_id(&state.world).len();
                    let count = u8::try_from(mixes(u16::try_from(count).unwrap())).unwrap();
                    actions.extend((0..count).map(|mix| Action::Read { slot, mix }));
                }
                Stage::Call(_) => self.calls(state, client, actions),
                Stage::Answer(_) => actions.push(Action::Answer(slot)),
            },
            At::Tending => {
                let reads = client.tend_reads(&state.world);
                actions.extend((0..mixes(reads)).map(|mix| Action::Tend { slot, mix }));
            }
            At::Inside { wrote } => {
                if !wrote && state.world.written < 12 {
                    actions.push(Action::Write(slot));
                }
                let may = state.budget.faults > 0 && self.allows(Fault::Checkpoint);
                if may && state.world.can_checkpoint(slot).is_some() {
                    actions.push(Action::Checkpoint(slot));
                }
                actions.push(Action::Leave(slot));
            }
        }
        self.troubles(state, client, actions);
    }

    /// The troubles of the client itself.
    fn troubles(&self, state: &State, client: &Client, actions: &mut Vec<Action>) {
        let slot = client.slot;
        let runs = !matches!(client.at, At::Off);
        if runs && state.budget.faults > 0 && self.allows(Fault::Crash) {
            actions.push(Action::Kill(slot));
        }
        if runs && state.budget.faults > 0 && self.allows(Fault::Suspend) {
            actions.push(Action::Suspend(slot));
        }
        if client.cut && self.allows(Fault::Cut) {
            actions.push(Action::Mend(slot));
        } else if !client.cut && runs && state.budget.faults > 0 && self.allows(Fault::Cut) {
            actions.push(Action::Cut(slot));
        }
    }

    fn calls(&self, state: &State, client: &Client, actions: &mut Vec<Action>) {
        let zones = if client.is_zone_open() {
            self.setup.zones
        } else {
            1
        };
        let mut fates = vec![Fate::Done];
        if state.budget.faults > 0 {
            for (fault, bad) in [
                (Fault::Lost, Fate::Lost),
                (Fault::Refused, Fate::Refused),
                (Fault::Refused, Fate::Unclear),
                (Fault::Twice, Fate::Twice),
                (Fault::Freeze, Fate::Freeze),
            ] {
                if self.allows(fault) && client.can_meet(bad) {
                    fates.push(bad);
                }
            }
        }
        for fate in fates {
            actions.extend((0..zones).map(|zone| Action::Call {
                slot: client.slot,
                fate,
                zone,
            }));
        }
    }
}

impl State {
    /// Whether nothing is left to do but wait, and a client waits.
    pub(super) fn is_idle(&self) -> bool {
        let now = self.world.now;
        let rests = |client: &Client| matches!(client.at, At::Rest { until } if until > now);
        let sleeps = |client: &Client| client.suspended;
        let waits = |client: &Client| client.waits(now) && !client.has_to_renew(&self.world);
        let all_wait = self.clients.iter().all(waits);
        all_wait
            && self
                .clients
                .iter()
                .any(|client| rests(client) || sleeps(client))
    }

    pub(super) fn take(&mut self, action: Action, setup: &Setup, rules: &Rules) {
        let now = self.world.now;
        match action {
            Action::Tick { idle } => {
                if !self.is_idle() {
                    self.budget.slow -= 1;
                }
                self.budget.faults -= u8::from(idle);
                self.world.tick(idle);
            }
            Action::Start(slot) => {
                let client = &mut self.clients[usize::from(slot)];
                let run = setup.clients[usize::from(slot)][usize::from(client.began)];
                client.start(run, &self.world);
                if run == Run::StopHung {
                    client.take_for_hung(&self.world, rules);
                } else if run == Run::Stop {
                    self.world.may_stop_run();
                }
            }
            Action::Look { slot, mix } => {
                self.budget.stale -= u8::from(mix > 0);
                let client = &mut self.clients[usize::from(slot)];
                client.look(&self.world, rules, mix);
                if let Some(original) = client.has_copied() {
                    self.world.acknowledge(original);
                }
            }
            Action::Read { slot, mix } => {
                self.budget.stale -= u8::from(mix > 0);
                let client = &mut self.clients[usize::from(slot)];
                let mut read = client.reads_by_id(&self.world).swap_remove(mix.into());
                if let (Some(broken), Read::Volume(Some(volume), _)) = (rules.broken, &mut read) {
                    broken.distort_volume(volume);
                }
                client.read(read, now);
            }
            Action::Call { slot, fate, zone } => {
                self.budget.faults -= u8::from(fate != Fate::Done);
                self.clients[usize::from(slot)].call(&mut self.world, rules, fate, zone);
            }
            Action::Answer(slot) => self.clients[usize::from(slot)].receive(&self.world),
            Action::Renew(slot) => {
                let first = rules.broken.map_or(First::Record, Broken::first_renewed);
                self.clients[usize::from(slot)].renew(&mut self.world, first);
            }
            Action::Tend { slot, mix } => {
                self.budget.stale -= u8::from(mix > 0);
                self.clients[usize::from(slot)].tend_on(&mut self.world, rules, mix);
            }
            Action::Write(slot) => {
                self.world.write(slot);
                self.clients[usize::from(slot)].at = At::Inside { wrote: true };
            }
            Action::Checkpoint(slot) => {
                self.budget.faults -= 1;
                self.clients[usize::from(slot)].checkpoint(&mut self.world);
                self.clients[usize::from(slot)].at = At::Inside { wrote: false };
            }
            Action::Leave(slot) => self.clients[usize::from(slot)].leave(now),
            Action::Kill(slot) => {
                self.budget.faults -= 1;
                self.clients[usize::from(slot)].over(End::Killed);
            }
            Action::Suspend(slot) => {
                self.budget.faults -= 1;
                self.clients[usize::from(slot)].suspended = true;
            }
            Action::Resume(slot) => self.clients[usize::from(slot)].suspended = false,
            Action::Cut(slot) => {
                self.budget.faults -= 1;
                self.clients[usize::from(slot)].cut = true;
            }
            Action::Mend(slot) => self.clients[usize::from(slot)].cut = false,
            Action::Happen(event) => {
                self.budget.faults -= u8::from(event != Event::CapacityComes);
                self.world.happen(event);
            }
        }
        // A process that is over holds no lock.
        for host in &mut self.world.hosts {
            let over = |slot: u8| {
                let client = self.clients.iter().find(|client| client.slot == slot);
                slot != RUN && client.is_none_or(|client| matches!(client.at, At::Over(_)))
            };
            if host.client.is_some_and(over) {
                host.client = None;
            }
        }
    }
}
