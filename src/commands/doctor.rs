//! `xdrive doctor`: checks what a session needs, with a line for each check.
//!
//! Nothing is made or changed: rights are tried with `DryRun`; a call without one is made if it
//! only reads. A check is `ok`, `no` with what helps, or `?` if it cannot be known from here. Later
//! checks need earlier ones: without credentials no right can be tried. At the end stands what to
//! type next.

mod findings;

use std::path::Path;

use super::Context;
use crate::access::ingress::subnets;
use crate::cloud::{Cloud, Place, Which, folder};
use crate::config::{Config, Paths};
use crate::drive::observed::DEVICE;
use crate::drive::pools::{self, ArchBy, Requirements, Resources, Scores, Terms, image_of};
use crate::drive::{HostError, tags};
use crate::ec2::calls::{
    CALLS, Call, OF_ADDRESSES, OF_RESERVATIONS, PRICES, Right, SCORES, SHARES,
};
use crate::ec2::{
    DryRun, DryRunTargets, Ec2, Kind, Market, Partition, Quota, SPOT_ROLE, SnapshotState, Tags,
};
use crate::failure::{Exit, Failure};
use crate::launch::shares::{self, Share};
use crate::report;
use crate::ssh::UserKey;

use findings::{Check, Findings};

/// How many seconds the clock may be off: AWS refuses signatures that are five minutes old.
const SKEW: u64 = 60;

/// The type of the tried launch, if none can be chosen.
const TRIED: &str = "m5.large";

/// The types whose quotas are checked, one of each family.
const COUNTED: [&str; 4] = ["m5.large", "g5.xlarge", "p4d.24xlarge", "p5.48xlarge"];

/// `xdrive doctor`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// One JSON document instead of text.
    #[arg(long)]
    pub json: bool,
}

/// Runs and prints all checks. Returns the exit code: 0 if none failed.
pub(crate) fn run(args: &Args, context: &Context) -> Result<u8, Failure> {
    let paths = context.paths()?;
    let which = match context.which(&paths) {
        // The first check reports that.
        Err(failure) if failure.exit == Exit::Config => Which::Account(context.account.clone()),
        which => which?,
    };
    super::block_on(examine(&which, &paths, args.json))
}

async fn examine(which: &Which, paths: &Paths, json: bool) -> Result<u8, Failure> {
    let mut findings = Findings::default();
    look(which, paths, &mut findings).await;
    findings.add_next(&which.command(paths));
    if json {
        report::json(&findings)?;
    } else {
        report::data(&findings.text()).map_err(anyhow::Error::from)?;
    }
    Ok(findings.exit())
}

async fn look(which: &Which, paths: &Paths, findings: &mut Findings) {
    match Config::read(paths) {
        Ok(_) => findings.add("config", Exit::Config, config(&paths.config)),
        Err(failure) => findings.add_failure("config", failure),
    }
    findings.add("ssh key", Exit::Config, key(&paths.key));
    if let Which::Local = which {
        match folder::check(paths) {
            Ok(()) => {
                let dir = paths.local_dir.display().to_string();
                findings.add("this computer", Exit::Unavailable, Check::Ok(dir));
            }
            Err(failure) => return findings.add_failure("this computer", failure),
        }
    }
    let cloud = match Cloud::open(which, paths).await {
        Ok(cloud) => cloud,
        Err(failure) => return findings.add_failure("account", failure),
    };
    if let Err(failure) = cloud.check_machine() {
        findings.add_failure("machine", failure);
    }
    let ec2 = &cloud.ec2;
    if let Some(source) = ec2.source() {
        findings.add("credentials", Exit::Denied, Check::Ok(source.to_string()));
    }
    let caller = ec2.caller().await;
    findings.add("clock", Exit::Failed, clock(caller.clock_skew));
    let owner = match caller.owner {
        Ok(owner) => owner,
        Err(error) => return findings.add_failure("account", error.into()),
    };
    findings.add("account", Exit::Denied, Check::Ok(owner.clone()));
    let region = if ec2.is_aws() {
        ec2.region().to_owned()
    } else {
        format!("{}, at an endpoint of its own", ec2.region())
    };
    findings.add("region", Exit::Config, Check::Ok(region));
    let config = Config::read(paths).unwrap_or_default();
    findings.add("network", Exit::Unavailable, network(ec2, &config).await);
    let is_folder = matches!(cloud.place, Place::Folder | Place::Paper);
    // A folder has neither roles nor quotas, but for those of its settings.
    if let Some(found) = spot_role(ec2, is_folder).await {
        findings.add("spot role", Exit::Denied, found);
    }
    quotas(ec2, is_folder, findings).await;
    findings.add("prices", Exit::Denied, prices(ec2).await);
    rights(&cloud, &owner, findings).await;
    findings.add("shares", Exit::Denied, shares(&cloud).await);
}

/// Checks the network that a launch would use, and whether its instances can be reached.
async fn network(ec2: &Ec2, config: &Config) -> Check {
    let named = match &config.subnet {
        Some(id) => ec2.subnet(id).await.map(Some),
        None => Ok(None),
    };
    let named = match named {
        Ok(named) => named,
        Err(error) => return Check::No(error.to_string(), None),
    };
    let reach = config.reach();
    let looked = subnets::look(ec2, named.as_ref(), &reach).await;
    match looked.and_then(|(vpc, subnets)| subnets.check().map(|()| (vpc, subnets))) {
        Ok((vpc, subnets)) => {
            let warning = subnets.warning().map(str::to_owned);
            let words = [Some(vpc.to_string()), subnets.asked(), warning];
            let words: Vec<String> = words.into_iter().flatten().collect();
            Check::Ok(words.join("; "))
        }
        Err(HostError::NoRoute { why, hint }) => Check::No(why, Some(hint)),
        Err(error) => Check::No(error.to_string(), None),
    }
}

/// Checks EC2's spot role by what it has made possible: reading the role takes rights that nothing
/// else here needs. A folder needs none.
async fn spot_role(ec2: &Ec2, is_folder: bool) -> Option<Check> {
    Some(match ec2.has_had_spot().await {
        Ok(true) => Check::Ok(format!("{SPOT_ROLE}, by the spot requests there were")),
        Ok(false) if is_folder => return None,
        Ok(false) => Check::Unknown(format!(
            "no spot request yet: the first makes {SPOT_ROLE} if the caller may; else an admin \
             runs `aws iam create-service-linked-role --aws-service-name spot.amazonaws.com`"
        )),
        Err(error) => Check::Unknown(error.to_string()),
    })
}

/// Checks how many vCPUs the common quotas allow, if they can be read. A folder's other quotas are
/// left out: it does not know them, and limits nothing by them.
async fn quotas(ec2: &Ec2, is_folder: bool, findings: &mut Findings) {
    let mut quotas = Vec::new();
    for market in [Market::Spot, Market::OnDemand] {
        quotas.extend(
            COUNTED
                .iter()
                .filter_map(|name| Quota::for_type(name, market)),
        );
    }
    quotas.dedup();
    let ask = |quota| {
        let ec2 = ec2.clone();
        tokio::spawn(async move { (quota, ec2.quota(quota).await) })
    };
    let asked: Vec<_> = quotas.into_iter().map(ask).collect();
    let mut unknown: Vec<(String, Vec<&str>)> = Vec::new();
    for asked in asked {
        let asked = asked.await;
        let (Quota { code, name }, answer) =
            asked.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
        match answer {
            Ok(vcpus) => {
                let found = Check::Ok(format!("{vcpus:.0} vCPUs: {name} ({code})"));
                findings.add("quota", Exit::TryAgain, found);
            }
            Err(error) if is_folder && error.code == "NoSuchResourceException" => {}
            Err(error) if error.kind == Kind::Denied || !ec2.is_aws() => {
                // One reason holds for all of them.
                let why = error.to_string().replace(code, "L-…");
                match unknown.iter_mut().find(|(known, _)| *known == why) {
                    Some((_, codes)) => codes.push(code),
                    None => unknown.push((why, vec![code])),
                }
            }
            Err(error) => {
                let words = format!("{name} ({code}): {error}");
                findings.add("quota", Exit::TryAgain, Check::Unknown(words));
            }
        }
    }
    for (why, codes) in unknown {
        let words = format!("{}: {why}", codes.join(", "));
        findings.add("quotas", Exit::TryAgain, Check::Unknown(words));
    }
}

/// Whether the caller may list shares, and what those of the region cost. A session of a drive without one
/// takes no such right.
async fn shares(cloud: &Cloud) -> Check {
    match shares::all(cloud).await {
        Ok(all) if all.is_empty() => Check::Ok("none".to_owned()),
        Ok(all) => {
            let names: Vec<&str> = all.iter().map(|share| share.name.as_str()).collect();
            let cents: f64 = all.iter().map(Share::monthly_cents).sum();
            let dollars = cents / 100.0;
            let names = names.join(", ");
            Check::Ok(format!(
                "{names}: about ${dollars:.2} a month at what they hold"
            ))
        }
        Err(Failure { error, hint, .. }) => {
            let hint = hint.map_or_else(String::new, |hint| format!("; {hint}"));
            Check::Unknown(format!("{error:#}{hint}"))
        }
    }
}

fn config(path: &Path) -> Check {
    let path = path.display();
    Check::Ok(match path.to_string() {
        path if Path::new(&path).exists() => path,
        path => format!("{path} (not there: the defaults)"),
    })
}

/// Checks the user's key. The first connect makes one that is missing.
fn key(path: &Path) -> Check {
    if !path.exists() {
        return Check::Ok(format!("{} will be made", path.display()));
    }
    match UserKey::open_or_create(path) {
        Ok(key) => Check::Ok(format!("{} {}", path.display(), key.fingerprint())),
        Err(error) => Check::No(error.to_string(), error.hint()),
    }
}

fn clock(skew: Option<jiff::SignedDuration>) -> Check {
    match skew {
        None => Check::Unknown("no answer came that has the time".to_owned()),
        Some(skew) if skew.unsigned_abs().as_secs() <= SKEW => {
            Check::Ok(format!("{} s off", skew.as_secs()))
        }
        Some(skew) => {
            let way = if skew.is_negative() {
                "behind"
            } else {
                "ahead of"
            };
            let seconds = skew.unsigned_abs().as_secs();
            Check::No(
                format!("this computer's is {seconds} s {way} AWS's"),
                Some("set it: AWS refuses requests that are minutes off".to_owned()),
            )
        }
    }
}

/// Whether every session needs a right for the call. Reading quotas, prices and scores is optional; quotas and
/// prices have checks of their own.
fn is_needed(call: &Call) -> bool {
    call.right != Right::Free
        && !matches!(call.service, "servicequotas" | PRICES | SHARES)
        && ![SCORES, OF_RESERVATIONS].contains(&call.name)
        && !OF_ADDRESSES.contains(&call.name)
}

/// Checks whether prices on demand are known.
async fn prices(ec2: &Ec2) -> Check {
    match ec2.on_demand_price(TRIED).await {
        Ok(Some(price)) => Check::Ok(format!("{TRIED} on demand: {price} an hour")),
        Ok(None) => Check::Unknown(format!("AWS lists none for {TRIED} on demand")),
        Err(error) => Check::Unknown(format!("on demand they are not known: {error}")),
    }
}

/// The calls that a session needs a right for, each tried by a dry run.
#[derive(Default)]
pub(crate) struct TriedRights {
    /// The names of the calls that the caller may make.
    allowed: Vec<&'static str>,
    /// The calls that the caller may not make, with EC2's messages.
    pub(crate) denied: Vec<String>,
    /// The names of the calls that could not be tried, by the reason.
    untried: Vec<(String, Vec<&'static str>)>,
}

impl TriedRights {
    /// The calls that could not be tried, and why.
    pub(crate) fn untried(&self) -> impl Iterator<Item = String> {
        let untried = self.untried.iter();
        untried.map(|(why, names)| format!("{}: {why}", names.join(", ")))
    }
}

/// Tries every call that a session needs a right for.
pub(crate) async fn try_rights(cloud: &Cloud, owner: &str) -> TriedRights {
    let ec2 = &cloud.ec2;
    let targets = targets(cloud, owner).await;
    let mut tried = TriedRights::default();
    for Call { name, .. } in CALLS.iter().filter(|call| is_needed(call)) {
        match ec2.dry_run(name, &targets).await {
            DryRun::Allowed => tried.allowed.push(name),
            DryRun::Denied(why) => tried.denied.push(format!("{name}: {why}")),
            DryRun::Unknown(why) => match tried.untried.iter_mut().find(|(it, _)| *it == why) {
                Some((_, names)) => names.push(name),
                None => tried.untried.push((why, vec![name])),
            },
        }
    }
    tried
}

/// Checks every right that xdrive needs, by trying it.
async fn rights(cloud: &Cloud, owner: &str, findings: &mut Findings) {
    let tried = try_rights(cloud, owner).await;
    let partition = match Partition::of_arn(owner) {
        None | Some(Partition::Aws) => String::new(),
        Some(other) => format!(" --partition {other}"),
    };
    let command = &cloud.command;
    let hint = format!("{command} policy{partition} prints the policy that allows it");
    for denied in &tried.denied {
        let found = Check::No(denied.clone(), Some(hint.clone()));
        findings.add("right", Exit::Denied, found);
    }
    if !tried.allowed.is_empty() {
        findings.add("rights", Exit::Denied, Check::Ok(tried.allowed.join(", ")));
    }
    for words in tried.untried() {
        findings.add("rights", Exit::Denied, Check::Unknown(words));
    }
}

/// Existing instances, volumes and snapshots of the caller's to try calls on: on another's they may
/// rightly be denied (`xdrive policy --own`).
async fn targets(cloud: &Cloud, owner: &str) -> DryRunTargets {
    let ec2 = &cloud.ec2;
    // A list that is denied gives no targets; the check of that list reports it.
    let (mut instances, mut volumes, mut snapshots) = ec2.everything().await.unwrap_or_default();
    let is_own = |tags: &Tags| tags::owner(tags) == owner;
    instances.retain(|it| is_own(&it.tags));
    volumes.retain(|it| is_own(&it.tags));
    snapshots.retain(|it| is_own(&it.tags));
    let groups = ec2.groups_of(owner).await.unwrap_or_default();
    let terms = Terms {
        requirements: Requirements::AtLeast(Resources::DEFAULT),
        markets: vec![Market::Spot],
        max_price: None,
        needs_price: false,
        image: None,
        arch: Some(cloud.arch),
        arch_by: ArchBy::Default,
        like: None,
        scores: Scores::Unasked,
        reserved: None,
        is_free: false,
    };
    // The type that a connect would launch: a policy may depend on it.
    let chosen = pools::look(ec2, &terms).await.ok();
    let first = chosen.and_then(|chosen| chosen.offers.into_iter().next());
    let pool = first.map(|offer| offer.pool);
    let mut snapshots = snapshots.into_iter();
    // Only a completed snapshot can be read.
    let completed = snapshots.find(|snapshot| snapshot.state == SnapshotState::Completed);
    DryRunTargets {
        image: image_of(cloud.arch, false).to_owned(),
        instance_type: pool
            .as_ref()
            .map_or_else(|| TRIED.to_owned(), |pool| pool.instance_type.clone()),
        zone: pool.and_then(|pool| pool.zone),
        tags: cloud
            .tags
            .clone()
            .into_iter()
            .chain([
                (tags::DRIVE.to_owned(), "doctor".to_owned()),
                (tags::OWNER.to_owned(), owner.to_owned()),
            ])
            .collect(),
        instance: instances.into_iter().next(),
        volume: volumes.into_iter().next(),
        device: DEVICE.to_owned(),
        snapshot: completed.map(|snapshot| snapshot.id),
        group: groups.into_iter().next().map(|group| group.id),
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::{Check, clock};

    fn checked(seconds: i64) -> Result<String, String> {
        match clock(Some(SignedDuration::from_secs(seconds))) {
            Check::Ok(words) => Ok(words),
            Check::No(words, _) | Check::Unknown(words) => Err(words),
        }
    }

    #[test]
    fn a_clock_that_aws_would_soon_refuse_is_wrong_either_way() {
        assert_eq!(checked(-59), Ok("-59 s off".to_owned()));
        assert_eq!(
            checked(-90),
            Err("this computer's is 90 s behind AWS's".to_owned())
        );
        assert_eq!(
            checked(300),
            Err("this computer's is 300 s ahead of AWS's".to_owned())
        );
    }
}
