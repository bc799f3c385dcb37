//! This laptop's door: the rule of a security group that lets it, and nobody else, reach port 22.
//!
//! There is one group for each owner and VPC. A rule in it says in its description which laptop it
//! is for (its key's fingerprint) and since when, so that a laptop that moved replaces its own and
//! leaves the others'. The new rule is there before the old one goes.
//!
//! Which address is let in: what the user says; else, towards a public address of AWS, what an
//! address service sees; else the one that this computer's own routes choose, which is right
//! wherever nobody translates addresses on the way (IPv6, a VPN, the EC2 in a folder). Where an
//! endpoint was put in AWS's place no service is asked. Where connections go through a command
//! nobody is let in but those whom the user names.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::clock::{BootTime, Clock};
use crate::config::Reach;
use crate::drive::HostError;
use crate::drive::tags;
use crate::ec2::{self, Cidr, Ec2, Group, GroupId, Instance, InstanceId, Kind, Rule, VpcId};
use crate::host::UserKey;
use crate::report::Report;

/// What answers with its caller's IPv4 address (AWS's own).
const SERVICE: &str = "https://checkip.amazonaws.com";

/// What sends requests through a proxy.
const PROXIES: [&str; 4] = ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];

/// How long what was found out is believed: a laptop that moved is let in again a minute later.
const GOOD: Duration = Duration::from_mins(1);

/// How many characters of a fingerprint are enough: 16 of base64 are 96 bits.
const FINGERPRINT: usize = "SHA256:".len() + 16;

/// What a description begins with.
const MARK: &str = "xdrive";

/// Pauses until a group that was just made is seen by every call (EC2 user guide, *Eventual
/// consistency in the Amazon EC2 API*).
const UNSEEN: [Duration; 5] = [
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(3),
    Duration::from_secs(6),
];

/// Opens it, for launches and for hosts that are there.
pub(super) struct Door {
    plan: Plan,
    clock: Clock,
    report: Report,
    owner: String,
    /// This laptop, as rules name it.
    laptop: String,
    /// What is being found out before it is needed, and since when.
    ahead: Option<(BootTime, JoinHandle<Result<Found, HostError>>)>,
    /// The group of this session's launches, and who was let in there when.
    own: Option<(BootTime, GroupId, Vec<Cidr>)>,
    /// When it was last looked whether a host lets this laptop in.
    looked: BTreeMap<InstanceId, BootTime>,
    /// What has been said, and is not said again.
    told: BTreeSet<String>,
}

/// What it takes to find out where the door is, and for whom.
#[derive(Clone)]
struct Plan {
    ec2: Ec2,
    /// The VPC; the default one if none is given.
    vpc: Option<VpcId>,
    /// The group's name.
    name: String,
    reach: Reach,
}

/// What was found out for launches.
struct Found {
    vpc: VpcId,
    /// The group, if it is there.
    group: Option<Group>,
    /// Who is to be let in already; none if that shows only when the host has an address.
    from: Vec<Cidr>,
}

impl Plan {
    /// Whether nobody is to be let in: the way leads through a command.
    fn is_closed(&self) -> bool {
        self.reach.proxy.is_some() && self.reach.cidrs.is_empty()
    }

    /// Only looks.
    async fn look(&self) -> Result<Found, HostError> {
        let vpc = match &self.vpc {
            Some(vpc) => vpc.clone(),
            None => self
                .ec2
                .default_vpc()
                .await
                .map_err(HostError::Ec2)?
                .ok_or_else(|| HostError::NoWay {
                    why: format!("there is no default VPC in {}", self.ec2.region()),
                    hint: "--subnet names a subnet to launch in; `aws ec2 create-default-vpc` \
                           makes a default VPC again"
                        .to_owned(),
                })?,
        };
        let group = self.ec2.group_named(&self.name, &vpc).await;
        let group = group.map_err(HostError::Ec2)?;
        let from = self.from(None).await?;
        Ok(Found { vpc, group, from })
    }

    /// Who is to be let in to a host at this address; to one that has none yet, as far as that can
    /// be said.
    async fn from(&self, at: Option<IpAddr>) -> Result<Vec<Cidr>, HostError> {
        if self.is_closed() || !self.reach.cidrs.is_empty() {
            return Ok(self.reach.cidrs.clone());
        }
        let is_far = at.is_none_or(is_translated) && self.ec2.is_aws() && self.ec2.is_public();
        let address = match at {
            _ if is_far => self.ask().await?,
            None => return Ok(Vec::new()),
            Some(at) => source(at).ok_or_else(|| HostError::NoWay {
                why: format!("this computer has no way to {at}"),
                hint: "is the VPN up? --proxy-command connects by another way".to_owned(),
            })?,
        };
        Ok(vec![Cidr::one(address)])
    }

    /// Asks the address service.
    async fn ask(&self) -> Result<IpAddr, HostError> {
        let service = self.reach.address_service.as_deref().unwrap_or(SERVICE);
        let answer = match PROXIES.iter().find(|name| std::env::var_os(name).is_some()) {
            // It would tell the proxy's address, through which no SSH goes.
            Some(name) => Err(format!("it would be asked through the proxy of {name}")),
            None => self.ec2.get(service).await,
        };
        answer
            .and_then(|answer| address(&answer))
            .map_err(|why| HostError::NoWay {
                why: format!("{service} does not tell this computer's address: {why}"),
                hint:
                    "--cidr ADDRESS says from where this computer logs in, and so does `cidr` in \
                   the configuration"
                        .to_owned(),
            })
    }
}

/// The address that a service answers with. Whoever is between it and this computer (a hotel's
/// page, a proxy) may answer in its place.
fn address(answer: &str) -> Result<IpAddr, String> {
    let answer = answer.trim();
    let is_public = |at: &IpAddr| !at.is_unspecified() && !at.is_loopback() && !at.is_multicast();
    let address = answer.parse().ok().filter(is_public);
    address.ok_or_else(|| "its answer is no address".to_owned())
}

/// Whether this computer's address may be translated on the way to `at`.
fn is_translated(at: IpAddr) -> bool {
    match at {
        IpAddr::V4(at) => !at.is_private(),
        IpAddr::V6(_) => false,
    }
}

/// From which of its addresses this computer sends to `at`; none if it has no route there. Nothing
/// is sent.
pub(super) fn source(at: IpAddr) -> Option<IpAddr> {
    let any: IpAddr = match at {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind(SocketAddr::new(any, 0)).ok()?;
    socket.connect(SocketAddr::new(at, 9)).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

impl Door {
    /// Of `owner`'s laptop with this key; in the VPC of the subnet that is launched in, else in
    /// the default one.
    pub(super) fn new(
        (ec2, clock, report): (Ec2, Clock, Report),
        owner: &str,
        key: &UserKey,
        vpc: Option<VpcId>,
        reach: Reach,
    ) -> Self {
        let fingerprint = key.fingerprint();
        Self {
            plan: Plan {
                ec2,
                vpc,
                name: group_name(owner),
                reach,
            },
            clock,
            report,
            owner: owner.to_owned(),
            laptop: fingerprint[..fingerprint.len().min(FINGERPRINT)].to_owned(),
            ahead: None,
            own: None,
            looked: BTreeMap::new(),
            told: BTreeSet::new(),
        }
    }

    /// How hosts are reached.
    pub(super) fn reach(&self) -> &Reach {
        &self.plan.reach
    }

    /// Begins to find out what a launch will need, beside other work. Changes nothing.
    pub(super) fn look_ahead(&mut self) {
        let plan = self.plan.clone();
        let looking = tokio::spawn(async move { plan.look().await });
        self.ahead = Some((self.clock.boot(), looking));
    }

    /// The groups of an instance about to be launched, with this laptop let in; none if nobody is
    /// to be. Only as far as something lacks there is anything to call.
    pub(super) async fn for_launch(&mut self) -> Result<Vec<GroupId>, HostError> {
        let now = self.clock.boot();
        if let Some((at, group, _)) = &self.own
            && now.since(*at) < GOOD
        {
            return Ok(vec![group.clone()]);
        }
        let found = match self.ahead.take() {
            Some((since, ahead)) if now.since(since) < GOOD => ahead
                .await
                .map_err(|error| HostError::Failed(error.to_string()))?,
            _ => self.plan.look().await,
        }?;
        let group = match found.group {
            Some(group) => group,
            None => self.make(&found.vpc).await?,
        };
        if tags::owner(&group.tags) != self.owner {
            return Err(HostError::NoWay {
                why: format!(
                    "the security group {} ({}) in {} is not this owner's",
                    group.name, group.id, group.vpc
                ),
                hint: format!(
                    "`aws ec2 delete-security-group --group-id {}` lets xdrive make its own",
                    group.id
                ),
            });
        }
        self.warn(&found.from);
        let step = self.report.step("letting this computer in");
        let opened = self.let_in(&group, &found.from).await;
        if opened.map_err(HostError::Ec2)? {
            let from: Vec<String> = found.from.iter().map(ToString::to_string).collect();
            step.done(&format!("{} lets {} in", group.id, from.join(", ")));
        }
        self.own = Some((now, group.id.clone(), found.from));
        Ok(vec![group.id])
    }

    /// Makes sure that a host with this address lets this laptop in; looks at most once a minute.
    /// That it fails is said, and no reason not to try the host: there may be another rule.
    pub(super) async fn open(&mut self, host: &Instance, at: IpAddr) {
        let now = self.clock.boot();
        let is_known = self.looked.get(&host.id);
        if self.plan.is_closed() || is_known.is_some_and(|at| now.since(*at) < GOOD) {
            return;
        }
        match self.opened(host, at).await {
            Ok(()) => drop(self.looked.insert(host.id.clone(), now)),
            Err(error) => {
                let id = &host.id;
                self.say_once(format!("could not let this computer in to {id}: {error}"));
            }
        }
    }

    /// Says `line`, once, and only where it spoils no screen.
    pub(super) fn say_once(&mut self, line: String) {
        if !crate::terminal::is_raw() && !self.told.contains(&line) {
            self.report.say(&line);
            self.told.insert(line);
        }
    }

    async fn opened(&mut self, host: &Instance, at: IpAddr) -> Result<(), HostError> {
        // Right after a launch there is nothing to look at: its rule was made for it.
        if let Some((since, group, from)) = &self.own
            && self.clock.boot().since(*since) < GOOD
            && host.groups.contains(group)
            && !from.is_empty()
            && is_translated(at)
        {
            return Ok(());
        }
        let from = self.plan.from(Some(at)).await?;
        self.warn(&from);
        // Whoever launched it may be another owner, in whose group this laptop has a rule then.
        let groups = self.plan.ec2.tagged_groups(&host.groups).await;
        if let Some(group) = groups.map_err(HostError::Ec2)?.first() {
            self.let_in(group, &from).await.map_err(HostError::Ec2)?;
        }
        Ok(())
    }

    /// Lets `from` in, and this laptop from nowhere else any more. Whether anything was to be done
    /// for that. No one at all changes nothing.
    async fn let_in(&mut self, group: &Group, from: &[Cidr]) -> Result<bool, ec2::Error> {
        if from.is_empty() {
            return Ok(false);
        }
        let ec2 = &self.plan.ec2;
        let is_there = |cidr: &&Cidr| group.rules.iter().any(|rule| rule.from == **cidr);
        let mut is_new = false;
        for cidr in from.iter().filter(|cidr| !is_there(cidr)) {
            let rule = Rule {
                from: *cidr,
                description: describe(&self.laptop, self.clock.now()),
            };
            once_seen(async || ec2.let_in(&group.id, &rule).await).await?;
            is_new = true;
        }
        let is_own = |rule: &&Rule| laptop(&rule.description) == Some(&self.laptop);
        let old = group.rules.iter().filter(is_own);
        for rule in old.filter(|rule| !from.contains(&rule.from)) {
            // It lets in whoever has that address now, but never without a key.
            if let Err(error) = ec2.shut_out(&group.id, rule.from).await {
                let (id, from) = (&group.id, rule.from);
                self.report
                    .say(&format!("{id} still lets {from} in: {error}"));
            }
        }
        Ok(is_new)
    }

    /// Makes the group, or finds the one that another laptop makes at this moment.
    async fn make(&self, vpc: &VpcId) -> Result<Group, HostError> {
        let Plan { ec2, name, .. } = &self.plan;
        let tags = tags::group(&self.owner);
        let about = format!("Who may log in to the instances of {}", self.owner);
        let about: String = about.chars().filter(|letter| is_allowed(*letter)).collect();
        let about = &about[..about.len().min(255)];
        let made = ec2.create_group(name, about, vpc, &tags).await;
        if let Some(id) = made.map_err(HostError::Ec2)? {
            return Ok(Group {
                id,
                name: name.clone(),
                vpc: vpc.clone(),
                rules: Vec::new(),
                has_other_rules: false,
                tags,
            });
        }
        for pause in UNSEEN {
            let group = ec2.group_named(name, vpc).await;
            if let Some(group) = group.map_err(HostError::Ec2)? {
                return Ok(group);
            }
            sleep(pause).await;
        }
        Err(HostError::Failed(format!(
            "{name} is there and not to be seen"
        )))
    }

    /// Says, once, where everybody is let in.
    fn warn(&mut self, from: &[Cidr]) {
        for cidr in from.iter().filter(|cidr| cidr.is_everyone()) {
            self.say_once(format!(
                "warning: {cidr} lets everybody knock: only the key protects hosts"
            ));
        }
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        // It only looks.
        if let Some((_, ahead)) = &self.ahead {
            ahead.abort();
        }
    }
}

/// Makes a call again while a group that was just made is not seen by it.
async fn once_seen(call: impl AsyncFn() -> Result<(), ec2::Error>) -> Result<(), ec2::Error> {
    for pause in UNSEEN {
        match call().await {
            Err(error) if error.kind == Kind::NotFound => sleep(pause).await,
            answer => return answer,
        }
    }
    call().await
}

/// What the group of an owner is called: for people by the caller's name, and by a digest of the
/// whole ARN, since several accounts' callers may have one name.
fn group_name(owner: &str) -> String {
    let caller = owner.rsplit(['/', ':']).next().unwrap_or_default();
    let caller: String = caller
        .chars()
        .filter(|letter| is_allowed(*letter))
        .take(100)
        .collect();
    let digest = hex::encode(Sha256::digest(owner));
    format!("xdrive-{caller}-{}", &digest[..8])
}

/// What names and descriptions may be made of (EC2 API reference, `CreateSecurityGroup`).
fn is_allowed(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || " ._-:/()#,@[]+=&;{}!$*".contains(letter)
}

/// What is said of a rule: for which laptop, and since when.
fn describe(laptop: &str, now: jiff::Timestamp) -> String {
    format!("{MARK} {laptop} {now:.0}")
}

/// For which laptop a rule is, if it is one of xdrive's.
pub(crate) fn laptop(description: &str) -> Option<&str> {
    let mut words = description.split(' ');
    words.next().filter(|mark| *mark == MARK)?;
    words.next().filter(|laptop| laptop.starts_with("SHA256:"))
}

#[cfg(test)]
mod tests;
