//! Runs on a drive's host, looked at from any laptop: which there are, and what they print. Nothing
//! is launched for that, and no lease begins. What they print goes on after a lost connection, at the
//! byte up to which it was shown.

use std::io::ErrorKind;
use std::time::Duration;

use anyhow::anyhow;
use serde::Serialize;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::cost::Cost;
use super::ending::Ending;
use super::look::READER_LEFT;
use super::prompt::{or_interrupted, unless_ended};
use super::reconnect::Reconnector;
use super::request::{Request, Task};
use super::state::{Session, begin};
use crate::cloud::Cloud;
use crate::ec2::Instance;
use crate::failure::{Exit, Failure};
use crate::host::container::CommandId;
use crate::host::facts::ScriptError;
use crate::host::logs::{Beginning, Piece};
use crate::host::runs::Run;
use crate::host::scripts::Host;
use crate::ids::SessionId;
use crate::report;
use crate::ssh::{SshError, UserKey};

pub(super) use crate::host::runs::label;

/// The runs of a drive that is up.
#[derive(Debug)]
pub struct Listed {
    /// Its instance's id.
    pub instance: String,
    /// What it costs so far, in words.
    pub cost: String,
    /// What it costs so far in US dollars, if its price is known.
    pub dollars: Option<f64>,
    /// The runs, the oldest first.
    pub runs: Vec<Run>,
}

/// A run that was started and left, as `run -d --json` prints it (`src/cli/schemas/run.json`).
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Started<'a> {
    /// Id of the run, for attach and logs.
    run: &'a str,
    /// Name of the drive.
    drive: &'a str,
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
        dollars: cost.so_far(),
        runs,
    })
}

/// Passes the output of a run to `show`, with `true` for standard output. The run is the one whose
/// id begins with `wanted`, else the latest; the output is all that is kept, or that of the last
/// `since`. With `follows` it waits for the run's end. A lost connection is restored. Returns the exit
/// code.
pub async fn logs(
    request: Request,
    cloud: Cloud,
    key: UserKey,
    (wanted, since, follows): (Option<String>, Option<Duration>, bool),
    show: fn(bool, &[u8]) -> std::io::Result<()>,
) -> Result<u8, Failure> {
    let (mut session, listing) = begin(request, cloud, key).await?;
    let facts = session.check(listing).await?;
    let (instance, host, runs) = session.runs(facts.host).await?;
    let run = match &wanted {
        Some(wanted) => named(&runs, wanted),
        None => runs.last(),
    };
    let run = run.ok_or_else(|| session.no_run(&runs, wanted.as_deref()))?;
    let id = run
        .command_id()
        .ok_or_else(|| anyhow!("the host has a run without an id"))?;
    let cloud = &session.cloud;
    let drive = Mutex::new(&mut session.reconciler);
    let name = &session.request.drive;
    let follow = if follows { " -f" } else { "" };
    let reconnector = Reconnector {
        name,
        drive: &drive,
        host: &instance,
        ec2: &cloud.ec2,
        report: &session.report,
        grace: cloud.timing.grace,
        command: format!("{} logs {name} {}{follow}", cloud.command, id.as_str()),
    };
    let mut shown = Shown {
        from: since.map_or(Beginning::Kept, Beginning::Since),
        is_on_record: !run.is_kept,
        places: [None; 2],
        show,
    };
    let showing = shown.through_cuts(host, (&id, follows), &reconnector);
    match unless_ended(&mut session.signals, &session.report, showing).await {
        Ok(ended) => ended,
        Err(end) => Ok(Exit::from(end).code()),
    }
}

/// What was shown of a run's output.
struct Shown {
    /// Where it begins.
    from: Beginning,
    /// Whether the run has ended, and is only on the drive.
    is_on_record: bool,
    /// Up to which byte standard output, and standard error, were shown; none before that is known.
    places: [Option<u64>; 2],
    show: fn(bool, &[u8]) -> std::io::Result<()>,
}

impl Shown {
    /// Shows the output of the run `id` over this connection, and over others when it is lost.
    /// Returns the exit code.
    async fn through_cuts(
        &mut self,
        mut host: Host,
        (id, follows): (&CommandId, bool),
        reconnector: &Reconnector<'_>,
    ) -> Result<u8, Failure> {
        // When the connection was lost, until another one brings something.
        let mut lost: Option<Instant> = None;
        loop {
            let why = match self
                .rest_of(&host, (id, follows), reconnector, &mut lost)
                .await?
            {
                Reading::Over => return Ok(0),
                Reading::ReaderLeft => return Ok(READER_LEFT),
                Reading::Lost(why) => why,
            };
            host = match reconnector.after_loss(&mut lost, &why).await {
                Ok((_, host)) => host,
                Err(Ending::Interruption(_)) => return Err(reconnector.taken_back()),
                Err(ending) => return Session::code(ending),
            };
        }
    }

    /// Shows what was not shown yet, over one connection.
    async fn rest_of(
        &mut self,
        host: &Host,
        (id, follows): (&CommandId, bool),
        reconnector: &Reconnector<'_>,
        lost: &mut Option<Instant>,
    ) -> anyhow::Result<Reading> {
        let mut logs = match host.logs(id, self.rest(), follows).await {
            Ok(logs) => logs,
            Err(error) => return lost_by(error),
        };
        loop {
            let piece = match logs.next().await {
                Ok(Some(piece)) => piece,
                Ok(None) => return Ok(Reading::Over),
                Err(error) => return lost_by(error),
            };
            if let Some(since) = lost.take() {
                reconnector.report_again(since.elapsed());
            }
            reconnector.report_missing(self.add(&piece), self.is_on_record);
            match (self.show)(piece.is_output, &piece.bytes) {
                Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                    return Ok(Reading::ReaderLeft);
                }
                shown => shown?,
            }
        }
    }

    /// Where the rest begins.
    fn rest(&self) -> Beginning {
        match self.places {
            [Some(output), Some(errors)] => Beginning::After([output, errors]),
            // Nothing was shown: the places of both come first.
            _ => self.from,
        }
    }

    /// Adds a piece that is shown; returns how many bytes of either stream are missing before it.
    fn add(&mut self, piece: &Piece) -> [u64; 2] {
        let stream = usize::from(!piece.is_output);
        let first = match self.from {
            Beginning::Kept => 0,
            Beginning::Since(_) | Beginning::After(_) => piece.place,
        };
        let known = self.places[stream].unwrap_or(first);
        self.places[stream] = Some(piece.place + piece.bytes.len() as u64);
        let mut missing = [0; 2];
        missing[stream] = piece.place.saturating_sub(known);
        missing
    }
}

/// How reading over one connection ended.
enum Reading {
    /// There is nothing more.
    Over,
    /// Nobody reads what is shown any more (`| head`).
    ReaderLeft,
    /// The connection was lost, for this reason.
    Lost(String),
}

/// A lost connection; any other error is one.
fn lost_by(error: ScriptError) -> anyhow::Result<Reading> {
    match error {
        ScriptError::Ssh(SshError::Lost(_, why)) => Ok(Reading::Lost(why)),
        error => Err(error.into()),
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

/// The name of the client that a command is on its host.
pub(super) fn run_client(id: &CommandId) -> SessionId {
    SessionId(format!("run-{}", id.as_str()))
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
        let reached = self.reconciler.hosts().reach(&live);
        let reached = or_interrupted(&mut self.signals, &self.report, reached).await?;
        let (_, host) = reached.map_err(anyhow::Error::new)?;
        Ok((live, host))
    }

    /// As [`Session::reach_live`], and what runs there or is on record.
    async fn runs(
        &mut self,
        instance: Option<Instance>,
    ) -> Result<(Instance, Host, Vec<Run>), Failure> {
        let (live, host) = self.reach_live(instance).await?;
        let runs = or_interrupted(&mut self.signals, &self.report, host.runs()).await?;
        let runs = runs.map_err(anyhow::Error::new)?;
        Ok((live, host, runs))
    }

    /// The client line of the command `id`, which keeps its host up without an attached session.
    pub(super) fn client_of(&mut self, id: &CommandId) -> String {
        self.reconciler
            .hosts()
            .line_of(&run_client(id), &self.owner)
    }

    /// How much of a run's `limit` is left; all its tries share the time, which begins with the first.
    pub(super) fn time_left(&mut self, limit: Duration) -> Duration {
        let now = self.cloud.clock.boot();
        let first = *self.first_try.get_or_insert(now);
        limit.saturating_sub(now.since(first))
    }

    /// Prints the run that was started to be left, where JSON is asked for.
    pub(super) fn report_run(&self) -> Result<(), Failure> {
        let request = &self.request;
        let is_started = matches!(
            request.task,
            Task::Run {
                is_detached: true,
                ..
            }
        );
        if let Some(id) = self
            .command
            .as_ref()
            .filter(|_| is_started && request.options.config.json)
        {
            report::json(&Started {
                run: id.as_str(),
                drive: request.drive.as_str(),
            })?;
        }
        Ok(())
    }

    /// The run to attach to, on the drive's instance.
    pub(super) async fn choose_run(
        &mut self,
        instance: Option<Instance>,
        wanted: Option<&str>,
    ) -> Result<Run, Failure> {
        let (_, _, runs) = self.runs(instance).await?;
        let (there, ended): (Vec<Run>, Vec<Run>) = runs.into_iter().partition(|run| run.is_kept);
        if let Some(run) = chosen(&there, wanted) {
            return Ok(run.clone());
        }
        match wanted.and_then(|_| chosen(&ended, wanted)) {
            Some(run) => Err(self.has_ended(run)),
            None => Err(self.no_run(&there, wanted)),
        }
    }

    /// The failure of a request to attach to a run that is on record only.
    fn has_ended(&self, run: &Run) -> Failure {
        let (xdrive, drive, id) = (&self.cloud.command, &self.request.drive, &run.id);
        let why = anyhow!("the command {id} on {drive} has ended");
        let hint = format!("{xdrive} logs {drive} {id} shows the end of what it printed");
        Failure::new(Exit::Unavailable, why).hint(hint)
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
    use bytes::Bytes;

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
    fn output_goes_on_at_the_byte_where_it_stopped_and_what_is_missing_is_counted() {
        let shown = |from| Shown {
            from,
            is_on_record: false,
            places: [None; 2],
            show: |_, _| Ok(()),
        };
        let add = |shown: &mut Shown, is_output, place, bytes: &'static [u8]| {
            let bytes = Bytes::from_static(bytes);
            let piece = Piece {
                is_output,
                place,
                bytes,
            };
            let missing = shown.add(&piece);
            (missing, shown.rest())
        };
        let mut all = shown(Beginning::Kept);
        assert_eq!(add(&mut all, true, 100, b""), ([100, 0], Beginning::Kept));
        // What came before was not asked for.
        let since = Beginning::Since(Duration::from_secs(1));
        let mut shown = shown(since);
        let mut add = |is_output, place, bytes| add(&mut shown, is_output, place, bytes);
        assert_eq!(add(true, 100, b""), ([0, 0], since));
        assert_eq!(add(false, 7, b""), ([0, 0], Beginning::After([100, 7])));
        assert_eq!(add(true, 100, b"abc"), ([0, 0], Beginning::After([103, 7])));
        assert_eq!(add(false, 9, b"d"), ([0, 2], Beginning::After([103, 10])));
        assert_eq!(add(true, 110, b""), ([7, 0], Beginning::After([110, 10])));
    }

    #[test]
    fn a_run_is_named_by_the_beginning_of_its_id_alone() {
        let run = |id: &str| Run {
            id: id.to_owned(),
            command: String::new(),
            container: String::new(),
            began: 0.0,
            ended: None,
            status: None,
            closing: None,
            is_lost: false,
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
