//! The owner who had the drive mounted last: whoever claims it is another one until their own first mount.

use super::{MOUNTER, owner};
use crate::ec2::{Ownership, Tags};

/// Stands for an owner who is none, where no more is known than that it was not this one.
pub const NOBODY: &str = "nobody";

/// The owner who had the drive mounted last, as far as these tags have it; empty if they do not.
#[must_use]
pub fn mounter(tags: &Tags) -> &str {
    tags.get(MOUNTER)
        .map_or_else(|| owner(tags), String::as_str)
}

/// The last mounter, as `me` has to see it, who takes the thing over: another owner may have mounted what is theirs.
#[must_use]
pub fn mounter_before<'a>(tags: &'a Tags, me: &str) -> &'a str {
    let owner = owner(tags);
    if owner.is_empty() || Ownership::from_tag(owner, me) != Ownership::Other {
        mounter(tags)
    } else {
        owner
    }
}

/// The tag of who had the drive mounted last; none where that is not known.
#[must_use]
pub fn mounted_by(mounter: &str) -> Tags {
    let known = Some(mounter).filter(|mounter| !mounter.is_empty());
    known
        .map(|mounter| (MOUNTER.to_owned(), mounter.to_owned()))
        .into_iter()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::OWNER;
    use super::*;

    #[test]
    fn another_owner_of_a_thing_may_have_had_it_mounted_and_its_own_owner_not() {
        let tags = |owner: &str, mounter: Option<&str>| {
            let mut tags = mounted_by(mounter.unwrap_or_default());
            tags.insert(OWNER.to_owned(), owner.to_owned());
            tags
        };
        let (me, other) = ("arn:aws:iam::1:user/me", "arn:aws:iam::1:user/other");
        for (owner, noted, expected) in [
            (me, None, me),
            (me, Some(other), other),
            (me, Some(NOBODY), NOBODY),
            (other, Some(me), other),
            (other, None, other),
            ("", Some(other), other),
            ("", None, ""),
        ] {
            let tags = tags(owner, noted);
            assert_eq!(mounter_before(&tags, me), expected, "{owner}: {noted:?}");
        }
    }
}
