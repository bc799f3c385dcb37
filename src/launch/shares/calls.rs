//! Calls to Elastic File System, which may all be repeated.

use std::time::Duration;

use anyhow::anyhow;
use tokio::time::sleep;

use crate::ec2::{Error, Kind};
use crate::failure::{Exit, Failure};

/// The pause between two looks, and how many there are: EFS takes seconds for a file system, and a minute or
/// two for a mount target.
const LOOK: Duration = Duration::from_secs(2);
const LOOKS: u32 = 150;

/// Looks until that `is_so`, as long as it `goes_on`.
pub(super) async fn until<T, F: Future<Output = Result<T, Error>>>(
    look: impl Fn() -> F,
    is_so: impl Fn(&T) -> bool,
    goes_on: &mut impl FnMut() -> Result<(), Failure>,
) -> Result<T, Failure> {
    for number in 0..LOOKS {
        let found = retried(&look).await?;
        if is_so(&found) {
            return Ok(found);
        }
        goes_on()?;
        // The EC2 in a folder needs less.
        sleep(if number < 10 { LOOK / 10 } else { LOOK }).await;
    }
    let error = anyhow!("EFS takes longer than five minutes");
    Err(Failure::new(Exit::TryAgain, error))
}

/// Repeats a call whose outcome is not known, or which came too early, a few times.
pub(super) async fn retried<T, F: Future<Output = Result<T, Error>>>(
    call: impl Fn() -> F,
) -> Result<T, Failure> {
    let mut tries = 0;
    loop {
        match call().await {
            Err(error) if tries < 10 && may_pass(&error) => {
                tries += 1;
                sleep(LOOK / 2).await;
            }
            done => return done.map_err(failed),
        }
    }
}

/// Whether the next one may succeed: also where not every call sees a new security group (EC2 user guide,
/// *Eventual consistency in the Amazon EC2 API*).
fn may_pass(error: &Error) -> bool {
    let is_early = matches!(
        error.kind,
        Kind::Ambiguous | Kind::Server | Kind::State | Kind::Throttled
    );
    is_early
        || matches!(
            error.code.as_str(),
            "SecurityGroupNotFound" | "InvalidGroup.NotFound"
        )
}

/// The failure of a call, with the policy that allows it where a policy is why.
pub(super) fn failed(error: Error) -> Failure {
    let is_of_rights = error.kind == Kind::Denied
        && error.message.contains("elasticfilesystem:")
        && !error.message.contains("service control policy");
    let failure = Failure::from(error);
    if is_of_rights {
        return failure.hint("xdrive policy --shares prints the rights that shares take");
    }
    failure
}
