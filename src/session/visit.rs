//! Visits: what uses a drive that is up as a guest does, and launches, mounts, starts and saves
//! nothing.

use anyhow::anyhow;

use super::containers::is_among;
use super::preflight::DriveFacts;
use super::request::Request;
use super::state::{Session, begin};
use crate::cloud::Cloud;
use crate::drive::HostError;
use crate::ec2::Instance;
use crate::failure::{Exit, Failure};
use crate::host::container::Container;
use crate::ssh::UserKey;

/// Fails unless the drive of `request` is up, for `visitor`, such as `code`. No host is asked.
pub async fn check_up(
    request: Request,
    cloud: Cloud,
    key: UserKey,
    visitor: &str,
) -> Result<(), Failure> {
    let (mut session, listing) = begin(request, cloud, key).await?;
    let facts = session.check(listing).await?;
    session.host_that_is_up(facts, visitor).map(drop)
}

impl Session {
    /// The instance that has the drive, for `visitor`, such as `ssh`.
    pub(super) fn host_that_is_up(
        &self,
        facts: DriveFacts,
        visitor: &str,
    ) -> Result<Instance, Failure> {
        let drive = &self.request.drive;
        let has_parts = !facts.volumes.is_empty() || !facts.snapshots.is_empty();
        match facts.host {
            Some(host) => Ok(host),
            None if has_parts => Err(self.not_up(&anyhow!(
                "{drive} is not up, and {visitor} launches nothing"
            ))),
            None => Err(Failure::no_drive(drive, &self.cloud.command)),
        }
    }

    /// The failure of a visit to a drive that is not up, or not any more.
    pub(super) fn not_up(&self, error: &anyhow::Error) -> Failure {
        let (command, place) = (&self.cloud.command, self.request.place());
        Failure::new(Exit::Unavailable, anyhow!("{error:#}"))
            .hint(format!("{command} connect {place} brings it up"))
    }

    /// The failure of a visit to `host` where the container does not run.
    pub(super) fn no_container(&self, host: &Instance) -> Failure {
        let (drive, host) = (&self.request.drive, host.id.its());
        let which = self.request.container();
        let which = which.map_or_else(String::new, |name| format!(" {name}"));
        self.not_up(&anyhow!(
            "{drive} is on {host}, where its container{which} does not run"
        ))
    }

    /// The container that is visited, on a host where the main one runs, which is `running`.
    pub(super) async fn running_container(
        &mut self,
        host: &Instance,
        running: Container,
    ) -> Result<Container, Failure> {
        let Some(name) = self.request.container() else {
            return Ok(running);
        };
        let link = self.reconciler.hosts().link(&host.id);
        let Some((_, scripts)) = link else {
            return Err(self.no_container(host));
        };
        if let Some(found) = scripts.running(Some(name)).await.unwrap_or_default() {
            return Ok(found);
        }
        let on_record = scripts.containers().await.unwrap_or_default();
        // Without an answer nothing is known of it.
        if on_record.is_empty() || is_among(name, &on_record) {
            return Err(self.no_container(host));
        }
        Err(self.not_among(name, &on_record))
    }

    /// The failure of a visit that could not attach to `host`.
    pub(super) fn not_attached(&self, host: &Instance, error: HostError) -> Failure {
        let (drive, host) = (&self.request.drive, host.id.its());
        if let HostError::Closing(reason) = error {
            return self.not_up(&anyhow!("{drive} is being closed: {reason}"));
        }
        let error = anyhow::Error::new(error).context(format!("{drive} is up on {host}"));
        let command = &self.cloud.command;
        Failure::new(Exit::Unavailable, error)
            .hint(format!("{command} list {drive} shows its state"))
    }
}
