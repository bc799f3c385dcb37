//! The wait for the container of a drive whose leading session is another one.

use std::time::Duration;

use anyhow::anyhow;
use tokio::time::{Instant, sleep};

use crate::access::SshHosts;
use crate::drive::HostError;
use crate::ec2::Instance;
use crate::failure::{Exit, Failure};
use crate::host::Mounted;
use crate::host::container::Container;
use crate::host::room::Room;
use crate::opener::{Drive, Ending, unless_ended};

/// The interval between two checks whether the container runs.
const LOOK: Duration = Duration::from_millis(500);

/// How long the leading session may take to start the container: an image of many gigabytes over a
/// slow line.
const START: Duration = Duration::from_mins(30);

/// How long the host may be without a leading session before this one gives up as a guest: at least
/// two checks over a line of 300 ms.
const LEADERLESS: Duration = Duration::from_secs(5);

/// The result of waiting for the container.
pub(crate) enum Awaited {
    /// The container runs; with the drive's free room if the host knows it.
    Runs(Box<Container>, Option<Room>),
    /// The leading session is over.
    Over,
    Ended(Ending),
}

/// Waits until the leading session has started the main container.
pub(crate) async fn wait_for_container(
    drive: &mut Drive,
    hosts: &mut SshHosts,
    host: &Instance,
) -> Awaited {
    let step = drive.report.step("wait for the container to run");
    let end = Instant::now() + START;
    let mut led = Instant::now();
    loop {
        let look = async {
            let contact = hosts.ask(host).await?;
            let container = match hosts.link(&host.id) {
                Some((_, scripts))
                    if contact.mounted != Mounted::Nothing && contact.closing.is_none() =>
                {
                    scripts.running(None).await.unwrap_or_default()
                }
                _ => None,
            };
            sleep(if container.is_none() {
                LOOK
            } else {
                Duration::ZERO
            })
            .await;
            Ok::<_, HostError>((contact, container))
        };
        let (contact, container) = match unless_ended(&mut drive.signals, &drive.report, look).await
        {
            Ok(Ok(looked)) => looked,
            Ok(Err(_)) => return Awaited::Over,
            Err(end) => return Awaited::Ended(Ending::Asked(end)),
        };
        if let Some(reason) = contact.closing {
            drive
                .report
                .print(&format!("that session is over: {reason}"));
            return Awaited::Over;
        }
        if let Some(container) = container {
            step.done("the container runs");
            return Awaited::Runs(Box::new(container), contact.room);
        }
        if contact.attached.is_some() {
            led = Instant::now();
        } else if led.elapsed() >= LEADERLESS {
            return Awaited::Over;
        }
        if Instant::now() >= end {
            let minutes = START.as_secs() / 60;
            let error = anyhow!("the session that was joined got no container up in {minutes} min");
            return Awaited::Ended(Ending::Failed(Failure::new(Exit::TryAgain, error)));
        }
    }
}
