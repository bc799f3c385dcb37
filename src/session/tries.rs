//! A command that is begun again where its host was lost: by this session (`run --restart`), or, with
//! every session gone, by one that is for its next try ([`Task::Again`]), which `xdrive tend` begins.
//!
//! What begins is on the drive: the order, and which tries have begun (`shell/host/tries.py`), so that
//! each begins once, whoever means to begin it. Tags on the drive's volume and snapshots say that the run
//! is wanted, and nothing more. The order is kept first, then come the tags, then the command.

use std::time::Duration;

use anyhow::anyhow;
use jiff::{SignedDuration, Timestamp};

use super::container::ContainerSession;
use super::ready::NotUp;
use super::request::{Request, SPOOL, Task};
use super::state::Session;
use crate::config::quantity::Spool;
use crate::drive::tags::{RunState, WantedRun};
use crate::drive::tend::{OnHost, on_host};
use crate::ec2::{Instance, Price};
use crate::failure::{Exit, Failure};
use crate::host::container::CommandId;
use crate::host::facts::ScriptError;
use crate::host::tries::{Along, Notify, TriedCommand};
use crate::opener::{Ending, no_order};
use crate::signals::End;

/// The try of a command that begins, or goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Try {
    /// The command is not begun again.
    Only,
    /// The try of this number begins.
    Next(u32),
    /// Another session has begun it: it runs on this host.
    There,
}

impl Try {
    /// The number of a try that begins.
    pub(super) fn number(self) -> Option<u32> {
        match self {
            Self::Next(number) => Some(number),
            Self::Only | Self::There => None,
        }
    }
}

impl Session {
    /// Prepares the next try of a command that may be begun again, on a host where its container runs:
    /// its id and its words. An ending if there is no next one.
    pub(super) async fn prepare_try(
        &mut self,
        instance: &Instance,
        inside: &ContainerSession,
    ) -> Result<Try, Ending> {
        let failed = |error: ScriptError| Ending::Failed(anyhow::Error::new(error).into());
        let known = match &self.request.task {
            _ if self.is_frozen.get() => self.command.clone(),
            Task::Again(again) => Some(again.run.clone()),
            Task::Run { tries: Some(_), .. } => self.command.clone(),
            Task::Run { is_detached, .. } if *is_detached || self.request.has_order() => None,
            _ => return Ok(Try::Only),
        };
        let Some(id) = known else {
            let first = self.order_first_try(instance, inside).await;
            return first.map_err(Ending::Failed);
        };
        self.command = Some(id.clone());
        let runs = inside.host.runs().await.map_err(failed)?;
        let run = runs.iter().find(|run| run.id == id.as_str());
        match on_host(run) {
            // It went on, and has ended: the rest of its output is to come.
            OnHost::Over(_) if self.is_frozen.get() => return Ok(Try::There),
            OnHost::Over(status) => return Err(Ending::Exit(status)),
            OnHost::There => return Ok(Try::There),
            OnHost::Begins if self.is_frozen.get() => {
                self.begin_instead(&id, run.is_some_and(|run| run.is_frozen))?;
            }
            OnHost::Begins => {}
        }
        let tries = inside.host.tries(&id).await.map_err(failed)?;
        let begun = tries.begun;
        if let Task::Again(_) = self.request.task {
            self.check_wanted(instance, &id)
                .await
                .map_err(Ending::Failed)?;
            let order = tries.order.clone();
            let order = order.ok_or_else(|| Ending::Failed(no_order(&id)))?;
            if !tries.may_begin(&order) {
                self.drive.mark_over(&id, RunState::Failed, None).await;
                let error = anyhow!(
                    "{} was begun {begun} times, as often as it may be",
                    id.as_str()
                );
                return Err(Ending::Failed(Failure::new(Exit::Failed, error)));
            }
            self.request.options.launch.notice = Some(order.notice());
            self.request.options.config.spool = Some(Spool::nearest(order.kept));
            self.request.command = order.words;
            self.request.retry = order.retry;
            self.request.results = order.results;
        }
        if run.is_some_and(|run| run.is_frozen) {
            self.drive.report.warn(&format!(
                "the next try of the run {} begins, and what is frozen of it is removed",
                id.as_str()
            ));
        }
        Ok(Try::Next(begun + 1))
    }

    /// Fails if the run is not wanted any more: `stop` may have come while the drive did.
    async fn check_wanted(&self, instance: &Instance, id: &CommandId) -> Result<(), Failure> {
        let volume = self.drive.mounted_volume(instance).await?;
        let run = volume.and_then(|volume| WantedRun::read(&volume.tags));
        if run.is_some_and(|run| run.id == *id && run.state == RunState::Wanted) {
            return Ok(());
        }
        let error = anyhow!("the run {} is not wanted any more", id.as_str());
        Err(Failure::new(Exit::TryAgain, error))
    }

    /// Keeps the order of a run on the drive, and marks that as one whose run is wanted if it may be begun
    /// again; but not if the command needs something of this computer, which then alone begins it again.
    async fn order_first_try(
        &mut self,
        instance: &Instance,
        inside: &ContainerSession,
    ) -> Result<Try, Failure> {
        let id = CommandId::new().map_err(anyhow::Error::from)?;
        let Task::Run { limit, tries, .. } = self.request.task else {
            return Err(no_order(&id));
        };
        self.check_results(inside).await?;
        let left = SignedDuration::try_from(self.time_left(limit)).unwrap_or(SignedDuration::MAX);
        let now = self.drive.cloud.clock.now();
        let until = now.saturating_add(left).map_err(anyhow::Error::from)?;
        let request = &self.request;
        let order = TriedCommand {
            tries: tries.unwrap_or(0),
            retry: request.retry.clone(),
            limit: Some(limit.as_secs()),
            budget: request.options.launch.budget.map(Price::cents),
            along: request.along(),
            results: request.results.clone(),
            notify: request.address().map(|address| Notify {
                address,
                drive: request.drive.to_string(),
            }),
            ..request.order()
        };
        let kept = inside.host.keep_order(&id, &order).await;
        if let Err(error) = kept {
            if tries.is_some() || request.has_order() {
                return Err(anyhow::Error::new(error).into());
            }
            // Only `run --again` would read it.
            let report = &self.drive.report;
            report.warn(&format!("--again will not find its order: {error}"));
        }
        let run = WantedRun {
            id: id.clone(),
            container: request.container().cloned(),
            state: RunState::Wanted,
            launch: request.options.launch.to_string(),
            until,
            exit: None,
            waits: None,
            tended: None,
            told: None,
        };
        self.command = Some(id);
        if tries.is_none() {
            return Ok(Try::Only);
        }
        if !self.request.needs_this_computer() {
            self.drive.mark_wanted(instance, &run).await?;
        }
        Ok(Try::Next(1))
    }

    /// Refuses a run whose results its host could not bring away.
    async fn check_results(&self, inside: &ContainerSession) -> Result<(), Failure> {
        let Some(results) = &self.request.results else {
            return Ok(());
        };
        let brings = inside.host.brings_results().await;
        if brings.map_err(anyhow::Error::new)? {
            return Ok(());
        }
        let error = anyhow!("the host has no AWS CLI for {}", results.url);
        Err(Failure::new(Exit::Unavailable, error)
            .hint("--ami names an image that has it, as Amazon Linux 2023 does"))
    }

    /// How a run that may be begun again is over by this `ending`, with its exit code if it has one; none
    /// if it goes on, or whoever looks at its record decides.
    pub(super) fn run_over(&self, ending: &Ending) -> Option<(RunState, Option<u8>)> {
        // Who tends a run is no user of it.
        let is_users = self.request.may_restart();
        match ending {
            Ending::Exit(code) => Some((RunState::ended_with(*code), Some(*code))),
            Ending::Asked(End::Interrupt { .. }) | Ending::Escaped | Ending::Frozen if is_users => {
                Some((RunState::Stopped, None))
            }
            Ending::Failed(_) if is_users && !self.has_begun && !self.is_resumed => {
                Some((RunState::Failed, None))
            }
            _ => None,
        }
    }

    /// How a run whose drive did not come up again is over: if its user asked for that.
    pub(super) fn run_not_up(&self, why: &NotUp) -> Option<(RunState, Option<u8>)> {
        let asked = match why {
            NotUp::Asked(end) => Some(*end),
            NotUp::Undone { asked, .. } => *asked,
            _ => None,
        };
        asked.and_then(|end| self.run_over(&Ending::Asked(end)))
    }

    /// Marks a run that may be begun again as over, in this state and with this exit code.
    pub(super) async fn mark_over(&self, over: Option<(RunState, Option<u8>)>) {
        let id = self.command.as_ref().filter(|_| self.request.is_tried());
        if let (Some(id), Some((state, exit))) = (id, over) {
            self.drive.mark_over(id, state, exit).await;
        }
    }
}

impl Request {
    /// Whether its command is begun again where its host was lost.
    pub(super) fn is_tried(&self) -> bool {
        self.may_restart() || matches!(self.task, Task::Again(_))
    }

    /// The order of its command alone, as a drive has it.
    #[must_use]
    pub fn order(&self) -> TriedCommand {
        let kept = self.options.config.spool.map_or(SPOOL, |it| it.0);
        TriedCommand::new(&self.command, self.notice(), kept)
    }

    /// What its command has of this computer, which no other could bring along.
    #[must_use]
    pub fn along(&self) -> Along {
        let options = &self.options;
        Along {
            variables: options.variables.names().cloned().collect(),
            agent: options.agent.is_some(),
            aws: options.config.aws,
        }
    }

    fn needs_this_computer(&self) -> bool {
        self.along() != Along::default()
    }

    /// The address to which its host posts.
    fn address(&self) -> Option<String> {
        let typed = self.notify.as_ref().map(|url| url.as_str().to_owned());
        typed.or_else(|| self.posts_to.clone())
    }

    /// How long its command may take from `now` on, by a task that limits it.
    pub(super) fn limit(&self, now: Timestamp) -> Option<Duration> {
        match &self.task {
            Task::Run { limit, .. } => Some(*limit),
            Task::Again(again) => {
                Some(Duration::try_from(again.until.duration_since(now)).unwrap_or_default())
            }
            Task::Connect | Task::Attach(_) => None,
        }
    }
}
