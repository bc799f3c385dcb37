//! A quota that a launch reached, or that several would: its name and code, and the command that asks for
//! more.

use std::fmt;
use std::time::Duration;

use tokio::time::timeout;

use crate::ec2::{Ec2, Error, Market, Quota};
use crate::quote::quote;

use super::pools::Offer;

/// How long the limit is waited for: a new connection and one answer take two seconds at a round
/// trip of 300 ms, and the name is useful without it.
const ANSWER: Duration = Duration::from_secs(10);

/// The text before the limit in EC2's message about an on-demand quota.
const LIMIT: &str = "current vCPU limit of ";

/// A quota that is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reached {
    /// The quota, if it is known.
    pub quota: Option<Quota>,
    /// The type that was to be launched.
    pub instance_type: String,
    /// The market.
    pub market: Market,
    /// How many vCPUs the type has.
    pub vcpus: u32,
    /// How many vCPUs the quota allows, if that is known.
    pub limit: Option<u32>,
    /// The AWS CLI's flags for this account.
    flags: String,
}

impl Reached {
    /// The quota for which `error` refused an offer. Its limit is read where the message does not
    /// have it, and left out where this caller may not read it.
    pub(super) async fn by(offer: &Offer, error: &Error, ec2: &Ec2) -> Self {
        let name = &offer.pool.instance_type;
        let market = offer.pool.market;
        let quota = Quota::for_type(name, market);
        let limit = match (stated(&error.message), quota) {
            (None, Some(quota)) => {
                let asked = timeout(ANSWER, ec2.quota(quota)).await;
                asked.ok().and_then(Result::ok).and_then(whole)
            }
            (stated, _) => stated,
        };
        Self {
            quota,
            instance_type: name.clone(),
            market,
            vcpus: offer.kind.cpus,
            limit,
            flags: flags(ec2),
        }
    }

    /// Whether another offer would reach it too.
    pub(super) fn applies_to(&self, offer: &Offer) -> bool {
        let family = |name: &str| name.split('.').next().map(str::to_owned);
        let (theirs, market) = (&offer.pool.instance_type, offer.pool.market);
        let is_same = match (self.quota, Quota::for_type(theirs, market)) {
            (None, None) => family(&self.instance_type) == family(theirs),
            (own, other) => own == other,
        };
        // A smaller one may fit into what is left.
        is_same && self.market == market && offer.kind.cpus >= self.vcpus
    }

    /// The command that asks AWS to raise the limit by the type's vCPUs.
    #[must_use]
    pub fn command(&self) -> Option<String> {
        let wanted = self.limit.unwrap_or(0) + self.vcpus;
        Some(request(self.quota?, wanted, &self.flags))
    }
}

/// A quota that does not allow what is to be launched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lacking {
    /// The quota.
    pub quota: Quota,
    /// How many vCPUs it allows.
    pub limit: u32,
    /// How many are needed, with those that run.
    pub needed: u32,
    /// The command that asks AWS for them.
    pub command: String,
}

/// The quota of this offer, if it does not allow `count` instances of it beside `running` vCPUs that count
/// against it; none if it does, or this caller does not know.
pub async fn lacking(offer: &Offer, count: u32, running: u32, ec2: &Ec2) -> Option<Lacking> {
    let quota = Quota::for_type(&offer.pool.instance_type, offer.pool.market)?;
    let asked = timeout(ANSWER, ec2.quota(quota)).await;
    let limit = asked.ok()?.ok().and_then(whole)?;
    let needed = running + count * offer.kind.cpus;
    (needed > limit).then(|| Lacking {
        quota,
        limit,
        needed,
        command: request(quota, needed, &flags(ec2)),
    })
}

/// The command that asks AWS for so many vCPUs.
fn request(quota: Quota, vcpus: u32, flags: &str) -> String {
    format!(
        "aws service-quotas request-service-quota-increase --service-code ec2 --quota-code {} \
         --desired-value {vcpus}{flags}",
        quota.code
    )
}

/// The AWS CLI's flags for the account and region of `ec2`.
fn flags(ec2: &Ec2) -> String {
    let mut flags = String::new();
    for (flag, value) in [("profile", ec2.profile()), ("region", Some(ec2.region()))] {
        if let Some(value) = value {
            flags = format!("{flags} --{flag} {}", quote(value));
        }
    }
    flags
}

/// Writes the quota in words, such as `"All G and VT Spot Instance Requests" (L-3819A6DF) allows 0
/// vCPUs at once, and g4dn.xlarge has 4`.
impl fmt::Display for Reached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            instance_type,
            vcpus,
            ..
        } = self;
        match self.quota {
            Some(Quota { code, name }) => write!(f, "\"{name}\" ({code})")?,
            None => write!(
                f,
                "the quota of {instance_type} {} (Service Quotas names it)",
                self.market
            )?,
        }
        match self.limit {
            Some(limit) => write!(f, " allows {limit} vCPUs at once")?,
            None => f.write_str(" allows no more vCPUs")?,
        }
        write!(f, ", and {instance_type} has {vcpus}")
    }
}

/// The limit in EC2's message, if it has one.
fn stated(message: &str) -> Option<u32> {
    let (_, rest) = message.split_once(LIMIT)?;
    rest.split_whitespace().next()?.parse().ok()
}

/// `value` as whole vCPUs.
#[must_use]
pub fn whole(value: f64) -> Option<u32> {
    format!("{:.0}", value.floor()).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_in_the_words_of_ec2_is_parsed() {
        let words = "You have requested more vCPU capacity than your current vCPU limit of 32 \
                     allows for the instance bucket";
        assert_eq!(stated(words), Some(32));
        assert_eq!(stated("Max spot instance count exceeded"), None);
        assert_eq!(whole(5.0), Some(5));
        assert_eq!(whole(-1.0), None);
    }
}
