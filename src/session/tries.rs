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
use super::request::{Request, SPOOL, Task};
use super::state::Session;
use crate::config::quantity::Spool;
use crate::drive::tags::{RunState, WantedRun};
use crate::ec2::Instance;
use crate::failure::{Exit, Failure};
use crate::host::container::CommandId;
use crate::host::facts::ScriptError;
use crate::host::scripts::{TriedCommand, Tries};
use crate::opener::Ending;

impl Session {
    /// Prepares the next try of a command that may be begun again, on a host where its container runs:
    /// its id, its words and its number, which is returned; none of any other command. An ending if
    /// there is no next one: it has ended, or runs.
    pub(super) async fn prepare_try(
        &mut self,
        instance: &Instance,
        inside: &ContainerSession,
    ) -> Result<Option<u32>, Ending> {
        let failed = |error: ScriptError| Ending::Failed(anyhow::Error::new(error).into());
        let known = match &self.request.task {
            Task::Again(again) => Some(again.run.clone()),
            Task::Run { tries: Some(_), .. } => self.command.clone(),
            _ => return Ok(None),
        };
        let Some(id) = known else {
            let first = self.order_first_try(instance, inside).await;
            return first.map(Some).map_err(Ending::Failed);
        };
        let runs = inside.host.runs().await.map_err(failed)?;
        if let Some(run) = runs.iter().find(|run| run.id == id.as_str()) {
            if let Some(status) = run.finished() {
                return Err(Ending::Exit(status));
            }
            if run.runs() {
                self.command = Some(id);
                return Err(Ending::Detached);
            }
        }
        let Tries { order, begun } = inside.host.tries(&id).await.map_err(failed)?;
        if let Task::Again(_) = self.request.task {
            let order = order.ok_or_else(|| Ending::Failed(no_order(&id)))?;
            if begun > order.tries {
                self.drive.mark_over(&id, RunState::Failed, None).await;
                let error = anyhow!(
                    "{} was begun {begun} times, as often as it may be",
                    id.as_str()
                );
                return Err(Ending::Failed(Failure::new(Exit::Failed, error)));
            }
            self.request.options.launch.notice = Some(order.notice());
            self.request.options.config.spool = Some(Spool(order.kept));
            self.request.command = order.words;
        }
        self.command = Some(id);
        Ok(Some(begun + 1))
    }

    /// Keeps the order of a run on the drive, and marks that as one whose run is wanted. Returns the
    /// number of the first try.
    async fn order_first_try(
        &mut self,
        instance: &Instance,
        inside: &ContainerSession,
    ) -> Result<u32, Failure> {
        let id = CommandId::new().map_err(anyhow::Error::from)?;
        let Task::Run {
            limit,
            tries: Some(tries),
            ..
        } = self.request.task
        else {
            return Err(no_order(&id));
        };
        let left = SignedDuration::try_from(self.time_left(limit)).unwrap_or(SignedDuration::MAX);
        let now = self.drive.cloud.clock.now();
        let until = now.saturating_add(left).map_err(anyhow::Error::from)?;
        let request = &self.request;
        let kept = request.options.config.spool.map_or(SPOOL, |it| it.0);
        let order = TriedCommand::new(&request.command, request.notice(), kept, tries);
        let kept = inside.host.keep_order(&id, &order).await;
        kept.map_err(anyhow::Error::new)?;
        let run = WantedRun {
            id: id.clone(),
            container: request.container().cloned(),
            state: RunState::Wanted,
            launch: request.options.launch.to_string(),
            until,
            exit: None,
            waits: None,
        };
        self.command = Some(id);
        self.drive.mark_wanted(instance, &run).await?;
        Ok(1)
    }

    /// Whether the first try of its run, which its user waits for, has not begun yet.
    fn begins_first(&self) -> bool {
        self.request.may_restart() && !self.has_begun && !self.is_resumed
    }

    /// Marks a run that may be begun again as over, if this `ending` is its end.
    pub(super) async fn mark_end(&self, ending: &Ending) {
        let Some(id) = self.command.as_ref().filter(|_| self.request.is_tried()) else {
            return;
        };
        let (state, exit) = match ending {
            Ending::Exit(code) => (RunState::ended_with(*code), Some(*code)),
            Ending::Asked(_) | Ending::Escaped => (RunState::Stopped, None),
            Ending::Failed(_) if self.begins_first() => (RunState::Failed, None),
            // It goes on, or whoever looks at its record decides.
            _ => return,
        };
        self.drive.mark_over(id, state, exit).await;
    }
}

impl Request {
    /// Whether its command is begun again where its host was lost.
    pub(super) fn is_tried(&self) -> bool {
        self.may_restart() || matches!(self.task, Task::Again(_))
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

/// The failure of a try whose order is not on the drive.
fn no_order(id: &CommandId) -> Failure {
    let error = anyhow!(
        "the drive has no order for the run {} that this xdrive can read",
        id.as_str()
    );
    Failure::new(Exit::Failed, error)
}
