//! The runs of a session: the command that it starts and may leave, and the one to which it attaches.

use std::time::Duration;

use anyhow::anyhow;
use serde::Serialize;

use super::request::{Request, Task};
use super::state::Session;
use crate::attached::reach_live;
use crate::attached::runs::{list, no_run, with_prefix};
use crate::ec2::Instance;
use crate::failure::{Exit, Failure};
use crate::host::container::CommandId;
use crate::host::runs::Run;
use crate::ids::SessionId;
use crate::opener::Drive;
use crate::report;

pub(super) use crate::host::runs::label;

/// A run that was started and left, as `run -d --json` prints it (`src/cli/schemas/run.json`).
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Started<'a> {
    /// Id of the run, for attach and logs.
    run: &'a str,
    /// Name of the drive.
    drive: &'a str,
}

/// The run to attach to: the one that is `wanted`, else the only one that runs, else the latest that
/// has ended.
fn chosen<'a>(runs: &'a [Run], wanted: Option<&str>) -> Option<&'a Run> {
    if let Some(wanted) = wanted {
        return with_prefix(runs, wanted);
    }
    let mut running = runs.iter().filter(|run| run.runs());
    match running.next() {
        None => runs.last(),
        only => running.next().is_none().then_some(only?),
    }
}

/// The name of the client that a command is on its host.
pub(super) fn run_client(id: &CommandId) -> SessionId {
    SessionId(format!("run-{}", id.as_str()))
}

impl Session {
    /// The client line of the command `id`, which keeps its host up without an attached session.
    pub(super) fn client_of(&mut self, id: &CommandId) -> String {
        self.reconciler
            .hosts()
            .line_of(&run_client(id), &self.drive.identity.caller)
    }

    /// How much of a run's `limit` is left; all its tries share the time, which begins with the first.
    pub(super) fn time_left(&mut self, limit: Duration) -> Duration {
        let now = self.drive.cloud.clock.boot();
        let first = *self.first_try.get_or_insert(now);
        limit.saturating_sub(now.since(first))
    }

    /// The run to attach to, on the drive's instance.
    pub(super) async fn choose_run(
        &mut self,
        instance: Option<Instance>,
        wanted: Option<&str>,
    ) -> Result<Run, Failure> {
        let live = reach_live(&mut self.drive, self.reconciler.hosts(), instance).await?;
        let runs = list(&mut self.drive, &live).await?;
        let (there, ended): (Vec<Run>, Vec<Run>) = runs.into_iter().partition(|run| run.is_kept);
        if let Some(run) = chosen(&there, wanted) {
            return Ok(run.clone());
        }
        match wanted.and_then(|_| chosen(&ended, wanted)) {
            Some(run) => Err(self.drive.has_ended(run)),
            None => Err(no_run(&self.drive, &there, wanted)),
        }
    }
}

impl Request {
    /// Prints the run that was started to be left, where JSON is asked for.
    pub(super) fn report_run(&self, command: Option<&CommandId>) -> Result<(), Failure> {
        let is_started = matches!(
            self.task,
            Task::Run {
                is_detached: true,
                ..
            }
        );
        if let Some(id) = command.filter(|_| is_started && self.options.config.once.json) {
            report::json(&Started {
                run: id.as_str(),
                drive: self.drive.as_str(),
            })?;
        }
        Ok(())
    }
}

impl Drive {
    /// The failure of a request to attach to a run that is on record only.
    fn has_ended(&self, run: &Run) -> Failure {
        let (xdrive, drive, id) = (&self.cloud.command, &self.name, &run.id);
        let why = anyhow!("the command {id} on {drive} has ended");
        let hint = format!("{xdrive} logs {drive} {id} shows the end of what it printed");
        Failure::new(Exit::Unavailable, why).hint(hint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_the_committed_schema() {
        let (title, description) = (
            "xdrive run -d --json",
            "A command that was started and left.",
        );
        crate::report::schema::check::<Started>("run", title, description);
    }

    #[test]
    fn a_run_is_named_by_the_beginning_of_its_id_alone() {
        let run = |id: &str| Run {
            id: id.to_owned(),
            command: String::new(),
            container: String::new(),
            number: None,
            began: 0.0,
            ended: None,
            status: None,
            closing: None,
            is_lost: false,
            is_frozen: false,
            freezing: None,
            is_kept: true,
            last: String::new(),
            first: [0; 2],
            results: None,
        };
        let mut runs = [run("1f00"), run("1e00")];
        assert_eq!(with_prefix(&runs, "1f").map(|run| &*run.id), Some("1f00"));
        assert_eq!(with_prefix(&runs, "1"), None);
        assert_eq!(with_prefix(&runs, "2"), None);
        assert_eq!(chosen(&runs, None), None, "which of two?");
        runs[1].status = Some(0);
        assert_eq!(chosen(&runs, None).map(|run| &*run.id), Some("1f00"));
        runs[0].status = Some(0);
        assert_eq!(chosen(&runs, None).map(|run| &*run.id), Some("1e00"));
    }
}
