//! Shares: file systems of Elastic File System that carry a share's name.
//!
//! The token that a file system is made for has the share's name, and an account has one file system for a
//! token in a region: two computers that make a share at once make one, and a name in the tags of another
//! file system makes that no share. A share is no part of a drive: nothing here saves, prunes or deletes
//! one but [`delete`].

mod calls;
pub(crate) mod targets;

use anyhow::anyhow;

use self::calls::{failed, retried, until};
use crate::cloud::Cloud;
use crate::ec2::{FileSystem, OWNER, Ownership, SHARE, ShareState, Tags};
use crate::failure::{Exit, Failure};
use crate::ids::ShareName;

/// The prefix of the token.
const TOKEN: &str = "xdrive-share-";

/// The console's name of a share.
const NAME: &str = "Name";

/// The price of a GiB and month in US cents, and of one that nobody has read for 30 days (Amazon EFS pricing,
/// us-east-1, *Regional*).
const CENTS: f64 = 30.0;
const CENTS_RARELY_READ: f64 = 2.5;

/// The throughput mode that costs nothing besides.
const BURSTING: &str = "bursting";

/// A share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Share {
    /// The name.
    pub(crate) name: ShareName,
    /// The file system.
    pub(crate) of: FileSystem,
}

impl Share {
    /// The share that this file system is, by its tags and token, if it is one and is not being deleted.
    fn read(of: FileSystem) -> Option<Self> {
        let name: ShareName = of.tags.get(SHARE)?.parse().ok()?;
        (of.state.is_left() && of.token == token(&name)).then_some(Self { name, of })
    }

    /// The caller who made it; empty if that is on no record.
    pub(crate) fn owner(&self) -> &str {
        self.of.tags.get(OWNER).map_or("", String::as_str)
    }

    /// The cost of a month in US cents at what it holds now.
    #[expect(clippy::cast_precision_loss, reason = "cents")]
    pub(crate) fn monthly_cents(&self) -> f64 {
        const GIB: f64 = (1_u64 << 30) as f64;
        let rarely = self.of.rarely_read as f64 / GIB;
        let often = self.of.size.saturating_sub(self.of.rarely_read) as f64 / GIB;
        often * CENTS + rarely * CENTS_RARELY_READ
    }

    /// How it differs from what [`create`] makes, which somebody has chosen elsewhere; none if it does not.
    pub(crate) fn difference(&self) -> Option<String> {
        let zone = self
            .of
            .zone
            .as_ref()
            .map(|zone| format!("is kept in {} alone", zone.0));
        let mode = Some(self.of.throughput.as_str()).filter(|mode| *mode != BURSTING);
        let mode = mode.map(|mode| format!("has {mode} throughput, at a price of its own"));
        let words: Vec<String> = zone.into_iter().chain(mode).collect();
        (!words.is_empty()).then(|| words.join(", and "))
    }
}

/// The price of a share, and how its throughput is paid for: what is to be known before its first byte.
pub(crate) fn price_words() -> String {
    format!(
        "about ${:.2} a GiB and month in us-east-1, ${:.3} for files that nobody has read for 30 days; \
         {BURSTING} throughput, which costs nothing besides and grows with what is in it",
        CENTS / 100.0,
        CENTS_RARELY_READ / 100.0
    )
}

/// All shares in the region, by name.
pub(crate) async fn all(cloud: &Cloud) -> Result<Vec<Share>, Failure> {
    let found = cloud.ec2.file_systems().await.map_err(failed)?;
    let mut shares: Vec<Share> = found.into_iter().filter_map(Share::read).collect();
    shares.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(shares)
}

/// The share of this name, which has to be there.
pub(crate) async fn demand(cloud: &Cloud, name: &ShareName) -> Result<Share, Failure> {
    let of = cloud.ec2.file_system_of(&token(name)).await;
    let share = of.map_err(failed)?.and_then(Share::read);
    share.ok_or_else(|| {
        let error = anyhow!("there is no share {name} in {}", cloud.ec2.region());
        let hint = format!(
            "{0} share create {name}  makes it, {0} share list  shows all",
            cloud.command
        );
        Failure::new(Exit::Unavailable, error).hint(hint)
    })
}

/// Refuses a share that is another caller's, with this hint. A role without a person's name is another one.
pub(crate) fn check_owner(share: &Share, caller: &str, hint: &str) -> Result<(), Failure> {
    let owner = share.owner();
    if owner.is_empty() || Ownership::from_tag(owner, caller) == Ownership::Own {
        return Ok(());
    }
    let error = anyhow!(
        "the share {} is {owner}'s, and you are {caller}",
        share.name
    );
    Err(Failure::new(Exit::Denied, error).hint(hint))
}

/// Makes the share of this name, and waits until it can be used; whether it is new. One that is there and
/// has another owner is refused. Between two calls it ends unless it `goes_on`.
pub(crate) async fn create(
    cloud: &Cloud,
    name: &ShareName,
    caller: &str,
    goes_on: &mut impl FnMut() -> Result<(), Failure>,
) -> Result<(Share, bool), Failure> {
    let tags = tags(cloud, name, caller)?;
    let token = token(name);
    let made = retried(|| cloud.ec2.create_file_system(&token, &tags)).await?;
    let again = format!("{} share create {name}  goes on with it", cloud.command);
    let left = made
        .as_ref()
        .map(|id| format!("{id} was made, and costs what is in it"));
    let settling = async {
        // Without one of this call's it may be gone by now.
        let is_settled = |of: &Option<FileSystem>| {
            let of = of.as_ref();
            of.map_or(made.is_none(), |of| of.state != ShareState::Creating)
        };
        let of = until(|| cloud.ec2.file_system_of(&token), is_settled, goes_on).await?;
        let share = share_of(name, of)?;
        if made.is_some() {
            retried(|| cloud.ec2.keep_rarely_read_cheaply(&share.of.id)).await?;
        } else {
            check_owner(&share, caller, "take another name")?;
        }
        Ok((share, made.is_some()))
    };
    settling.await.map_err(|failure| match left {
        Some(left) => with(failure, left, again),
        None => failure,
    })
}

/// The tags of a new share (EFS API reference, `Tag`: the characters of a value).
fn tags(cloud: &Cloud, name: &ShareName, caller: &str) -> Result<Tags, Failure> {
    let mut tags: Tags = cloud.tags.clone();
    for (key, value) in [
        (NAME, name.as_str()),
        (SHARE, name.as_str()),
        (OWNER, caller),
    ] {
        tags.insert(key.to_owned(), value.to_owned());
    }
    let is_known = |c: char| c.is_alphanumeric() || c.is_whitespace() || "_.:/=+-@".contains(c);
    match tags.iter().find(|(_, value)| !value.chars().all(is_known)) {
        None => Ok(tags),
        Some((key, value)) => {
            let error = anyhow!("a file system's tag cannot be {value:?}, as {key} is");
            let hint = "letters, digits, spaces and _.:/=+-@ can be in it";
            Err(Failure::new(Exit::Config, error).hint(hint))
        }
    }
}

/// The share of this name that the file system of its token is.
fn share_of(name: &ShareName, of: Option<FileSystem>) -> Result<Share, Failure> {
    let Some(of) = of.filter(|of| of.state.is_left()) else {
        let error = anyhow!("the share {name} was being deleted");
        let hint = "the same command makes it once that is gone";
        return Err(Failure::new(Exit::TryAgain, error).hint(hint));
    };
    let (id, state) = (of.id.clone(), of.state);
    match Share::read(of) {
        Some(share) if state != ShareState::Error => Ok(share),
        found => {
            let what = found.map_or("not its tags", |_| "failed");
            let error = anyhow!("{id} has the token of the share {name}, and {what}");
            let hint = "the console of Elastic File System shows what it is";
            Err(Failure::new(Exit::Stuck, error).hint(hint))
        }
    }
}

/// Deletes a share with all that it holds: its mount targets, then it. May be repeated, and between two calls
/// it ends unless it `goes_on`.
pub(crate) async fn delete(
    cloud: &Cloud,
    share: &Share,
    goes_on: &mut impl FnMut() -> Result<(), Failure>,
) -> Result<(), Failure> {
    let id = &share.of.id;
    let again = format!(
        "{} share delete {}  goes on with it",
        cloud.command, share.name
    );
    let left = format!("{id} is left; mount targets of it may be gone");
    let deleting = async {
        for target in cloud.ec2.mount_targets(id).await.map_err(failed)? {
            if target.state.is_left() {
                goes_on()?;
                retried(|| cloud.ec2.delete_mount_target(&target.id)).await?;
            }
        }
        let look = || cloud.ec2.file_system(id);
        let is_free = |of: &Option<FileSystem>| of.as_ref().is_none_or(|of| of.targets == 0);
        until(look, is_free, goes_on).await?;
        retried(|| cloud.ec2.delete_file_system(id)).await?;
        // Its name is free only then.
        let is_gone = |of: &Option<FileSystem>| {
            let of = of.as_ref();
            of.is_none_or(|of| of.state == ShareState::Deleted)
        };
        until(look, is_gone, goes_on).await
    };
    let deleted: Result<_, Failure> = deleting.await;
    deleted
        .map(drop)
        .map_err(|failure| with(failure, left, again))
}

/// The failure, with what is left, and where it has no hint how to go on.
fn with(failure: Failure, left: String, again: String) -> Failure {
    let has_hint = failure.hint.is_some();
    let failure = Failure {
        error: failure.error.context(left),
        ..failure
    };
    failure.maybe_hint((!has_hint).then_some(again))
}

fn token(name: &ShareName) -> String {
    format!("{TOKEN}{name}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ec2::Zone;

    fn file_system(tags: &[(&str, &str)], state: ShareState) -> FileSystem {
        let tags = tags
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        FileSystem {
            id: "fs-0123".parse().unwrap(),
            token: "xdrive-share-data".to_owned(),
            state,
            targets: 0,
            size: 3 << 30,
            rarely_read: 2 << 30,
            throughput: BURSTING.to_owned(),
            created: jiff::Timestamp::UNIX_EPOCH,
            zone: None,
            tags: tags.collect(),
        }
    }

    #[test]
    fn a_share_has_the_token_of_its_name_and_is_not_being_deleted() {
        let named = [(SHARE, "data")];
        let share = Share::read(file_system(&named, ShareState::Available)).unwrap();
        assert_eq!(share.name.as_str(), "data");
        assert!((share.monthly_cents() - 35.0).abs() < 1e-9);
        assert_eq!(share.difference(), None);
        for (tags, state) in [
            (&named[..], ShareState::Deleting),
            (&[], ShareState::Available),
            (&[(SHARE, "../data")], ShareState::Available),
            (&[(SHARE, "lessons")], ShareState::Available),
        ] {
            assert_eq!(Share::read(file_system(tags, state)), None, "{tags:?}");
        }
    }

    #[test]
    fn a_file_system_of_the_token_that_cannot_be_used_is_refused() {
        let named = [(SHARE, "data")];
        let name = "data".parse().unwrap();
        let refused = |of| share_of(&name, of).unwrap_err().exit;
        assert_eq!(refused(None), Exit::TryAgain);
        let of = |tags, state| Some(file_system(tags, state));
        assert_eq!(refused(of(&named, ShareState::Deleting)), Exit::TryAgain);
        assert_eq!(refused(of(&named, ShareState::Error)), Exit::Stuck);
        assert_eq!(refused(of(&[], ShareState::Available)), Exit::Stuck);
        assert!(share_of(&name, of(&named, ShareState::Updating)).is_ok());
    }

    #[test]
    fn somebody_elses_choices_are_said() {
        let share = Share {
            name: "data".parse().unwrap(),
            of: FileSystem {
                throughput: "elastic".to_owned(),
                zone: Some(Zone("us-east-1a".to_owned())),
                ..file_system(&[], ShareState::Available)
            },
        };
        assert_eq!(
            share.difference().unwrap(),
            "is kept in us-east-1a alone, and has elastic throughput, at a price of its own"
        );
    }

    #[test]
    fn every_name_fits_a_token() {
        // EFS API reference, `CreateFileSystem`.
        const LONGEST: usize = 64;
        let longest = "a".repeat(48).parse().unwrap();
        assert!(token(&longest).len() <= LONGEST);
    }

    #[test]
    fn anothers_share_is_refused_and_nobodys_is_not() {
        let me = "arn:aws:sts::1:assumed-role/AWSReservedSSO_x_1/me";
        let of = |owner: &str| {
            let tags = [(SHARE, "data"), (OWNER, owner)];
            Share::read(file_system(&tags, ShareState::Available)).unwrap()
        };
        for own in [me, ""] {
            assert!(check_owner(&of(own), me, "").is_ok(), "{own}");
        }
        for other in [
            "arn:aws:iam::1:user/other",
            "arn:aws:sts::1:assumed-role/AWSReservedSSO_x_1",
        ] {
            let refused = check_owner(&of(other), me, "").unwrap_err();
            assert_eq!(refused.exit, Exit::Denied, "{other}");
        }
    }
}
