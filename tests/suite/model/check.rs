//! The model that is checked: the next actions, and the properties that must always hold.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher};
use std::sync::Mutex;

use stateright::{Model, Property};
use xdrive::drive::Timing;
use xdrive::drive::plan::Step;

use super::actions::Action;
use super::broken::Broken;
use super::client::{At, Client, End, Rules, Run};
use super::digest;
use super::events::{Event, Fault};
use super::past::Past;
use super::recover::Known;
use super::steps::Stage;
use super::tender::Tending;
use super::values;
use super::world::{Promise, Tick, World};

pub(super) const P1: &str = "P1: nothing acknowledged is ever lost";
pub(super) const P1_USED: &str = "P1: a drive in use is neither deleted nor renamed";
pub(super) const P1_SHOWN: &str = "P1: only what the user was shown is deleted";
pub(super) const P1_APART: &str = "P1: what is thrown away never becomes a state of the drive";
pub(super) const P1_ORIGIN: &str =
    "P1: a throwaway volume is deleted while the snapshot that it was made from is there";
pub(super) const P2: &str = "P2: no instance is terminated while the drive is written to there";
pub(super) const P3_WRITERS: &str = "P3: the drive is never mounted twice";
pub(super) const P3_OLDER: &str = "P3: no older state than the newest is mounted";
pub(super) const P3_FORK: &str = "P3: the drive never forks";
pub(super) const P3_WHOLE: &str = "P3: one state of the drive has all that is acknowledged";
pub(super) const P3_ONE: &str = "P3: undisturbed, all clients come to one instance and one volume";
pub(super) const P7: &str =
    "P7: an instance that nobody keeps ends by itself, and the drive survives";
pub(super) const P4_ONCE: &str = "P4: no fork pays for a second copy";
pub(super) const P10_ONCE: &str = "P10: no try of a run is begun twice";
pub(super) const P10_OVER: &str = "P10: a run that is over is not begun again";
pub(super) const P10_ON: &str =
    "P10: once there is capacity, a pass begins what is wanted, and marks what is over";
pub(super) const P4: &str = "P4: a next run ends with the drive saved, or says what is left";

/// The setup of a check: its beginning, its clients, and how much may go wrong.
#[derive(Debug, Clone)]
pub(super) struct Setup {
    pub(super) name: &'static str,
    pub(super) past: Past,
    /// Where clients (by slot) were suspended before the check begins, one after the other.
    pub(super) asleep: &'static [(u8, Asleep)],
    /// The runs of each client, one after the other.
    pub(super) clients: &'static [&'static [Run]],
    /// The faults that may happen…
    pub(super) faults: &'static [Fault],
    /// …and how often, all together.
    pub(super) budget: Budget,
    /// The budget that a long check adds.
    pub(super) further: Budget,
    /// How old a list or a read may be.
    pub(super) lag: Tick,
    pub(super) old: Old,
    /// How long a lease is; `None`: hosts live on without one.
    pub(super) lease: Option<Tick>,
    /// How many zones EC2 chooses from.
    pub(super) zones: u8,
    /// Whether the end of a next run is checked, in every world.
    pub(super) checks_next_run: bool,
    /// Whether the next run may be stuck: somebody destroyed something at the console.
    pub(super) may_be_stuck: bool,
    /// Whether it may have two lineages, so that nobody mounts it: two began it at once.
    pub(super) may_be_forked: bool,
    /// After how many actions the check ends; `None`: never.
    pub(super) depth: Option<usize>,
    pub(super) broken: Option<Broken>,
}

/// Where a client is suspended.
#[derive(Debug, Clone, Copy)]
pub(super) enum Asleep {
    /// Right before the call of a step of that sort.
    Before(fn(&Step) -> bool),
    /// Right before the re-read of a step of that sort.
    Again(fn(&Step) -> bool),
    /// After the first read of its next look.
    Reading,
    /// At its current point, for so long that its hosts dropped its connections.
    Dropped,
    /// At its current point, for so many ticks more.
    On(Tick),
    /// Before its first look: its user has the question on the screen.
    Asking,
    /// While its user works.
    Inside,
    /// Before an action of that sort for the drive's run.
    Tending(fn(Tending) -> bool),
    /// In the middle of a renewal, for so many ticks; and again in the middle of the next one.
    Renewing(Tick),
}

/// The reads that may be stale.
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

/// A setup, with the results so far.
pub(super) struct Checked {
    pub(super) setup: Setup,
    pub(super) rules: Rules,
    /// Whether a next run ends well, by the digest of its world.
    recovers: Mutex<HashMap<u64, bool>>,
    /// The results of such runs.
    runs: Known,
    /// Whether every instance would end by itself, by the same digest.
    ends: Mutex<HashMap<u64, bool>>,
    /// Whether the drive's run goes on, likewise.
    goes_on: Mutex<HashMap<u64, bool>>,
}

impl Checked {
    pub(super) fn new(setup: Setup) -> Self {
        let timing = Timing {
            settle: values::ticks(u32::from(setup.lag) + 1),
            poll: values::ticks(1),
            login_window: values::ticks(2),
            snapshot_gap: values::ticks(1),
            snapshot_tries: 2,
            verdict: values::VERDICT,
            verdict_gap: values::ticks(1),
            lease_margin: values::ticks(3),
            attaching: values::ticks(3),
            no_ssh: values::ticks(2),
            boot: values::ticks(3),
            shutting_down: values::ticks(4),
            first_hour: values::ticks(4),
            taking: values::ticks(2),
            launches: 3,
            ..Timing::aws()
        };
        let timing = match setup.broken {
            Some(broken) => broken.timing(timing),
            None => timing,
        };
        Self {
            rules: Rules {
                timing,
                broken: setup.broken,
            },
            setup,
            recovers: Mutex::default(),
            runs: Known::default(),
            ends: Mutex::default(),
            goes_on: Mutex::default(),
        }
    }

    pub(super) fn allows(&self, fault: Fault) -> bool {
        self.setup.faults.contains(&fault)
    }

    fn recovers(&self, state: &State) -> bool {
        remembered(&self.recovers, &state.world, |world| {
            let well = |end: &End| match end {
                End::Stuck(_) => self.setup.may_be_stuck,
                End::Saved => true,
                End::Busy | End::Killed => false,
            };
            let far = self.setup.lease.map(|_| Run::StopFromAfar);
            // Without a lease only its user ends a host that hangs.
            let is_live = |id: &u8| world.instance(*id).is_some_and(|it| it.state.is_live());
            let is_hung = self.setup.lease.is_none() && world.hung.iter().any(is_live);
            let plain = if is_hung {
                &[Run::StopHung][..]
            } else {
                &[Run::Stop, Run::Connect]
            };
            let mut runs = plain.iter().copied().chain(far);
            let is_made = |run: &Run| {
                let Run::Fork(original) = *run else {
                    return true;
                };
                let ends = |end: &End| well(end) || !world.is_new_for(original);
                self.runs.next_run(world, &self.rules, *run, &ends)
            };
            runs.all(|run| self.runs.next_run(world, &self.rules, run, &well))
                && self.setup.clients.iter().copied().flatten().all(is_made)
        })
    }

    /// Whether the drive's run goes on, or is over and marked so, if somebody tends it undisturbed.
    fn goes_on(&self, state: &State) -> bool {
        state.world.run.is_none()
            || remembered(&self.goes_on, &state.world, |world| {
                let well = |end: &End| match end {
                    End::Stuck(_) => self.setup.may_be_stuck,
                    End::Saved => true,
                    End::Busy | End::Killed => false,
                };
                self.runs.next_run(world, &self.rules, Run::Tend, &well)
            })
    }

    /// The next action of a client that receives an answer, while nothing can go wrong any more: no
    /// other client notices when, so it comes at once.
    fn alone<'a>(&self, state: &'a State) -> Option<&'a Client> {
        let is_answered = |client: &&Client| {
            let At::Acting { stage, .. } = &client.at else {
                return false;
            };
            matches!(stage, Stage::Answer(_)) && !client.suspended
        };
        let budget = state.budget;
        let is_calm = budget.faults == 0 && budget.slow == 0 && self.setup.lease.is_none();
        state.clients.iter().find(is_answered).filter(|_| is_calm)
    }

    fn ends_by_itself(&self, state: &State) -> bool {
        remembered(&self.ends, &state.world, World::ends_by_itself)
    }
}

/// The result of `of` for that world, computed once.
fn remembered(
    known: &Mutex<HashMap<u64, bool>>,
    world: &World,
    of: impl FnOnce(&World) -> bool,
) -> bool {
    let mut hasher = DefaultHasher::new();
    digest::hash_world(world, &mut hasher);
    let digest = hasher.finish();
    if let Some(known) = known.lock().unwrap().get(&digest) {
        return *known;
    }
    let result = of(world);
    known.lock().unwrap().insert(digest, result);
    result
}

impl Model for Checked {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let slots = 0..u8::try_from(self.setup.clients.len()).unwrap();
        let mut world = self.setup.past.world(self.setup.lag);
        if let Some(length) = self.setup.lease {
            world.begin_leases(length);
        }
        let mut state = State {
            world,
            clients: slots.map(Client::new).collect(),
            budget: self.setup.budget,
        };
        for (slot, asleep) in self.setup.asleep {
            state.fall_asleep(*slot, *asleep, &self.setup, &self.rules);
        }
        vec![state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if let Some(client) = self.alone(state) {
            actions.push(Action::Answer(client.slot));
            return;
        }
        for client in &state.clients {
            self.client_actions(state, client, actions);
        }
        if state.is_idle() || state.budget.slow > 0 {
            actions.push(Action::Tick { idle: false });
        }
        if !state.world.has_capacity {
            actions.push(Action::Happen(Event::CapacityComes));
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
                let world = &state.world;
                let aside = world.aside.iter().map(|(_, bytes)| bytes.data);
                let aside = aside.fold(world.kept_data(), |kept, data| kept | data);
                world.acknowledged & !world.kept_data() == 0 && world.kept_aside & !aside == 0
            }),
            Property::always(P1_USED, |_, state: &State| {
                !state.world.broken.contains(&Promise::Left)
            }),
            Property::always(P1_SHOWN, |_, state: &State| {
                !state.world.broken.contains(&Promise::Unshown)
            }),
            Property::always(P1_APART, |_, state: &State| {
                !state.world.broken.contains(&Promise::Mixed)
            }),
            Property::always(P1_ORIGIN, |_, state: &State| {
                !state.world.broken.contains(&Promise::OriginGone)
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
            Property::always(P3_FORK, |model: &Self, state: &State| {
                let may_be = model.setup.may_be_forked || model.setup.past == Past::Forked;
                may_be || !state.world.is_forked()
            }),
            Property::always(P3_WHOLE, |model: &Self, state: &State| {
                model.setup.past == Past::Forked || state.world.is_whole()
            }),
            Property::always(P3_ONE, |model: &Self, state: &State| {
                let ends = |client: &Client| matches!(client.at, At::Inside { .. } | At::Over(_));
                let is_over = state.clients.iter().all(ends);
                let is_calm = model.setup.faults.is_empty() && model.setup.past.is_tidy();
                !is_calm || !is_over || state.world.is_one()
            }),
            Property::always(P7, |model: &Self, state: &State| {
                model.setup.lease.is_none() || model.ends_by_itself(state)
            }),
            Property::always(P10_ONCE, |_, state: &State| {
                !state.world.broken.contains(&Promise::BegunTwice)
            }),
            Property::always(P10_OVER, |_, state: &State| {
                !state.world.broken.contains(&Promise::BegunOver)
            }),
            Property::always(P10_ON, |model: &Self, state: &State| model.goes_on(state)),
            Property::always(P4_ONCE, |_, state: &State| {
                !state.world.broken.contains(&Promise::CopiedTwice)
            }),
            Property::always(P4, |model: &Self, state: &State| {
                !model.setup.checks_next_run || model.recovers(state)
            }),
        ]
    }

    fn within_boundary(&self, state: &State) -> bool {
        // A broken promise stays broken: the search ends there.
        state.world.broken.len() <= 1
    }
}
