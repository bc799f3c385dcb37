//! The ports on which something listens in a container of a drive, looked at from any laptop. Nothing is
//! launched for that, and no lease begins.

use super::prompt::or_interrupted;
use super::request::Request;
use super::state::begin;
use crate::cloud::Cloud;
use crate::failure::Failure;
use crate::host::ports::Listener;
use crate::ids::InstanceId;
use crate::ssh::UserKey;

/// What listens in the container of the request, of a drive that is up: its instance, and the ports.
/// Fails if it is not up, or that container does not run.
pub async fn list_ports(
    request: Request,
    cloud: Cloud,
    key: UserKey,
) -> Result<(InstanceId, Vec<Listener>), Failure> {
    let (mut session, listing) = begin(request, cloud, key).await?;
    let facts = session.check(listing).await?;
    let (instance, host) = session.reach_live(facts.host).await?;
    let name = session.request.container();
    if let Some(name) = name {
        let running = host.running(Some(name));
        let running = or_interrupted(&mut session.signals, &session.report, running).await?;
        if running.map_err(anyhow::Error::new)?.is_none() {
            return Err(session.no_container(&instance));
        }
    }
    let listeners = host.listeners(name);
    let listeners = or_interrupted(&mut session.signals, &session.report, listeners).await?;
    let listeners = listeners.map_err(anyhow::Error::new)?;
    Ok((instance.id, listeners))
}
