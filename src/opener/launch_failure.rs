//! The failure of launches that EC2 accepted in vain: instances that end or never answer, volumes
//! that fail.
//!
//! The user has nothing to choose here: what was made is gone again, and the cause is outside of
//! xdrive. The hints name the likeliest causes.

use anyhow::anyhow;

use crate::drive::Stuck;
use crate::drive::reconcile::{How, UnusableHost};
use crate::drive::stuck::Why;
use crate::failure::{Exit, Failure, KEY};

/// The hint for an instance that never answers.
const NO_ANSWER: &str = "where its console ends at a login prompt, something keeps port 22 shut on the way: the rules \
     of its security group (--cidr says who is let in), the subnet's network ACL, a firewall or \
     VPN here; --proxy-command goes another way";

/// The hint for an instance that has failed EC2's status checks.
const IMPAIRED: &str = "the end of its console says how far it got; --ami names another image, \
                        --type another type";

/// The hint for an instance that ends by itself.
const ENDED: &str = "--type names another type, --ami another image; AWS explains such ends under \
                     \"Troubleshoot Amazon EC2 instance termination issues\"";

/// The failure of a drive that is stuck without a usable host, of which the last was `last`, or without
/// a usable volume; none if it is stuck for another reason.
pub(super) fn launch_failure(stuck: &Stuck, last: Option<&UnusableHost>) -> Option<Failure> {
    let (exit, why, hint) = match &stuck.why {
        Why::NoVolume(_) => (Exit::Denied, String::new(), KEY),
        Why::NoHost(_) => match last {
            None => (Exit::Unavailable, String::new(), NO_ANSWER),
            Some(UnusableHost { instance, how }) => {
                let (why, hint) = unusable(how);
                (
                    Exit::Unavailable,
                    format!("; the last ({instance}) {why}"),
                    hint,
                )
            }
        },
        _ => return None,
    };
    let error = anyhow!("{}{why}", stuck.why);
    Some(Failure::new(exit, error).hint(hint))
}

/// Why an instance was unusable, and the hint.
fn unusable(how: &How) -> (String, &'static str) {
    match how {
        How::Silent(None) => ("never answered".to_owned(), NO_ANSWER),
        How::Silent(Some(why)) => (format!("never answered: {why}"), NO_ANSWER),
        How::Impaired(checks) => (
            format!("never answered, and EC2's status checks are: {checks}"),
            IMPAIRED,
        ),
        How::Ended(None) => ("ended by itself".to_owned(), ENDED),
        How::Ended(Some(why)) => {
            // EC2's reason if the root disk's KMS key may not be used (EC2 user guide,
            // *Troubleshoot Amazon EC2 instance termination issues*).
            let is_key = why.contains("Client.InternalError") || why.contains("KMS");
            let hint = if is_key { KEY } else { ENDED };
            (format!("ended by itself: {why}"), hint)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ec2::{Check, StatusChecks};

    #[test]
    fn every_unusable_host_has_the_hint_that_fits_it() {
        let ended = |why: &str| How::Ended(Some(why.to_owned()));
        for (how, hint) in [
            (ended("Client.InternalError: Client error on launch"), KEY),
            (
                ended(
                    "Client.InternalError: Client error on launch: You must grant the \
                     AWSServiceRoleForEC2Spot service-linked role access to any custom KMS keys.",
                ),
                KEY,
            ),
            (
                ended("Client.InvalidKMSKey.InvalidState: The KMS key is disabled"),
                KEY,
            ),
            (
                ended("Server.InternalError: Internal error on launch"),
                ENDED,
            ),
            (How::Ended(None), ENDED),
            (How::Silent(None), NO_ANSWER),
            (
                How::Silent(Some("it did not answer in time".to_owned())),
                NO_ANSWER,
            ),
            (
                How::Impaired(StatusChecks {
                    system: Check::Passed,
                    instance: Check::Impaired,
                }),
                IMPAIRED,
            ),
        ] {
            assert_eq!(unusable(&how).1, hint, "{how:?}");
        }
    }
}
