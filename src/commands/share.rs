//! `xdrive share`: file systems that many drives, zones and a cluster have at once.

mod manifest;

use anyhow::anyhow;
use serde::Serialize;

use super::{Context, print};
use crate::cloud::Cloud;
use crate::failure::{Exit, Failure};
use crate::ids::ShareName;
use crate::launch::shares::{self, Share};
use crate::opener::{ask_name, can_ask};
use crate::report::{self, Report, one_line};
use crate::signals::Signals;

/// `xdrive share …`.
#[derive(Debug, clap::Subcommand)]
pub enum Args {
    /// Make a share, or find the one that is there.
    ///
    /// A new one is encrypted, and kept in all zones of the region. It says the price first.
    Create(Named),
    /// Show all shares, with their size and cost.
    List {
        /// Print one JSON document instead of text.
        #[arg(long)]
        json: bool,
    },
    /// Delete a share, with all that is in it.
    ///
    /// Shows what goes, and asks for the name. Where it is mounted programs hang.
    Delete {
        /// The share.
        #[command(flatten)]
        share: Named,

        /// Delete it although it is another caller's.
        ///
        /// Callers are IAM users and roles.
        #[arg(long)]
        shared: bool,
    },
    /// Print what gives a cluster of Kubernetes the share.
    ///
    /// A volume and a claim on it, for `kubectl apply -f -`; with --job also what fills it.
    Manifest(manifest::Args),
}

/// A share by its name.
#[derive(Debug, clap::Args)]
pub struct Named {
    /// The share: lower-case letters, digits and `-`.
    #[arg(value_name = "NAME")]
    pub name: ShareName,
}

/// A share, as `share list --json` prints it (`src/cli/schemas/shares.json`).
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Row<'a> {
    /// Name of the share.
    share: &'a str,
    /// Id of its file system.
    id: &'a str,
    /// State, as EFS calls it.
    state: &'static str,
    /// Bytes that are paid for, as of their last metering.
    bytes: u64,
    /// US dollars a month at that size, about.
    dollars_a_month: f64,
    /// How its throughput is paid for.
    throughput: &'a str,
    /// When it was made, RFC 3339.
    since: String,
    /// ARN of the caller who made it; empty if that is on no record.
    owner: &'a str,
}

/// Does what is asked. Returns the exit code.
pub(crate) fn run(args: Args, context: &Context) -> Result<u8, Failure> {
    let paths = context.paths()?;
    super::block_on(async {
        let cloud = context.open(&paths).await?;
        match args {
            Args::Create(Named { name }) => create(&cloud, &name).await,
            Args::List { json } => list(&cloud, json).await,
            Args::Delete { share, shared } => {
                delete(&cloud, &share.name, shared, context.yes).await
            }
            Args::Manifest(args) => manifest::run(&cloud, &args).await,
        }
    })
}

async fn create(cloud: &Cloud, name: &ShareName) -> Result<u8, Failure> {
    let report = Report::stderr();
    let mut signals = Signals::install().map_err(anyhow::Error::from)?;
    report.print(&format!("a share is {}", shares::price_words()));
    let caller = cloud.ec2.owner().await?;
    let step = report.step(format!("make {name}"));
    let (share, is_new) =
        shares::create(cloud, name, &caller, &mut || unless_asked(&mut signals)).await?;
    let id = &share.of.id;
    if is_new {
        step.done(&format!("made {name} ({id})"));
    } else {
        step.done(&format!("{name} was there ({id})"));
    }
    if let Some(difference) = share.difference() {
        report.warn(&format!("{name} {difference}"));
    }
    Ok(0)
}

async fn list(cloud: &Cloud, json: bool) -> Result<u8, Failure> {
    let found = shares::all(cloud).await?;
    let rows: Vec<Row> = found.iter().map(row).collect();
    if json {
        return Ok(report::json(&rows).map(|()| 0)?);
    }
    if rows.is_empty() {
        return print("no shares\n");
    }
    let caller = cloud.ec2.owner().await?;
    let lines = rows.iter().map(|row| row.words(&caller));
    print(&lines.collect::<String>())
}

fn row(share: &Share) -> Row<'_> {
    Row {
        share: share.name.as_str(),
        id: share.of.id.as_str(),
        state: share.of.state.as_str(),
        bytes: share.of.size,
        dollars_a_month: share.monthly_cents() / 100.0,
        throughput: &share.of.throughput,
        since: format!("{:.0}", share.of.created),
        owner: share.owner(),
    }
}

impl Row<'_> {
    /// A line, which names an owner who is not this `caller`.
    #[expect(clippy::cast_precision_loss, reason = "one decimal place is shown")]
    fn words(&self, caller: &str) -> String {
        let gib = self.bytes as f64 / f64::from(1 << 30);
        let owner = Some(self.owner).filter(|owner| !owner.is_empty() && *owner != caller);
        let owner = owner.map_or_else(String::new, |owner| format!("  {}", one_line(owner)));
        format!(
            "{}  {}  {}  {gib:.1} GiB  ${:.2} a month{owner}\n",
            self.share, self.id, self.state, self.dollars_a_month
        )
    }
}

async fn delete(cloud: &Cloud, name: &ShareName, shared: bool, yes: bool) -> Result<u8, Failure> {
    let report = Report::stderr();
    let mut signals = Signals::install().map_err(anyhow::Error::from)?;
    let share = shares::demand(cloud, name).await?;
    if !shared {
        let hint = "--shared deletes it all the same";
        shares::check_owner(&share, &cloud.ec2.owner().await?, hint)?;
    }
    let row = row(&share);
    report.print(&format!("{} goes for good", row.words("").trim_end()));
    if share.of.targets > 0 {
        report.print("it has mount targets: where it is mounted programs hang from then on");
    }
    if !yes {
        if !can_ask() {
            let error = anyhow!("nothing is deleted without a yes, and nobody can be asked here");
            return Err(Failure::new(Exit::Usage, error).hint("--yes says it beforehand"));
        }
        let question = format!("type {name} to delete it for good:");
        let typed = ask_name(&mut signals, &report, &question, name.as_str()).await;
        let typed =
            typed.map_err(|end| Failure::new(Exit::from(end), anyhow!("nothing was deleted")))?;
        if !typed {
            return Err(Failure::new(Exit::Failed, anyhow!("nothing was deleted")));
        }
    }
    let step = report.step(format!("delete {name}"));
    shares::delete(cloud, &share, &mut || unless_asked(&mut signals)).await?;
    step.done(&format!("deleted {name}"));
    Ok(0)
}

/// Fails if a signal has asked for the end.
fn unless_asked(signals: &mut Signals) -> Result<(), Failure> {
    match signals.asked() {
        None => Ok(()),
        Some(end) => Err(Failure::new(Exit::from(end), anyhow!("interrupted"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_is_what_is_printed() {
        let (title, description) = ("xdrive share list --json", "The shares in the region.");
        crate::report::schema::check::<Vec<Row>>("shares", title, description);
    }
}
