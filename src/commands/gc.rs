//! `xdrive gc`: finishes what killed, lost and forgotten sessions left, and lists the rest.
//!
//! Goes over all drives of the caller in this region, found by tags. Each is saved by the same loop
//! that every session ends with, so nothing here decides what may be destroyed. A drive in use is
//! left alone: one whose host has a client or a lease that lasts. What cannot be finished, or needs
//! a choice (forks, tags that cannot be parsed, root disks without an instance), is listed with its
//! cost. After that the owner's security groups are cleaned up (see [`groups`]).

mod groups;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::anyhow;
use serde::Serialize;

use super::list;
use super::list::Entry;
use super::{Context, flags};
use crate::cloud::Cloud;
use crate::config::quantity::{self, Invalid};
use crate::drive::tags::{self, Identity};
use crate::ec2::{self, Instance, InstanceState, Ownership, Tags, VolumeState};
use crate::failure::{Exit, Failure};
use crate::ids::DriveName;
use crate::opener::{Opening, unless_ended};
use crate::report::{self, Report, Text, one_line};
use crate::signals::Signals;
use crate::visit::{self, Finished, Visitor};

use groups::GroupAccount;

/// `xdrive gc`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only this drive.
    #[arg(value_name = "NAME")]
    pub drive: Option<DriveName>,

    /// Say what would be done, and change nothing.
    #[arg(long)]
    pub dry_run: bool,

    /// Delete the saves of each drive but for the newest N.
    ///
    /// Superseded checkpoints go either way [default: all stay].
    #[arg(long, value_name = "N", alias = "snapshots", value_parser = snapshots)]
    pub keep_last: Option<u16>,

    /// One JSON document instead of text.
    #[arg(long)]
    pub json: bool,

    /// How hosts are reached.
    #[command(flatten)]
    pub reach: flags::Reach,
}

/// Parses how many snapshots of a drive stay: the newest always does.
fn snapshots(text: &str) -> Result<u16, Invalid> {
    quantity::number(text, &(1..=u16::MAX), "")
}

/// Cleans up. Returns the exit code.
pub(crate) fn run(args: &Args, context: &Context) -> Result<u8, Failure> {
    let paths = context.paths()?;
    let reach = super::reach(args.reach.clone(), &paths)?;
    super::block_on(async {
        let cloud = context.open(&paths).await?;
        gc(args, &cloud, &super::visitor(&paths, reach)?).await
    })
}

/// The results of a run.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Accounts {
    /// Each drive of the caller's.
    drives: Vec<Account>,
    /// Security groups of the caller's that needed something.
    groups: Vec<GroupAccount>,
}

/// The result for one drive, and what is left of it.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Account {
    /// Name of the drive.
    drive: String,
    /// Result in words: `saved`, `in use …`, `not finished`, `nothing is left`, and the like.
    result: String,
    /// Deletions of old snapshots that were made; with --dry-run all steps that would be; in words.
    steps: Vec<String>,
    /// The steps as lines of text.
    #[serde(skip)]
    lines: Vec<String>,
    /// Notes of what somebody has to look at; in words.
    notes: Vec<String>,
    /// The drive as it is now, if there is anything of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    left: Option<Entry>,
}

/// Cleans up. Returns the exit code: that of a signal, else of the worst failure, else 0.
async fn gc(args: &Args, cloud: &Cloud, visitor: &Visitor) -> Result<u8, Failure> {
    let failures = Failures {
        report: Report::stderr(),
        json: args.json,
    };
    let Identity { owner, caller, .. } = cloud.identity().await?;
    let (mut instances, mut volumes, snapshots) = cloud.ec2.everything().await?;
    // What is gone is listed for an hour, with its tags: nothing of such a drive is left.
    instances.retain(|it| it.state != InstanceState::Terminated);
    volumes.retain(|it| !matches!(it.state, VolumeState::Deleting | VolumeState::Deleted));
    let all = instances.iter().map(|thing| &thing.tags);
    let all = all.chain(volumes.iter().map(|thing| &thing.tags));
    let all: Vec<&Tags> = all
        .chain(snapshots.iter().map(|thing| &thing.tags))
        .collect();
    let names = drives(&all, &caller, args.drive.as_ref());
    if let (Some(drive), true) = (&args.drive, names.is_empty()) {
        return Err(Failure::no_drive(drive, &cloud.command));
    }
    let mut accounts = Vec::new();
    let mut worst = None;
    // Held to the end: between two drives, and after the last, nothing else receives signals.
    let mut signals = if args.dry_run {
        Signals::none()
    } else {
        Signals::install().map_err(anyhow::Error::from)?
    };
    let mut asked = None;
    for (name, ownership) in names {
        let finished = match (name.parse::<DriveName>(), leased(&instances, &name, cloud)) {
            (Err(error), _) => left_alone(format!("not a drive's name: {error}")),
            (_, Some(until)) => left_alone(format!("in use until {until:.0}")),
            (Ok(drive), None) => {
                let is_own = ownership == Ownership::Own;
                finish_drive(drive, cloud, visitor.clone(), args, is_own).await
            }
        };
        if let Some(failure) = &finished.failure {
            worst = Some(failures.print(worst, failure));
        }
        accounts.push(Account {
            drive: name,
            result: finished.result,
            steps: finished.steps,
            lines: finished.lines,
            notes: Vec::new(),
            left: None,
        });
        // The same signal comes here too.
        let came = signals.asked();
        asked = finished.asked.or(came);
        if asked.is_some() {
            break;
        }
    }
    // Print what was done, even if the list fails.
    let listing = unless_ended(&mut signals, &failures.report, list::entries(cloud));
    let entries = match listing.await {
        Ok(Ok(entries)) => entries,
        Ok(Err(failure)) => {
            worst = Some(failures.print(worst, &failure));
            Vec::new()
        }
        Err(end) => {
            asked.get_or_insert(end);
            Vec::new()
        }
    };
    for entry in entries {
        let account = accounts.iter_mut();
        if let Some(account) = account.into_iter().find(|it| it.drive == entry.drive) {
            account.notes = notes(&entry);
            account.left = Some(entry);
        }
    }
    let mut groups = Vec::new();
    // A group belongs to no drive, so `gc NAME` leaves groups alone.
    if args.drive.is_none() {
        for owner in [Some(&*owner), ec2::role(&owner)].into_iter().flatten() {
            if asked.is_some() {
                break;
            }
            match groups::cleanup(&cloud.ec2, owner, args.dry_run).await {
                Ok(finished) => groups.extend(finished),
                Err(error) => {
                    worst = Some(failures.print(worst, &Failure::from(error)));
                }
            }
            asked = signals.asked();
        }
    }
    for failure in groups.iter_mut().filter_map(|group| group.failure.take()) {
        worst = Some(failures.print(worst, &Failure::from(failure)));
    }
    let all = Accounts {
        drives: accounts,
        groups,
    };
    print(&all, args)?;
    let code = asked.map(Exit::from).or(worst);
    Ok(code.map_or(0, Exit::code))
}

/// Finishes `drive`. One that fails is left alone, for others may still be finished.
async fn finish_drive(
    drive: DriveName,
    cloud: &Cloud,
    visitor: Visitor,
    args: &Args,
    is_own: bool,
) -> Finished {
    // Saving is safe for everybody's drive; old snapshots may be a colleague's.
    let keep = args.keep_last.map(usize::from).filter(|_| is_own);
    let opening = Opening {
        dry_run: args.dry_run,
        ..Opening::new(super::whole(drive))
    };
    let finished = visit::finish_drive(opening, cloud, visitor, keep).await;
    finished.unwrap_or_else(|failure| Finished {
        failure: Some(failure),
        ..left_alone("not finished".to_owned())
    })
}

/// The names of this caller's drives, in order, and of those whose owner is the caller's role without
/// a session name.
fn drives(all: &[&Tags], caller: &str, only: Option<&DriveName>) -> BTreeMap<String, Ownership> {
    let mut known: BTreeMap<String, Vec<Ownership>> = BTreeMap::new();
    for tags in all {
        let name = tags.get(tags::DRIVE);
        let name = name.filter(|name| only.is_none_or(|only| only.as_str() == *name));
        if let Some(name) = name {
            let ownership = Ownership::from_tag(tags::owner(tags), caller);
            known.entry(name.clone()).or_default().push(ownership);
        }
    }
    let whose = |all: &[Ownership]| match all {
        all if all.contains(&Ownership::Own) => Some(Ownership::Own),
        // A colleague has used it since.
        all if all.contains(&Ownership::Other) => None,
        _ => Some(Ownership::OfRole),
    };
    let drives = known.into_iter();
    drives
        .filter_map(|(name, all)| Some((name, whose(&all)?)))
        .collect()
}

/// The end of the lease of the drive's live instance, if it has one that lasts.
fn leased(instances: &[Instance], drive: &str, cloud: &Cloud) -> Option<jiff::Timestamp> {
    let now = cloud.clock.now();
    instances
        .iter()
        .filter(|instance| instance.state.is_live())
        .filter(|instance| instance.tags.get(tags::DRIVE).is_some_and(|it| it == drive))
        .filter_map(|instance| tags::until(&instance.tags))
        .filter(|until| *until > now)
        .max()
}

/// The result for a drive that is left alone.
fn left_alone(result: String) -> Finished {
    Finished {
        result,
        steps: Vec::new(),
        lines: Vec::new(),
        failure: None,
        asked: None,
    }
}

/// Prints failures after which the run goes on.
struct Failures {
    report: Report,
    json: bool,
}

impl Failures {
    /// Prints a failure. Returns the worst exit so far.
    fn print(&self, worst: Option<Exit>, failure: &Failure) -> Exit {
        let shown = failure.shown(self.json, failure.exit.code());
        self.report.print(&shown);
        failure.exit.or_worse(worst)
    }
}

fn notes(entry: &Entry) -> Vec<String> {
    let mut notes: Vec<String> = entry
        .lone_root_disks()
        .map(|id| format!("a root disk without an instance ({id})"))
        .collect();
    if entry.drive.contains(".fork-") {
        notes.push("a lineage that was not chosen: `xdrive delete` deletes it".to_owned());
    }
    notes
}

fn print(all: &Accounts, args: &Args) -> Result<(), Failure> {
    if args.json {
        return Ok(report::json(all)?);
    }
    let would = if args.dry_run { "would " } else { "" };
    let mut text = Text::default();
    if all.drives.is_empty() {
        text.push(&Text::block("nothing is left of any drive of yours\n"));
    }
    (all.drives.iter()).for_each(|it| text.push(&it.text(would)));
    (all.groups.iter()).for_each(|group| text.push(&Text::block(&group.text(would))));
    report::data(&text).map_err(|error| Failure::from(anyhow!("cannot write the list: {error}")))
}

impl Account {
    fn text(&self, would: &str) -> Text {
        let mut text = format!("{}: {}\n", one_line(&self.drive), one_line(&self.result));
        for line in &self.lines {
            let _ = writeln!(text, "  {would}{}", one_line(line));
        }
        for note in &self.notes {
            let _ = writeln!(text, "  {note}");
        }
        let mut text = Text::block(&text);
        text.push(&self.left.as_ref().map_or_else(Text::default, Entry::text));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_the_committed_schema() {
        let (title, description) = (
            "xdrive gc --json",
            "What was cleaned up, or would be with --dry-run.",
        );
        crate::report::schema::check::<Accounts>("gc", title, description);
    }

    fn thing(drive: &str, owner: &str) -> Tags {
        [(tags::DRIVE, drive), (tags::OWNER, owner)]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into()
    }

    #[test]
    fn only_drives_of_this_owner_are_touched() {
        let things = [thing("b", "me"), thing("a", "me"), thing("c", "other")];
        let all: Vec<&Tags> = things.iter().collect();
        let names = |only: Option<&str>| -> Vec<String> {
            let only: Option<DriveName> = only.map(|name| name.parse().unwrap());
            drives(&all, "me", only.as_ref()).into_keys().collect()
        };
        assert_eq!(names(None), ["a", "b"]);
        assert_eq!(names(Some("b")), ["b"]);
        assert_eq!(names(Some("c")), [""; 0]);
    }

    #[test]
    fn drives_of_the_bare_role_are_this_owners_unless_a_colleague_has_used_them_since() {
        const ROLE: &str = "arn:aws:sts::1:assumed-role/AWSReservedSSO_Dev_0";
        let (ada, bob) = (format!("{ROLE}/ada"), format!("{ROLE}/bob"));
        let things = [
            thing("old", ROLE),
            thing("hers", ROLE),
            thing("hers", &ada),
            thing("his", ROLE),
            thing("his", &bob),
        ];
        let all: Vec<&Tags> = things.iter().collect();
        let found: Vec<_> = drives(&all, &ada, None).into_iter().collect();
        assert_eq!(
            found,
            [
                ("hers".to_owned(), Ownership::Own),
                ("old".to_owned(), Ownership::OfRole)
            ]
        );
        assert_eq!(drives(&all, ROLE, Some(&"his".parse().unwrap())).len(), 1);
    }
}
