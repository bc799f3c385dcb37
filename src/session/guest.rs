//! Joining: another session has the drive, and this one works in it as well.
//!
//! A guest mounts, starts and closes nothing. It waits until whoever leads has the container up,
//! opens a shell or command of its own in it, and keeps the lease as everybody does who is
//! attached. How it leaves is `leave`'s affair. Where this laptop is not let in, all there is to do
//! is to wait until the lease of those who are in has ended.

use std::time::Duration;

use anyhow::anyhow;
use tokio::time::{Instant, sleep};

use super::Session;
use super::container;
use super::container::{Inside, Ways};
use super::ending::Ending;
use super::prompt::unless_ended;
use super::room::When;
use crate::drive::reconcile::Holder;
use crate::drive::{HostError, tags};
use crate::ec2::Instance;
use crate::failure::{Exit, Failure};
use crate::host::container::Container;
use crate::host::room::Room;
use crate::signals::Signal;
use crate::ssh::DedicatedConnection;

/// How often a host is asked whether its container runs.
const LOOK: Duration = Duration::from_millis(500);

/// How long whoever leads may take until it does: an image of many gigabytes over a slow line.
const PATIENCE: Duration = Duration::from_mins(30);

/// How long nobody may lead until somebody else does: two looks at least over a line of 300 ms.
const LEADERLESS: Duration = Duration::from_secs(5);

/// How often it is looked whether those who do not let this laptop in are gone.
const WAIT: Duration = Duration::from_secs(5);

/// What came of joining.
pub(super) enum Joined {
    /// The host that was joined, and how that ended.
    Ended(Box<Instance>, Ending),
    /// The other session is over, or about to be: look anew.
    Over,
    /// A signal came before anything was joined.
    Asked(Signal),
}

/// What a guest finds: the container that runs, what leads into it, and the room on the drive, where
/// that is known.
type Visit = (Container, Ways, Option<Room>);

/// What came of waiting for a container.
enum Awaited {
    /// It does, and the drive has so much room, where that is known.
    Runs(Box<Container>, Option<Room>),
    Over,
    Ended(Ending),
}

impl Session {
    /// Joins the session of `holder`, unless that is not wanted or cannot be.
    pub(super) async fn join(&mut self, holder: &Holder) -> Result<Joined, Failure> {
        if self.request.no_join {
            return Err(self.busy(holder));
        }
        let found = self.cloud.ec2.instance(&holder.instance).await?;
        let Some(host) = found.map(Box::new) else {
            return Ok(Joined::Over);
        };
        self.check_owner(tags::owner(&host.tags), true, self.request.shared)?;
        if let Some(why) = self.reconciler.hosts().barred(&host.id) {
            let why = why.to_owned();
            return self.wait_outside(&host, &why).await;
        }
        let container = match self.visit(&host).await {
            Ok(container) => container,
            Err(HostError::Closing(_) | HostError::Unreachable(_)) => return Ok(Joined::Over),
            Err(error) => return Err(anyhow::Error::new(error).into()),
        };
        self.report.print(&format!(
            "joined the session of {} since {}",
            holder.owner, holder.since
        ));
        let (awaited, ways) = match container {
            Some((container, ways, room)) => (Awaited::Runs(Box::new(container), room), Some(ways)),
            None => (self.until_it_runs(&host).await, None),
        };
        let ending = match awaited {
            Awaited::Runs(container, room) => {
                self.warn_of(room, When::InUse);
                match self.enter_as_guest(&host, *container, ways).await {
                    Ok((inside, line)) => self.stay(&host, inside, line).await,
                    Err(failure) => Ending::Failed(failure),
                }
            }
            Awaited::Ended(ending) => ending,
            Awaited::Over => {
                self.reconciler.hosts().let_go(&host.id);
                // What that host said is not about the next one.
                while self.news.try_recv().is_ok() {}
                return Ok(Joined::Over);
            }
        };
        Ok(Joined::Ended(host, ending))
    }

    /// Waits until the container of the session that was joined runs.
    async fn until_it_runs(&mut self, host: &Instance) -> Awaited {
        let step = self.report.step("wait for the container to run");
        let end = Instant::now() + PATIENCE;
        let mut led = Instant::now();
        loop {
            let hosts = self.reconciler.hosts();
            let look = async {
                let contact = hosts.ask(host).await?;
                let container = match (&contact.volume, hosts.link(&host.id)) {
                    (Some(_), Some((_, scripts))) if contact.closing.is_none() => {
                        scripts.running().await.unwrap_or_default()
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
            let (contact, container) =
                match unless_ended(&mut self.signals, &self.report, look).await {
                    Ok(Ok(looked)) => looked,
                    Ok(Err(_)) => return Awaited::Over,
                    Err(signal) => return Awaited::Ended(Ending::Asked(signal)),
                };
            if let Some(reason) = contact.closing {
                self.report
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
                let minutes = PATIENCE.as_secs() / 60;
                let error =
                    anyhow!("the session that was joined got no container up in {minutes} min");
                return Awaited::Ended(Ending::Failed(Failure::new(Exit::TryAgain, error)));
            }
        }
    }

    /// Attaches this session as a guest; what it finds, if the container runs. Mostly it does:
    /// beside the attachment it is asked for, and what leads into it is opened.
    async fn visit(&mut self, host: &Instance) -> Result<Option<Visit>, HostError> {
        let lease = self.request.options.keep.unwrap_or(super::LEASE);
        let session = self.reconciler.session().clone();
        let hosts = self.reconciler.hosts();
        let (ssh, scripts) = hosts.reach(host).await?;
        let early = hosts.take_ready(&host.id).early;
        let (visited, container, ways) = tokio::join!(
            hosts.visit(host, &session, &self.owner, lease),
            scripts.running(),
            Ways::open(&ssh, self.request.options.port, early, false),
        );
        visited?;
        let room = hosts.room();
        // What was opened goes stale while a container is waited for.
        let container = container.unwrap_or_default();
        Ok(container.map(|container| (container, ways, room)))
    }

    /// In the container of another session.
    async fn enter_as_guest(
        &mut self,
        host: &Instance,
        container: Container,
        ways: Option<Ways>,
    ) -> Result<(Inside, DedicatedConnection), Failure> {
        let report = self.report.clone();
        let hosts = self.reconciler.hosts();
        let session = hosts.session().to_owned();
        let connection_lost = || anyhow!("the connection to {} was lost", host.id);
        let (ssh, scripts) = hosts.link(&host.id).ok_or_else(connection_lost)?;
        let ways = match ways {
            Some(ways) => ways,
            None => Ways::open(ssh, self.request.options.port, None, false).await,
        };
        container::join(ways, scripts, container, &session, &report).await
    }

    /// Says until when the host is in use at least, and waits for that if a person wants to.
    async fn wait_outside(&mut self, host: &Instance, why: &str) -> Result<Joined, Failure> {
        let drive = self.request.drive.clone();
        let ends = tags::until(&host.tags).map_or_else(
            || "it has no lease".to_owned(),
            |until| format!("its lease ends at {until:.0} unless it is renewed"),
        );
        if !self.is_patient {
            self.report.print(&format!(
                "{drive} is in use on {} by {}, and this laptop cannot join: {why}\n{ends}",
                host.id,
                tags::owner(&host.tags)
            ));
            self.is_patient = self.ask("wait for that? [y/N]", false).await;
            if !self.is_patient {
                return Err(Failure::new(
                    Exit::TryAgain,
                    anyhow!("{drive} is in use on {}, and {ends}", host.id),
                )
                .hint(format!(
                    "{} connect {drive} again after that; or let this caller use EC2 Instance \
                     Connect (ec2-instance-connect:SendSSHPublicKey)",
                    self.cloud.command
                )));
            }
        }
        let _step = self.report.step(format!("wait for {}; {ends}", host.id));
        match unless_ended(&mut self.signals, &self.report, sleep(WAIT)).await {
            Ok(()) => Ok(Joined::Over),
            Err(signal) => Ok(Joined::Asked(signal)),
        }
    }
}
