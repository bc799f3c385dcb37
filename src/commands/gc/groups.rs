//! Deletes security groups that no instance uses, and revokes unused ingress rules of the others.
//!
//! Only this owner's groups; of a group to which others have added rules only the rules that xdrive
//! made. A session may be about to launch into a group that looks unused. So a group is deleted as
//! a whole, which EC2 refuses from the moment that an instance is in it, and no rule is revoked
//! before. A launch that finds its group gone makes it again.

use std::fmt::Write as _;

use crate::access::ingress;
use crate::ec2::{Ec2, Error, Group, Kind, OpenPort, Rule};
use crate::launch::shares::targets;
use crate::launch::workers;
use serde::Serialize;

/// The result for one group.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct GroupAccount {
    /// Id of the group.
    group: String,
    /// Name of the group.
    name: String,
    /// VPC of the group.
    vpc: String,
    /// Result in words.
    result: String,
    /// Deletions and revocations that were made, or would be; in words.
    steps: Vec<String>,
    #[serde(skip)]
    pub(super) failure: Option<Error>,
}

/// Deletes `owner`'s unused groups, and revokes unused rules of the others; a `dry_run` changes
/// nothing. Groups that need nothing are left out of the result.
pub(super) async fn cleanup(
    ec2: &Ec2,
    owner: &str,
    dry_run: bool,
) -> Result<Vec<GroupAccount>, Error> {
    let mut accounts = Vec::new();
    let mut groups = ec2.groups_of(owner).await?;
    groups.sort_by_key(|group| !targets::is_of_targets(group));
    for group in groups {
        let since = ec2.group_used_since(&group.id).await?;
        let is_gone =
            |rule: &&Rule| since.is_some_and(|since| ingress::is_unused_since(rule, since));
        let gone: Vec<&Rule> = group.rules.iter().filter(is_gone).collect();
        if since.is_none() || !gone.is_empty() {
            accounts.push(account(ec2, &group, &gone, dry_run).await);
        }
    }
    Ok(accounts)
}

/// Revokes the `gone` rules of a group; deletes the group if there are none.
async fn account(ec2: &Ec2, group: &Group, gone: &[&Rule], dry_run: bool) -> GroupAccount {
    let mut steps = Vec::new();
    let done = if gone.is_empty() {
        clear(ec2, group, dry_run, &mut steps).await
    } else {
        revoke(ec2, group, gone, dry_run, &mut steps).await
    };
    let (result, failure) = match done {
        Ok(result) => (result.to_owned(), None),
        // In use by an instance that lists do not show yet, or by another network interface.
        Err(error) if error.kind == Kind::State => (format!("left alone: {error}"), None),
        Err(error) => ("not finished".to_owned(), Some(error)),
    };
    GroupAccount {
        group: group.id.to_string(),
        name: group.name.clone(),
        vpc: group.vpc.to_string(),
        result,
        steps,
        failure,
    }
}

async fn clear(
    ec2: &Ec2,
    group: &Group,
    dry_run: bool,
    steps: &mut Vec<String>,
) -> Result<&'static str, Error> {
    const KEPT: &str = "unused, and kept: it has rules that xdrive did not make";
    let is_own = |rule: &&Rule| {
        ingress::laptop(rule).is_some()
            || targets::is_own(rule)
            || workers::is_own(&group.id, rule)
            || OpenPort::is_own(rule)
    };
    let own: Vec<&Rule> = group.rules.iter().filter(is_own).collect();
    let has_others = own.len() < group.rules.len();
    if dry_run {
        steps.extend(own.iter().copied().map(line));
        if has_others {
            return Ok(KEPT);
        }
        let unless = if targets::is_of_targets(group) {
            ", unless a mount target still has it"
        } else {
            ""
        };
        steps.push(format!("delete {}{unless}", group.id));
        return Ok("unused");
    }
    if !has_others {
        ec2.delete_group(&group.id).await?;
        steps.extend(own.iter().copied().map(line));
        steps.push(format!("deleted {}", group.id));
        return Ok("gone");
    }
    for rule in own {
        ec2.revoke(&group.id, rule).await?;
        steps.push(line(rule));
    }
    Ok(KEPT)
}

fn line(rule: &Rule) -> String {
    format!("let {} in no longer ({})", rule.from, rule.description)
}

/// Revokes the `gone` rules of a group in use. A session that needs one of them authorizes it
/// again.
async fn revoke(
    ec2: &Ec2,
    group: &Group,
    gone: &[&Rule],
    dry_run: bool,
    steps: &mut Vec<String>,
) -> Result<&'static str, Error> {
    for rule in gone {
        if !dry_run {
            ec2.revoke(&group.id, rule).await?;
        }
        steps.push(line(rule));
    }
    Ok("in use")
}

impl GroupAccount {
    /// The result as text; steps begin with `would`.
    pub(super) fn text(&self, would: &str) -> String {
        let mut text = format!("{} ({}): {}\n", self.name, self.vpc, self.result);
        for step in &self.steps {
            let _ = writeln!(text, "  {would}{step}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tempfile::TempDir;
    use tokio::time::sleep;

    use super::*;
    use crate::clock::Clock;
    use crate::cloud::folder;
    use crate::drive::tags;
    use crate::ec2::{LaunchOrder, Market, RuleSource, Tags};
    use crate::ids::GroupId;
    use crate::local::plane::PaperPlane;
    use crate::local::{Fault, Local, OpenOptions, Settings};

    const ADA: &str = "arn:aws:iam::000000000000:user/ada";
    const MACHINE: &str =
        "resolve:ssm:/aws/service/ecs/optimized-ami/amazon-linux-2023/recommended/image_id";
    const OWN: &str = "xdrive SHA256:AbCdEfGhIjKlMnOp 2026-11-21T12:00:00Z";

    fn paper() -> (TempDir, Local, Ec2) {
        paper_with(Settings::default())
    }

    fn paper_with(settings: Settings) -> (TempDir, Local, Ec2) {
        let dir = tempfile::tempdir().unwrap();
        let clock = Clock::tokio("2026-11-21T12:00:00Z".parse().unwrap());
        let mut options = OpenOptions::new(dir.path(), PaperPlane, clock);
        options.settings = settings;
        let local = Local::open(options).unwrap();
        let ec2 = folder::ec2(&local);
        (dir, local, ec2)
    }

    /// An instance in `group`.
    fn order(group: &GroupId) -> LaunchOrder {
        let tags: Tags = [("Name".to_owned(), "of no drive".to_owned())].into();
        LaunchOrder {
            client_token: "one".to_owned(),
            image: MACHINE.to_owned(),
            instance_type: "t3.medium".to_owned(),
            zone: None,
            subnet: None,
            public_address: false,
            root_device: None,
            groups: vec![group.clone()],
            instance_profile: None,
            market: Market::OnDemand,
            max_price: None,
            reservation: None,
            user_data: Vec::new(),
            tags: tags.clone(),
            root_tags: tags,
            interface_tags: Tags::new(),
        }
    }

    fn rule(port: i32, from: &str, description: &str) -> Rule {
        Rule {
            protocol: "tcp".to_owned(),
            ports: Some((port, port)),
            from: RuleSource::Cidr(from.parse().unwrap()),
            description: description.to_owned(),
        }
    }

    async fn group(ec2: &Ec2, owner: &str, name: &str, rules: &[(&str, &str)]) -> GroupId {
        let vpc = ec2.default_vpc().await.unwrap().unwrap();
        let tags = tags::group(owner);
        let made = ec2.create_group(name, "laptops", &vpc, &tags).await;
        let id = made.unwrap().unwrap();
        for (from, description) in rules {
            ec2.authorize(&id, &rule(22, from, description))
                .await
                .unwrap();
        }
        id
    }

    async fn names(ec2: &Ec2, owner: &str) -> Vec<String> {
        let groups = ec2.groups_of(owner).await.unwrap();
        let names = groups
            .into_iter()
            .map(|group| (group.name, group.rules.len()));
        let mut names: Vec<_> = names
            .map(|(name, rules)| format!("{name} {rules}"))
            .collect();
        names.sort();
        names
    }

    #[tokio::test(start_paused = true)]
    async fn unused_groups_of_this_owner_go_and_no_others() {
        let (_dir, _local, ec2) = paper();
        let rules = [("203.0.113.7/32", OWN), ("2001:db8::7/128", OWN)];
        let idle = group(&ec2, ADA, "idle", &rules).await;
        let busy = group(&ec2, ADA, "busy", &rules).await;
        let office = [("203.0.113.7/32", OWN), ("192.0.2.0/24", "office")];
        group(&ec2, ADA, "mixed", &office).await;
        let served = group(&ec2, ADA, "served", &rules[..1]).await;
        let nfs = rule(2049, "203.0.113.7/32", OWN);
        ec2.authorize(&served, &nfs).await.unwrap();
        group(&ec2, "arn:aws:iam::000000000000:user/bob", "bob", &rules).await;
        ec2.launch(&order(&busy)).await.unwrap();

        let all = names(&ec2, ADA).await;
        assert_eq!(all, ["busy 2", "idle 2", "mixed 2", "served 2"]);
        let foreseen = cleanup(&ec2, ADA, true).await.unwrap();
        assert_eq!(names(&ec2, ADA).await, all);
        let text: String = foreseen.iter().map(|it| it.text("would ")).collect();
        assert!(
            text.contains("would let 203.0.113.7/32 in no longer (xdrive SHA256:"),
            "{text}"
        );
        assert!(text.contains(&format!("would delete {idle}\n")), "{text}");
        assert!(!text.contains("busy"), "{text}");

        let done = cleanup(&ec2, ADA, false).await.unwrap();
        assert_eq!(names(&ec2, ADA).await, ["busy 2", "mixed 1", "served 1"]);
        let text: String = done.iter().map(|it| it.text("")).collect();
        assert!(text.contains(&format!("  deleted {idle}\n")), "{text}");
        assert_eq!(text.matches("unused, and kept").count(), 2, "{text}");
        assert_eq!(
            names(&ec2, "arn:aws:iam::000000000000:user/bob").await,
            ["bob 2"]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn rules_by_which_nobody_is_in_any_more_leave_a_group_in_use() {
        let (_dir, _local, ec2) = paper();
        let yesterday = "xdrive SHA256:AbCdEfGhIjKlMnOp 2026-11-20T13:00:00Z";
        let gone = "xdrive SHA256:OfALaptopThatWent 2026-11-20T11:00:00Z";
        let rules = [
            ("203.0.113.7/32", OWN),
            ("203.0.113.8/32", yesterday),
            ("198.51.100.1/32", gone),
            ("2001:db8::7/128", gone),
            ("192.0.2.0/24", "office"),
        ];
        let busy = group(&ec2, ADA, "busy", &rules).await;
        ec2.launch(&order(&busy)).await.unwrap();
        // An instance launched a day later does not change the first one's rules.
        sleep(Duration::from_hours(30)).await;
        let later = LaunchOrder {
            client_token: "two".to_owned(),
            ..order(&busy)
        };
        ec2.launch(&later).await.unwrap();
        let foreseen = cleanup(&ec2, ADA, true).await.unwrap();
        assert_eq!(names(&ec2, ADA).await, ["busy 5"]);
        let text: String = foreseen.iter().map(|it| it.text("would ")).collect();
        assert_eq!(text.matches("\n  would let ").count(), 2, "{text}");
        let done = cleanup(&ec2, ADA, false).await.unwrap();
        let text: String = done.iter().map(|it| it.text("")).collect();
        assert!(
            text.contains(": in use\n  let 198.51.100.1/32 in no longer"),
            "{text}"
        );
        assert_eq!(names(&ec2, ADA).await, ["busy 3"]);
        assert!(cleanup(&ec2, ADA, false).await.unwrap().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_mount_target_may_still_have_is_not_promised_to_go() {
        let (_dir, _local, ec2) = paper();
        let idle = group(&ec2, ADA, "idle", &[]).await;
        let name = format!("xdrive-share-{idle}");
        let guard = group(&ec2, ADA, &name, &[]).await;
        let foreseen = cleanup(&ec2, ADA, true).await.unwrap();
        let text: String = foreseen.iter().map(|it| it.text("would ")).collect();
        let unless = "unless a mount target still has it";
        assert!(
            text.contains(&format!("would delete {guard}, {unless}\n")),
            "{text}"
        );
        assert!(text.contains(&format!("would delete {idle}\n")), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_group_that_something_holds_on_to_is_left_as_it_is() {
        let (_dir, local, ec2) = paper();
        group(&ec2, ADA, "held", &[("203.0.113.7/32", OWN)]).await;
        let words = "resource sg-1 has a dependent object";
        let held = Fault::new("DeleteSecurityGroup", 400, "DependencyViolation", words);
        local.plant(held).unwrap();
        let done = cleanup(&ec2, ADA, false).await.unwrap();
        assert!(done[0].failure.is_none());
        assert!(done[0].result.contains("left alone: "), "{:?}", done[0]);
        assert!(done[0].result.contains(words), "{:?}", done[0]);
        assert_eq!(names(&ec2, ADA).await, ["held 1"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_launch_that_lists_do_not_show_yet_keeps_its_group_and_its_rules() {
        let (_dir, _local, ec2) = paper_with(Settings {
            stale_lists_ms: Some(5000),
            ..Settings::default()
        });
        let own = group(&ec2, ADA, "own", &[("203.0.113.7/32", OWN)]).await;
        sleep(Duration::from_secs(6)).await;
        ec2.launch(&order(&own)).await.unwrap();
        let shown = ec2.group_used_since(&own).await.unwrap();
        assert_eq!(shown, None, "it is shown");
        let done = cleanup(&ec2, ADA, false).await.unwrap();
        assert!(done[0].result.contains("DependencyViolation"), "{done:?}");
        assert!(done[0].failure.is_none());
        sleep(Duration::from_secs(6)).await;
        assert_eq!(names(&ec2, ADA).await, ["own 1"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_denied_deletion_is_reported_as_a_failure() {
        let (_dir, local, ec2) = paper();
        group(&ec2, ADA, "idle", &[("203.0.113.7/32", OWN)]).await;
        let denied = Fault::new("DeleteSecurityGroup", 403, "UnauthorizedOperation", "no");
        local.plant(denied).unwrap();
        let done = cleanup(&ec2, ADA, false).await.unwrap();
        let failure = done[0].failure.as_ref().unwrap();
        assert_eq!(failure.kind, Kind::Denied);
        assert_eq!(names(&ec2, ADA).await, ["idle 1"]);
    }
}
