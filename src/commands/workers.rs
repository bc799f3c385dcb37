//! `xdrive workers`: throwaway copies of a drive that is up, in one network with it.
//!
//! Worker I of NAME is the drive `NAME.wI`: a fork of NAME's newest save, used with `discard` by a run. Nothing
//! else is kept of it: what there is is read from tags.

mod args;
mod begin;
mod end;
mod foresee;
mod known;

use anyhow::anyhow;
use serde::Serialize;
use tokio::task::LocalSet;

pub use self::args::Args;
use self::begin::{Numbers, Workers};
use self::known::Known;
use super::{Context, print, visitor};
use crate::cloud::Cloud;
use crate::config::Paths;
use crate::drive::tend;
use crate::failure::{Exit, Failure};
use crate::ids::DriveName;
use crate::launch::cost::HourlyPrices;
use crate::launch::workers;
use crate::opener::{Drive, Opening};
use crate::report;
use crate::visit::Visitor;

/// A worker, as `workers --json` prints it (`src/cli/schemas/workers.json`).
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Row {
    /// Name of the worker in the network: `w`, and its number.
    worker: String,
    /// Name of the drive that it is.
    drive: String,
    /// State: `up`; or `gone`, with what it began with left.
    #[cfg_attr(test, schemars(extend("enum" = ["up", "gone"])))]
    state: &'static str,
    /// Id of its instance; null if it is gone, as in what follows.
    instance: Option<String>,
    /// Type of the instance.
    #[serde(rename = "type")]
    instance_type: Option<String>,
    /// How it is paid for.
    #[cfg_attr(test, schemars(extend("enum" = ["spot", "on-demand", null])))]
    market: Option<&'static str>,
    /// Zone of the instance.
    zone: Option<String>,
    /// When it was launched, RFC 3339.
    since: Option<String>,
    /// US dollars an hour for the instance and its public address; null where that is not known.
    dollars_an_hour: Option<f64>,
}

/// Does what is asked. Returns the exit code.
pub(crate) fn run(args: Args, context: &Context) -> Result<u8, Failure> {
    let paths = context.paths()?;
    match args.number {
        None => {
            args.refuse_flags()?;
            super::block_on(async {
                let cloud = context.open(&paths).await?;
                list(&args, &cloud).await
            })
        }
        Some(number) => become_many(args, number, &paths, context),
    }
}

/// Prints the workers. Returns the exit code.
async fn list(args: &Args, cloud: &Cloud) -> Result<u8, Failure> {
    let known = known::find(cloud, &args.drive).await?;
    let mut rows = Vec::new();
    let mut prices = HourlyPrices::default();
    for worker in &known {
        rows.push(row(worker, &mut prices, cloud).await);
    }
    if args.launch.config.once.json {
        return Ok(report::json(&rows).map(|()| 0)?);
    }
    if rows.is_empty() {
        return print(&format!("{} has no workers\n", args.drive));
    }
    print(&rows.iter().map(Row::words).collect::<String>())
}

async fn row(worker: &Known, prices: &mut HourlyPrices, cloud: &Cloud) -> Row {
    let host = worker.host.as_ref();
    Row {
        worker: format!("w{}", worker.number),
        drive: worker.drive.to_string(),
        state: if host.is_some() { "up" } else { "gone" },
        instance: host.map(|host| host.id.to_string()),
        instance_type: host.map(|host| host.instance_type.clone()),
        market: host.map(|host| host.market.as_str()),
        zone: host.map(|host| host.zone.to_string()),
        since: host.map(|host| format!("{:.0}", host.launched)),
        dollars_an_hour: match host {
            Some(host) => prices.find(host, &cloud.ec2).await,
            None => None,
        },
    }
}

impl Row {
    fn words(&self) -> String {
        let Self { worker, drive, .. } = self;
        let place = match (&self.instance, &self.instance_type, self.market, &self.zone) {
            (Some(id), Some(kind), Some(market), Some(zone)) => {
                let price = self.dollars_an_hour;
                let price =
                    price.map_or_else(String::new, |price| format!(", ${price:.4} an hour"));
                format!("up on {id}, {kind} {market} in {zone}{price}")
            }
            _ => "gone, and its copy of the drive is left".to_owned(),
        };
        format!("{worker}  {drive}  {}\n", report::one_line(&place))
    }
}

/// Has `number` workers there: ends those beyond it, and begins what is missing. Returns the exit code.
fn become_many(args: Args, number: u16, paths: &Paths, context: &Context) -> Result<u8, Failure> {
    let leader = args.drive.clone();
    let (is_dry_run, json) = (args.launch.config.dry_run, args.launch.config.once.json);
    if args.command.is_empty() && !is_dry_run {
        args.refuse_flags()?;
    }
    let are_as_before = args.are_as_before();
    let all = Workers::new(args, number, paths, context)?;
    let place = super::whole(leader.clone());
    super::block_on(async {
        let cloud = context.open(paths).await?;
        let opening = Opening {
            dry_run: is_dry_run,
            ..context.opening(place, false)
        };
        let drive = Drive::open(opening, cloud.clone()).await?;
        let known = known::find(&cloud, &leader).await?;
        let numbers = numbers(&known, number);
        let all = if are_as_before {
            all.like_before(&drive, paths).await?
        } else {
            all
        };
        if is_dry_run {
            return foresee::foresee(&drive, &all.request, numbers.missing.len(), json).await;
        }
        if !numbers.missing.is_empty() && !all.has_command() {
            let (count, xdrive) = (numbers.missing.len(), &cloud.command);
            let error = anyhow!("there is no command for {count} workers of {leader}");
            let hint = format!("{xdrive} workers {leader} {number} -- CMD… begins them");
            return Err(Failure::new(Exit::Usage, error).hint(hint));
        }
        let visitor = visitor(paths, all.request.options.reach.clone())?;
        let beyond = known.into_iter().filter(|worker| worker.number > number);
        let beyond: Vec<DriveName> = beyond.map(|worker| worker.drive).collect();
        let work = async {
            if !beyond.is_empty() || number == 0 {
                // First: who tends it would begin them again.
                drive.mark_no_workers().await?;
            }
            end::end_all(beyond, &cloud, &visitor).await?;
            if number == 0 {
                return part(&drive).await.map(|()| 0);
            }
            all.begin(numbers, drive, visitor).await
        };
        // A session's parts stay on one thread.
        LocalSet::new().run_until(work).await
    })
}

/// The numbers up to `most`, by whether their worker is up.
fn numbers(known: &[Known], most: u16) -> Numbers {
    let is_up = |number: &u16| {
        let mut up = known.iter().filter(|worker| worker.host.is_some());
        up.any(|worker| worker.number == *number)
    };
    let (up, missing) = (1..=most).partition(is_up);
    Numbers { up, missing }
}

/// Has the workers that the tags of a drive want in the network of its instance, if that is up and they are
/// not: those that EC2 took are begun again.
pub(crate) async fn keep(
    leader: DriveName,
    cloud: &Cloud,
    visitor: Visitor,
    paths: &Paths,
) -> Result<(), Failure> {
    let opening = Opening {
        is_one_of_many: true,
        shared: cloud.acts_for_another(),
        ..Opening::new(super::whole(leader.clone()))
    };
    let drive = Drive::open(opening, cloud.clone()).await?;
    let newest = drive.facts.newest_part();
    let (Some(host), Some((generation, _))) = (&drive.facts.host, newest) else {
        return Ok(());
    };
    let Some(wanted) = drive.wanted_workers(host).await? else {
        return Ok(());
    };
    let now = cloud.clock.now();
    let has_wanted_run = drive.wanted_run().is_some();
    if !tend::keeps_workers(&wanted, generation, has_wanted_run, now) {
        return Ok(());
    }
    let known = known::find(cloud, &leader).await?;
    let mut numbers = numbers(&known, wanted.count);
    let mut taken = Vec::new();
    for worker in &known {
        if worker.was_taken(cloud).await? {
            taken.push(worker.number);
        }
    }
    numbers.missing.retain(|number| taken.contains(number));
    if numbers.missing.is_empty() && wanted.leader == host.id {
        return Ok(());
    }
    let all = Workers::again(leader, wanted, now, visitor.reach.clone(), paths)?;
    match all.begin(numbers, drive, visitor).await? {
        0 => Ok(()),
        code => {
            let error = anyhow!("not all workers are there (exit code {code})");
            Err(Failure::new(Exit::TryAgain, error))
        }
    }
}

/// Takes away what let the caller's hosts reach each other, once none of them has any workers.
async fn part(leader: &Drive) -> Result<(), Failure> {
    let (cloud, caller) = (&leader.cloud, &leader.identity.caller);
    if known::is_any_of(cloud, caller).await? {
        return Ok(());
    }
    Ok(workers::part_hosts(&cloud.ec2, caller).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_is_what_is_printed() {
        let (title, description) = ("xdrive workers --json", "The workers of a drive.");
        crate::report::schema::check::<Vec<Row>>("workers", title, description);
    }
}
