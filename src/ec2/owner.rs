//! Owners: the caller's ARN, without what changes from login to login.
//!
//! The session name of an assumed role is left out, because every login changes it. The roles that
//! IAM Identity Center makes are the exception: everybody with one permission set has the same
//! role, and the session name is the person (IAM Identity Center user guide, *Permission sets*).

/// The prefix of the names of permission sets' roles.
const PERMISSION_SET: &str = ":assumed-role/AWSReservedSSO_";

/// Whether a resource is the caller's, by its owner tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ownership {
    /// The caller's own.
    Own,
    /// Of some person with the caller's permission set: old versions of xdrive wrote the role
    /// alone.
    OfRole,
    /// Of another caller.
    Other,
}

impl Ownership {
    /// The ownership of a resource with this `owner`, for `caller`, an owner too.
    #[must_use]
    pub fn from_tag(owner: &str, caller: &str) -> Self {
        if owner == caller {
            Self::Own
        } else if role(caller) == Some(owner) {
            Self::OfRole
        } else {
            Self::Other
        }
    }
}

/// The owner of what is made by the caller with this ARN (IAM user guide, *IAM identifiers*):
/// `arn:aws:sts::ACCOUNT:assumed-role/ROLE/SESSION` without `/SESSION`, unless that is a person;
/// any other ARN as it is.
pub(super) fn owner_of(arn: &str) -> &str {
    if arn.contains(PERMISSION_SET) {
        return arn;
    }
    without_session(arn).unwrap_or(arn)
}

/// The role of an owner who is a person with a permission set.
#[must_use]
pub fn role(owner: &str) -> Option<&str> {
    let is_person = owner.contains(PERMISSION_SET);
    is_person.then(|| without_session(owner)).flatten()
}

fn without_session(arn: &str) -> Option<&str> {
    let (role, _) = arn.rsplit_once('/')?;
    (role.contains(":assumed-role/")).then_some(role)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROLE: &str = "arn:aws:sts::111122223333:assumed-role/AWSReservedSSO_Dev_0123456789abcdef";

    #[test]
    fn an_assumed_role_is_the_same_owner_in_every_session() {
        let role = "arn:aws:sts::111122223333:assumed-role/dev";
        assert_eq!(owner_of(&format!("{role}/ada@laptop")), role);
        assert_eq!(owner_of(role), role);
    }

    #[test]
    fn a_user_keeps_its_path_and_name() {
        let user = "arn:aws:iam::111122223333:user/team/ada";
        assert_eq!(owner_of(user), user);
        assert_eq!(role(user), None);
    }

    #[test]
    fn people_with_one_permission_set_are_owners_of_their_own() {
        let (ada, bob) = (format!("{ROLE}/ada@example.com"), format!("{ROLE}/bob"));
        assert_eq!(owner_of(&ada), ada);
        assert_eq!(Ownership::from_tag(&ada, &ada), Ownership::Own);
        assert_eq!(Ownership::from_tag(&bob, &ada), Ownership::Other);
        assert_eq!(Ownership::from_tag(ROLE, &ada), Ownership::OfRole);
        // Of another permission set.
        assert_eq!(
            Ownership::from_tag("arn:aws:sts::1:assumed-role/x", &ada),
            Ownership::Other
        );
    }
}
