//! Patience before the drive's own loop begins: what looks is asked again while EC2 turns it away
//! for being too much.
//!
//! Nothing is made before those looks, so giving up leaves nothing. The loop has a patience of its
//! own, by the same limits.

use anyhow::anyhow;

use super::Session;
use super::preflight::{Found, Parts};
use super::prompt::unless_ended;
use crate::cloud::Cloud;
use crate::drive::Timing;
use crate::drive::tags::Identity;
use crate::ec2::{self, Kind};
use crate::failure::{Exit, Failure};
use crate::report::Report;

/// Who calls, and a new session of theirs.
pub(super) async fn identity(cloud: &Cloud, report: &Report) -> Result<Identity, Failure> {
    let mut failures = 0;
    loop {
        let failure = match cloud.identity().await {
            Err(failure) if goes_on(&failure, &mut failures, &cloud.timing) => failure,
            answer => return answer,
        };
        report_retry(report, &failure);
        tokio::time::sleep(cloud.timing.pause(failures)).await;
    }
}

impl Session {
    /// As [`Session::check`], of what was listed, or is listed again. Whoever interrupts the waiting
    /// ends it.
    pub(super) async fn check_patiently(
        &mut self,
        mut listed: Result<Parts, Failure>,
    ) -> Result<Found, Failure> {
        let mut failures = 0;
        loop {
            let checked = listed.and_then(|parts| self.check(parts));
            let failure = match checked {
                Err(failure) if goes_on(&failure, &mut failures, &self.cloud.timing) => failure,
                answer => return answer,
            };
            report_retry(&self.report, &failure);
            let pause = tokio::time::sleep(self.cloud.timing.pause(failures));
            if unless_ended(&mut self.signals, &self.report, pause)
                .await
                .is_err()
            {
                let error = anyhow!("interrupted before anything was begun");
                return Err(Failure::new(Exit::Interrupted, error));
            }
            listed = Parts::list(&self.cloud.ec2, &self.request.drive).await;
        }
    }
}

/// Whether it was one refusal too many among those that pass, and not the last that is borne.
fn goes_on(failure: &Failure, failures: &mut u32, timing: &Timing) -> bool {
    *failures += 1;
    let error = failure.error.downcast_ref::<ec2::Error>();
    let passes = error.is_some_and(|error| error.kind == Kind::Throttled);
    passes && *failures < timing.failures
}

fn report_retry(report: &Report, failure: &Failure) {
    let error = &failure.error;
    report.print(&format!(
        "could not look at the drive, trying again: {error}"
    ));
}
