//! `xdrive doctor`: whether all is here that a session needs; a line for each thing, and what to do.
//!
//! Nothing is made and nothing is changed: rights are tried by `DryRun`, and where a call has none
//! by making it, if it only reads. A line says `ok`, `no` with
//! what helps, or `?` where it cannot be told from here. Later lines need what earlier ones found:
//! without credentials no right can be looked at.

use std::fmt::Write as _;
use std::path::Path;

use super::Context;
use crate::access::ingress::subnets;
use crate::cloud::{Cloud, Which, folder};
use crate::config::{Config, Paths};
use crate::drive::observed::DEVICE;
use crate::drive::pools::{self, ArchBy, Requirements, Resources, Terms, image_of};
use crate::drive::{HostError, tags};
use crate::ec2::calls::{CALLS, Call, Right};
use crate::ec2::{
    DryRun, DryRunTargets, Ec2, Kind, Market, Partition, Quota, SPOT_ROLE, SnapshotState, Tags,
};
use crate::failure::{Exit, Failure};
use crate::report;
use crate::ssh::UserKey;

/// By how much a clock may be off: AWS refuses signatures that are five minutes old.
const SKEW: u64 = 60;

/// The type that is tried to be launched where none can be chosen.
const TRIED: &str = "m5.large";

/// Types of the families whose quotas matter to most, one of each.
const COUNTED: [&str; 4] = ["m5.large", "g5.xlarge", "p4d.24xlarge", "p5.48xlarge"];

/// What was found of one thing.
enum Found {
    Ok(String),
    /// What is wrong, and what helps.
    No(String, Option<String>),
    /// Why it cannot be told.
    Unknown(String),
}

/// All that was found.
#[derive(Default)]
struct Findings {
    text: String,
    /// The exit code of the worst.
    worst: Option<Exit>,
}

impl Findings {
    fn add(&mut self, thing: &str, exit: Exit, found: Found) {
        let (mark, words, hint) = match found {
            Found::Ok(words) => ("ok", words, None),
            Found::No(words, hint) => {
                self.worst.get_or_insert(exit);
                ("no", words, hint)
            }
            Found::Unknown(words) => (" ?", words, None),
        };
        let _ = writeln!(self.text, "{mark}  {thing:13}  {words}");
        if let Some(hint) = hint {
            let _ = writeln!(
                self.text,
                "    {:13}  hint: {}",
                "",
                hint.replace('\n', " ")
            );
        }
    }

    fn add_failure(&mut self, thing: &str, failure: Failure) {
        let exit = failure.exit;
        let causes: Vec<String> = failure.error.chain().map(ToString::to_string).collect();
        self.add(thing, exit, Found::No(causes.join(": "), failure.hint));
    }
}

/// Looks at everything and prints it; the answer is the exit code: 0 if nothing is missing.
pub(crate) fn run(context: &Context) -> Result<u8, Failure> {
    let paths = context.paths()?;
    super::block_on(examine(&context.which, &paths))
}

async fn examine(which: &Which, paths: &Paths) -> Result<u8, Failure> {
    let mut findings = Findings::default();
    look(which, paths, &mut findings).await;
    report::data(&findings.text).map_err(anyhow::Error::from)?;
    Ok(findings.worst.map_or(0, Exit::code))
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
                findings.add("this computer", Exit::Unavailable, Found::Ok(dir));
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
        findings.add("credentials", Exit::Denied, Found::Ok(source.to_string()));
    }
    let caller = ec2.caller().await;
    findings.add("clock", Exit::Failed, clock(caller.clock_skew));
    let owner = match caller.owner {
        Ok(owner) => owner,
        Err(error) => return findings.add_failure("account", error.into()),
    };
    findings.add("account", Exit::Denied, Found::Ok(owner.clone()));
    let region = if ec2.is_aws() {
        ec2.region().to_owned()
    } else {
        format!("{}, at an endpoint of its own", ec2.region())
    };
    findings.add("region", Exit::Config, Found::Ok(region));
    let config = Config::read(paths).unwrap_or_default();
    findings.add("network", Exit::Unavailable, network(ec2, config).await);
    findings.add("spot role", Exit::Denied, spot_role(ec2).await);
    quotas(ec2, findings).await;
    rights(&cloud, &owner, findings).await;
}

/// Where a launch would be, and whether it would be reached.
async fn network(ec2: &Ec2, mut config: Config) -> Found {
    let named = match &config.subnet {
        Some(id) => ec2.subnet(id).await.map(Some),
        None => Ok(None),
    };
    let named = match named {
        Ok(named) => named,
        Err(error) => return Found::No(error.to_string(), None),
    };
    let reach = config.reach();
    let looked = subnets::look(ec2, named.as_ref(), &reach).await;
    match looked.and_then(|(vpc, subnets)| subnets.check().map(|()| (vpc, subnets))) {
        Ok((vpc, subnets)) => {
            let words = [Some(vpc.to_string()), subnets.asked()];
            let words: Vec<String> = words.into_iter().flatten().collect();
            Found::Ok(words.join("; "))
        }
        Err(HostError::NoRoute { why, hint }) => Found::No(why, Some(hint)),
        Err(error) => Found::No(error.to_string(), None),
    }
}

/// A role cannot be looked at without rights that nothing else here needs; what it allowed can.
async fn spot_role(ec2: &Ec2) -> Found {
    match ec2.has_had_spot().await {
        Ok(true) => Found::Ok(format!("{SPOT_ROLE}, by the spot requests there were")),
        Ok(false) => Found::Unknown(format!(
            "no spot request yet: the first makes {SPOT_ROLE} if the caller may; else whoever may \
             runs `aws iam create-service-linked-role --aws-service-name spot.amazonaws.com`"
        )),
        Err(error) => Found::Unknown(error.to_string()),
    }
}

/// How many vCPUs the quotas allow that most launches count against, where they can be read.
async fn quotas(ec2: &Ec2, findings: &mut Findings) {
    let mut quotas = Vec::new();
    for market in [Market::Spot, Market::OnDemand] {
        quotas.extend(COUNTED.iter().filter_map(|name| Quota::of(name, market)));
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
                let found = Found::Ok(format!("{vcpus:.0} vCPUs: {name} ({code})"));
                findings.add("quota", Exit::TryAgain, found);
            }
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
                findings.add("quota", Exit::TryAgain, Found::Unknown(words));
            }
        }
    }
    for (why, codes) in unknown {
        let words = format!("{}: {why}", codes.join(", "));
        findings.add("quotas", Exit::TryAgain, Found::Unknown(words));
    }
}

fn config(path: &Path) -> Found {
    let path = path.display();
    Found::Ok(match path.to_string() {
        path if Path::new(&path).exists() => path,
        path => format!("{path} (not there: the defaults)"),
    })
}

/// A key that is not there is made by the first connect.
fn key(path: &Path) -> Found {
    if !path.exists() {
        return Found::Ok(format!("{} will be made", path.display()));
    }
    match UserKey::open_or_create(path) {
        Ok(key) => Found::Ok(format!("{} {}", path.display(), key.fingerprint())),
        Err(error) => Found::No(error.to_string(), None),
    }
}

fn clock(skew: Option<jiff::SignedDuration>) -> Found {
    match skew {
        None => Found::Unknown("no answer came that has the time".to_owned()),
        Some(skew) if skew.unsigned_abs().as_secs() <= SKEW => {
            Found::Ok(format!("{} s off", skew.as_secs()))
        }
        Some(skew) => {
            let way = if skew.is_negative() {
                "behind"
            } else {
                "ahead of"
            };
            let seconds = skew.unsigned_abs().as_secs();
            Found::No(
                format!("this computer's is {seconds} s {way} AWS's"),
                Some("set it: AWS refuses requests that are minutes off".to_owned()),
            )
        }
    }
}

/// Whether a session needs a right for it: quotas need not be read, and whether they can stands in a
/// line of their own.
fn is_needed(call: &Call) -> bool {
    call.right != Right::Free && call.service != "servicequotas"
}

/// Which calls the caller may not make, with EC2's words; by trying them.
pub(crate) async fn denied(cloud: &Cloud, owner: &str) -> Vec<String> {
    let ec2 = &cloud.ec2;
    let targets = targets(cloud, owner).await;
    let mut denied = Vec::new();
    for Call { name, .. } in CALLS.iter().filter(|call| is_needed(call)) {
        if let DryRun::Denied(why) = ec2.dry_run(name, &targets).await {
            denied.push(format!("{name}: {why}"));
        }
    }
    denied
}

/// Every right that xdrive needs, by trying it.
async fn rights(cloud: &Cloud, owner: &str, findings: &mut Findings) {
    let (ec2, command) = (&cloud.ec2, &cloud.command);
    let targets = targets(cloud, owner).await;
    let mut allowed = Vec::new();
    let mut unknown: Vec<(String, Vec<&str>)> = Vec::new();
    for Call { name, .. } in CALLS.iter().filter(|call| is_needed(call)) {
        match ec2.dry_run(name, &targets).await {
            DryRun::Allowed => allowed.push(*name),
            DryRun::Unknown(why) => match unknown.iter_mut().find(|(known, _)| *known == why) {
                Some((_, names)) => names.push(name),
                None => unknown.push((why, vec![name])),
            },
            DryRun::Denied(why) => {
                let partition = match Partition::of_arn(owner) {
                    None | Some(Partition::Aws) => String::new(),
                    Some(other) => format!(" --partition {other}"),
                };
                let hint = format!("{command} policy{partition} prints the policy that allows it");
                let found = Found::No(format!("{name}: {why}"), Some(hint));
                findings.add("right", Exit::Denied, found);
            }
        }
    }
    if !allowed.is_empty() {
        findings.add("rights", Exit::Denied, Found::Ok(allowed.join(", ")));
    }
    for (why, names) in unknown {
        let words = format!("{}: {why}", names.join(", "));
        findings.add("rights", Exit::Denied, Found::Unknown(words));
    }
}

/// Something of xdrive's to try calls on, where there is something.
async fn targets(cloud: &Cloud, owner: &str) -> DryRunTargets {
    let ec2 = &cloud.ec2;
    // What may not be listed is not tried on; that it may not be is found out by trying the lists.
    let (instances, volumes, snapshots) = ec2.everything().await.unwrap_or_default();
    let groups = ec2.groups_of(owner).await.unwrap_or_default();
    let terms = Terms {
        requirements: Requirements::AtLeast(Resources::DEFAULT),
        markets: vec![Market::Spot],
        max_price: None,
        image: None,
        arch: Some(cloud.arch),
        arch_by: ArchBy::Default,
        is_free: false,
    };
    // A policy may depend on the type: what a connect would launch.
    let chosen = pools::look(ec2, &terms).await.ok();
    let first = chosen.and_then(|chosen| chosen.offers.into_iter().next());
    let pool = first.map(|offer| offer.pool);
    let mut snapshots = snapshots.into_iter();
    // What is in one can be read only then.
    let completed = snapshots.find(|snapshot| snapshot.state == SnapshotState::Completed);
    DryRunTargets {
        image: image_of(cloud.arch, false).to_owned(),
        instance_type: pool
            .as_ref()
            .map_or_else(|| TRIED.to_owned(), |pool| pool.instance_type.clone()),
        zone: pool.and_then(|pool| pool.zone),
        tags: Tags::from([
            (tags::DRIVE.to_owned(), "doctor".to_owned()),
            (tags::OWNER.to_owned(), owner.to_owned()),
        ]),
        instance: instances.into_iter().next(),
        volume: volumes.into_iter().next().map(|volume| volume.id),
        device: DEVICE.to_owned(),
        snapshot: completed.map(|snapshot| snapshot.id),
        group: groups.into_iter().next().map(|group| group.id),
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::{Found, clock};

    fn told(seconds: i64) -> Result<String, String> {
        match clock(Some(SignedDuration::from_secs(seconds))) {
            Found::Ok(words) => Ok(words),
            Found::No(words, _) | Found::Unknown(words) => Err(words),
        }
    }

    #[test]
    fn a_clock_that_aws_would_soon_refuse_is_wrong_either_way() {
        assert_eq!(told(-59), Ok("-59 s off".to_owned()));
        assert_eq!(
            told(-90),
            Err("this computer's is 90 s behind AWS's".to_owned())
        );
        assert_eq!(
            told(300),
            Err("this computer's is 300 s ahead of AWS's".to_owned())
        );
    }
}
