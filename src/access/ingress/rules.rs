//! The rules of an owner's group: their descriptions, which are authorized, and which are revoked.
//!
//! A rule's description has the laptop it is for and the date of its last login, within
//! [`RENEWED`]. A laptop authorizes the rules that it lacks, and renews the date of those that it
//! uses. It revokes only its own rules, once unwanted and a day past their date: until then another
//! of its sessions may need them, by a VPN or with another `--cidr`. In a full group they are
//! revoked at once. `gc` revokes every laptop's rules that are older than what uses the group
//! ([`is_unused_since`]). Established connections outlive their rule (EC2 user guide, *Security
//! group connection tracking*), and each further login checks the rules first: a session whose rule
//! was revoked authorizes it again.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use sha2::{Digest as _, Sha256};

use super::Plan;
use crate::drive::{HostError, tags};
use crate::ec2::{self, Cidr, Group, Kind, Rule, RuleSource};
use crate::ids::{GroupId, VpcId};
use crate::retry::retry;

/// The port of SSH, which every rule of xdrive's is about.
const PORT: i32 = 22;

/// The first word of a description.
const MARK: &str = "xdrive";

/// How long an unwanted rule stays after its date.
pub(super) const STAYS: SignedDuration = SignedDuration::from_hours(24);

/// The age at which a login renews a rule's date: a few times a day at most.
const RENEWED: SignedDuration = SignedDuration::from_hours(6);

/// EC2's code for a group with as many rules as it may have: 60, or the account's quota.
const FULL: &str = "RulesPerSecurityGroupLimitExceeded";

/// The pauses while not every call sees a new group (EC2 user guide, *Eventual consistency in the
/// Amazon EC2 API*).
pub(super) const UNSEEN: [Duration; 5] = [
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(3),
    Duration::from_secs(6),
];

/// The result of [`Plan::authorize`].
#[derive(Debug, Default)]
pub(super) struct Authorized {
    /// The rules that were made.
    pub(super) made: Vec<Rule>,
    /// Warnings of rules that could not be revoked or renewed. A stale rule allows connections from
    /// that address, but no login without a key.
    pub(super) warnings: Vec<String>,
}

impl Plan {
    /// Authorizes `from`, and revokes this laptop's unwanted rules. Changes nothing if `from` is
    /// empty.
    pub(super) async fn authorize(
        &self,
        group: &Group,
        from: &[Cidr],
    ) -> Result<Authorized, ec2::Error> {
        let mut authorized = Authorized::default();
        if from.is_empty() {
            return Ok(authorized);
        }
        let now = self.clock.now();
        let is_unwanted = |rule: &&Rule| laptop(rule) == Some(&self.laptop) && !is_for(rule, from);
        let mut unwanted: Vec<&Rule> = group.rules.iter().filter(is_unwanted).collect();
        let is_there = |cidr: &&Cidr| group.rules.iter().any(|rule| range(rule) == Some(**cidr));
        for cidr in from.iter().filter(|cidr| !is_there(cidr)) {
            let rule = ssh(*cidr, describe(&self.laptop, now));
            match self.add(&group.id, &rule).await {
                Err(error) if error.code == FULL && !unwanted.is_empty() => {
                    self.revoke(group, &unwanted, &mut authorized).await;
                    unwanted.clear();
                    self.add(&group.id, &rule).await?;
                }
                answer => answer?,
            }
            authorized.made.push(rule);
        }
        self.renew(group, from, now, &mut authorized).await?;
        unwanted.retain(|rule| is_old(&rule.description, now));
        self.revoke(group, &unwanted, &mut authorized).await;
        Ok(authorized)
    }

    /// Renews the date of the rules for `from`, another laptop's behind the same address included.
    /// A missing right is only a warning; a rule that was revoked meanwhile is made again.
    async fn renew(
        &self,
        group: &Group,
        from: &[Cidr],
        now: Timestamp,
        authorized: &mut Authorized,
    ) -> Result<(), ec2::Error> {
        for rule in group.rules.iter().filter(|rule| is_for(rule, from)) {
            let Some(laptop) = laptop(rule) else {
                continue;
            };
            if date(&rule.description).is_some_and(|date| now.duration_since(date) <= RENEWED) {
                continue;
            }
            let renewed = Rule {
                description: describe(laptop, now),
                ..rule.clone()
            };
            match self.ec2.describe_rule(&group.id, &renewed).await {
                Ok(true) => {}
                Ok(false) => {
                    self.add(&group.id, &renewed).await?;
                    authorized.made.push(renewed);
                }
                Err(error) => authorized.warnings.push(format!(
                    "could not renew the date of the rule for {} in {}: {error}",
                    rule.from,
                    label(group)
                )),
            }
        }
        Ok(())
    }

    /// Makes a rule; retries while the call does not see a new group.
    async fn add(&self, group: &GroupId, rule: &Rule) -> Result<(), ec2::Error> {
        once_seen(|| self.ec2.authorize(group, rule)).await
    }

    async fn revoke(&self, group: &Group, rules: &[&Rule], authorized: &mut Authorized) {
        for rule in rules {
            if let Err(error) = self.ec2.revoke(&group.id, rule).await {
                let warning = format!("{} still lets {} in: {error}", label(group), rule.from);
                authorized.warnings.push(warning);
            }
        }
    }

    /// Makes the group, or finds the one that another laptop has made meanwhile.
    pub(super) async fn make(&self, vpc: &VpcId) -> Result<Group, HostError> {
        let mut tags = tags::group(&self.owner);
        tags.extend(self.tags.clone());
        let about = format!("Who may log in to the instances of {}", self.owner);
        let about: String = about.chars().filter(|letter| is_allowed(*letter)).collect();
        let about = &about[..about.len().min(255)];
        let name = &self.name;
        let made = self.ec2.create_group(name, about, vpc, &tags).await;
        if let Some(id) = made.map_err(HostError::Ec2)? {
            return Ok(Group {
                id,
                name: name.clone(),
                vpc: vpc.clone(),
                rules: Vec::new(),
                tags,
            });
        }
        let is_early = |found: &Result<_, _>| matches!(found, Ok(None));
        let found = retry(&UNSEEN, is_early, || self.ec2.group_named(name, vpc)).await;
        found
            .map_err(HostError::Ec2)?
            .ok_or_else(|| HostError::Failed(format!("{name} exists, and EC2 does not list it")))
    }
}

/// Repeats a call about a group that not every part of EC2 knows yet.
pub(super) async fn once_seen<F: Future<Output = Result<(), ec2::Error>>>(
    call: impl Fn() -> F,
) -> Result<(), ec2::Error> {
    let is_early = |answer: &Result<(), ec2::Error>| {
        answer
            .as_ref()
            .is_err_and(|error| error.kind == Kind::NotFound)
    };
    retry(&UNSEEN, is_early, call).await
}

/// The name of an owner's group: the caller's name, for people, and a digest of the whole ARN,
/// since callers of several accounts may have the same name.
pub(super) fn group_name(owner: &str) -> String {
    let caller = owner.rsplit(['/', ':']).next().unwrap_or_default();
    let caller: String = caller
        .chars()
        .filter(|letter| is_allowed(*letter))
        .take(100)
        .collect();
    let digest = hex::encode(Sha256::digest(owner));
    format!("xdrive-{caller}-{}", &digest[..8])
}

/// A group for people: its name, then its id.
pub(super) fn label(group: &Group) -> String {
    format!("{} ({})", group.name, group.id)
}

/// Whether names and descriptions may have this letter (EC2 API reference, `CreateSecurityGroup`).
pub(super) fn is_allowed(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || " ._-:/()#,@[]+=&;{}!$*".contains(letter)
}

/// The rule by which `from` may reach port 22.
pub(super) fn ssh(from: Cidr, description: String) -> Rule {
    Rule {
        protocol: "tcp".to_owned(),
        ports: Some((PORT, PORT)),
        from: RuleSource::Cidr(from),
        description,
    }
}

/// The range that a rule lets reach port 22, if it is about that and nothing else.
fn range(rule: &Rule) -> Option<Cidr> {
    match rule.from {
        RuleSource::Cidr(from) if rule.protocol == "tcp" && rule.ports == Some((PORT, PORT)) => {
            Some(from)
        }
        _ => None,
    }
}

/// Whether a rule lets one of these ranges reach port 22.
fn is_for(rule: &Rule, from: &[Cidr]) -> bool {
    range(rule).is_some_and(|range| from.contains(&range))
}

/// A rule's description: its laptop and date.
pub(super) fn describe(laptop: &str, now: Timestamp) -> String {
    format!("{MARK} {laptop} {now:.0}")
}

/// The laptop that a rule is for, if it is one of xdrive's: of port 22, from a range.
pub(crate) fn laptop(rule: &Rule) -> Option<&str> {
    range(rule)?;
    let mut words = rule.description.split(' ');
    words.next().filter(|mark| *mark == MARK)?;
    words.next().filter(|laptop| laptop.starts_with("SHA256:"))
}

/// Whether a rule of xdrive's is so old that no session needs it; one without a date is old.
pub(super) fn is_old(description: &str, now: Timestamp) -> bool {
    date(description).is_none_or(|since| now.duration_since(since) > STAYS)
}

/// The date in a rule's description: that of the last login by it.
fn date(description: &str) -> Option<Timestamp> {
    description.split(' ').nth(2)?.parse().ok()
}

/// Whether no session can use a rule of xdrive's for any instance of its group, the earliest of
/// which was launched at `since`. Every login came after that, and left the rule's date no older
/// than [`RENEWED`]; the date never goes back. So no session uses a rule whose date is a day before
/// `since`, however long the session lasts; the rest of the day is for clocks that differ. A
/// session that logs in by such a rule right now, or could not renew its date, keeps its connection
/// and makes the rule again at the next login.
pub(crate) fn is_unused_since(rule: &Rule, since: Timestamp) -> bool {
    let date = date(&rule.description).filter(|_| laptop(rule).is_some());
    date.is_some_and(|date| since.duration_since(date) > STAYS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(description: &str) -> Rule {
        ssh("203.0.113.7".parse().unwrap(), description.to_owned())
    }

    #[test]
    fn a_rule_names_its_laptop_in_letters_that_ec2_allows() {
        let now = "2026-11-21T12:00:00.123Z".parse().unwrap();
        let text = describe("SHA256:AbC+/0123456789", now);
        assert_eq!(text, "xdrive SHA256:AbC+/0123456789 2026-11-21T12:00:00Z");
        assert!(text.chars().all(is_allowed), "{text}");
        let own = rule(&text);
        assert_eq!(laptop(&own), Some("SHA256:AbC+/0123456789"));
        for other in ["", "office", "xdrive", "xdrive office", "SHA256:AbC"] {
            assert_eq!(laptop(&rule(other)), None, "{other}");
        }
        // Nor is a rule for a laptop that lets in anything but a range to port 22.
        let ports = Some((22, 2049));
        let other_ports = Rule {
            ports,
            ..own.clone()
        };
        let from = RuleSource::Group("sg-0abc".parse().unwrap());
        let of_group = Rule {
            from,
            ..own.clone()
        };
        let protocol = "-1".to_owned();
        let of_all = Rule { protocol, ..own };
        for other in [other_ports, of_group, of_all] {
            assert_eq!(laptop(&other), None, "{other:?}");
        }
    }

    #[test]
    fn a_rule_is_of_nobody_whose_date_is_a_day_before_what_uses_its_group() {
        let at = |text: &str| -> Timestamp { text.parse().unwrap() };
        let old = rule(&describe("SHA256:AbC", at("2026-11-20T11:00:00Z")));
        assert!(is_unused_since(&old, at("2026-11-21T12:00:00Z")));
        assert!(!is_unused_since(&old, at("2026-11-21T10:00:00Z")));
        assert!(!is_unused_since(&old, at("2026-11-19T12:00:00Z")));
        // Without a date, or not xdrive's.
        let launched = at("2027-01-01T00:00:00Z");
        for other in [
            "xdrive SHA256:AbC",
            "office SHA256:AbC 2026-11-20T11:00:00Z",
        ] {
            assert!(!is_unused_since(&rule(other), launched), "{other}");
        }
    }

    #[test]
    fn owners_of_one_name_have_groups_of_their_own() {
        let ada = group_name("arn:aws:iam::111122223333:user/team/ada");
        let other = group_name("arn:aws:iam::444455556666:user/team/ada");
        assert!(ada.starts_with("xdrive-ada-") && ada.len() == 19, "{ada}");
        assert_ne!(ada, other);
        let role = group_name("arn:aws:sts::111122223333:assumed-role/dev team√");
        assert!(role.starts_with("xdrive-dev team-"), "{role}");
        assert!(group_name("arn:aws:iam::111122223333:root").starts_with("xdrive-root-"));
    }
}
