//! `xdrive cost`: what drives have cost, by day and kind.
//!
//! xdrive keeps no books: all of it is from what EC2 lists, as [`crate::launch::ledger`] reads it. What is gone from
//! there is named, and counted as nothing.

mod plot;
mod rows;
mod table;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::anyhow;
use jiff::civil::{Date, Weekday};

use super::Context;
use crate::cloud::Cloud;
use crate::config;
use crate::failure::{Exit, Failure};
use crate::ids::DriveName;
use crate::launch::ledger::{Bounds, Costs, Kind, Ledger, Parts, Period};
use crate::report::{self, Report, Text, one_line};

use self::plot::Series;
use self::rows::Document;

/// The most days that are rows of a table, or bars of a picture, of their own: else weeks are.
const ROWS: usize = 32;
const BARS: usize = 100;

/// `xdrive cost`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only this drive, day by day.
    #[arg(value_name = "NAME")]
    pub drive: Option<DriveName>,

    /// How far back, such as 7d or 90d.
    ///
    /// From the beginning of that day, in UTC. At most 366d; EC2 knows the prices of spot of the last 90 days, and
    /// before that the price at the launch is taken for all of a session.
    #[arg(
        long,
        value_name = "TIME",
        default_value = "30d",
        value_parser = config::quantity::spending
    )]
    pub since: Duration,

    /// Write a picture of it to this file, as SVG.
    ///
    /// A bar for each day, or for each week of more than 100 days: of one drive in the colours of what it is for, else
    /// in those of the drives.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,

    /// JSON instead of text, as one document.
    #[arg(long)]
    pub json: bool,
}

/// Prints the costs. Returns the exit code.
pub(crate) fn run(args: &Args, context: &Context) -> Result<u8, Failure> {
    let paths = context.paths()?;
    super::block_on(async {
        let cloud = context.open(&paths).await?;
        cost(&cloud, args).await
    })?;
    Ok(0)
}

async fn cost(cloud: &Cloud, args: &Args) -> Result<(), Failure> {
    let (names, parts) = parts(cloud, args.drive.as_ref()).await?;
    let period = Period::until(cloud.clock.now(), args.since);
    let (ledgers, troubles) = Ledger::read(&cloud.ec2, &parts, period).await;
    for trouble in troubles {
        Report::stderr().print(&trouble);
    }
    let drives: Vec<(String, Ledger)> = names.into_iter().zip(ledgers).collect();
    if let Some(file) = &args.svg {
        draw(file, args.drive.is_some(), &drives, cloud.ec2.region())?;
    }
    if args.json {
        return Ok(report::json(&Document::new(
            &drives,
            period,
            cloud.ec2.region(),
        ))?);
    }
    let since = period.first_day();
    let text = match &drives[..] {
        [] => "no drives\n".to_owned(),
        [(_, ledger)] if args.drive.is_some() => {
            let rows = buckets(&ledger.days, ROWS);
            table::of_days(ledger, &rows, since)
        }
        drives => table::of_drives(drives, since),
    };
    report::data(&Text::block(&text))
        .map_err(|error| Failure::from(anyhow!("cannot write the costs: {error}")))
}

/// The drives of which there is anything, or that one, by name, and the parts of each.
async fn parts(
    cloud: &Cloud,
    only: Option<&DriveName>,
) -> Result<(Vec<String>, Vec<Parts>), Failure> {
    // Data moves in this order: see `Ec2::everything`.
    let (instances, volumes, snapshots) = match only {
        None => cloud.ec2.everything().await?,
        Some(drive) => (
            cloud.ec2.instances(drive).await?,
            cloud.ec2.volumes(drive).await?,
            cloud.ec2.snapshots(drive).await?,
        ),
    };
    let drives = Parts::by_drive(instances, volumes, snapshots);
    match only {
        Some(drive) if drives.is_empty() => Err(Failure::no_drive(drive, &cloud.command)),
        _ => Ok(drives.into_iter().unzip()),
    }
}

/// The days as they are, or added up to weeks if they are more than `most`; each with its first day.
fn buckets(days: &[(Date, Costs)], most: usize) -> Vec<(Date, Costs)> {
    let is_weeks = days.len() > most;
    let begins = |day: Date| !is_weeks || day.weekday() == Weekday::Monday;
    let mut buckets: Vec<(Date, Costs)> = Vec::new();
    for (day, costs) in days {
        match buckets.last_mut() {
            Some((_, sum)) if !begins(*day) => *sum = [*sum, *costs].into_iter().sum(),
            _ => buckets.push((*day, *costs)),
        }
    }
    buckets
}

/// Writes the picture of these drives: by kind if it `is_one`.
fn draw(
    file: &Path,
    is_one: bool,
    drives: &[(String, Ledger)],
    region: &str,
) -> Result<(), Failure> {
    let bars = |ledger: &Ledger| buckets(&ledger.days, BARS);
    let Some((first, ledger)) = drives.first() else {
        let error = anyhow!("there are no drives to draw");
        return Err(Failure::new(Exit::Unavailable, error));
    };
    let days: Vec<Date> = bars(ledger).into_iter().map(|(day, _)| day).collect();
    let mut series: Vec<Series> = if is_one {
        let of_kind = |kind: Kind| {
            let costs = bars(ledger).into_iter().map(|(_, costs)| costs[kind]);
            Series::new(kind as usize, kind.as_str(), costs.collect())
        };
        Kind::ALL.into_iter().map(of_kind).collect()
    } else {
        let of_drive = |(name, ledger): &(String, Ledger)| {
            let costs = bars(ledger).into_iter().map(|(_, costs)| costs.sum());
            Series::new(0, &one_line(name), costs.collect())
        };
        drives.iter().map(of_drive).collect()
    };
    series.retain(|it| it.sum() != Bounds::default());
    if !is_one {
        series = plot::largest(series, plot::APART);
    }
    let all: Bounds = drives.iter().map(|(_, ledger)| ledger.sum()).sum();
    let what = if is_one {
        one_line(first)
    } else {
        format!("Drives in {region}")
    };
    let is_weekly = days.len() < ledger.days.len();
    let notes = table::notes(drives, is_one);
    let svg = plot::svg(&what, &days, is_weekly, &series, (all, &notes));
    super::plot::write(file, &svg)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_days_are_shown_as_weeks_from_monday_on() {
        let first: Date = "2026-10-30".parse().unwrap();
        let mut days = Vec::new();
        for (number, day) in (1_u8..=12).zip(first.series(jiff::Span::new().days(1))) {
            let mut costs = Costs::default();
            costs[Kind::Disks] = Bounds::between(f64::from(number), f64::from(number));
            days.push((day, costs));
        }
        assert_eq!(buckets(&days, 12), days);
        let weeks = buckets(&days, 11);
        let shown: Vec<String> = weeks
            .iter()
            .map(|(day, costs)| format!("{day} {}", costs.sum().most))
            .collect();
        assert_eq!(shown, ["2026-10-30 6", "2026-11-02 49", "2026-11-09 23"]);
    }
}
