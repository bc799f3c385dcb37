//! The model that is checked: what may happen next, and what must hold whatever happened.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher};
use std::sync::Mutex;

use stateright::{Model, Property};
use xdrive::drive::Limits;
use xdrive::drive::plan::Step;

use super::broken::Broken;
use super::client::{At, Client, End, Rules, Run};
use super::digest;
use super::events::{Event, Fault};
use super::past::Past;
use super::recover;
use super::steps::{Fate, Stage};
use super::values;
use super::world::{Promise, Tick, World};

pub(super) const P1: &str = "P1: nothing acknowledged is ever lost";
pub(super) const P2: &str = "P2: no instance is terminated while the drive is written to there";
pub(super) const P3_WRITERS: &str = "P3: the drive is never mounted twice";
pub(super) const P3_OLDER: &str = "P3: no older state than the newest is mounted";
pub(super) const P4: &str = "P4: a next run ends with the drive saved, or says what is left";

/// What is checked: where it begins, who runs, and how much may go wrong.
#[derive(Debug, Clone)]
pub(super) struct Setup {
    pub(super) name: &'static str,
    pub(super) past: Past,
    /// Before which of its steps the first client was suspended when the check begins.
    pub(super) asleep: Option<fn(&Step) -> bool>,
    /// The runs of each client, one after the other.
    pub(super) clients: &'static [&'static [Run]],
    /// What may happen…
    pub(super) faults: &'static [Fault],
    /// …and how often, all together.
    pub(super) budget: Budget,
    /// How old a list or a read may be.
    pub(super) lag: Tick,
    pub(super) old: Old,
    /// How many zones EC2 chooses from.
    pub(super) zones: u8,
    /// Whether what a next run comes to is checked, in every single world.
    pub(super) checks_next_run: bool,
    /// Whether the next run may find itself stuck: somebody else destroyed something.
    pub(super) may_be_stuck: bool,
    /// After how many actions nothing is looked at any more; none: everything is.
    pub(super) depth: Option<usize>,
    pub(super) broken: Option<Broken>,
}

/// What may be old at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Old {
    /// Every list, and every read by id.
    Any,
    /// Lists of snapshots.
    Snapshots,
}

/// How much may still go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Budget {
    /// Faults and events.
    pub(super) faults: u8,
    /// Reads that do not show the truth.
    pub(super) stale: u8,
    /// Ticks that pass while a client has something to do.
    pub(super) slow: u8,
}

#[derive(Debug, Clone)]
pub(super) struct State {
    pub(super) world: World,
    pub(super) clients: Vec<Client>,
    pub(super) budget: Budget,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Action {
    Tick {
        idle: bool,
    },
    Start(u8),
    /// One read of a look: the truth is mix 0.
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
    Write(u8),
    Leave(u8),
    Kill(u8),
    /// The laptop sleeps, or somebody stops the process; and goes on.
    Suspend(u8),
    Resume(u8),
    /// No host answers this client; and they do again.
    Cut(u8),
    Mend(u8),
    Happen(Event),
}

/// A setup, and what is known of it already.
pub(super) struct Checked {
    pub(super) setup: Setup,
    pub(super) rules: Rules,
    /// Whether a next run makes everything good, by the digest of the world that it finds.
    recovers: Mutex<HashMap<u64, bool>>,
}

impl Checked {
    pub(super) fn new(setup: Setup) -> Self {
        let limits = Limits {
            settle: values::ticks(u32::from(setup.lag) + 1),
            poll: values::ticks(1),
            patience: values::ticks(2),
            snapshot_gap: values::ticks(1),
            snapshot_tries: 2,
            verdict: values::VERDICT,
            verdict_gap: values::ticks(1),
            lease_margin: values::ticks(3),
            attaching: values::ticks(3),
            no_ssh: values::ticks(2),
            shutting_down: values::ticks(4),
            launches: 3,
            ..Limits::aws()
        };
        let limits = match setup.broken {
            Some(broken) => broken.limits(limits),
            None => limits,
        };
        Self {
            rules: Rules {
                limits,
                broken: setup.broken,
            },
            setup,
            recovers: Mutex::default(),
        }
    }

    fn allows(&self, fault: Fault) -> bool {
        self.setup.faults.contains(&fault)
    }

    fn recovers(&self, state: &State) -> bool {
        let mut hasher = DefaultHasher::new();
        digest::hash_world(&state.world, &mut hasher);
        let digest = hasher.finish();
        if let Some(known) = self.recovers.lock().unwrap().get(&digest) {
            return *known;
        }
        let well = recover::next_run(&state.world, &self.rules);
        let well = match well {
            End::Stuck(_) => self.setup.may_be_stuck,
            End::Saved => true,
            _ => false,
        };
        self.recovers.lock().unwrap().insert(digest, well);
        well
    }

    fn client_actions(&self, state: &State, client: &Client, actions: &mut Vec<Action>) {
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
            At::Rest { .. } | At::Instances { .. } | At::Volumes { .. } => {
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
            At::Inside { wrote } => {
                if !wrote && state.world.written < 12 {
                    actions.push(Action::Write(slot));
                }
                actions.push(Action::Leave(slot));
            }
        }
        let runs = !matches!(client.at, At::Off);
        if runs && state.budget.faults > 0 && self.allows(Fault::Crash) {
            actions.push(Action::Kill(slot));
        }
        if runs && state.budget.faults > 0 && self.allows(Fault::Suspend) {
            actions.push(Action::Suspend(slot));
        }
        if client.cut {
            actions.push(Action::Mend(slot));
        } else if runs && state.budget.faults > 0 && self.allows(Fault::Cut) {
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

impl Model for Checked {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let slots = 0..u8::try_from(self.setup.clients.len()).unwrap();
        let mut state = State {
            world: self.setup.past.world(self.setup.lag),
            clients: slots.map(Client::new).collect(),
            budget: self.setup.budget,
        };
        if let Some(before) = self.setup.asleep {
            state.fall_asleep(before, &self.setup, &self.rules);
        }
        vec![state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for client in &state.clients {
            self.client_actions(state, client, actions);
        }
        if state.is_idle() || state.budget.slow > 0 {
            actions.push(Action::Tick { idle: false });
        }
        if state.budget.faults > 0 {
            let may_pass = state.is_idle() || state.budget.slow > 0;
            if may_pass && self.allows(Fault::SlowCloud) {
                actions.push(Action::Tick { idle: true });
            }
            let events = state.world.possible(self.setup.faults);
            let helpless = |event: &Event| match event {
                Event::ConsoleDeleteSnapshot(id) => {
                    let rests = |client: &Client| client.rests_on() == Some(*id);
                    state.clients.iter().any(rests)
                }
                // Between its look and its call a client cannot know that nothing was unmounted:
                // the look into the snapshot finds it out, and the drive is stuck, not lost.
                Event::Reboot(_) => !state.clients.iter().all(Client::is_between),
                _ => false,
            };
            let events = events.into_iter().filter(|event| !helpless(event));
            actions.extend(events.map(Action::Happen));
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        state.take(action, &self.setup, &self.rules);
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(P1, |_, state: &State| {
                state.world.acknowledged & !state.world.kept() == 0
            }),
            Property::always(P2, |_, state: &State| {
                !state.world.broken.contains(&Promise::Terminated)
            }),
            Property::always(P3_WRITERS, |_, state: &State| {
                !state.world.broken.contains(&Promise::TwoWriters)
            }),
            Property::always(P3_OLDER, |_, state: &State| {
                !state.world.broken.contains(&Promise::OlderMounted)
            }),
            Property::always(P4, |model: &Self, state: &State| {
                !model.setup.checks_next_run || model.recovers(state)
            }),
        ]
    }

    fn within_boundary(&self, state: &State) -> bool {
        // What is broken stays broken: there is nothing more to be found behind it.
        state.world.broken.len() <= 1
    }
}

impl State {
    /// Whether nothing is left to do but wait, and somebody waits.
    fn is_idle(&self) -> bool {
        let now = self.world.now;
        let rests = |client: &Client| matches!(client.at, At::Rest { until } if until > now);
        let sleeps = |client: &Client| client.suspended;
        let all_wait = self.clients.iter().all(|client| client.waits(now));
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
                client.start(run, now);
            }
            Action::Look { slot, mix } => {
                self.budget.stale -= u8::from(mix > 0);
                self.clients[usize::from(slot)].look(&self.world, rules, mix);
            }
            Action::Read { slot, mix } => {
                self.budget.stale -= u8::from(mix > 0);
                let client = &mut self.clients[usize::from(slot)];
                let read = client.reads_by_id(&self.world).swap_remove(mix.into());
                client.read(read);
            }
            Action::Call { slot, fate, zone } => {
                self.budget.faults -= u8::from(fate != Fate::Done);
                self.clients[usize::from(slot)].call(&mut self.world, rules, fate, zone);
            }
            Action::Answer(slot) => self.clients[usize::from(slot)].hear(&self.world),
            Action::Write(slot) => {
                self.world.write(slot);
                self.clients[usize::from(slot)].at = At::Inside { wrote: true };
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
                self.budget.faults -= 1;
                self.world.happen(event);
            }
        }
        // A process that is over holds no lock.
        for host in &mut self.world.hosts {
            let over = |slot: u8| {
                let client = self.clients.iter().find(|client| client.slot == slot);
                client.is_none_or(|client| matches!(client.at, At::Over(_)))
            };
            if host.client.is_some_and(over) {
                host.client = None;
            }
        }
    }
}
