//! `xdrive ps`: which commands run on drives that are up, and which have ended on a drive.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde::Serialize;
use tokio::task::LocalSet;

use super::flags::Reach;
use super::tend::waiting;
use super::{Context, print};
use crate::cloud::Cloud;
use crate::drive::tags::{self, WantedRun};
use crate::ec2::Ownership;
use crate::failure::{Exit, Failure};
use crate::ids::{DriveName, MAIN};
use crate::opener::{Drive, Opening};
use crate::report::{self, one_line};
use crate::visit::runs::Brought;
use crate::visit::{self, Listed, Visitor};

/// `xdrive ps`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The drive [default: all that are up].
    #[arg(value_name = "NAME")]
    pub drive: Option<DriveName>,

    /// Show what has ended, too.
    ///
    /// Of a drive that is not up, what its newest snapshot has on record.
    #[arg(short, long)]
    pub all: bool,

    /// One JSON document instead of text.
    ///
    /// A failure is one line of JSON at the end of standard error.
    #[arg(long)]
    pub json: bool,

    /// Look although a drive is another caller's; without NAME, at those of all callers.
    ///
    /// Callers are IAM users and roles.
    #[arg(long)]
    pub shared: bool,

    /// How hosts are reached.
    #[command(flatten)]
    pub reach: Reach,
}

/// A run, as `ps --json` prints it (`src/cli/schemas/ps.json`).
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Row {
    /// Name of the drive.
    drive: String,
    /// Id of the drive's instance; null if the drive is not up.
    instance: Option<String>,
    /// Name of the run's container; main is the drive's main one.
    container: String,
    /// Id of the run.
    run: String,
    /// Words of the command, quoted for a shell.
    command: String,
    /// State of the run; `lost` is one that vanished with its host, `waiting` one whose next try is to
    /// begin (`xdrive tend`), `frozen` one that goes on where it was on the drive's next host.
    #[cfg_attr(test, schemars(extend("enum" = ["running", "ended", "lost", "waiting", "frozen"])))]
    state: &'static str,
    /// Number of its latest try; null if it is not begun again where its host is lost.
    #[serde(rename = "try")]
    number: Option<u32>,
    /// When it began, RFC 3339.
    since: String,
    /// Seconds that it took, or has taken; 0 if it is lost.
    seconds: u64,
    /// Exit status; null while it runs.
    status: Option<u8>,
    /// Why its host had begun to close when it ended; null if it had not.
    closing: Option<String>,
    /// Last line that it printed.
    last: String,
    /// How it would be frozen if EC2 took its instance now, in words; null if it may not be (`--freeze`).
    freezing: Option<String>,
    /// When its results last began to be brought to S3, RFC 3339; null if never, or they go nowhere.
    results_synced: Option<String>,
    /// Why the last time failed, in words; null if it did not.
    results_failed: Option<String>,
    /// Cost of the instance so far in US dollars, equal in each of its rows; null where the price is
    /// not known.
    dollars_so_far: Option<f64>,
}

/// Lists the runs. Returns the exit code: that of the worst failure, where a drive has one.
pub(crate) fn run(args: &Args, context: &Context) -> Result<u8, Failure> {
    let paths = context.paths()?;
    let reach = super::reach(args.reach.clone(), &paths)?;
    super::block_on(async {
        let cloud = context.open(&paths).await?;
        let opening = |drive| context.opening(super::whole(drive), args.shared);
        let visitor = || super::visitor(&paths, reach);
        if let Some(name) = args.drive.clone() {
            let drive = Drive::open(opening(name.clone()), cloud.clone()).await?;
            let listed = visit::list_runs(drive, visitor, args.all).await?;
            return shown(&[(name, listed)], args, &cloud);
        }
        let visitor = visitor()?;
        let drives = up(&cloud, args.shared).await?;
        let openings = drives.into_iter().map(opening);
        let (listed, failures) = of_each(openings, &cloud, &visitor, args.all).await;
        let mut worst = None;
        for failure in &failures {
            report::error(&failure.shown(args.json, failure.exit.code()));
            worst = Some(failure.exit.or_worse(worst));
        }
        if listed.is_empty() && failures.is_empty() && !args.json {
            report::error("no drive is up");
        }
        let code = shown(&listed, args, &cloud)?;
        Ok(worst.map_or(code, Exit::code))
    })
}

/// The runs of each of these drives, and the failures of those that cannot be listed. Hosts are asked
/// side by side: one that does not answer keeps none of the others waiting.
async fn of_each(
    openings: impl Iterator<Item = Opening>,
    cloud: &Cloud,
    visitor: &Visitor,
    all: bool,
) -> (Vec<(DriveName, Listed)>, Vec<Failure>) {
    let (mut listed, mut failures) = (Vec::new(), Vec::new());
    // A session's parts stay on one thread.
    let local = LocalSet::new();
    let asked: Vec<_> = openings
        .map(|opening| {
            let drive = opening.place.drive.clone();
            let (cloud, visitor) = (cloud.clone(), visitor.clone());
            let listing = async move {
                let drive = Drive::open(opening, cloud).await?;
                visit::list_runs(drive, || Ok(visitor), all).await
            };
            (drive, local.spawn_local(listing))
        })
        .collect();
    local
        .run_until(async {
            for (drive, asked) in asked {
                match asked.await {
                    Ok(Ok(runs)) => listed.push((drive, runs)),
                    Ok(Err(failure)) => failures.push(Failure {
                        error: failure.error.context(format!("{drive} is not listed")),
                        ..failure
                    }),
                    Err(error) => failures.push(Failure::new(Exit::Failed, error)),
                }
            }
        })
        .await;
    (listed, failures)
}

/// Prints what is listed. Returns the exit code 0.
fn shown(listed: &[(DriveName, Listed)], args: &Args, cloud: &Cloud) -> Result<u8, Failure> {
    let mut rows = Vec::new();
    let mut text = String::new();
    for (drive, listed) in listed {
        let found = rows_of(drive, listed, args.all, cloud);
        let waits = |run: &WantedRun| waiting(run, cloud.clock.now(), &cloud.command);
        text.push_str(&text_of(drive, listed, &found, args.all, waits));
        rows.extend(found);
    }
    if args.json {
        return Ok(report::json(&rows).map(|()| 0)?);
    }
    print(&text)
}

/// The drives that are up, and are the caller's or, where they are `shared`, anybody's.
async fn up(cloud: &Cloud, shared: bool) -> Result<BTreeSet<DriveName>, Failure> {
    let caller = cloud.ec2.owner().await?;
    let (instances, _, _) = cloud.ec2.everything().await?;
    let live = instances.iter().filter(|instance| instance.state.is_live());
    let own = live.filter(|instance| {
        let whose = tags::owner(&instance.tags);
        shared || whose.is_empty() || Ownership::from_tag(whose, &caller) == Ownership::Own
    });
    let names = own.filter_map(|instance| instance.tags.get(tags::DRIVE)?.parse().ok());
    Ok(names.collect())
}

fn rows_of(drive: &DriveName, listed: &Listed, all: bool, cloud: &Cloud) -> Vec<Row> {
    let now = cloud.clock.now();
    let runs = listed.runs.iter().filter(|run| all || run.runs());
    let rows = runs.map(|run| Row {
        drive: drive.to_string(),
        instance: listed.host.as_ref().map(|it| it.instance.to_string()),
        container: match &*run.container {
            "" => MAIN.to_owned(),
            name => name.to_owned(),
        },
        run: run.id.clone(),
        command: run.command.clone(),
        number: run.number,
        state: match run.status {
            _ if run.is_frozen => "frozen",
            _ if listed.waits(run) => "waiting",
            _ if run.is_lost => "lost",
            Some(_) => "ended",
            None => "running",
        },
        since: format!("{:.0}", run.began_at()),
        seconds: run.length(now),
        status: run.status,
        closing: run.closing.clone(),
        last: run.last.clone(),
        freezing: run.freezing.as_ref().map(|it| it.words.clone()),
        results_synced: (run.results.as_ref())
            .and_then(Brought::synced_at)
            .map(|at| format!("{at:.0}")),
        results_failed: (run.results.as_ref()).and_then(|results| results.why.clone()),
        dollars_so_far: listed.host.as_ref().and_then(|host| host.dollars),
    });
    rows.collect()
}

/// A drive with its cost, if it is up, and its runs below it; with their containers if one has a name.
/// `waits` describes a run whose next try is to begin.
fn text_of(
    drive: &DriveName,
    listed: &Listed,
    rows: &[Row],
    all: bool,
    waits: impl FnOnce(&WantedRun) -> String,
) -> String {
    let mut text = match &listed.host {
        Some(host) => {
            let cost = one_line(host.cost.lines().next().unwrap_or_default());
            format!("{drive} on {cost}\n")
        }
        None if all => format!("{drive} is not up\n"),
        None => format!("{drive} is not up; --all shows what has ended\n"),
    };
    let is_over = |wanted: &WantedRun| {
        let mut records = listed.runs.iter();
        records.any(|run| run.id == wanted.id.as_str() && !listed.waits(run))
    };
    if let (None, Some(run)) = (&listed.host, &listed.wanted)
        && !is_over(run)
    {
        let _ = writeln!(text, "  {}  {}", run.id.as_str(), waits(run));
    }
    let shows_containers = rows.iter().any(|row| row.container != MAIN);
    let width = rows.iter().map(|row| row.container.chars().count()).max();
    let width = width.unwrap_or_default();
    for row in rows {
        let container = if shows_containers {
            format!("  {:<width$}", one_line(&row.container))
        } else {
            String::new()
        };
        let state = match row.status {
            Some(status) if row.state == "ended" => format!("ended with {status}"),
            _ => row.state.to_owned(),
        };
        let state = match row.number {
            Some(number) if number > 1 => format!("{state}, try {number}"),
            _ => state,
        };
        let (hours, minutes) = (row.seconds / 3600, row.seconds / 60 % 60);
        let _ = writeln!(
            text,
            "  {}{container}  {state}  {hours}:{minutes:02}:{:02}  since {}\n    {}",
            one_line(&row.run),
            row.seconds % 60,
            row.since,
            one_line(&row.command)
        );
        if let Some(why) = &row.closing {
            let _ = writeln!(text, "    its host was closing: {}", one_line(why));
        }
        if let Some(why) = &row.results_failed {
            let _ = writeln!(text, "    its results are not synced: {}", one_line(why));
        }
        if let Some(words) = &row.freezing {
            let _ = writeln!(text, "    freezes: {}", one_line(words));
        }
        if !row.last.is_empty() {
            let _ = writeln!(text, "    > {}", one_line(&row.last));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::visit::runs::RunsHost;

    #[test]
    fn rows_have_the_committed_schema() {
        let (title, description) = (
            "xdrive ps --json",
            "The commands that run on drives that are up; with --all also those that have ended.",
        );
        crate::report::schema::check::<Vec<Row>>("ps", title, description);
    }

    #[test]
    fn nothing_of_a_run_is_obeyed_by_a_terminal_and_columns_stay_aligned() {
        let row = |container: &str| Row {
            drive: "demo".to_owned(),
            instance: Some("i-1".to_owned()),
            container: container.to_owned(),
            run: "r\u{1b}c".to_owned(),
            command: "sh -c '\u{1b}]52;c;x\u{7}'\nhint: x".to_owned(),
            state: "running",
            number: None,
            since: "2026-01-02T03:04:05Z".to_owned(),
            seconds: 3661,
            status: None,
            closing: Some("\u{202e}no\u{85}tice".to_owned()),
            last: "\u{1b}]0;TITLE\u{7}\u{1b}[31mred\u{9b}2J".to_owned(),
            freezing: Some("in \u{9b}2J".to_owned()),
            results_synced: None,
            results_failed: None,
            dollars_so_far: None,
        };
        let host = RunsHost {
            instance: "i-1".parse().unwrap(),
            cost: "t3.small\u{1b}[2J, 1 h\nmore".to_owned(),
            dollars: None,
        };
        let listed = Listed {
            host: Some(host),
            runs: Vec::new(),
            wanted: None,
        };
        let rows = [row("\u{9b}tools"), row("main")];
        let run = |container: &str| {
            format!(
                "  r?c  {container}  running  1:01:01  since 2026-01-02T03:04:05Z\n    \
                 sh -c '?]52;c;x?'?hint: x\n    its host was closing: ?no?tice\n    \
                 freezes: in ?2J\n    > ?]0;TITLE??[31mred?2J\n"
            )
        };
        let expected = format!(
            "demo on t3.small?[2J, 1 h\n{}{}",
            run("?tools"),
            run("main  ")
        );
        assert_eq!(
            text_of(&"demo".parse().unwrap(), &listed, &rows, true, |_| {
                String::new()
            }),
            expected
        );
    }
}
