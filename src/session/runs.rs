//! Runs on a drive's host, looked at from any laptop: which there are, and what they print. Nothing
//! is launched for that, and no lease begins.

use std::time::Duration;

use anyhow::anyhow;

use super::cost::Cost;
use super::prompt::unless_ended;
use super::request::Request;
use super::state::{Session, begin};
use crate::cloud::Cloud;
use crate::ec2::Instance;
use crate::failure::{Exit, Failure};
use crate::host::container::CommandId;
use crate::host::runs::Run;
use crate::host::scripts::Host;
use crate::ids::SessionId;
use crate::ssh::UserKey;
use crate::ssh::channel::Output;

pub(super) use crate::host::runs::label;

/// The runs of a drive that is up.
#[derive(Debug)]
pub struct Listed {
    /// Its instance's id.
    pub instance: String,
    /// What it costs so far, in words.
    pub cost: String,
    /// The runs, the oldest first.
    pub runs: Vec<Run>,
}

/// Lists the runs of the drive of `request`. Fails if it is not up.
pub async fn list_runs(request: Request, cloud: Cloud, key: UserKey) -> Result<Listed, Failure> {
    let (mut session, listing) = begin(request, cloud, key).await?;
    let facts = session.check(listing).await?;
    let (instance, _, runs) = session.runs(facts.host).await?;
    let Session { request, cloud, .. } = &session;
    let cost = Cost::of(&instance, &request.drive, &cloud.ec2, &cloud.clock);
    let cost = cost.known().await;
    Ok(Listed {
        instance: instance.id.to_string(),
        cost: cost.text(),
        runs,
    })
}

/// Passes the output of a run to `show`, with `true` for standard output. The run is the one whose
/// id begins with `wanted`, else the latest; the output is all that is kept, or that of the last
/// `since`. With `follows` it waits for the run's end. Returns the exit code.
pub async fn logs(
    request: Request,
    cloud: Cloud,
    key: UserKey,
    (wanted, since, follows): (Option<String>, Option<Duration>, bool),
    show: fn(bool, &[u8]) -> std::io::Result<()>,
) -> Result<u8, Failure> {
    let (mut session, listing) = begin(request, cloud, key).await?;
    let facts = session.check(listing).await?;
    let (_, host, runs) = session.runs(facts.host).await?;
    let run = match &wanted {
        Some(wanted) => named(&runs, wanted),
        None => runs.last(),
    };
    let run = run.ok_or_else(|| session.no_run(&runs, wanted.as_deref()))?;
    let id = run
        .command_id()
        .ok_or_else(|| anyhow!("the host has a run without an id"))?;
    let showing = async {
        let mut output = host.logs(&id, since, follows).await?;
        while let Some(output) = output.output().await {
            match output {
                Output::Stdout(piece) => show(true, &piece)?,
                Output::Stderr(piece) => show(false, &piece)?,
                Output::Status(status) => return Ok(u8::try_from(status).unwrap_or(1)),
            }
        }
        Err(anyhow!("the connection was lost"))
    };
    match unless_ended(&mut session.signals, &session.report, showing).await {
        Ok(shown) => Ok(shown?),
        Err(end) => Ok(end.exit_code()),
    }
}

/// The run whose id begins so, if just one does.
fn named<'a>(runs: &'a [Run], wanted: &str) -> Option<&'a Run> {
    let mut found = runs.iter().filter(|run| run.id.starts_with(wanted));
    let first = found.next()?;
    found.next().is_none().then_some(first)
}

/// The run to attach to: the one that is `wanted`, else the only one that runs, else the latest that
/// has ended.
fn chosen<'a>(runs: &'a [Run], wanted: Option<&str>) -> Option<&'a Run> {
    if let Some(wanted) = wanted {
        return named(runs, wanted);
    }
    let mut running = runs.iter().filter(|run| run.runs());
    match running.next() {
        None => runs.last(),
        only => running.next().is_none().then_some(only?),
    }
}

impl Session {
    /// The drive's instance, if it is up, and its scripts.
    pub(super) async fn reach_live(
        &mut self,
        instance: Option<Instance>,
    ) -> Result<(Instance, Host), Failure> {
        let drive = &self.request.drive;
        let live = instance.ok_or_else(|| {
            let why = anyhow!("{drive} is not up: nothing runs on it");
            let xdrive = &self.cloud.command;
            Failure::new(Exit::Unavailable, why)
                .hint(format!("{xdrive} run {drive} -d -- CMD… runs a command"))
        })?;
        let reached = self.reconciler.hosts().reach(&live).await;
        let (_, host) = reached.map_err(anyhow::Error::new)?;
        Ok((live, host))
    }

    /// As [`Session::reach_live`], and what runs there or is on record.
    async fn runs(
        &mut self,
        instance: Option<Instance>,
    ) -> Result<(Instance, Host, Vec<Run>), Failure> {
        let (live, host) = self.reach_live(instance).await?;
        let runs = host.runs().await.map_err(anyhow::Error::new)?;
        Ok((live, host, runs))
    }

    /// The client line of the command `id`, which keeps its host up without an attached session.
    pub(super) fn client_of(&mut self, id: &CommandId) -> String {
        let client = SessionId(format!("run-{}", id.as_str()));
        self.reconciler.hosts().line_of(&client, &self.owner)
    }

    /// The id of the run to attach to, on the drive's instance.
    pub(super) async fn choose_run(
        &mut self,
        instance: Option<Instance>,
        wanted: Option<&str>,
    ) -> Result<String, Failure> {
        let (_, _, runs) = self.runs(instance).await?;
        let there: Vec<Run> = runs.into_iter().filter(|run| run.is_kept).collect();
        match chosen(&there, wanted) {
            Some(run) => Ok(run.id.clone()),
            None => Err(self.no_run(&there, wanted)),
        }
    }

    /// The failure of a request that does not name one of `runs`.
    fn no_run(&self, runs: &[Run], wanted: Option<&str>) -> Failure {
        let (xdrive, drive) = (&self.cloud.command, &self.request.drive);
        let why = match (wanted, runs) {
            (Some(wanted), _) => {
                anyhow!("{wanted} is not the beginning of exactly one run's id on {drive}")
            }
            (None, []) => anyhow!("no command runs on {drive}"),
            (None, several) => anyhow!("{} commands run on {drive}", several.len()),
        };
        Failure::new(Exit::Unavailable, why).hint(format!("{xdrive} ps {drive} lists them"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_named_by_the_beginning_of_its_id_alone() {
        let run = |id: &str| Run {
            id: id.to_owned(),
            command: String::new(),
            began: 0.0,
            ended: None,
            status: None,
            is_kept: true,
            last: String::new(),
        };
        let mut runs = [run("1f00"), run("1e00")];
        assert_eq!(named(&runs, "1f").map(|run| &*run.id), Some("1f00"));
        assert_eq!(named(&runs, "1"), None);
        assert_eq!(named(&runs, "2"), None);
        assert_eq!(chosen(&runs, None), None, "which of two?");
        runs[1].status = Some(0);
        assert_eq!(chosen(&runs, None).map(|run| &*run.id), Some("1f00"));
        runs[0].status = Some(0);
        assert_eq!(chosen(&runs, None).map(|run| &*run.id), Some("1e00"));
    }
}
