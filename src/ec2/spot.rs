//! The spot request of an instance, which shows the interruption notice from outside.
//!
//! When EC2 takes an instance back that is set to be terminated, its request says so at once, while
//! the instance runs on for two minutes (EC2 user guide, *State changes for a Spot request*). So a
//! caller sees it even if the instance itself cannot be reached. Lists may be stale by seconds: no
//! answer proves that an instance is safe.

use std::time::Duration;

use aws_sdk_ec2::types::{Filter, SpotInstanceRequest, SpotInstanceStatus};
use jiff::Timestamp;

use super::{Ec2, Error, convert};
use crate::ids::InstanceId;

const CALL: &str = "DescribeSpotInstanceRequests";

/// How long an instance runs on after its notice (EC2 user guide, *Spot Instance interruption
/// notices*).
const NOTICE: Duration = Duration::from_mins(2);

/// The status codes of a request whose instance EC2 itself ends or stops (EC2 user guide, *Get the
/// status of a Spot Instance request*).
const TAKEN_BACK: [&str; 11] = [
    "marked-for-stop",
    "marked-for-termination",
    "instance-stopped-by-price",
    "instance-stopped-capacity-oversubscribed",
    "instance-stopped-no-capacity",
    "instance-terminated-by-price",
    "instance-terminated-by-schedule",
    "instance-terminated-by-service",
    "instance-terminated-capacity-oversubscribed",
    "instance-terminated-launch-group-constraint",
    "instance-terminated-no-capacity",
];

/// The prefix of the state reason of an instance that EC2 took back (EC2 user guide, *Find
/// interrupted Spot Instances*).
const SPOT_ENDED: &str = "Server.SpotInstance";

/// The status of a spot request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpotStatus {
    /// The status code, such as `fulfilled`.
    pub code: String,
    /// Since when.
    pub since: Timestamp,
}

impl SpotStatus {
    /// When EC2 interrupts the instance, if it does and that still runs: at about that time, or
    /// earlier after a shorter notice. The status alone does not tell: a request is closed at the
    /// notice, two minutes before the end, and where there was none at the end itself.
    #[must_use]
    pub fn interruption(&self) -> Option<Timestamp> {
        TAKEN_BACK
            .contains(&self.code.as_str())
            .then(|| self.since + NOTICE)
    }
}

/// The interruption of a spot instance by EC2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TakenBack {
    /// EC2 ends the instance at about this time.
    At(Timestamp),
    /// EC2 has ended the instance.
    Already,
}

/// The role that an account needs before its first spot request (EC2 user guide, *Service-linked
/// role for Spot Instance requests*). AWS makes it with that request, if the caller may make it.
pub const SPOT_ROLE: &str = "AWSServiceRoleForEC2Spot";

impl Ec2 {
    /// Whether the account has had spot requests here: for some days at least they stay listed.
    pub async fn has_had_spot(&self) -> Result<bool, Error> {
        let answer = self
            .patient
            .describe_spot_instance_requests()
            // The smallest page allowed.
            .max_results(5)
            .send()
            .await
            .map_err(|error| Error::from_sdk(CALL, &error))?;
        Ok(!answer.spot_instance_requests().is_empty())
    }

    /// Whether EC2 takes the spot instance back, or has done so; `None` also where its request is
    /// not known yet. A call for its state is made only if the request says so.
    pub async fn taken_back(&self, instance: &InstanceId) -> Result<Option<TakenBack>, Error> {
        let status = self.spot_status(instance).await?;
        let Some(at) = status.and_then(|status| status.interruption()) else {
            return Ok(None);
        };
        let seen = self.instance(instance).await?;
        let is_live = seen.is_some_and(|instance| instance.state.is_live());
        Ok(Some(if is_live {
            TakenBack::At(at)
        } else {
            TakenBack::Already
        }))
    }

    /// Whether EC2 has taken back a spot instance that has ended: by its request, or by the reason
    /// in its own state, whichever is known first.
    pub async fn was_taken_back(&self, instance: &InstanceId) -> Result<bool, Error> {
        if let Some(status) = self.spot_status(instance).await?
            && status.interruption().is_some()
        {
            return Ok(true);
        }
        let why = self.why_ended(instance).await?;
        Ok(why.is_some_and(|why| why.starts_with(SPOT_ENDED)))
    }

    /// The status of the spot request behind `instance`; `None` if there is none, or none yet.
    pub async fn spot_status(&self, instance: &InstanceId) -> Result<Option<SpotStatus>, Error> {
        let status = self.request_status(instance).await?;
        status
            .map(|status| parse(instance, &status))
            .transpose()
            .map_err(|doubt| Error::unreadable(CALL, doubt))
    }

    /// Why the spot request behind `instance` could not be launched, if it says so. EC2 launches spot
    /// instances itself, and the instance has less to say of it (EC2 user guide, *Get the status of a
    /// Spot Instance request*, `bad-parameters`).
    pub(super) async fn failed_request(&self, instance: &InstanceId) -> Option<String> {
        // It is only for a hint.
        let status = self.request_status(instance).await.ok()??;
        let has_failed = status.code() == Some("bad-parameters");
        let message = status.message().filter(|_| has_failed)?;
        Some(message.to_owned())
    }

    async fn request_status(
        &self,
        instance: &InstanceId,
    ) -> Result<Option<SpotInstanceStatus>, Error> {
        let of_instance = Filter::builder()
            .name("instance-id")
            .values(instance.as_str())
            .build();
        let answer = self
            .patient
            .describe_spot_instance_requests()
            .filters(of_instance)
            .send()
            .await
            .map_err(|error| Error::from_sdk(CALL, &error))?;
        let status = answer
            .spot_instance_requests()
            .first()
            .and_then(SpotInstanceRequest::status);
        Ok(status.cloned())
    }
}

fn parse(of: &InstanceId, answer: &SpotInstanceStatus) -> Result<SpotStatus, String> {
    let about = |what: &str| format!("the {what} of {of}'s spot request");
    Ok(SpotStatus {
        code: answer
            .code()
            .ok_or_else(|| convert::absent(&about("status")))?
            .to_owned(),
        since: convert::time(&about("status time"), answer.update_time())?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_ec2_does_of_its_own_accord_is_an_interruption() {
        let since = Timestamp::from_second(1_800_000_000).unwrap();
        let status = |code: &str| SpotStatus {
            code: code.to_owned(),
            since,
        };
        for code in [
            "instance-terminated-no-capacity",
            "marked-for-termination",
            "instance-terminated-by-price",
        ] {
            let end = since + Duration::from_mins(2);
            assert_eq!(status(code).interruption(), Some(end), "{code}");
        }
        for code in [
            "fulfilled",
            "pending-fulfillment",
            "instance-terminated-by-user",
            "instance-stopped-by-user",
            "request-canceled-and-instance-running",
        ] {
            assert_eq!(status(code).interruption(), None, "{code}");
        }
    }
}
