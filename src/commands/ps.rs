//! `xdrive ps`: which commands run on drives that are up, and which have ended there.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde::Serialize;

use super::flags::Reach;
use super::{Context, key, print};
use crate::cloud::Cloud;
use crate::drive::tags;
use crate::failure::Failure;
use crate::ids::DriveName;
use crate::report;
use crate::session::{self, Listed};

/// `xdrive ps`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The drive [default: all that are up].
    #[arg(value_name = "NAME")]
    pub drive: Option<DriveName>,

    /// Show what has ended, too.
    #[arg(short, long)]
    pub all: bool,

    /// One JSON document instead of text.
    ///
    /// A failure is one line of JSON at the end of standard error.
    #[arg(long)]
    pub json: bool,

    /// Look although a drive is another caller's.
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
struct Row {
    drive: String,
    instance: String,
    run: String,
    command: String,
    /// `running`, or `ended`.
    state: &'static str,
    /// When it began.
    since: String,
    /// How long it has run, in seconds.
    seconds: u64,
    /// Its exit status.
    status: Option<u8>,
    /// The last line that it printed.
    last: String,
}

/// Lists the runs. Returns the exit code.
pub(crate) fn run(args: Args, context: &Context) -> Result<u8, Failure> {
    let paths = context.paths()?;
    let reach = super::reach(args.reach, &paths)?;
    super::block_on(async {
        let cloud = context.open(&paths).await?;
        let drives = match args.drive {
            Some(drive) => vec![drive],
            None => up(&cloud).await?.into_iter().collect(),
        };
        let mut rows = Vec::new();
        let mut text = String::new();
        for drive in drives {
            let request = super::request(drive.clone(), args.shared, reach.clone());
            let listed = session::list_runs(request, cloud.clone(), key(&paths)?).await?;
            let found = rows_of(&drive, &listed, args.all, &cloud);
            text.push_str(&text_of(&drive, &listed, &found));
            rows.extend(found);
        }
        if args.json {
            return Ok(report::json(&rows).map(|()| 0)?);
        }
        if text.is_empty() {
            report::error("no drive is up\n");
        }
        print(&text)
    })
}

/// The drives that are up.
async fn up(cloud: &Cloud) -> Result<BTreeSet<DriveName>, Failure> {
    let (instances, _, _) = cloud.ec2.everything().await?;
    let live = instances.iter().filter(|instance| instance.state.is_live());
    let names = live.filter_map(|instance| instance.tags.get(tags::DRIVE)?.parse().ok());
    Ok(names.collect())
}

fn rows_of(drive: &DriveName, listed: &Listed, all: bool, cloud: &Cloud) -> Vec<Row> {
    let now = cloud.clock.now();
    let runs = listed.runs.iter().filter(|run| all || run.runs());
    let rows = runs.map(|run| Row {
        drive: drive.to_string(),
        instance: listed.instance.clone(),
        run: run.id.clone(),
        command: run.command.clone(),
        state: if run.runs() { "running" } else { "ended" },
        since: format!("{:.0}", run.began_at()),
        seconds: run.length(now),
        status: run.status,
        last: run.last.clone(),
    });
    rows.collect()
}

/// A drive with its cost, and its runs below it.
fn text_of(drive: &DriveName, listed: &Listed, rows: &[Row]) -> String {
    let cost = listed.cost.lines().next().unwrap_or_default();
    let mut text = format!("{drive} on {cost}\n");
    for row in rows {
        let state = match row.status {
            None => "running".to_owned(),
            Some(status) => format!("ended with {status}"),
        };
        let (hours, minutes) = (row.seconds / 3600, row.seconds / 60 % 60);
        let _ = writeln!(
            text,
            "  {}  {state}  {hours}:{minutes:02}:{:02}  since {}\n    {}",
            row.run,
            row.seconds % 60,
            row.since,
            row.command
        );
        if !row.last.is_empty() {
            let _ = writeln!(text, "    > {}", row.last);
        }
    }
    text
}
