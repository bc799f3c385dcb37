//! Runs on a drive's host, looked at from any laptop: which there are, and what they print. Nothing
//! is launched for that, and no lease begins. What they print goes on after a lost connection, at the
//! byte up to which it was shown.

use std::io::ErrorKind;
use std::time::Duration;

use anyhow::anyhow;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::visitor::{Visit, Visitor};
use crate::attached::runs::{list, no_run, with_prefix};
use crate::attached::{Reconnector, reach_live};
use crate::failure::{Exit, Failure, READER_LEFT};
use crate::host::container::CommandId;
use crate::host::facts::ScriptError;
use crate::host::logs::{Beginning, Piece};
use crate::host::runs::Run;
use crate::host::scripts::Host;
use crate::opener::{Cost, Drive, Ending, unless_ended};
use crate::ssh::SshError;

/// The runs of a drive that is up.
#[derive(Debug)]
pub(crate) struct Listed {
    /// The id of the runs' instance.
    pub(crate) instance: String,
    /// The cost so far, in words.
    pub(crate) cost: String,
    /// The cost so far in US dollars, if the price is known.
    pub(crate) dollars: Option<f64>,
    /// The runs, the oldest first.
    pub(crate) runs: Vec<Run>,
}

/// Lists the runs of the drive. Fails if it is not up.
pub(crate) async fn list_runs(drive: Drive, visitor: Visitor) -> Result<Listed, Failure> {
    let mut visit = Visit::new(drive, visitor, false)?;
    let drive = &mut visit.drive;
    let instance = drive.facts.host.clone();
    let live = reach_live(drive, visit.reconciler.hosts(), instance).await?;
    let runs = list(drive, &live).await?;
    let cloud = &drive.cloud;
    let cost = Cost::ask(&live.instance, &drive.name, &cloud.ec2, &cloud.clock);
    let cost = cost.known().await;
    Ok(Listed {
        instance: live.instance.id.to_string(),
        cost: cost.text(),
        dollars: cost.so_far(),
        runs,
    })
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

/// Passes the output of a run to `show`, with `true` for standard output. A lost connection is restored.
/// Returns the exit code.
pub(crate) async fn logs(
    drive: Drive,
    visitor: Visitor,
    wanted: Wanted,
    show: fn(bool, &[u8]) -> std::io::Result<()>,
) -> Result<u8, Failure> {
    let mut visit = Visit::new(drive, visitor, false)?;
    let opened = &mut visit.drive;
    let instance = opened.facts.host.clone();
    let live = reach_live(opened, visit.reconciler.hosts(), instance).await?;
    let runs = list(opened, &live).await?;
    let run = match &wanted.run {
        Some(wanted) => with_prefix(&runs, wanted),
        None => runs.last(),
    };
    let run = run.ok_or_else(|| no_run(opened, &runs, wanted.run.as_deref()))?;
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
    let mut shown = Shown {
        id: &id,
        follows: wanted.follows,
        from: wanted.since.map_or(Beginning::Kept, Beginning::Since),
        is_on_record: !run.is_kept,
        places: [None; 2],
        show,
    };
    let showing = shown.through_cuts(live.host, &reconnector);
    match unless_ended(&mut opened.signals, &opened.report, showing).await {
        Ok(ended) => ended,
        Err(end) => Ok(Exit::from(end).code()),
    }
}

/// The part of a run's output that was shown.
struct Shown<'a> {
    id: &'a CommandId,
    /// Whether it goes on until the run's end.
    follows: bool,
    /// Where it begins.
    from: Beginning,
    /// Whether the run has ended, and is only on the drive.
    is_on_record: bool,
    /// Up to which byte standard output, and standard error, were shown; none before that is known.
    places: [Option<u64>; 2],
    show: fn(bool, &[u8]) -> std::io::Result<()>,
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
        let mut logs = match host.logs(self.id, self.rest(), self.follows).await {
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
