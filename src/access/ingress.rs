//! Ingress: the security group rule by which this laptop reaches port 22.
//!
//! There is one group for each owner and VPC. A rule's description has its laptop (the key's
//! fingerprint) and the date of the last login by it. A laptop authorizes a rule for its address,
//! renews that rule's date at a login more than six hours later, and revokes a rule of its own that
//! is a day old and unwanted: until then another of its sessions may need it ([`rules`]). `gc`
//! deletes groups that no instance uses, and revokes rules of laptops that are gone. [`public_ip`]
//! finds this laptop's address, [`subnets`] the addresses of a subnet's instances.
//!
//! A launch waits for its rule, because no host is launched that cannot be reached. A login to a
//! running host does not: its rules are read, and one is authorized, beside the attempt.

pub(crate) mod ports;
mod public_ip;
mod rules;
pub(crate) mod subnets;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use tokio::task::{JoinError, JoinHandle, JoinSet};

use crate::clock::{BootTime, Clock};
use crate::config::Reach;
use crate::drive::tags;
use crate::drive::{HostError, Subnets};
use crate::ec2::{Cidr, Ec2, Group, Instance, Subnet, Tags};
use crate::ids::{GroupId, InstanceId, VpcId};
use crate::report::{Label, Report, Text, ToText};
use crate::ssh::UserKey;

pub(crate) use public_ip::source;
pub(crate) use rules::{is_unused_since, laptop};

use public_ip::is_translated;
use rules::{Authorized, group_name, label};

/// How long a finding is valid: a laptop that moved is authorized again after a minute.
const GOOD: Duration = Duration::from_mins(1);

/// How many characters of a fingerprint name a laptop: 16 of base64 are 96 bits.
const FINGERPRINT: usize = "SHA256:".len() + 16;

/// The ingress of one session, for launches and for running hosts.
pub(crate) struct Ingress {
    plan: Plan,
    report: Report,
    /// The early search for a launch, and when it began.
    ahead: Option<(BootTime, JoinHandle<Result<Found, HostError>>)>,
    /// The finding for the next launch, and its time.
    found: Option<(BootTime, Found)>,
    /// The subnets for launches, and the time of that finding.
    subnets: Option<(BootTime, Subnets)>,
    /// The group of this session's launches, and when this laptop was authorized in it.
    own: Option<(BootTime, Own)>,
    /// The running hosts whose groups are being read. A task that is dropped half way leaves a
    /// group that the next one can complete.
    opening: JoinSet<(InstanceId, Result<Authorized, HostError>)>,
    /// When each host's group was last read.
    looked: BTreeMap<InstanceId, BootTime>,
    /// Lines that were printed and are not printed again.
    printed: BTreeSet<Text>,
}

/// The inputs that find the group and authorize a rule in it.
#[derive(Clone)]
struct Plan {
    ec2: Ec2,
    clock: Clock,
    /// The subnet that the user gave; if none, the default subnet of each zone.
    subnet: Option<Subnet>,
    owner: String,
    /// Tags of the account's own, for a group that is made.
    tags: Tags,
    /// The group's name.
    name: String,
    /// The laptop's name in rules.
    laptop: String,
    reach: Reach,
}

/// The finding for a launch.
struct Found {
    vpc: VpcId,
    /// The subnets, and how their instances are reached.
    subnets: Subnets,
    /// The group, if it exists.
    group: Option<Group>,
    /// The CIDRs to authorize; empty if they depend on the host's address.
    from: Vec<Cidr>,
}

/// The group of this session's launches as it is now, and the CIDRs to authorize.
struct Own {
    group: Group,
    from: Vec<Cidr>,
}

impl Plan {
    /// Finds the group, subnets and CIDRs of a launch; changes nothing.
    async fn look(&self) -> Result<Found, HostError> {
        let (vpc, subnets) = self.network().await?;
        // If no instance can be reached, no rule is needed.
        subnets.check()?;
        let group = self.ec2.group_named(&self.name, &vpc).await;
        let group = group.map_err(HostError::Ec2)?;
        let from = self.from(None).await?;
        Ok(Found {
            vpc,
            subnets,
            group,
            from,
        })
    }

    /// The VPC to launch in, and how its instances are reached.
    async fn network(&self) -> Result<(VpcId, Subnets), HostError> {
        subnets::look(&self.ec2, self.subnet.as_ref(), &self.reach).await
    }

    /// Authorizes this laptop in one of `groups`, for a host at this address; one of them may be
    /// `known`.
    async fn open(
        &self,
        groups: &[GroupId],
        at: IpAddr,
        known: Option<Group>,
    ) -> Result<Authorized, HostError> {
        let from = self.from(Some(at)).await?;
        let mut group = known;
        if group.is_none() {
            // Another owner may have launched the host: the rule is in that owner's group then.
            let tagged = self.ec2.tagged_groups(groups).await;
            group = tagged.map_err(HostError::Ec2)?.into_iter().next();
        }
        match group {
            Some(group) => self.authorize(&group, &from).await.map_err(HostError::Ec2),
            None => Ok(Authorized::default()),
        }
    }
}

impl Ingress {
    /// The ingress of `owner`'s laptop with this key; in the VPC of `subnet`, else in the default
    /// one.
    pub(crate) fn new(
        ec2: Ec2,
        clock: Clock,
        report: Report,
        owner: &str,
        key: &UserKey,
        subnet: Option<Subnet>,
        reach: Reach,
    ) -> Self {
        let fingerprint = key.fingerprint();
        Self {
            plan: Plan {
                ec2,
                clock,
                subnet,
                owner: owner.to_owned(),
                tags: Tags::new(),
                name: group_name(owner),
                laptop: fingerprint[..fingerprint.len().min(FINGERPRINT)].to_owned(),
                reach,
            },
            report,
            ahead: None,
            found: None,
            subnets: None,
            own: None,
            opening: JoinSet::new(),
            looked: BTreeMap::new(),
            printed: BTreeSet::new(),
        }
    }

    /// The user's settings for reaching hosts.
    pub(crate) fn reach(&self) -> &Reach {
        &self.plan.reach
    }

    /// Gives these tags of the account's own to a group that is made from now on.
    pub(crate) fn carry(&mut self, own: Tags) {
        self.plan.tags = own;
    }

    /// Begins to find the inputs of a launch, beside other work. Changes nothing.
    pub(crate) fn look_ahead(&mut self) {
        let plan = self.plan.clone();
        let looking = tokio::spawn(async move { plan.look().await });
        self.ahead = Some((self.now(), looking));
    }

    /// The groups for an instance about to be launched, with this laptop authorized. Calls EC2 only
    /// for what is missing.
    pub(crate) async fn for_launch(&mut self) -> Result<Vec<GroupId>, HostError> {
        let now = self.now();
        if let Some((at, own)) = &self.own
            && now.since(*at) < GOOD
        {
            return Ok(vec![own.group.id.clone()]);
        }
        self.find().await?;
        let Some((_, found)) = self.found.take() else {
            let why = "what a launch needs was not found";
            return Err(HostError::Failed(why.to_owned()));
        };
        let mut group = match found.group {
            Some(group) => group,
            None => self.plan.make(&found.vpc).await?,
        };
        if tags::owner(&group.tags) != self.plan.owner {
            return Err(HostError::NoRoute {
                why: format!(
                    "the security group {} in {} is not this owner's",
                    label(&group),
                    group.vpc
                ),
                hint: format!(
                    "`aws ec2 delete-security-group --group-id {}` lets xdrive make its own",
                    group.id
                ),
            });
        }
        self.warn();
        if let Some(warning) = found.subnets.warning() {
            self.print_once(warning);
        }
        let step = self.report.step("letting this computer in");
        let authorized = self.plan.authorize(&group, &found.from).await;
        let authorized = authorized.map_err(HostError::Ec2)?;
        if !authorized.made.is_empty() {
            let from: Vec<String> = found.from.iter().map(ToString::to_string).collect();
            step.done(&format!("{} lets {} in", label(&group), from.join(", ")));
        }
        for warning in authorized.warnings {
            self.print_once(&warning);
        }
        group.rules.extend(authorized.made);
        let id = group.id.clone();
        let from = found.from;
        self.own = Some((now, Own { group, from }));
        Ok(vec![id])
    }

    /// The subnets, and how instances in each would be reached from here.
    pub(crate) async fn subnets(&mut self) -> Result<Subnets, HostError> {
        let now = self.now();
        if let Some((at, known)) = &self.subnets
            && now.since(*at) < GOOD
        {
            return Ok(known.clone());
        }
        let found = self.find().await?.subnets.clone();
        self.subnets = Some((now, found.clone()));
        Ok(found)
    }

    /// The subnets, found without asking an address service, as a launch does.
    pub(crate) async fn network(&self) -> Result<Subnets, HostError> {
        Ok(self.plan.network().await?.1)
    }

    /// The finding for a launch, made anew if it is too old.
    async fn find(&mut self) -> Result<&Found, HostError> {
        let now = self.now();
        let known = self.found.take();
        let found = match (known, self.ahead.take()) {
            (Some((since, found)), _) if now.since(since) < GOOD => (since, found),
            (_, Some((since, ahead))) if now.since(since) < GOOD => {
                let found = ahead.await;
                (
                    since,
                    found.map_err(|error| HostError::Failed(error.to_string()))??,
                )
            }
            _ => (now, self.plan.look().await?),
        };
        Ok(&self.found.insert(found).1)
    }

    /// Forgets the answer of [`Ingress::for_launch`], which is out of date.
    pub(crate) fn forget(&mut self) {
        self.own = None;
        self.found = None;
    }

    /// Begins to authorize this laptop for a host at this address; reads its groups at most once a
    /// minute. A failure is printed, and does not prevent the login: there may be another rule.
    pub(crate) fn open(&mut self, host: &Instance, at: IpAddr) {
        while let Some(ended) = self.opening.try_join_next() {
            self.receive(ended);
        }
        let now = self.now();
        let is_known = self.looked.get(&host.id);
        if self.plan.is_closed() || is_known.is_some_and(|at| now.since(*at) < GOOD) {
            return;
        }
        self.looked.insert(host.id.clone(), now);
        self.warn();
        let own = self
            .own
            .as_ref()
            .filter(|(since, own)| now.since(*since) < GOOD && host.groups.contains(&own.group.id));
        // Right after a launch nothing need be read: its rule was just made.
        let is_authorized = |own: &Own| own.from.iter().any(|from| from.is_ipv6() == at.is_ipv6());
        if own.is_some_and(|(_, own)| is_authorized(own) && is_translated(at)) {
            return;
        }
        let known = own.map(|(_, own)| own.group.clone());
        let (plan, id, groups) = (self.plan.clone(), host.id.clone(), host.groups.clone());
        self.opening.spawn(async move {
            let opened = plan.open(&groups, at, known).await;
            (id, opened)
        });
    }

    /// Waits until this laptop is authorized in one of the groups being read; whether a rule was
    /// made for that. For ever if none is being read.
    pub(crate) async fn opened(&mut self) -> bool {
        match self.opening.join_next().await {
            Some(ended) => self.receive(ended),
            None => std::future::pending().await,
        }
    }

    /// Prints the result of reading a group; whether a rule was made.
    fn receive(
        &mut self,
        ended: Result<(InstanceId, Result<Authorized, HostError>), JoinError>,
    ) -> bool {
        let (id, opened) =
            ended.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
        match opened {
            Ok(authorized) => {
                for warning in authorized.warnings {
                    self.print_once(&warning);
                }
                !authorized.made.is_empty()
            }
            Err(error) => {
                // Read again at the next login.
                self.looked.remove(&id);
                let host = id.after("the");
                self.print_once(&format!(
                    "could not let this computer in to {host}: {error}"
                ));
                false
            }
        }
    }

    /// Prints `line`, once, and never over the shell's screen.
    pub(crate) fn print_once(&mut self, line: &(impl ToText + ?Sized)) {
        let line = line.to_text();
        if !crate::terminal::is_raw() && !self.printed.contains(&line) {
            self.report.print(&line);
            self.printed.insert(line);
        }
    }

    /// Warns, once, of CIDRs that authorize everyone.
    fn warn(&mut self) {
        let cidrs = self.plan.reach.cidrs.clone();
        for cidr in cidrs.iter().filter(|cidr| cidr.is_everyone()) {
            self.print_once(&Text::labelled(
                Label::Warning,
                &format!("{cidr} lets every address connect: only the key protects hosts"),
            ));
        }
    }

    fn now(&self) -> BootTime {
        self.plan.clock.boot()
    }
}

impl Drop for Ingress {
    fn drop(&mut self) {
        // The search changes nothing.
        if let Some((_, ahead)) = &self.ahead {
            ahead.abort();
        }
    }
}

#[cfg(test)]
mod tests;
