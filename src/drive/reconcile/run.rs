//! A run of the loop: its goal, its failures, and the interrupts.

use std::pin::pin;
use std::rc::Rc;

use tokio::sync::watch;

use crate::clock::BootTime;
use crate::ec2::{Kind, SnapshotState};
use crate::ids::InstanceId;

use super::super::event::Event;
use super::super::host_error::HostError;
use super::super::hosts::Hosts;
use super::super::observed::Observed;
use super::super::plan::{Done, Goal, Next, Step, Waiting, orphans, plan};
use super::super::stuck::{Left, Stuck};
use super::sweep::Look;
use super::wait::{self, next_interrupt, pause};
use super::{Holder, Outcome, Reconciler, RunError, RunFailure};

/// A run towards one goal.
pub(super) struct Run {
    goal: Goal,
    /// The run's outcome, once this session's own things are ended.
    verdict: Option<Verdict>,
    /// How many interrupts were received.
    received: u32,
    /// Whether an interrupt asked to stop waiting.
    stop_waiting: bool,
    /// Whether that was answered by [`Event::CannotStop`].
    is_answered: bool,
    looks_failed: u32,
    steps_failed: u32,
    waiting: Option<(Waiting, BootTime)>,
    /// The resources that were billed by the last sweep, and those made since.
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
            received: 0,
            stop_waiting: false,
            is_answered: false,
            looks_failed: 0,
            steps_failed: 0,
            waiting: None,
            left,
        }
    }

    /// Sweeps, plans and acts until there is an outcome.
    pub(super) async fn run<H: Hosts>(
        mut self,
        with: &mut Reconciler<H>,
        interrupts: &mut watch::Receiver<u32>,
    ) -> Outcome {
        loop {
            self.receive_interrupts(with, interrupts);
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
                        // Without a sweep it can neither go on nor clean up.
                        return self.fail(error);
                    }
                    with.emit(Event::LookFailed(error.to_string()));
                    pause(
                        with.timing.pause(self.looks_failed),
                        interrupts,
                        self.received,
                    )
                    .await;
                    continue;
                }
            };
            self.looks_failed = 0;
            if self.is_getting_ready() {
                with.report_ended(&seen).await;
            }
            let next = plan(&self.goal, &seen, with.clock.boot(), &with.timing);
            // What is billed before the steps, and after them with what they made.
            self.left = Left::from_observed(&seen).and_made(&with.overlay);
            let outcome = self.follow(next, &seen, with, interrupts).await;
            self.left = Left::from_observed(&seen).and_made(&with.overlay);
            with.left.clone_from(&self.left);
            if let Some(outcome) = outcome {
                return outcome;
            }
        }
    }

    /// Carries out `next`; an outcome ends the run.
    async fn follow<H: Hosts>(
        &mut self,
        next: Next,
        seen: &Observed,
        with: &mut Reconciler<H>,
        interrupts: &mut watch::Receiver<u32>,
    ) -> Option<Outcome> {
        let is_spared = || seen.instances.iter().any(|it| it.spared.is_some());
        if self.stop_waiting && !with.overlay.terminates_noticed && is_spared() {
            with.overlay.terminates_noticed = true;
            return None;
        }
        if self.stop_waiting {
            let is_running = is_running(seen);
            let may_stop = matches!(next, Next::Wait(..))
                || (matches!(next, Next::Do(_)) && self.goal.goes_on_later());
            if may_stop && !is_running {
                self.report_waiting(None, seen, with);
                return Some(self.conclude(Outcome::StoppedWaiting(Left::from_observed(seen))));
            }
            if !self.is_answered && is_running && matches!(next, Next::Do(_) | Next::Wait(..)) {
                self.is_answered = true;
                with.emit(Event::CannotStop);
            }
        }
        match next {
            Next::Wait(what, at_most) => {
                if let Some(error) = with.no_route(seen, &self.goal).await {
                    self.report_waiting(None, seen, with);
                    return self.end(Verdict::Failed(error));
                }
                self.report_waiting(Some(what.clone()), seen, with);
                let since = self
                    .waiting
                    .as_ref()
                    .map_or(seen.began, |(_, since)| *since);
                wait::until_next_sweep(
                    (&with.ec2, &with.clock, &with.timing),
                    (&what, since, at_most),
                    (interrupts, self.received),
                )
                .await;
                None
            }
            Next::Do(steps) => {
                self.report_waiting(None, seen, with);
                self.act(steps, seen, with, interrupts).await
            }
            Next::Done(done) => {
                self.report_waiting(None, seen, with);
                self.done(done, seen, with)
            }
            Next::Busy(instance) => {
                self.report_waiting(None, seen, with);
                self.end(Verdict::Busy(Holder::from_seen(seen, &instance)))
            }
            Next::Stuck(stuck) => {
                self.report_waiting(None, seen, with);
                self.end(Verdict::Stuck(stuck))
            }
        }
    }

    /// Carries out steps, one after the other, until one fails or an interrupt is to stop them.
    async fn act<H: Hosts>(
        &mut self,
        steps: Vec<Step>,
        seen: &Observed,
        with: &mut Reconciler<H>,
        interrupts: &mut watch::Receiver<u32>,
    ) -> Option<Outcome> {
        let getting_ready = self.is_getting_ready();
        let may_stop = getting_ready || self.goal.goes_on_later();
        for step in steps {
            if may_stop && *interrupts.borrow() > self.received {
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
                        // The step is not wanted any more, so its failure does not count.
                        self.steps_failed = 0;
                        return None;
                    }
                    if !again {
                        return self.end(match error {
                            RunError::Stuck(why) => Verdict::Stuck(Stuck {
                                why,
                                left: Left::from_observed(seen),
                            }),
                            error => Verdict::Failed(error),
                        });
                    }
                    // The call has ended, well or not: sweep again.
                    pause(
                        with.timing.pause(self.steps_failed),
                        interrupts,
                        self.received,
                    )
                    .await;
                    return None;
                }
            }
            if is_interrupted {
                return None;
            }
        }
        None
    }

    /// Carries out one step to its end, which may take minutes (a commit). An interrupt meanwhile
    /// is answered at once.
    async fn carry_out<H: Hosts>(
        &mut self,
        step: &Step,
        seen: &Observed,
        with: &mut Reconciler<H>,
        interrupts: &mut watch::Receiver<u32>,
    ) -> Result<Option<String>, RunError> {
        let is_running = is_running(seen);
        let events = Rc::clone(&with.events);
        let is_ending = Rc::clone(&with.is_ending);
        let mut acting = pin!(with.act(step, seen));
        loop {
            let answers = self.is_getting_ready() || is_running;
            tokio::select! {
                biased;
                answer = &mut acting => return answer,
                count = next_interrupt(interrupts, self.received), if answers => {
                    let event = if self.is_getting_ready() {
                        is_ending.set(true);
                        self.interrupt_getting_ready()
                    } else {
                        self.received = count;
                        self.stop_waiting = true;
                        self.is_answered = true;
                        Event::CannotStop
                    };
                    (events.borrow_mut())(event);
                }
            }
        }
    }

    /// Whether another session would be joined at once: nothing is to be chosen or ended first, and
    /// nothing is waited for.
    fn may_join<H: Hosts>(&self, with: &Reconciler<H>) -> bool {
        let is_first = self.waiting.is_none() && self.verdict.is_none();
        is_first && self.goal == Goal::Ready { from: None } && with.overlay.has_made_nothing()
    }

    fn is_getting_ready(&self) -> bool {
        self.goal.is_mounted()
    }

    /// Receives the interrupt that ends getting ready.
    fn interrupt_getting_ready(&mut self) -> Event {
        self.goal = Goal::Ended;
        self.received += 1;
        Event::Ending
    }

    /// Receives the interrupts since the last sweep.
    fn receive_interrupts<H: Hosts>(
        &mut self,
        with: &mut Reconciler<H>,
        interrupts: &mut watch::Receiver<u32>,
    ) {
        let count = *interrupts.borrow_and_update();
        if count <= self.received {
            return;
        }
        if self.is_getting_ready() {
            let event = self.interrupt_getting_ready();
            with.emit(event);
        }
        if count > self.received {
            self.received = count;
            self.stop_waiting = true;
            self.is_answered = false;
        }
    }

    /// Emits events when what is waited for changes.
    fn report_waiting<H: Hosts>(
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
            Done::Copied(snapshot, generation) => Some(self.conclude(Outcome::Copied {
                snapshot,
                generation,
            })),
            Done::Deleted => Some(self.conclude(Outcome::Deleted)),
            Done::Renamed => Some(self.conclude(Outcome::Renamed)),
            Done::Parked(snapshot) => Some(self.conclude(Outcome::Parked { snapshot })),
            Done::Saved(snapshot) => {
                for orphan in orphans(seen) {
                    with.emit(Event::OriginGone(orphan.volume.id.clone()));
                }
                // A session that attempted no snapshot had nothing to save.
                let took_none =
                    with.overlay.snapshots.is_empty() && with.overlay.me.attempts.is_empty();
                let unwound = self.goal == Goal::Ended && took_none;
                let left = Left::from_observed(seen);
                Some(self.conclude(if unwound {
                    Outcome::Unwound { left }
                } else {
                    Outcome::Saved { snapshot, left }
                }))
            }
        }
    }

    /// Ends the run with a verdict; while getting ready this session's own things are ended first.
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
            Verdict::Failed(error) => Outcome::Failed(RunFailure {
                error,
                also: None,
                left: self.left.clone(),
            }),
        };
        Some(self.conclude(outcome))
    }

    fn fail(&mut self, error: RunError) -> Outcome {
        self.conclude(Outcome::Failed(RunFailure {
            error,
            also: None,
            left: self.left.clone(),
        }))
    }

    /// The outcome of the first verdict, with that of ending this session's resources after it.
    fn conclude(&mut self, ended: Outcome) -> Outcome {
        let is_clean = matches!(
            ended,
            Outcome::Unwound { .. }
                | Outcome::Saved { .. }
                | Outcome::Deleted
                | Outcome::Renamed
                | Outcome::Copied { .. }
        );
        let left = self.left.clone();
        // A saved drive consists of snapshots: they are not unfinished.
        let to_finish = if is_clean {
            left.clone().without_snapshots()
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
        Outcome::Failed(RunFailure {
            error,
            also: Some(Box::new(ended)),
            left: to_finish,
        })
    }
}

/// Whether retrying cannot help.
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

/// Whether what was waited for has come.
fn has_come(what: &Waiting, seen: &Observed) -> bool {
    let instance = |id: &InstanceId| seen.instance(id);
    match what {
        Waiting::Host(id) => instance(id).is_some_and(|host| host.view().is_some()),
        Waiting::Closing(id) => {
            instance(id).is_none_or(|host| !host.is_live() || seen.is_closed(host))
        }
        Waiting::Taking(id) | Waiting::Termination(id) => {
            instance(id).is_none_or(|host| !host.is_live())
        }
        Waiting::Copy(id) => seen
            .snapshots
            .iter()
            .any(|snapshot| snapshot.id == *id && snapshot.state == SnapshotState::Completed),
        _ => true,
    }
}

/// Whether an instance that this run has to end is still billed.
fn is_running(seen: &Observed) -> bool {
    seen.instances
        .iter()
        .any(|instance| instance.is_live() && seen.is_mine(instance))
}
