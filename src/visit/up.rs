//! The host of a drive that is up, for a visitor: who uses it as a guest does, and launches, mounts,
//! starts and saves nothing.

use anyhow::anyhow;

use super::visitor::Visit;
use crate::attached::{Awaited, wait_for_container};
use crate::drive::HostError;
use crate::ec2::Instance;
use crate::failure::{Exit, Failure};
use crate::host::container::Container;
use crate::opener::{Drive, Ending, is_among};

/// The instance that has the drive, for `visitor`, such as `ssh`. No host is asked.
pub(crate) fn demand_host(opened: &Drive, visitor: &str) -> Result<Instance, Failure> {
    let (drive, facts) = (&opened.name, &opened.facts);
    let has_parts = !facts.volumes.is_empty() || !facts.snapshots.is_empty();
    match &facts.host {
        Some(host) => Ok(host.clone()),
        None if has_parts => Err(not_up(
            opened,
            &anyhow!("{drive} is not up, and {visitor} launches nothing"),
        )),
        None => Err(Failure::no_drive(drive, &opened.cloud.command)),
    }
}

/// The failure of a visit to a drive that is not up, or not any more.
fn not_up(drive: &Drive, error: &anyhow::Error) -> Failure {
    let (command, place) = (&drive.cloud.command, drive.place());
    Failure::new(Exit::Unavailable, anyhow!("{error:#}"))
        .hint(format!("{command} connect {place} brings it up"))
}

/// The failure of a visit to `host` where the container does not run.
pub(super) fn no_container(drive: &Drive, host: &Instance) -> Failure {
    let (name, host) = (&drive.name, host.id.short_label());
    let which = drive.container.as_ref();
    let which = which.map_or_else(String::new, |name| format!(" {name}"));
    not_up(
        drive,
        &anyhow!("{name} is on {host}, where its container{which} does not run"),
    )
}

/// The failure of a visit that could not attach to `host`.
pub(super) fn not_attached(drive: &Drive, host: &Instance, error: HostError) -> Failure {
    let (name, host) = (&drive.name, host.id.short_label());
    if let HostError::Closing(reason) = error {
        return not_up(drive, &anyhow!("{name} is being closed: {reason}"));
    }
    let error = anyhow::Error::new(error).context(format!("{name} is up on {host}"));
    let command = &drive.cloud.command;
    Failure::new(Exit::Unavailable, error).hint(format!("{command} list {name} shows its state"))
}

impl Visit {
    /// The container that is visited, once the leading session has started the main one.
    pub(super) async fn wait_for_container(
        &mut self,
        host: &Instance,
    ) -> Result<Result<Container, Ending>, Failure> {
        let hosts = self.reconciler.hosts();
        match wait_for_container(&mut self.drive, hosts, host).await {
            Awaited::Runs(container, _) => self.running_container(host, *container).await.map(Ok),
            Awaited::Over => Err(no_container(&self.drive, host)),
            Awaited::Ended(ending) => Ok(Err(ending)),
        }
    }

    /// The container that is visited, on a host where the main one runs, which is `running`.
    async fn running_container(
        &mut self,
        host: &Instance,
        running: Container,
    ) -> Result<Container, Failure> {
        let Some(name) = self.drive.container.as_ref() else {
            return Ok(running);
        };
        let link = self.reconciler.hosts().link(&host.id);
        let Some((_, scripts)) = link else {
            return Err(no_container(&self.drive, host));
        };
        if let Some(found) = scripts.running(Some(name)).await.unwrap_or_default() {
            return Ok(found);
        }
        let on_record = scripts.containers().await.unwrap_or_default();
        // Without an answer nothing is known of it.
        if on_record.is_empty() || is_among(name, &on_record) {
            return Err(no_container(&self.drive, host));
        }
        Err(self.drive.not_among(name, &on_record))
    }
}
