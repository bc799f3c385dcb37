//! `xdrive log`: a drive's generations.

use std::fmt::Write as _;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::{Context, print};
use crate::drive::tags::SnapshotKind;
use crate::ec2::SnapshotState;
use crate::failure::Failure;
use crate::ids::DriveName;
use crate::report::{self, one_line};
use crate::saves::{self, Saved};
use crate::transfer::size;

/// `xdrive log`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The drive.
    #[arg(value_name = "NAME")]
    pub drive: DriveName,

    /// One JSON document instead of text.
    #[arg(long)]
    pub json: bool,

    /// Show it although another caller has or had the drive.
    ///
    /// Callers are IAM users and roles.
    #[arg(long)]
    pub shared: bool,
}

/// A snapshot, as `log --json` prints it (`src/cli/schemas/log.json`).
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Row {
    /// Mount of the drive after which it was taken, counted from 1.
    generation: u64,
    /// `clean`: the drive was closed; `crashed`: its host vanished; `checkpoint`: it was in use.
    #[cfg_attr(test, schemars(extend("enum" = ["clean", "crashed", "checkpoint"])))]
    kind: &'static str,
    /// Number of a checkpoint within its generation.
    #[cfg_attr(test, schemars(range(min = 1)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<u32>,
    /// Id of the snapshot.
    snapshot: String,
    /// State in EC2.
    #[cfg_attr(test, schemars(extend("enum" = ["pending", "completed", "error"])))]
    state: &'static str,
    /// When it was taken, RFC 3339.
    #[cfg_attr(test, schemars(extend("format" = "date-time")))]
    taken: String,
    /// Type, market and zone of the instance that had the drive.
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<String>,
    /// How long the instance had run when it was taken, in seconds.
    #[cfg_attr(test, schemars(range(min = 0)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<i64>,
    /// Cost of the instance until then, in US dollars, at the spot price of its launch.
    #[serde(skip_serializing_if = "Option::is_none")]
    dollars: Option<f64>,
    /// Bytes that differ from the generation before: whole blocks of 512 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    differs: Option<u64>,
    /// Original of the copy with which this drive began: a drive and generation, or what was adopted.
    #[serde(skip_serializing_if = "Option::is_none")]
    forked_from: Option<String>,
    /// Note of the user's.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

/// Shows the generations. Returns the exit code.
pub(crate) fn run(args: Args, context: &Context) -> Result<u8, Failure> {
    let paths = context.paths()?;
    let rows: Vec<Row> = super::block_on(async {
        let place = super::whole(args.drive);
        let drive = context.drive(&paths, place, args.shared).await?;
        let saved = saves::history(drive).await?;
        Ok(saved.iter().map(row).collect())
    })?;
    if args.json {
        return Ok(report::json(&rows).map(|()| 0)?);
    }
    print(&text(&rows))
}

fn row(saved: &Saved) -> Row {
    let record = &saved.record;
    Row {
        generation: saved.generation.0,
        kind: saved.kind.as_str(),
        number: (saved.kind == SnapshotKind::Checkpoint).then_some(saved.number),
        snapshot: saved.id.to_string(),
        state: match saved.state {
            SnapshotState::Pending => "pending",
            SnapshotState::Completed => "completed",
            SnapshotState::Error => "error",
        },
        taken: format!("{:.0}", saved.taken),
        host: record.host.clone(),
        seconds: record.lasted(saved.taken).map(|lasted| lasted.as_secs()),
        dollars: record.dollars(saved.taken),
        differs: saved.differs,
        forked_from: saved.forked_from.clone(),
        note: record.note.as_ref().map(ToString::to_string),
    }
}

/// A line a snapshot, and its note below.
fn text(rows: &[Row]) -> String {
    if rows.is_empty() {
        return "nothing was saved yet\n".to_owned();
    }
    let mut text = String::new();
    let width = |of: fn(&Row) -> usize| rows.iter().map(of).max().unwrap_or(0);
    let generations = width(|row| row.generation.to_string().len());
    let hosts = width(|row| row.host.as_deref().map_or(1, |host| host.chars().count()));
    for row in rows {
        let when = row.taken.parse::<Timestamp>();
        let when = when.map_or_else(
            |_| row.taken.clone(),
            |it| it.strftime("%Y-%m-%d %H:%M").to_string(),
        );
        let lasted = row.seconds.map_or_else(|| "-".to_owned(), lasted);
        let host = one_line(row.host.as_deref().unwrap_or("-"));
        let cost = row
            .dollars
            .map_or_else(|| "-".to_owned(), |dollars| format!("${dollars:.2}"));
        let differs = row.differs.map_or_else(|| "-".to_owned(), size);
        let kind = match (row.state, row.number) {
            ("completed", Some(number)) => format!("checkpoint {number}"),
            ("completed", None) => row.kind.to_owned(),
            (state, _) => format!("{}, {state}", row.kind),
        };
        let kind = match row.forked_from.as_deref().map(one_line) {
            // A drive's generation has an @, and an id of EC2's has none.
            Some(from) if from.contains('@') => format!("{kind}, forked from {from}"),
            Some(from) => format!("{kind}, adopted from {from}"),
            None => kind,
        };
        let line = format!(
            "{:>generations$}  {when}  {lasted:>7}  {host:<hosts$}  {cost:>6}  {differs:>8}  {kind}",
            row.generation
        );
        text.push_str(line.trim_end());
        text.push('\n');
        if let Some(note) = &row.note {
            let _ = writeln!(text, "{:generations$}  {}", "", one_line(note));
        }
    }
    text
}

/// A length such as `41 min`, `3.5 h` or `2.0 d`.
fn lasted(seconds: i64) -> String {
    let minutes = SignedDuration::from_secs(seconds).as_mins();
    match minutes {
        0..60 => format!("{minutes} min"),
        60..2880 => format!("{}.{} h", minutes / 60, minutes % 60 / 6),
        _ => format!("{}.{} d", minutes / 1440, minutes % 1440 / 144),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_the_committed_schema() {
        let (title, description) = (
            "xdrive log --json",
            "The snapshots of a drive, the newest generation first.",
        );
        crate::report::schema::check::<Vec<Row>>("log", title, description);
    }

    fn row(generation: u64, seconds: Option<i64>) -> Row {
        Row {
            generation,
            kind: "clean",
            number: None,
            snapshot: "snap-1".to_owned(),
            state: "completed",
            taken: "2026-01-02T03:04:05Z".to_owned(),
            host: seconds.map(|_| "t3.small spot in us-east-1a".to_owned()),
            seconds,
            dollars: seconds.map(|_| 0.004),
            differs: seconds.map(|_| 300 << 20),
            forked_from: None,
            note: None,
        }
    }

    #[test]
    fn a_line_says_when_how_long_where_and_for_how_much() {
        let noted = Row {
            note: Some("before the new data".to_owned()),
            ..row(10, Some(12_600))
        };
        let failed = Row {
            state: "error",
            ..row(9, None)
        };
        assert_eq!(
            text(&[noted, failed]),
            "10  2026-01-02 03:04    3.5 h  t3.small spot in us-east-1a   $0.00   300 MiB  clean\n    \
             before the new data\n \
             9  2026-01-02 03:04        -  -                                 -         -  clean, error\n"
        );
        assert_eq!(text(&[]), "nothing was saved yet\n");
        for (seconds, length) in [(59, "0 min"), (2460, "41 min"), (172_800, "2.0 d")] {
            assert_eq!(lasted(seconds), length);
        }
    }

    #[test]
    fn nothing_of_a_tag_is_obeyed_by_a_terminal_and_columns_stay_aligned() {
        let hostile = Row {
            host: Some("\u{9b}2J é\nx".to_owned()),
            forked_from: Some("\u{1b}[2Jdemo@3\nhint: x".to_owned()),
            note: Some("\u{202e}note".to_owned()),
            ..row(2, Some(60))
        };
        let shown = text(&[hostile, row(1, None)]);
        assert_eq!(
            shown,
            "2  2026-01-02 03:04    1 min  ?2J é?x   $0.00   300 MiB  clean, forked from \
             ?[2Jdemo@3?hint: x\n   ?note\n\
             1  2026-01-02 03:04        -  -             -         -  clean\n"
        );
    }
}
