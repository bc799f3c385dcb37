//! `workers --dry-run`: what so many would cost, and what the account lacks for them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use super::super::print;
use crate::cloud::Cloud;
use crate::drive::pools::{self, Offer};
use crate::drive::quotas::{Lacking, lacking};
use crate::ec2::{InstanceType, Market, Quota};
use crate::failure::Failure;
use crate::launch::failure::refused;
use crate::launch::offers::Offers;
use crate::launch::terms::terms;
use crate::opener::Drive;
use crate::report;
use crate::session::Request;

/// Preview of workers that would be begun, as `workers --dry-run --json` prints it
/// (`src/cli/schemas/workers-dry-run.json`).
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Preview {
    /// Name of the drive that leads them.
    drive: String,
    /// Number of instances that would be launched.
    launches: usize,
    /// US dollars an hour for all of them by the first offer, about, with what each costs besides; null where
    /// its price is not known.
    dollars_an_hour: Option<f64>,
    /// Quotas that do not allow as many.
    lacking: Vec<Lacks>,
    /// How capacity for them is reserved, in words.
    reservation: String,
    /// Offers for each.
    #[serde(flatten)]
    offers: Offers,
}

/// Quota that does not allow what would be launched.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Lacks {
    /// Name of the quota.
    quota: &'static str,
    /// Code of the quota.
    code: &'static str,
    /// Number of vCPUs that it allows at once.
    allows: u32,
    /// Number of vCPUs that are needed, with those of drives that are up.
    needed: u32,
    /// Command that asks AWS for them.
    command: String,
}

impl From<Lacking> for Lacks {
    fn from(lacking: Lacking) -> Self {
        Self {
            quota: lacking.quota.name,
            code: lacking.quota.code,
            allows: lacking.limit,
            needed: lacking.needed,
            command: lacking.command,
        }
    }
}

/// Prints what launching so many workers of `drive` would do; changes nothing. Returns the exit code.
pub(super) async fn foresee(
    drive: &Drive,
    request: &Request,
    launches: usize,
    json: bool,
) -> Result<u8, Failure> {
    let (cloud, name) = (&drive.cloud, &drive.name);
    let settings = &drive.facts.settings;
    let terms = terms(&request.options, name, settings, false, cloud)?;
    let chosen = pools::look(&cloud.ec2, &terms).await;
    let chosen = chosen.map_err(|error| {
        refused(
            error,
            &format!("{} workers {name} {launches}", cloud.command),
        )
    })?;
    let disks = request.foresee_disks(&drive.facts, cloud).await;
    let offers = Offers::new(&chosen, None, disks);
    let (tried, _) = pools::to_try(&chosen.offers, None);
    let preview = Preview {
        drive: name.to_string(),
        launches,
        dollars_an_hour: offers.dollars_an_hour_for(launches),
        lacking: what_lacks(&tried, launches, cloud).await?,
        reservation: reservation(&tried, launches),
        offers,
    };
    if json {
        return Ok(report::json(&preview).map(|()| 0)?);
    }
    print(&preview.text())
}

/// The quotas that do not allow so many launches of one of these offers.
async fn what_lacks(
    tried: &[&Offer],
    launches: usize,
    cloud: &Cloud,
) -> Result<Vec<Lacks>, Failure> {
    let count = u32::try_from(launches).unwrap_or(u32::MAX);
    let mut first: BTreeMap<Quota, &Offer> = BTreeMap::new();
    // What is reserved counts already (EC2 user guide, *Capacity Reservation concepts*).
    let counted = tried.iter().filter(|it| it.pool.reservation.is_none());
    for offer in counted {
        if let Some(quota) = Quota::for_type(&offer.pool.instance_type, offer.pool.market) {
            first.entry(quota).or_insert(offer);
        }
    }
    let running = running(cloud).await?;
    let mut lacks = Vec::new();
    for (quota, offer) in first {
        let used = running.get(&quota).copied().unwrap_or(0);
        lacks.extend(
            lacking(offer, count, used, &cloud.ec2)
                .await
                .map(Lacks::from),
        );
    }
    Ok(lacks)
}

/// The vCPUs of the drives that are up, by the quota that they count against.
async fn running(cloud: &Cloud) -> Result<BTreeMap<Quota, u32>, Failure> {
    let (instances, _, _) = cloud.ec2.everything().await?;
    let up = instances.iter().filter(|it| !it.state.is_over());
    let up: Vec<(&str, Market)> = up
        .map(|it| (it.instance_type.as_str(), it.market))
        .collect();
    let mut names: Vec<String> = up.iter().map(|(name, _)| (*name).to_owned()).collect();
    names.sort_unstable();
    names.dedup();
    let kinds: Vec<InstanceType> = if names.is_empty() {
        Vec::new()
    } else {
        cloud.ec2.instance_types(&names).await?
    };
    let mut running = BTreeMap::new();
    for (name, market) in up {
        let kind = kinds.iter().find(|kind| kind.name == name);
        if let (Some(quota), Some(kind)) = (Quota::for_type(name, market), kind) {
            *running.entry(quota).or_default() += kind.cpus;
        }
    }
    Ok(running)
}

/// Whether reserved capacity would help, and how it is had (EC2 user guide, *Reserve compute capacity with EC2
/// On-Demand Capacity Reservations*).
fn reservation(tried: &[&Offer], launches: usize) -> String {
    let on_demand = tried
        .iter()
        .find(|offer| offer.pool.market == Market::OnDemand);
    match on_demand {
        None => "none is taken by spot; --reservation ID launches in one, on demand".to_owned(),
        Some(Offer { pool, .. }) if pool.reservation.is_some() => {
            "it is used, for as many as it has room for".to_owned()
        }
        Some(offer) => format!(
            "helps where all have to be there at one time: aws ec2 create-capacity-reservation \
             --instance-type {} --instance-platform Linux/UNIX --availability-zone ZONE \
             --instance-count {launches}, then --reservation ID; it is billed on demand from then \
             on, used or not",
            offer.pool.instance_type
        ),
    }
}

impl Preview {
    fn text(&self) -> String {
        let Self {
            drive, launches, ..
        } = self;
        let mut text = match self.dollars_an_hour {
            Some(hour) => format!("{launches} workers of {drive}: about ${hour:.2} an hour\n"),
            None => {
                format!("{launches} workers of {drive}, at the prices of {launches} of these\n")
            }
        };
        for lacks in &self.lacking {
            let _ = writeln!(
                text,
                "\"{}\" ({}) allows {} vCPUs at once, and {} are needed:\n  {}",
                lacks.quota, lacks.code, lacks.allows, lacks.needed, lacks.command
            );
        }
        let _ = writeln!(text, "a capacity reservation: {}", self.reservation);
        text.push_str(&self.offers.text());
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_is_what_is_printed() {
        let (title, description) = (
            "xdrive workers --dry-run --json",
            "What beginning workers would do.",
        );
        crate::report::schema::check::<Preview>("workers-dry-run", title, description);
    }
}
