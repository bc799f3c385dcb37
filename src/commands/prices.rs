//! `xdrive prices`: what spot costs now, or has cost, by type and zone.
//!
//! Prices are EC2's own and those of AWS's price list, of this region. Without types
//! on the command line, these are the types that a connect would launch: the configuration's, and
//! those of the caller's drives.

mod history;
mod plot;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::Context;
use crate::cloud::Cloud;
use crate::config::launch::Preference;
use crate::config::{self, Config};
use crate::drive::pools::{self, ArchBy, Refused, Requirements, Resources, Scores, Terms};
use crate::drive::tags::{self, Settings};
use crate::ec2::{Arch, InstanceType, Market, Ownership};
use crate::failure::{Exit, Failure};
use crate::launch::cost::{Disks, burst_cost_note};
use crate::launch::failure;
use crate::launch::offers::gib;
use crate::report::{self, Report, Text};

use history::History;

/// The days of a plot, if nothing else is said.
const DAYS: u8 = 30;

/// The price of a type in a zone.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Row {
    #[serde(flatten)]
    kind: InstanceType,
    /// Zone.
    zone: String,
    /// Price as spot now.
    spot_dollars_an_hour: f64,
    /// Price on demand, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    on_demand_dollars_an_hour: Option<f64>,
    /// AWS's spot placement score of the zone, for one instance of any of the types that are listed with it:
    /// from 1, unlikely to be had, to 10; where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(range(min = 1, max = 10)))]
    placement_score: Option<u8>,
    /// With --days or --svg: the prices of that time in US dollars an hour, if EC2 knows one.
    #[serde(skip_serializing_if = "Option::is_none")]
    history: Option<History>,
    #[serde(skip)]
    shown: String,
}

/// `xdrive prices`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The instance types, such as m5.large [default: those of the configuration and of your
    /// drives, else those with 2 CPUs and 4 GiB].
    #[arg(value_name = "TYPE", value_parser = config::launch::types)]
    pub types: Vec<String>,

    /// Rank by the best price, or by what lasts, which AWS's spot placement scores say.
    ///
    /// A score is of a zone, for one instance of any of the types in the list: from 1 to 10, which very likely
    /// has it. It is no promise. For fewer than three types there is none [default: the configuration's, else
    /// price].
    #[arg(long, value_name = "WHAT")]
    pub prefer: Option<Preference>,

    /// What they cost over so many days until now.
    ///
    /// A line for each pool, with its lowest and its highest price, and the median over time. EC2
    /// knows the last 90 days.
    #[arg(long, value_name = "DAYS", value_parser = config::quantity::days)]
    pub days: Option<u8>,

    /// Write a plot of the prices to this file, as SVG.
    ///
    /// Over --days, else over 30.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,

    /// One JSON document instead of text.
    #[arg(long)]
    pub json: bool,
}

/// Prints the prices. Returns the exit code.
pub(crate) fn run(args: &Args, context: &Context) -> Result<u8, Failure> {
    let paths = context.paths()?;
    let config = Config::read(&paths)?;
    super::block_on(async {
        let cloud = context.open(&paths).await?;
        prices(&cloud, args, &config).await
    })?;
    Ok(0)
}

/// Prints the prices of `types`; without any, of those that a connect would launch.
async fn prices(cloud: &Cloud, args: &Args, config: &Config) -> Result<(), Failure> {
    let types = &args.types;
    let wanted = if types.is_empty() {
        let (wanted, words) = wanted(cloud, config).await?;
        Report::stderr().print(&words);
        wanted
    } else {
        let named = Requirements::types(types).map_err(|error| Failure::new(Exit::Usage, error))?;
        vec![(named, None)]
    };
    let scores = match args.prefer.or(config.prefer) {
        Some(Preference::Lasting) => Scores::Preferred,
        Some(Preference::Price) | None => Scores::Shown,
    };
    let mut rows: Vec<Row> = Vec::new();
    for (requirements, arch) in wanted {
        for row in rows_of(cloud, requirements, arch, (config.free, scores)).await? {
            let is_there = |known: &Row| known.kind == row.kind && known.zone == row.zone;
            if !rows.iter().any(is_there) {
                rows.push(row);
            }
        }
    }
    add_on_demand(&mut rows, cloud).await;
    if !rows.is_empty() {
        let disks = Disks {
            size: config.size.map_or(cloud.size, |it| it.0),
            speed: config.speed(),
            prices: cloud.ec2.storage_prices().await,
        };
        let beside = format!("each {}", disks.beside_words());
        Report::stderr().print(&beside);
    }
    let mut burstable: Vec<&InstanceType> = Vec::new();
    for row in &rows {
        if !burstable.contains(&&row.kind) {
            burstable.push(&row.kind);
        }
    }
    for words in burstable.into_iter().filter_map(burst_cost_note) {
        Report::stderr().print(&words);
    }
    let days = args.days.or(args.svg.is_some().then_some(DAYS));
    let time = match days {
        Some(days) => {
            let end = cloud.clock.now();
            let start = end - SignedDuration::from_hours(24 * i64::from(days));
            add_history(&mut rows, cloud, (start, end)).await?;
            Some((days, start, end))
        }
        None => None,
    };
    if let (Some(file), Some(time)) = (&args.svg, time) {
        write_plot(file, &rows, time, cloud.ec2.region())?;
    }
    if args.json {
        return Ok(report::json(&rows)?);
    }
    let text = match time {
        Some(time) => history_table(&rows, time),
        None => table(&rows),
    };
    report::data(&Text::block(&text))
        .map_err(|error| Failure::from(anyhow!("cannot write the prices: {error}")))
}

/// Adds to each row what its type costs on demand, where the caller may read AWS's price list.
async fn add_on_demand(rows: &mut [Row], cloud: &Cloud) {
    let types: BTreeSet<String> = rows.iter().map(|row| row.kind.name.clone()).collect();
    match cloud.ec2.on_demand_prices(&Vec::from_iter(types)).await {
        Ok(prices) => {
            for row in rows {
                let price = prices.get(&row.kind.name);
                row.on_demand_dollars_an_hour = price.map(|price| price.dollars());
            }
        }
        Err(error) => Report::stderr().print(&format!("on-demand prices are not known: {error}")),
    }
}

/// Adds to each row what its pool cost in that time.
async fn add_history(
    rows: &mut [Row],
    cloud: &Cloud,
    (start, end): (Timestamp, Timestamp),
) -> Result<(), Failure> {
    let types: BTreeSet<String> = rows.iter().map(|row| row.kind.name.clone()).collect();
    let types = Vec::from_iter(types);
    let all = cloud.ec2.spot_price_history(&types, start).await?;
    for row in rows {
        let own = all.iter().filter(|change| {
            change.to.instance_type == row.kind.name && change.to.zone.0 == row.zone
        });
        let own: Vec<_> = own.map(|change| (change.since, change.to.price)).collect();
        row.history = History::from_changes(&own, start, end);
    }
    Ok(())
}

/// Writes the plot of the rows' histories to `file`.
fn write_plot(
    file: &Path,
    rows: &[Row],
    (days, start, end): (u8, Timestamp, Timestamp),
    region: &str,
) -> Result<(), Failure> {
    let line = |row: &'_ Row| format!("{} {}", row.kind.name, row.zone);
    let lines = rows.iter();
    let lines: Vec<_> = lines
        .filter_map(|row| Some((line(row), row.history.as_ref()?)))
        .collect();
    if lines.is_empty() {
        return Err(Failure::new(
            Exit::Unavailable,
            anyhow!("there are no prices to plot"),
        ));
    }
    let title = format!("Spot prices in {region}, {}", last(days));
    let svg = plot::svg(&title, &lines, start, end);
    super::plot::write(file, &svg)
}

/// The last days in words, such as `the last 30 days`.
fn last(days: u8) -> String {
    match days {
        1 => "the last day".to_owned(),
        days => format!("the last {days} days"),
    }
}

/// The types or resources that a connect would launch, each with its architecture if only one is of
/// use; and a line on where that comes from.
async fn wanted(
    cloud: &Cloud,
    config: &Config,
) -> Result<(Vec<(Requirements, Option<Arch>)>, String), Failure> {
    let caller = cloud.identity().await?.caller;
    let (_, volumes, snapshots) = cloud.ec2.everything().await?;
    let all = volumes.iter().map(|volume| &volume.tags);
    let all = all.chain(snapshots.iter().map(|snapshot| &snapshot.tags));
    let of_drives: BTreeSet<(String, Option<Arch>)> = all
        .filter(|tags| Ownership::from_tag(tags::owner(tags), &caller) != Ownership::Other)
        .map(Settings::read)
        // A connect to the drive reports settings that cannot be parsed.
        .filter_map(|own| Some((own.requirements().ok()??, own.arch().ok().flatten())))
        .map(|(requirements, arch)| (requirements.to_string(), arch))
        .collect();
    let mut wanted = Vec::new();
    let mut words = Vec::new();
    let new = match config.arch {
        Some(choice) => choice.only(),
        None => Some(cloud.arch),
    };
    if let Some(requirements) = config.requirements().map_err(|error| anyhow!(error))? {
        words.push(format!("{requirements}, the configuration's"));
        let arch = new.filter(|_| matches!(requirements, Requirements::AtLeast(_)));
        wanted.push((requirements, arch));
    }
    for (text, arch) in of_drives {
        let requirements: Requirements = text
            .parse()
            .map_err(|error| Failure::new(Exit::Failed, error))?;
        if !wanted.contains(&(requirements.clone(), arch)) {
            words.push(format!("{requirements}, of a drive of yours"));
            wanted.push((requirements, arch));
        }
    }
    if wanted.is_empty() {
        words.push(format!("{}, the default", Resources::DEFAULT));
        wanted.push((Requirements::AtLeast(Resources::DEFAULT), new));
    }
    let words = format!(
        "{}; {} prices TYPE… shows others",
        words.join("; "),
        cloud.command
    );
    Ok((wanted, words))
}

async fn rows_of(
    cloud: &Cloud,
    requirements: Requirements,
    arch: Option<Arch>,
    (is_free, scores): (bool, Scores),
) -> Result<Vec<Row>, Failure> {
    let is_need = matches!(requirements, Requirements::AtLeast(_));
    let terms = Terms {
        requirements,
        markets: vec![Market::Spot],
        max_price: None,
        needs_price: false,
        image: None,
        arch,
        arch_by: ArchBy::Default,
        like: None,
        is_free: is_free && is_need,
        scores,
        reserved: None,
    };
    let chosen = match pools::look(&cloud.ec2, &terms).await {
        Ok(chosen) => chosen,
        // A type that is not sold as spot has no price.
        Err(Refused::NotSold { .. }) => return Ok(Vec::new()),
        // The usual hint names flags that `prices` does not have.
        Err(Refused::Unknown { error, near }) if near.is_empty() => {
            let hint = "types are written like t3.medium";
            return Err(Failure::new(Exit::Usage, error).hint(hint));
        }
        Err(refused @ (Refused::Unfit(_) | Refused::Neuron(_))) => {
            return Err(Failure::new(Exit::Usage, refused));
        }
        Err(refused) => {
            let again = format!("{} connect NAME", cloud.command);
            return Err(failure::refused(refused, &again));
        }
    };
    let (cheapest, _) = pools::to_try(&chosen.offers, None);
    let all = chosen.offers.iter().collect();
    let offers: Vec<_> = if is_need { cheapest } else { all };
    let mut rows = Vec::new();
    for offer in offers {
        if let (Some(zone), Some(price)) = (&offer.pool.zone, offer.price) {
            rows.push(Row {
                kind: offer.kind.clone(),
                zone: zone.to_string(),
                spot_dollars_an_hour: price.dollars(),
                on_demand_dollars_an_hour: None,
                placement_score: offer.score.known(),
                history: None,
                shown: price.to_string(),
            });
        }
    }
    for left_out in &chosen.left_out {
        Report::stderr().print(&left_out.to_string());
    }
    Ok(rows)
}

fn table(rows: &[Row]) -> String {
    if rows.is_empty() {
        return "none of these is sold as spot in this region\n".to_owned();
    }
    let widest = |of: fn(&Row) -> usize| rows.iter().map(of).max().unwrap_or(0).max(4);
    let (types, zones) = (
        widest(|row| row.kind.name.len()),
        widest(|row| row.zone.len()),
    );
    let mut text = format!(
        "{:types$}  {:6}  CPUs  {:>8}  GPUs  {:zones$}  spot, an hour  on demand  score\n",
        "type", "arch", "memory", "zone"
    );
    for row in rows {
        let kind = &row.kind;
        let _ = writeln!(
            text,
            "{:types$}  {:6}  {:>4}  {:>4} GiB  {:>4}  {:zones$}  {:<13}  {:<9}  {:>5}",
            kind.name,
            kind.arch,
            kind.cpus,
            gib(kind.memory),
            kind.gpus,
            row.zone,
            row.shown,
            row.on_demand_dollars_an_hour
                .map_or_else(|| "?".to_owned(), |price| format!("${price:.4}")),
            row.placement_score
                .map_or_else(|| "?".to_owned(), |score| score.to_string())
        );
    }
    text
}

/// A line for each pool: its prices as blocks, and their low, median and high.
fn history_table(rows: &[Row], (days, start, end): (u8, Timestamp, Timestamp)) -> String {
    if rows.is_empty() {
        return table(rows);
    }
    let widest = |of: fn(&Row) -> usize| rows.iter().map(of).max().unwrap_or(0).max(4);
    let types = widest(|row| row.kind.name.len());
    let zones = widest(|row| row.zone.len());
    let title = last(days);
    let rest = types + zones + 3 * 8 + 5 * 2;
    let columns = report::WIDTH.saturating_sub(rest).clamp(title.len(), 40);
    let columns = u16::try_from(columns).unwrap_or(u16::MAX);
    let width = usize::from(columns);
    let mut text = format!(
        "{:types$}  {:zones$}  {title:width$}  {:>8}  {:>8}  {:>8}\n",
        "type", "zone", "low", "median", "high"
    );
    for row in rows {
        let (name, zone) = (&row.kind.name, &row.zone);
        let Some(history) = &row.history else {
            let _ = writeln!(text, "{name:types$}  {zone:zones$}  no price known");
            continue;
        };
        let [low, median, high] = history.figures();
        let line = history.sparkline(columns, start, end);
        let _ = writeln!(
            text,
            "{name:types$}  {zone:zones$}  {line:width$}  {low:>8}  {median:>8}  {high:>8}"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_the_committed_schema() {
        let (title, description) = (
            "xdrive prices --json",
            "What types cost as spot instances, zone by zone.",
        );
        crate::report::schema::check::<Vec<Row>>("prices", title, description);
    }
}
