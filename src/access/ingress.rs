//! Ingress: the rule of a security group that lets this laptop, and nobody else, reach port 22.
//!
//! There is one group for each owner and VPC. A rule in it says in its description which laptop it
//! is for (its key's fingerprint) and when somebody last came by it. A laptop adds a rule for the
//! address it comes from, renews that rule's date at a login more than six hours later, and takes
//! one of its own away when that is a day old and unwanted: until then another of its sessions may
//! come from there ([`rules`]). `gc` clears what no instance uses, and rules of laptops that are
//! gone. Who is let in is found out in [`public_ip`], and which of a subnet's instances would be
//! reached in [`subnets`].
//!
//! A launch waits for its rule, because a host that nobody reaches is not launched. A host that is
//! there does not: its rules are read, and one is authorized, beside the attempt to log in.

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
use crate::ec2::{Cidr, Ec2, Group, GroupId, Instance, InstanceId, Subnet, VpcId};
use crate::report::Report;
use crate::ssh::UserKey;

pub(crate) use public_ip::source;
pub(crate) use rules::{is_unused_since, laptop};

use public_ip::is_translated;
use rules::{Authorized, group_name};

/// How long what was found out is believed: a laptop that moved is let in again a minute later.
const GOOD: Duration = Duration::from_mins(1);

/// How many characters of a fingerprint are enough: 16 of base64 are 96 bits.
const FINGERPRINT: usize = "SHA256:".len() + 16;

/// Opens it, for launches and for hosts that are there.
pub(crate) struct Ingress {
    plan: Plan,
    report: Report,
    /// What is being found out before it is needed, and since when.
    ahead: Option<(BootTime, JoinHandle<Result<Found, HostError>>)>,
    /// What was found out and is still to be used, and since when.
    found: Option<(BootTime, Found)>,
    /// How the subnets of launches are reached, and since when that is known.
    subnets: Option<(BootTime, Subnets)>,
    /// The groups of this session's launches, and since when they let this laptop in.
    own: Option<(BootTime, Own)>,
    /// The hosts whose groups are being read. What is dropped half way is found as it is
    /// by whoever looks next.
    opening: JoinSet<(InstanceId, Result<Authorized, HostError>)>,
    /// When it was last looked whether a host lets this laptop in.
    looked: BTreeMap<InstanceId, BootTime>,
    /// What has been said, and is not said again.
    told: BTreeSet<String>,
}

/// What it takes to find the group, and to authorize a rule of it.
#[derive(Clone)]
struct Plan {
    ec2: Ec2,
    clock: Clock,
    /// The subnet that was named; the default ones of each zone if none was.
    subnet: Option<Subnet>,
    owner: String,
    /// The group's name.
    name: String,
    /// This laptop, as rules name it.
    laptop: String,
    reach: Reach,
}

/// What was found out for launches.
struct Found {
    vpc: VpcId,
    /// How the instances of its subnets are reached.
    subnets: Subnets,
    /// The group, if it is there.
    group: Option<Group>,
    /// Who is to be let in already; none if that shows only when the host has an address.
    from: Vec<Cidr>,
}

/// The group of this session's launches as it is now, and who was to be let in.
struct Own {
    group: Group,
    from: Vec<Cidr>,
}

impl Plan {
    /// Only looks.
    async fn look(&self) -> Result<Found, HostError> {
        let (vpc, subnets) = self.network().await?;
        // Where nothing can be reached nobody needs to be let in.
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

    /// The VPC that is launched in, and how its instances are reached.
    async fn network(&self) -> Result<(VpcId, Subnets), HostError> {
        subnets::look(&self.ec2, self.subnet.as_ref(), &self.reach).await
    }

    /// Makes sure that a host in `groups`, at this address, lets this laptop in; one of them may be
    /// `known` as it is now.
    async fn open(
        &self,
        groups: &[GroupId],
        at: IpAddr,
        known: Option<Group>,
    ) -> Result<Authorized, HostError> {
        let from = self.from(Some(at)).await?;
        let mut group = known;
        if group.is_none() {
            // Whoever launched it may be another owner, in whose group this laptop has a rule then.
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
    /// Of `owner`'s laptop with this key; in the VPC of the subnet that was named, else in the
    /// default one.
    pub(crate) fn new(
        (ec2, clock, report): (Ec2, Clock, Report),
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
            told: BTreeSet::new(),
        }
    }

    /// How hosts are reached.
    pub(crate) fn reach(&self) -> &Reach {
        &self.plan.reach
    }

    /// Begins to find out what a launch will need, beside other work. Changes nothing.
    pub(crate) fn look_ahead(&mut self) {
        let plan = self.plan.clone();
        let looking = tokio::spawn(async move { plan.look().await });
        self.ahead = Some((self.now(), looking));
    }

    /// The groups of an instance about to be launched, with this laptop let in; none if nobody is
    /// to be. Only as far as something lacks there is anything to call.
    pub(crate) async fn for_launch(&mut self) -> Result<Vec<GroupId>, HostError> {
        let now = self.now();
        if let Some((at, own)) = &self.own
            && now.since(*at) < GOOD
        {
            return Ok(vec![own.group.id.clone()]);
        }
        self.find_out().await?;
        let Some((_, found)) = self.found.take() else {
            let why = "what a launch needs was not found out";
            return Err(HostError::Failed(why.to_owned()));
        };
        let mut group = match found.group {
            Some(group) => group,
            None => self.plan.make(&found.vpc).await?,
        };
        if tags::owner(&group.tags) != self.plan.owner {
            return Err(HostError::NoRoute {
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
        self.warn();
        let step = self.report.step("letting this computer in");
        let came = self.plan.authorize(&group, &found.from).await;
        let came = came.map_err(HostError::Ec2)?;
        if !came.made.is_empty() {
            let from: Vec<String> = found.from.iter().map(ToString::to_string).collect();
            step.done(&format!("{} lets {} in", group.id, from.join(", ")));
        }
        for line in came.stayed {
            self.print_once(line);
        }
        group.rules.extend(came.made);
        let id = group.id.clone();
        let from = found.from;
        self.own = Some((now, Own { group, from }));
        Ok(vec![id])
    }

    /// In which subnets a launch would be reached from here.
    pub(crate) async fn subnets(&mut self) -> Result<Subnets, HostError> {
        let now = self.now();
        if let Some((at, known)) = &self.subnets
            && now.since(*at) < GOOD
        {
            return Ok(known.clone());
        }
        let found = self.find_out().await?.subnets.clone();
        self.subnets = Some((now, found.clone()));
        Ok(found)
    }

    /// The same, and nothing else: no address service is asked, as it is for a launch.
    pub(crate) async fn network(&self) -> Result<Subnets, HostError> {
        Ok(self.plan.network().await?.1)
    }

    /// What a launch needs to know, found out anew where that is too long ago.
    async fn find_out(&mut self) -> Result<&Found, HostError> {
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

    /// What [`Ingress::for_launch`] answered is not so any more: it is looked for again.
    pub(crate) fn forget(&mut self) {
        self.own = None;
        self.found = None;
    }

    /// Begins to make sure that a host with this address lets this laptop in; looks at most once a
    /// minute. That it fails is said, and no reason not to try the host: there may be another rule.
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
        // Right after a launch there is nothing to look at: its rule was made for it.
        let is_let_in = |own: &Own| own.from.iter().any(|from| from.is_ipv6() == at.is_ipv6());
        if own.is_some_and(|(_, own)| is_let_in(own) && is_translated(at)) {
            return;
        }
        let known = own.map(|(_, own)| own.group.clone());
        let (plan, id, groups) = (self.plan.clone(), host.id.clone(), host.groups.clone());
        self.opening.spawn(async move {
            let opened = plan.open(&groups, at, known).await;
            (id, opened)
        });
    }

    /// Waits until one of the groups that are being read lets this laptop in: whether a rule was
    /// made for that. For ever, if none is looked at.
    pub(crate) async fn opened(&mut self) -> bool {
        match self.opening.join_next().await {
            Some(ended) => self.receive(ended),
            None => std::future::pending().await,
        }
    }

    /// Reports what came of reading a group; whether a rule was made.
    fn receive(
        &mut self,
        ended: Result<(InstanceId, Result<Authorized, HostError>), JoinError>,
    ) -> bool {
        let (id, opened) =
            ended.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
        match opened {
            Ok(came) => {
                for line in came.stayed {
                    self.print_once(line);
                }
                !came.made.is_empty()
            }
            Err(error) => {
                // It is tried again with the next attempt.
                self.looked.remove(&id);
                self.print_once(format!("could not let this computer in to {id}: {error}"));
                false
            }
        }
    }

    /// Says `line`, once, and only where it spoils no screen.
    pub(crate) fn print_once(&mut self, line: String) {
        if !crate::terminal::is_raw() && !self.told.contains(&line) {
            self.report.print(&line);
            self.told.insert(line);
        }
    }

    /// Says, once, where everybody is let in.
    fn warn(&mut self) {
        let cidrs = self.plan.reach.cidrs.clone();
        for cidr in cidrs.iter().filter(|cidr| cidr.is_everyone()) {
            self.print_once(format!(
                "warning: {cidr} lets everybody knock: only the key protects hosts"
            ));
        }
    }

    fn now(&self) -> BootTime {
        self.plan.clock.boot()
    }
}

impl Drop for Ingress {
    fn drop(&mut self) {
        // It only looks.
        if let Some((_, ahead)) = &self.ahead {
            ahead.abort();
        }
    }
}

#[cfg(test)]
mod tests;
