//! One run of the loop: the goal as it stands, what failed, who is waiting.

use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::watch;

use crate::clock::BootTime;
use crate::ec2::{InstanceId, Kind, SnapshotState};

use super::super::event::Event;
use super::super::hosts::{Client, HostError, Hosts};
use super::super::observed::Observed;
use super::super::plan::{Done, Goal, Next, Step, Waiting, plan};
use super::super::stuck::{Left, Stuck};
use super::sweep::Look;
use super::{Failure, Holder, Outcome, Reconciler, RunError};

/// A run towards one goal.
pub(super) struct Run {
    goal: Goal,
    /// What the run will have come to, once this session's own things are ended.
    verdict: Option<Verdict>,
    /// How many interrupts were heard.
    heard: u32,
    /// Somebody waits for the end and would rather not.
    impatient: bool,
    /// Whether that was answered by "cannot stop here".
    told: bool,
    looks_failed: u32,
    steps_failed: u32,
    waiting: Option<(Waiting, BootTime)>,
    /// What was billed when it was last looked, and what was made since.
    left: Left,
}

enum Verdict {
    Busy(Holder),
    Stuck(Stuck),
    Failed(RunError),
}

impl Run {
    pub(super) fn new(goal: Goal, left: Left) -> Self {
        Self {
            goal,
            verdict: None,
            heard: 0,
            impatient: false,
            told: false,
            looks_failed: 0,
            steps_failed: 0,
            waiting: None,
            left,
        }
    }

    /// Looks, plans and acts until there is an outcome.
    pub(super) async fn run<H: Hosts>(
        mut self,
        with: &mut Reconciler<H>,
        interrupts: &mut watch::Receiver<u32>,
    ) -> Outcome {
        loop {
            self.listen(with, interrupts);
            let looked = if self.may_join(with) {
                with.look_for_session().await
            } else {
                with.sweep().await.map(|seen| Look::Whole(Box::new(seen)))
            };
            let seen = match looked {
                Ok(Look::Whole(seen)) => seen,
                Ok(Look::InUse(holder)) => return Outcome::Busy(holder),
                Err(error) => {
                    self.looks_failed += 1;
                    let error = RunError::from(error);
                    if is_final(&error) || self.looks_failed >= with.timing.failures {
                        // Blind, it can neither go on nor tidy up.
                        return self.fail(error);
                    }
                    with.emit(Event::LookFailed(error.to_string()));
                    rest(with.timing.pause(self.looks_failed), interrupts, self.heard).await;
                    continue;
                }
            };
            self.looks_failed = 0;
            if self.is_getting_ready() {
                with.notice_ends(&seen).await;
            }
            let next = plan(&self.goal, &seen, with.clock.boot(), &with.timing);
            // As it is before the steps; and after them, with what they made.
            self.left = Left::of(&seen).and_made(&with.overlay);
            let outcome = self.follow(next, &seen, with, interrupts).await;
            self.left = Left::of(&seen).and_made(&with.overlay);
            with.left.clone_from(&self.left);
            if let Some(outcome) = outcome {
                return outcome;
            }
        }
    }

    /// Does what `next` says; an outcome ends the run.
    async fn follow<H: Hosts>(
        &mut self,
        next: Next,
        seen: &Observed,
        with: &mut Reconciler<H>,
        interrupts: &mut watch::Receiver<u32>,
    ) -> Option<Outcome> {
        if self.impatient {
            let is_running = is_running(seen);
            if matches!(next, Next::Wait(..)) && !is_running {
                self.waited(None, seen, with);
                return Some(self.conclude(Outcome::StoppedWaiting(Left::of(seen))));
            }
            if !self.told && is_running && matches!(next, Next::Do(_) | Next::Wait(..)) {
                self.told = true;
                with.emit(Event::CannotStop);
            }
        }
        match next {
            Next::Wait(what, at_most) => {
                if let Some(error) = with.no_way(seen, &self.goal).await {
                    self.waited(None, seen, with);
                    return self.end(Verdict::Failed(error));
                }
                self.waited(Some(what), seen, with);
                rest(at_most.min(with.timing.poll), interrupts, self.heard).await;
                None
            }
            Next::Do(steps) => {
                self.waited(None, seen, with);
                self.act(steps, seen, with, interrupts).await
            }
            Next::Done(done) => {
                self.waited(None, seen, with);
                self.done(done, seen, with)
            }
            Next::Busy(instance) => {
                self.waited(None, seen, with);
                self.end(Verdict::Busy(holder(seen, &instance)))
            }
            Next::Stuck(stuck) => {
                self.waited(None, seen, with);
                self.end(Verdict::Stuck(stuck))
            }
        }
    }

    /// Carries out steps, one after the other, until one fails or somebody interrupts getting
    /// ready.
    async fn act<H: Hosts>(
        &mut self,
        steps: Vec<Step>,
        seen: &Observed,
        with: &mut Reconciler<H>,
        interrupts: &mut watch::Receiver<u32>,
    ) -> Option<Outcome> {
        let getting_ready = self.is_getting_ready();
        for step in steps {
            if getting_ready && *interrupts.borrow() > self.heard {
                return None;
            }
            let began = with.clock.boot();
            with.emit(Event::Started(step.clone()));
            let answer = self.carry_out(&step, seen, with, interrupts).await;
            let is_interrupted = getting_ready && !self.is_getting_ready();
            match answer {
                Ok(made) => {
                    self.steps_failed = 0;
                    let took = with.clock.boot().since(began);
                    with.emit(Event::Finished { step, made, took });
                }
                Err(error) => {
                    self.steps_failed += 1;
                    let again = !is_final(&error) && self.steps_failed < with.timing.failures;
                    with.emit(Event::Failed {
                        step,
                        error: error.to_string(),
                        again: again && !is_interrupted,
                    });
                    if is_interrupted {
                        // What was not to be had is not wanted any more.
                        self.steps_failed = 0;
                        return None;
                    }
                    if !again {
                        return self.end(Verdict::Failed(error));
                    }
                    // What was asked of the cloud has come to its end, one way or the other: look.
                    rest(with.timing.pause(self.steps_failed), interrupts, self.heard).await;
                    return None;
                }
            }
            if is_interrupted {
                return None;
            }
        }
        None
    }

    /// Carries out one step. It may take minutes (a commit), and is carried out to its end: whoever
    /// interrupts meanwhile is told at once what comes of that.
    async fn carry_out<H: Hosts>(
        &mut self,
        step: &Step,
        seen: &Observed,
        with: &mut Reconciler<H>,
        interrupts: &mut watch::Receiver<u32>,
    ) -> Result<Option<String>, RunError> {
        let is_running = is_running(seen);
        let events = Rc::clone(&with.events);
        let mut acting = pin!(with.act(step, seen));
        loop {
            let is_answered = self.is_getting_ready() || is_running;
            tokio::select! {
                biased;
                answer = &mut acting => return answer,
                count = more(interrupts, self.heard), if is_answered => {
                    let event = if self.is_getting_ready() {
                        self.turn_back()
                    } else {
                        self.heard = count;
                        self.impatient = true;
                        self.told = true;
                        Event::CannotStop
                    };
                    (events.borrow_mut())(event);
                }
            }
        }
    }

    /// Whether another's session would be joined at once: nothing is to be chosen or to be ended
    /// first, and nothing is waited for.
    fn may_join<H: Hosts>(&self, with: &Reconciler<H>) -> bool {
        let is_first = self.waiting.is_none() && self.verdict.is_none();
        is_first && self.goal == Goal::Ready { from: None } && with.overlay.has_made_nothing()
    }

    fn is_getting_ready(&self) -> bool {
        matches!(self.goal, Goal::Ready { .. })
    }

    /// Hears the interrupt that ends getting ready.
    fn turn_back(&mut self) -> Event {
        self.goal = Goal::Ended;
        self.heard += 1;
        Event::Ending
    }

    /// Hears what a person did since the last look.
    fn listen<H: Hosts>(
        &mut self,
        with: &mut Reconciler<H>,
        interrupts: &mut watch::Receiver<u32>,
    ) {
        let count = *interrupts.borrow_and_update();
        if count <= self.heard {
            return;
        }
        if self.is_getting_ready() {
            let event = self.turn_back();
            with.emit(event);
        }
        if count > self.heard {
            self.heard = count;
            self.impatient = true;
            self.told = false;
        }
    }

    /// Tells when what is waited for changes.
    fn waited<H: Hosts>(
        &mut self,
        what: Option<Waiting>,
        seen: &Observed,
        with: &mut Reconciler<H>,
    ) {
        let now = with.clock.boot();
        if self.waiting.as_ref().map(|(known, _)| known) == what.as_ref() {
            return;
        }
        if let Some((known, since)) = self.waiting.take() {
            with.emit(Event::Waited {
                came: has_come(&known, seen),
                what: known,
                took: now.since(since),
            });
        }
        if let Some(what) = what {
            with.emit(Event::Waiting(what.clone()));
            self.waiting = Some((what, now));
        }
    }

    fn done<H: Hosts>(
        &mut self,
        done: Done,
        seen: &Observed,
        with: &Reconciler<H>,
    ) -> Option<Outcome> {
        match done {
            Done::Ready {
                instance,
                volume,
                generation,
            } => {
                let instance = with.host(&instance).ok()?;
                Some(Outcome::Ready {
                    instance: Box::new(instance),
                    volume,
                    generation,
                })
            }
            Done::Parked(snapshot) => Some(self.conclude(Outcome::Parked { snapshot })),
            Done::Saved(snapshot) => {
                // A session that took no snapshot had nothing to save. (One whose answer got lost
                // was an attempt.)
                let took_none =
                    with.overlay.snapshots.is_empty() && with.overlay.me.attempts.is_empty();
                let unwound = self.goal == Goal::Ended && took_none;
                let left = Left::of(seen);
                Some(self.conclude(if unwound {
                    Outcome::Unwound { left }
                } else {
                    Outcome::Saved { snapshot, left }
                }))
            }
        }
    }

    /// A verdict: on the way to a mounted drive this session's own things are ended first.
    fn end(&mut self, verdict: Verdict) -> Option<Outcome> {
        if self.is_getting_ready() {
            self.goal = Goal::Ended;
            self.verdict = Some(verdict);
            self.steps_failed = 0;
            return None;
        }
        let outcome = match verdict {
            Verdict::Busy(holder) => Outcome::Busy(holder),
            Verdict::Stuck(stuck) => Outcome::Stuck(stuck),
            Verdict::Failed(error) => Outcome::Failed(Failure {
                error,
                also: None,
                left: self.left.clone(),
            }),
        };
        Some(self.conclude(outcome))
    }

    fn fail(&mut self, error: RunError) -> Outcome {
        let left = self.left.clone();
        self.conclude(Outcome::Failed(Failure {
            error,
            also: None,
            left,
        }))
    }

    /// The first verdict, with what came of ending things after it.
    fn conclude(&mut self, ended: Outcome) -> Outcome {
        let is_clean = matches!(ended, Outcome::Unwound { .. } | Outcome::Saved { .. });
        let left = self.left.clone();
        // A saved drive is its snapshots, and no run finishes those.
        let to_finish = if is_clean {
            left.clone().besides_snapshots()
        } else {
            left.clone()
        };
        let error = match self.verdict.take() {
            None => return ended,
            Some(Verdict::Busy(holder)) if is_clean => return Outcome::Busy(holder),
            Some(Verdict::Stuck(stuck)) if is_clean => {
                return Outcome::Stuck(Stuck {
                    why: stuck.why,
                    left,
                });
            }
            Some(Verdict::Busy(holder)) => RunError::Busy(holder),
            Some(Verdict::Stuck(stuck)) => RunError::Stuck(stuck.why),
            Some(Verdict::Failed(error)) => error,
        };
        Outcome::Failed(Failure {
            error,
            also: Some(Box::new(ended)),
            left: to_finish,
        })
    }
}

/// Who has the drive, in the words of the host, else of its tags.
fn holder(seen: &Observed, id: &InstanceId) -> Holder {
    let instance = seen.instance(id);
    let (owner, since) = match instance.and_then(|instance| instance.client()) {
        Some(Client::Other { owner, since }) => (owner.clone(), since.clone()),
        _ => instance.map_or_else(Default::default, |instance| {
            (instance.owner.clone(), instance.launched.to_string())
        }),
    };
    Holder {
        instance: id.clone(),
        owner,
        since,
    }
}

/// Whether trying again cannot help.
fn is_final(error: &RunError) -> bool {
    match error {
        RunError::Ec2(error) => matches!(
            error.kind,
            Kind::Denied
                | Kind::Credentials
                | Kind::Invalid
                | Kind::NotEligible
                | Kind::Quota
                | Kind::VcpuQuota
                | Kind::DryRun
        ),
        RunError::Host(error) => matches!(error, HostError::NoRoute { .. }),
        RunError::Changed(_) => false,
        RunError::NoCapacity(_)
        | RunError::FreePlan(_)
        | RunError::Pools(_)
        | RunError::Invalid(_)
        | RunError::Random(_)
        | RunError::Busy(_)
        | RunError::Stuck(_) => true,
    }
}

/// Whether what was waited for is there, and not only waited for no longer.
fn has_come(what: &Waiting, seen: &Observed) -> bool {
    let instance = |id: &InstanceId| seen.instance(id);
    match what {
        Waiting::Host(id) => instance(id).is_some_and(|host| host.view().is_some()),
        Waiting::Closing(id) => {
            instance(id).is_none_or(|host| !host.is_live() || seen.is_closed(host))
        }
        Waiting::Termination(id) => instance(id).is_none_or(|host| !host.is_live()),
        Waiting::Copy(id) => seen
            .snapshots
            .iter()
            .any(|snapshot| snapshot.id == *id && snapshot.state == SnapshotState::Completed),
        _ => true,
    }
}

/// Sleeps, or until somebody interrupts once more than was `heard`.
async fn rest(span: Duration, interrupts: &mut watch::Receiver<u32>, heard: u32) {
    tokio::select! {
        () = tokio::time::sleep(span) => {}
        _ = more(interrupts, heard) => {}
    }
}

/// Waits until there were more interrupts than were `heard`: how many.
async fn more(interrupts: &mut watch::Receiver<u32>, heard: u32) -> u32 {
    match interrupts
        .wait_for(|count| *count > heard)
        .await
        .map(|count| *count)
    {
        Ok(count) => count,
        // Nobody is left who could interrupt.
        Err(_) => std::future::pending().await,
    }
}

/// Whether an instance that this run has to end is still billed.
fn is_running(seen: &Observed) -> bool {
    seen.instances
        .iter()
        .any(|instance| instance.is_live() && seen.is_mine(instance))
}
