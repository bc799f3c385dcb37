//! The ports on which something listens in a container of a drive, looked at from any laptop. Nothing is
//! launched for that, and no lease begins.

use super::up::no_container;
use super::visitor::{Visit, Visitor};
use crate::attached::reach_live;
use crate::failure::Failure;
use crate::host::ports::Listener;
use crate::ids::InstanceId;
use crate::opener::{Drive, or_interrupted};

/// The ports of a container, and the instance on which they are.
pub(crate) struct Ports {
    pub(crate) instance: InstanceId,
    pub(crate) listeners: Vec<Listener>,
}

/// Lists the ports that listen in the container of a drive that is up. Fails if it is not up, or
/// that container does not run.
pub(crate) async fn list_ports(drive: Drive, visitor: Visitor) -> Result<Ports, Failure> {
    let mut visit = Visit::new(drive, visitor, false)?;
    let drive = &mut visit.drive;
    let host = drive.facts.host.clone();
    let live = reach_live(drive, visit.reconciler.hosts(), host).await?;
    let name = drive.container.as_ref();
    if let Some(name) = name {
        let running = live.host.running(Some(name));
        let running = or_interrupted(&mut drive.signals, &drive.report, running).await?;
        if running.map_err(anyhow::Error::new)?.is_none() {
            return Err(no_container(drive, &live.instance));
        }
    }
    let listeners = live.host.listeners(name);
    let listeners = or_interrupted(&mut drive.signals, &drive.report, listeners).await?;
    Ok(Ports {
        listeners: listeners.map_err(anyhow::Error::new)?,
        instance: live.instance.id,
    })
}
