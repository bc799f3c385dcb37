//! Runs on a drive, looked at from any laptop: which there are, and what they print. Nothing is
//! launched for that, and no lease begins: where the drive is not up its newest snapshot has what is on
//! record. What they print on a host goes on after a lost connection, at the byte up to which it was
//! shown.

use std::io::ErrorKind;
use std::time::Duration;

use anyhow::anyhow;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::visitor::{Visit, Visitor};
use crate::asleep::Asleep;
use crate::attached::runs::{list, no_run, report_missing, with_prefix};
use crate::attached::{Reconnector, reach_live};
use crate::drive::tags::WantedRun;
use crate::failure::{Exit, Failure, READER_LEFT};
use crate::host::container::CommandId;
use crate::host::facts::ScriptError;
use crate::host::logs::{Beginning, Piece};
pub(crate) use crate::host::runs::Brought;
use crate::host::runs::{MOST_TRIES, Run};
use crate::host::scripts::Host;
use crate::host::tries::Tries;
use crate::ids::InstanceId;
use crate::opener::{Cost, Drive, Ending, Files, Sleeping, or_interrupted, unless_ended};
use crate::ssh::SshError;

/// The runs of a drive.
#[derive(Debug)]
pub(crate) struct Listed {
    /// Where they run; none of a drive that is not up.
    pub(crate) host: Option<RunsHost>,
    /// The runs, the oldest first.
    pub(crate) runs: Vec<Run>,
    /// The run whose next try is begun where its host was lost, if that is wanted.
    pub(crate) wanted: Option<WantedRun>,
}

impl Listed {
    /// Whether this run's next try is to begin.
    pub(crate) fn waits(&self, run: &Run) -> bool {
        let is_wanted = |wanted: &WantedRun| wanted.id.as_str() == run.id;
        self.host.is_none()
            && run.finished().is_none()
            && self.wanted.as_ref().is_some_and(is_wanted)
    }
}

/// The instance of a drive that is up.
#[derive(Debug)]
pub(crate) struct RunsHost {
    pub(crate) instance: InstanceId,
    /// The cost so far, in words.
    pub(crate) cost: String,
    /// The cost so far in US dollars, if the price is known.
    pub(crate) dollars: Option<f64>,
}

/// Lists the runs of the drive. Of one that is not up its newest snapshot is read if `all` are asked
/// for, also those that have ended.
pub(crate) async fn list_runs(
    mut drive: Drive,
    visitor: impl FnOnce() -> Result<Visitor, Failure>,
    all: bool,
) -> Result<Listed, Failure> {
    let wanted = drive.wanted_run();
    let not_up = |runs, wanted| Listed {
        host: None,
        runs,
        wanted,
    };
    if drive.facts.host.is_none() && !drive.facts.is_empty() && !all {
        return Ok(not_up(Vec::new(), wanted));
    }
    let instance = match drive.find_files(None).await? {
        Files::Up(instance) => *instance,
        Files::Asleep(sleeping) => {
            let runs = runs_asleep(&mut drive, &sleeping).await?.0;
            return Ok(not_up(runs, wanted));
        }
    };
    let mut visit = Visit::new(drive, visitor()?, false)?;
    let drive = &mut visit.drive;
    let live = reach_live(drive, visit.reconciler.hosts(), Some(instance)).await?;
    let runs = list(drive, &live).await?;
    let cloud = &drive.cloud;
    let cost = Cost::ask(&live.instance, &drive.name, &cloud.ec2, &cloud.clock);
    let cost = cost.known().await;
    let host = RunsHost {
        cost: cost.text(),
        dollars: cost.so_far(),
        instance: live.instance.id,
    };
    let host = Some(host);
    Ok(Listed { host, runs, wanted })
}

/// The runs on record in a snapshot of the drive, which stays open.
pub(super) async fn runs_asleep(
    drive: &mut Drive,
    sleeping: &Sleeping,
) -> Result<(Vec<Run>, Asleep), Failure> {
    if let Some(leader) = drive.facts.leader() {
        let error = anyhow!(
            "nothing of what ran on {}, a worker of {leader}, is kept",
            drive.name
        );
        let hint = "what it prints is there to see while it is up";
        return Err(Failure::new(Exit::Unavailable, error).hint(hint));
    }
    let asleep = Asleep::new(drive.cloud.ec2.clone(), &sleeping.snapshot, &drive.place());
    let runs = or_interrupted(&mut drive.signals, &drive.report, asleep.runs()).await?;
    match runs {
        Ok(runs) => Ok((runs, asleep)),
        Err(error) => Err(drive.lost_asleep(&asleep, &error.to_string())),
    }
}

/// What the newest snapshot of a drive that is not up has of a run: its record, and its tries. None of
/// one that is up. Reports nothing.
pub(crate) async fn run_asleep(
    mut drive: Drive,
    id: &CommandId,
) -> Result<Option<(Option<Run>, Tries)>, Failure> {
    let Files::Asleep(sleeping) = drive.find_files(None).await? else {
        return Ok(None);
    };
    let (runs, asleep) = runs_asleep(&mut drive, &sleeping).await?;
    let tries = asleep.tries(id);
    let tries = or_interrupted(&mut drive.signals, &drive.report, tries).await?;
    let tries = tries.map_err(|error| drive.lost_asleep(&asleep, &error.to_string()))?;
    let record = runs.into_iter().find(|run| run.id == id.as_str());
    Ok(Some((record, tries)))
}

/// The part of a run's output to show.
pub(crate) struct Wanted {
    /// The run whose id begins so; without it the latest.
    pub(crate) run: Option<String>,
    /// The time whose output is shown; without it all that is kept.
    pub(crate) since: Option<Duration>,
    /// Whether to wait for the run's end.
    pub(crate) follows: bool,
}

impl Wanted {
    /// The run among `runs` of the drive.
    fn choose<'a>(&self, runs: &'a [Run], drive: &Drive) -> Result<&'a Run, Failure> {
        let run = match &self.run {
            Some(wanted) => with_prefix(runs, wanted),
            None => runs.last(),
        };
        run.ok_or_else(|| no_run(drive, runs, self.run.as_deref()))
    }
}

/// Passes a part of a run's output on: of standard output where the first argument is true, else of
/// standard error.
type Show = fn(bool, &[u8]) -> std::io::Result<()>;

/// Passes the output of a run to `show`: from the host of a drive that is up, over other connections
/// when one is lost, else from the newest snapshot. Returns the exit code.
pub(crate) async fn logs(
    mut drive: Drive,
    visitor: impl FnOnce() -> Result<Visitor, Failure>,
    wanted: Wanted,
    show: Show,
) -> Result<u8, Failure> {
    let instance = match drive.find_files(None).await? {
        Files::Up(instance) => *instance,
        Files::Asleep(sleeping) => return logs_asleep(drive, &sleeping, &wanted, show).await,
    };
    let mut visit = Visit::new(drive, visitor()?, false)?;
    let opened = &mut visit.drive;
    let live = reach_live(opened, visit.reconciler.hosts(), Some(instance)).await?;
    let runs = list(opened, &live).await?;
    let run = wanted.choose(&runs, opened)?;
    let id = run
        .command_id()
        .ok_or_else(|| anyhow!("the host has a run without an id"))?;
    let cloud = &opened.cloud;
    let drive = Mutex::new(&mut visit.reconciler);
    let name = &opened.name;
    let follow = if wanted.follows { " -f" } else { "" };
    let reconnector = Reconnector {
        name,
        drive: &drive,
        host: &live.instance,
        ec2: &cloud.ec2,
        report: &opened.report,
        grace: cloud.timing.grace,
        command: format!("{} logs {name} {}{follow}", cloud.command, id.as_str()),
    };
    // What former tries left is on record.
    let former = (1..run.number.unwrap_or(1).min(MOST_TRIES)).map(Some);
    let showing = async {
        for former in former.chain([None]) {
            let mut shown = Shown {
                id: &id,
                former,
                first: if former.is_some() { [0; 2] } else { run.first },
                follows: wanted.follows && former.is_none(),
                from: wanted.since.map_or(Beginning::Kept, Beginning::Since),
                is_on_record: !run.is_kept || former.is_some(),
                places: [None; 2],
                show,
            };
            let host = live.host.clone();
            match Box::pin(shown.through_cuts(host, &reconnector)).await {
                Ok(0) => {}
                // The record of a try that vanished may be missing.
                Err(failure) if former.is_some() && failure.exit == Exit::Failed => {}
                ended => return ended,
            }
        }
        Ok(0)
    };
    match unless_ended(&mut opened.signals, &opened.report, showing).await {
        Ok(ended) => ended,
        Err(end) => Ok(Exit::from(end).code()),
    }
}

/// Passes what a snapshot has of a run's output to `show`. Returns the exit code.
async fn logs_asleep(
    mut drive: Drive,
    sleeping: &Sleeping,
    wanted: &Wanted,
    show: Show,
) -> Result<u8, Failure> {
    let (runs, asleep) = runs_asleep(&mut drive, sleeping).await?;
    let run = wanted.choose(&runs, &drive)?;
    let Some(id) = run.command_id() else {
        return Err(no_run(&drive, &runs, wanted.run.as_deref()));
    };
    let output = asleep.run_output(&id);
    let output = or_interrupted(&mut drive.signals, &drive.report, output).await?;
    let output = output.map_err(|error| drive.lost_asleep(&asleep, &error.to_string()))?;
    drive.note_reading(sleeping, &asleep);
    // A record has no times.
    let now = drive.cloud.clock.now();
    if wanted
        .since
        .is_none_or(|since| run.ended_within(since, now))
    {
        for Piece {
            is_output,
            place,
            bytes,
        } in output.into_iter().flatten()
        {
            let lost = if is_output { [place, 0] } else { [0, place] };
            report_missing(&drive.report, lost, true);
            match show(is_output, &bytes) {
                Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(READER_LEFT),
                shown => shown.map_err(anyhow::Error::from)?,
            }
        }
    }
    if run.is_lost {
        let error = anyhow!(
            "{} vanished with its host, and its end is not on record",
            id.as_str()
        );
        return Err(Failure::new(Exit::Failed, error));
    }
    Ok(0)
}

/// The part of a run's output that was shown.
struct Shown<'a> {
    id: &'a CommandId,
    /// The former try whose output it is; none for the latest.
    former: Option<u32>,
    /// Where its outputs begin.
    first: [u64; 2],
    /// Whether it goes on until the run's end.
    follows: bool,
    /// Where it begins.
    from: Beginning,
    /// Whether the run has ended, and is only on the drive.
    is_on_record: bool,
    /// Up to which byte standard output, and standard error, were shown; none before that is known.
    places: [Option<u64>; 2],
    show: Show,
}

impl Shown<'_> {
    /// Shows the output of the run over this connection, and over others when it is lost.
    /// Returns the exit code.
    async fn through_cuts(
        &mut self,
        mut host: Host,
        reconnector: &Reconnector<'_>,
    ) -> Result<u8, Failure> {
        // When the connection was lost, until another one brings something.
        let mut lost: Option<Instant> = None;
        loop {
            let why = match self.rest_of(&host, reconnector, &mut lost).await? {
                Reading::Over => return Ok(0),
                Reading::ReaderLeft => return Ok(READER_LEFT),
                Reading::Lost(why) => why,
            };
            host = match reconnector.after_loss(&mut lost, &why).await {
                Ok((_, host)) => host,
                Err(Ending::Interruption(_)) => return Err(reconnector.taken_back()),
                Err(ending) => return ending.code(),
            };
        }
    }

    /// Shows what was not shown yet, over one connection.
    async fn rest_of(
        &mut self,
        host: &Host,
        reconnector: &Reconnector<'_>,
        lost: &mut Option<Instant>,
    ) -> anyhow::Result<Reading> {
        let mut logs = match host
            .logs(self.id, self.former, self.rest(), self.follows)
            .await
        {
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
            report_missing(reconnector.report, self.add(&piece), self.is_on_record);
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
            Beginning::Kept => self.first[stream],
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
    /// The reader of the output is gone (`| head`).
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

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn output_goes_on_at_the_byte_where_it_stopped_and_what_is_missing_is_counted() {
        let id = CommandId::new().unwrap();
        let shown = |from| Shown {
            id: &id,
            former: None,
            first: [0; 2],
            follows: false,
            from,
            is_on_record: false,
            places: [None; 2],
            show: |_, _| Ok(()),
        };
        let add = |shown: &mut Shown<'_>, is_output, place, bytes: &'static [u8]| {
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
}
