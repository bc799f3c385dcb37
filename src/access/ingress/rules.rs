//! The rules of an owner's group: what they say, which are added, and which go.
//!
//! A rule says for which laptop it is and when somebody last came by it, within [`RENEWED`]. A
//! laptop adds what it wants and lacks, and renews the date of what it comes by. It takes away only
//! rules of its own that it does not want now, and those only a day after their date: until then
//! another of its sessions may stand behind them, by a VPN or with another `--cidr`. `gc` takes
//! away whosever rules are older than what uses the group ([`is_unused_since`]). Only where the
//! group has no room they go at once. Connections that are up outlive their rule (EC2 user guide,
//! *Security group connection tracking*), and whoever connects again looks first: so a session that
//! wants a rule that went has it again.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use sha2::{Digest as _, Sha256};
use tokio::time::sleep;

use super::Plan;
use crate::drive::{HostError, tags};
use crate::ec2::{self, Cidr, Group, GroupId, Kind, Rule, VpcId};

/// What a description begins with.
const MARK: &str = "xdrive";

/// How long a rule that its laptop does not want stays.
pub(super) const STAYS: SignedDuration = SignedDuration::from_hours(24);

/// How old the date of a rule may be that somebody comes by: it is renewed then, at most some times
/// a day.
const RENEWED: SignedDuration = SignedDuration::from_hours(6);

/// The group has as many rules as one may have: 60, unless the account's quota is another one.
const FULL: &str = "RulesPerSecurityGroupLimitExceeded";

/// Pauses until a group that was just made is seen by every call (EC2 user guide, *Eventual
/// consistency in the Amazon EC2 API*).
const UNSEEN: [Duration; 5] = [
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(3),
    Duration::from_secs(6),
];

/// What came of letting somebody in.
#[derive(Debug, Default)]
pub(super) struct Authorized {
    /// The rules that were made for it.
    pub(super) made: Vec<Rule>,
    /// Which rules could not be taken away, in words. They let in whoever has that address now, but
    /// never without a key.
    pub(super) stayed: Vec<String>,
}

impl Plan {
    /// Lets `from` in, and takes away what this laptop wants no more. No one at all changes
    /// nothing.
    pub(super) async fn authorize(
        &self,
        group: &Group,
        from: &[Cidr],
    ) -> Result<Authorized, ec2::Error> {
        let mut came = Authorized::default();
        if from.is_empty() {
            return Ok(came);
        }
        let now = self.clock.now();
        let is_unwanted = |rule: &&Rule| {
            laptop(&rule.description) == Some(&self.laptop) && !from.contains(&rule.from)
        };
        let mut unwanted: Vec<&Rule> = group.rules.iter().filter(is_unwanted).collect();
        let is_there = |cidr: &&Cidr| group.rules.iter().any(|rule| rule.from == **cidr);
        for cidr in from.iter().filter(|cidr| !is_there(cidr)) {
            let rule = Rule {
                from: *cidr,
                description: describe(&self.laptop, now),
            };
            match self.add(&group.id, &rule).await {
                Err(error) if error.code == FULL && !unwanted.is_empty() => {
                    self.revoke(group, &unwanted, &mut came).await;
                    unwanted.clear();
                    self.add(&group.id, &rule).await?;
                }
                answer => answer?,
            }
            came.made.push(rule);
        }
        self.renew(group, from, now, &mut came).await?;
        unwanted.retain(|rule| is_old(&rule.description, now));
        self.revoke(group, &unwanted, &mut came).await;
        Ok(came)
    }

    /// Renews the date of the rules that are come by, also of another laptop's behind the same
    /// address. Who may not do that comes in all the same; a rule that went meanwhile is made
    /// again.
    async fn renew(
        &self,
        group: &Group,
        from: &[Cidr],
        now: Timestamp,
        came: &mut Authorized,
    ) -> Result<(), ec2::Error> {
        for rule in group.rules.iter().filter(|rule| from.contains(&rule.from)) {
            let Some(laptop) = laptop(&rule.description) else {
                continue;
            };
            if date(&rule.description).is_some_and(|date| now.duration_since(date) <= RENEWED) {
                continue;
            }
            let renewed = Rule {
                from: rule.from,
                description: describe(laptop, now),
            };
            match self.ec2.describe_rule(&group.id, &renewed).await {
                Ok(true) => {}
                Ok(false) => {
                    self.add(&group.id, &renewed).await?;
                    came.made.push(renewed);
                }
                Err(error) => came.stayed.push(format!(
                    "could not renew the date of {}'s rule for {}: {error}",
                    group.id, rule.from
                )),
            }
        }
        Ok(())
    }

    /// Makes a rule; again while the group, which may just have been made, is not seen.
    async fn add(&self, group: &GroupId, rule: &Rule) -> Result<(), ec2::Error> {
        for pause in UNSEEN {
            match self.ec2.authorize(group, rule).await {
                Err(error) if error.kind == Kind::NotFound => sleep(pause).await,
                answer => return answer,
            }
        }
        self.ec2.authorize(group, rule).await
    }

    async fn revoke(&self, group: &Group, rules: &[&Rule], came: &mut Authorized) {
        for rule in rules {
            if let Err(error) = self.ec2.revoke(&group.id, rule.from).await {
                let line = format!("{} still lets {} in: {error}", group.id, rule.from);
                came.stayed.push(line);
            }
        }
    }

    /// Makes the group, or finds the one that another laptop makes at this moment.
    pub(super) async fn make(&self, vpc: &VpcId) -> Result<Group, HostError> {
        let tags = tags::group(&self.owner);
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
                has_other_rules: false,
                tags,
            });
        }
        for pause in UNSEEN {
            let group = self.ec2.group_named(name, vpc).await;
            if let Some(group) = group.map_err(HostError::Ec2)? {
                return Ok(group);
            }
            sleep(pause).await;
        }
        Err(HostError::Failed(format!(
            "{name} is there and not to be seen"
        )))
    }
}

/// What the group of an owner is called: for people by the caller's name, and by a digest of the
/// whole ARN, since several accounts' callers may have one name.
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

/// What names and descriptions may be made of (EC2 API reference, `CreateSecurityGroup`).
pub(super) fn is_allowed(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || " ._-:/()#,@[]+=&;{}!$*".contains(letter)
}

/// What is said of a rule: for which laptop, and since when.
pub(super) fn describe(laptop: &str, now: Timestamp) -> String {
    format!("{MARK} {laptop} {now:.0}")
}

/// For which laptop a rule is, if it is one of xdrive's.
pub(crate) fn laptop(description: &str) -> Option<&str> {
    let mut words = description.split(' ');
    words.next().filter(|mark| *mark == MARK)?;
    words.next().filter(|laptop| laptop.starts_with("SHA256:"))
}

/// Whether a rule of xdrive's was made so long ago that nobody need stand behind it; one that does
/// not tell is old.
pub(super) fn is_old(description: &str, now: Timestamp) -> bool {
    date(description).is_none_or(|since| now.duration_since(since) > STAYS)
}

/// When somebody last came by a rule, as its description has it.
fn date(description: &str) -> Option<Timestamp> {
    description.split(' ').nth(2)?.parse().ok()
}

/// Whether nobody is logged in by a rule of xdrive's to any instance of a group: the earliest of
/// those was launched at `since`. Whoever is in came after that, and at that moment the rule's date
/// was no older than [`RENEWED`], or made so; it never goes back. So one that was a day old by then
/// lets in nobody who is there, however long a session has lasted; the rest of the day is for
/// clocks that differ. Who comes at this moment by such a rule, or could not renew its date, keeps
/// the connection that is up and makes the rule again at the next one.
pub(crate) fn is_unused_since(description: &str, since: Timestamp) -> bool {
    let date = date(description).filter(|_| laptop(description).is_some());
    date.is_some_and(|date| since.duration_since(date) > STAYS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_tells_for_which_laptop_it_is_in_letters_that_ec2_allows() {
        let now = "2026-11-21T12:00:00.123Z".parse().unwrap();
        let text = describe("SHA256:AbC+/0123456789", now);
        assert_eq!(text, "xdrive SHA256:AbC+/0123456789 2026-11-21T12:00:00Z");
        assert!(text.chars().all(is_allowed), "{text}");
        assert_eq!(laptop(&text), Some("SHA256:AbC+/0123456789"));
        for other in ["", "office", "xdrive", "xdrive office", "SHA256:AbC"] {
            assert_eq!(laptop(other), None, "{other}");
        }
    }

    #[test]
    fn a_rule_is_of_nobody_whose_date_is_a_day_before_what_uses_its_group() {
        let at = |text: &str| -> Timestamp { text.parse().unwrap() };
        let rule = describe("SHA256:AbC", at("2026-11-20T11:00:00Z"));
        assert!(is_unused_since(&rule, at("2026-11-21T12:00:00Z")));
        assert!(!is_unused_since(&rule, at("2026-11-21T10:00:00Z")));
        assert!(!is_unused_since(&rule, at("2026-11-19T12:00:00Z")));
        // Not to be dated, or not xdrive's.
        let launched = at("2027-01-01T00:00:00Z");
        for other in [
            "xdrive SHA256:AbC",
            "office SHA256:AbC 2026-11-20T11:00:00Z",
        ] {
            assert!(!is_unused_since(other, launched), "{other}");
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
