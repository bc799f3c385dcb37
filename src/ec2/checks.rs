//! EC2's status checks of an instance: whether it still boots, failed to, or hangs.
//!
//! EC2 checks every running instance once a minute: the system below it, and its own network. Both
//! are `initializing` until the instance has booted, which takes large and metal types many minutes
//! (EC2 user guide, *Status checks for Amazon EC2 instances*). An instance that passes may still
//! not answer SSH.

use std::fmt;

use aws_sdk_ec2::types::{
    InstanceStatus, InstanceStatusDetails, InstanceStatusSummary, SummaryStatus,
};
use jiff::Timestamp;

use super::describe::unless_not_found;
use super::{Ec2, Error};
use crate::ids::InstanceId;

const CALL: &str = "DescribeInstanceStatus";

/// The result of one check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Check {
    /// The check has no answer yet.
    Initializing,
    /// The check passed.
    Passed,
    /// The check failed.
    Impaired,
    /// EC2 does not know: `insufficient-data`, or `not-applicable` where nothing runs.
    Unknown,
}

/// The status checks of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StatusChecks {
    /// The system below it: power, network, host.
    pub system: Check,
    /// The instance's own network and kernel.
    pub instance: Check,
}

impl StatusChecks {
    /// Whether one of them failed.
    #[must_use]
    pub fn are_impaired(self) -> bool {
        self.system == Check::Impaired || self.instance == Check::Impaired
    }

    /// Whether the instance may still be booting: one of them has no answer yet, and none failed.
    #[must_use]
    pub fn are_initializing(self) -> bool {
        let is_any = self.system == Check::Initializing || self.instance == Check::Initializing;
        is_any && !self.are_impaired()
    }

    /// Whether both passed.
    #[must_use]
    pub fn have_passed(self) -> bool {
        self.system == Check::Passed && self.instance == Check::Passed
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Initializing => "initializing",
            Self::Passed => "ok",
            Self::Impaired => "impaired",
            Self::Unknown => "unknown",
        })
    }
}

/// In EC2's words.
impl fmt::Display for StatusChecks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "system {}, instance {}", self.system, self.instance)
    }
}

impl Ec2 {
    /// The status checks of an instance, in whatever state; `None` if EC2 does not know it (yet).
    pub async fn status_checks(&self, id: &InstanceId) -> Result<Option<StatusChecks>, Error> {
        let status = self.instance_status(id).await?;
        Ok(status.map(|status| StatusChecks {
            system: check(status.system_status()),
            instance: check(status.instance_status()),
        }))
    }

    /// Since when a check of an instance has failed: the one that failed first. None if none does now, or
    /// EC2 does not say since when (EC2 API reference, *`InstanceStatusDetails`*).
    pub async fn impaired_since(&self, id: &InstanceId) -> Result<Option<Timestamp>, Error> {
        let status = self.instance_status(id).await?;
        let summaries = status
            .iter()
            .flat_map(|it| [it.system_status(), it.instance_status()]);
        let impaired = summaries
            .flatten()
            .filter(|it| check(Some(it)) == Check::Impaired);
        let since = impaired
            .flat_map(InstanceStatusSummary::details)
            .filter_map(InstanceStatusDetails::impaired_since);
        Ok(since
            .filter_map(|since| Timestamp::from_second(since.secs()).ok())
            .min())
    }

    async fn instance_status(&self, id: &InstanceId) -> Result<Option<InstanceStatus>, Error> {
        let answer = self
            .patient
            .describe_instance_status()
            .instance_ids(id.as_str())
            // Without it EC2 leaves out instances that do not run yet.
            .include_all_instances(true)
            .send()
            .await
            .map_err(|error| Error::from_sdk(CALL, &error));
        let answer = unless_not_found(answer)?;
        Ok(answer.and_then(|it| it.instance_statuses().first().cloned()))
    }
}

fn check(summary: Option<&InstanceStatusSummary>) -> Check {
    match summary.and_then(InstanceStatusSummary::status) {
        Some(SummaryStatus::Initializing) => Check::Initializing,
        Some(SummaryStatus::Ok) => Check::Passed,
        Some(SummaryStatus::Impaired) => Check::Impaired,
        _ => Check::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_failed_check_is_enough_and_one_passed_is_not() {
        let checks = |system, instance| StatusChecks { system, instance };
        let booting = checks(Check::Passed, Check::Initializing);
        assert!(booting.are_initializing() && !booting.have_passed());
        assert_eq!(booting.to_string(), "system ok, instance initializing");
        let failed = checks(Check::Initializing, Check::Impaired);
        assert!(failed.are_impaired() && !failed.are_initializing());
        assert!(checks(Check::Passed, Check::Passed).have_passed());
        let unknown = checks(Check::Passed, Check::Unknown);
        assert!(!unknown.have_passed() && !unknown.are_initializing());
    }
}
