//! Joining: another session leads on the drive's host, and this one becomes its guest.
//!
//! A guest mounts and closes nothing, and starts no container but one with a name that it is for. It
//! waits until the leading session has started the main container, opens a shell or command of its own
//! in it or in that one, and renews the lease like every attached session. `leave` has how it ends. A laptop whose key the host refuses can only wait until the
//! lease of the others ends.

use std::mem::take;
use std::time::Duration;

use anyhow::anyhow;
use tokio::time::sleep;

use super::container::{self, Connections, ContainerSession};
use super::ingress;
use super::local_ports::jupyter_place;
use super::ready::{Entry, Led, NotUp};
use super::request::{Ineffective, Request};
use super::start::start_named;
use super::state::Session;
use crate::attached::{Awaited, wait_for_container};
use crate::drive::HostError;
use crate::drive::reconcile::Holder;
use crate::drive::tags::{self, Note, Record, Settings};
use crate::ec2::{Instance, Tags, Volume};
use crate::failure::{Exit, Failure};
use crate::host::container::Container;
use crate::host::room::Room;
use crate::opener::{Drive, Ending, Growth, unless_ended};
use crate::report::{Report, Text};
use crate::ssh::DedicatedConnection;

/// The interval between two checks whether the sessions that cannot be joined are over.
const WAIT: Duration = Duration::from_secs(5);

/// A container that ran when its guest arrived.
struct Running {
    container: Container,
    connections: Connections,
    /// The drive's free room, if the host knows it.
    room: Option<Room>,
}

impl Session {
    /// Joins the session of `holder`, and waits for its container. Returns none if that session is over,
    /// or about to be: the caller observes again. Fails with `--no-join`, for another caller's drive, and
    /// if one of the two saves nothing.
    pub(super) async fn join(&mut self, holder: &Holder) -> Result<Option<Led>, NotUp> {
        let config = &self.request.options.config;
        if config.once.no_join || config.once.discard || holder.discards {
            return Err(NotUp::Busy(self.drive.busy(holder)));
        }
        let found = self.drive.cloud.ec2.instance(&holder.instance).await;
        let Some(host) = found.map_err(Failure::from)?.map(Box::new) else {
            return Ok(None);
        };
        self.drive.check_owner(tags::owner(&host.tags), true)?;
        let command = &self.drive.cloud.command;
        let head = self.request.refuse_head(holder, command);
        head.map_err(NotUp::Busy)?;
        if let Some(why) = self.reconciler.hosts().key_refusal(&host.id) {
            let why = why.to_owned();
            self.wait_outside(&host, &why).await?;
            return Ok(None);
        }
        let running = match self.attach_as_guest(&host).await {
            Ok(running) => running,
            Err(HostError::Closing(_) | HostError::Unreachable(_)) => return Ok(None),
            Err(error) => return Err(Failure::from(anyhow::Error::new(error)).into()),
        };
        self.drive.report.print(&format!(
            "joined the session of {} since {}",
            holder.owner, holder.since
        ));
        self.note_as_guest(&host).await;
        self.open_as_guest(&host).await;
        let is_new = self.request.named.is_some() && running.is_none();
        let has_typed = self
            .request
            .report_ineffective_flags(&host, !is_new, &self.drive.report);
        let is_kept = self.request.places().are_kept() && self.request.options.shares.is_none();
        if !is_new && !has_typed && !is_kept {
            self.drive.report.print(
                "the container is that session's, and keeps the mounts, shares and Docker that it has",
            );
        }
        let (awaited, connections) = match running {
            Some(it) => {
                let connections = Some(Box::new(it.connections));
                (Awaited::Runs(Box::new(it.container), it.room), connections)
            }
            None => (
                wait_for_container(&mut self.drive, self.reconciler.hosts(), &host).await,
                None,
            ),
        };
        let entry = match awaited {
            Awaited::Runs(container, room) => {
                self.drive.warn_if_full(room, Growth::Now);
                Entry::Guest {
                    container,
                    connections,
                }
            }
            Awaited::Ended(ending) => Entry::Over(ending),
            Awaited::Over => {
                self.reconciler.hosts().detach(&host.id);
                // News of the old host are not about the next one.
                while self.news.try_recv().is_ok() {}
                return Ok(None);
            }
        };
        Ok(Some(Led { host, entry }))
    }

    /// Stays as a guest on `host`, where the main container runs, until the shell or command ends.
    pub(super) async fn stay_as_guest(
        &mut self,
        host: &Instance,
        running: Container,
        connections: Option<Connections>,
    ) -> Ending {
        let container = match self.start_own(host, running).await {
            Ok(container) => container,
            Err(ending) => return ending,
        };
        match self.enter_as_guest(host, container, connections).await {
            Ok((inside, line)) => self.stay_inside(host, inside, line).await,
            Err(failure) => Ending::Failed(failure),
        }
    }

    /// Writes the note of this guest's user on the volume that is mounted on `host`, or says why not.
    async fn note_as_guest(&mut self, host: &Instance) {
        let Some(note) = &self.request.options.config.once.note else {
            return;
        };
        let (drive, command) = (&self.request.drive, &self.drive.cloud.command);
        if let Err(why) = self.drive.write_note(host, note).await {
            // Nor if this session is the one that saves.
            self.reconciler.forget_note();
            self.drive.report.print(&format!(
                "the note is not recorded, {why}; {command} note {drive} TEXT does that"
            ));
        }
    }

    /// Opens the ports that are asked for, and closes others: at once, and on the drive's later hosts. Those have
    /// the address that is asked for, too.
    async fn open_as_guest(&mut self, host: &Instance) {
        let (ports, address) = (&self.request.options.ingress, &self.request.options.address);
        if ports.is_none() && address.is_none() {
            return;
        }
        let (cloud, report) = (&self.drive.cloud, &self.drive.report);
        if ports.is_some() {
            ingress::settle(&self.request, &self.recorded, host, cloud, report).await;
        }
        let setting = Settings::default().with_ingress(ports.as_deref());
        let setting = setting.with_address(address.as_ref()).tags();
        if let Err(why) = self.drive.tag_mounted(host, &setting).await {
            report.warn(&format!(
                "the drive's later hosts have its ports and address as before: {why}"
            ));
        }
    }

    /// The container that this session is in, on a host where the main one runs: that or, started if
    /// need be, the one with a name.
    async fn start_own(
        &mut self,
        host: &Instance,
        running: Container,
    ) -> Result<Container, Ending> {
        let Some(named) = self.request.named.as_ref() else {
            return Ok(running);
        };
        if running.named.as_ref() == Some(&named.name) {
            return Ok(running);
        }
        let Some((_, scripts)) = self.reconciler.hosts().link(&host.id) else {
            let host = host.id.drive_label(&self.request.drive);
            let error = anyhow!("the connection to {host} was lost");
            return Err(Ending::Failed(error.into()));
        };
        // Only the session that leads records what is the drive's.
        let own = self.recorded.shares().ok().flatten();
        if self.request.options.shares.is_some() && self.request.options.shares != own {
            let error = anyhow!("a guest's container has the shares of the drive, and no others");
            let failure = Failure::new(Exit::Usage, error);
            return Err(Ending::Failed(
                failure.hint("the session that leads gives it shares"),
            ));
        }
        let (request, shares, cloud) = (&self.request, &self.shares, &self.drive.cloud);
        let starting = async {
            let report = &self.drive.report;
            let shares = shares.reach(host, cloud, report).await?;
            start_named(request, named, shares, scripts, report).await
        };
        let (signals, report) = (&mut self.drive.signals, &self.drive.report);
        let started = unless_ended(signals, report, Box::pin(starting)).await;
        started.map_err(Ending::Asked)?.map_err(Ending::Failed)
    }

    /// Attaches this session to `host` as a guest. Returns its container if that runs. It mostly does,
    /// so the connections are opened while the container is looked up.
    async fn attach_as_guest(&mut self, host: &Instance) -> Result<Option<Running>, HostError> {
        let caller = self.drive.identity.caller.clone();
        let lease = self.leases.session;
        let place = jupyter_place(&self.request.options);
        let session = self.reconciler.session().clone();
        let hosts = self.reconciler.hosts();
        let (ssh, scripts) = hosts.reach(host).await?;
        let early = hosts.take_ready(&host.id).early;
        let (attached, container, connections) = tokio::join!(
            hosts.join(host, &session, &caller, lease),
            scripts.running(self.request.container()),
            Connections::open(&ssh, place, early, false),
        );
        attached?;
        let room = hosts.room();
        // Without a container the connections are dropped: they go stale while one is waited for.
        let container = container.unwrap_or_default();
        Ok(container.map(|container| Running {
            container,
            connections,
            room,
        }))
    }

    /// Opens this session's shell or command in another session's container.
    async fn enter_as_guest(
        &mut self,
        host: &Instance,
        container: Container,
        connections: Option<Connections>,
    ) -> Result<(ContainerSession, DedicatedConnection), Failure> {
        let report = self.drive.report.clone();
        let session = self.reconciler.session().clone();
        let place = jupyter_place(&self.request.options);
        let hosts = self.reconciler.hosts();
        let drive = &self.request.drive;
        let connection_lost =
            || anyhow!("the connection to {} was lost", host.id.drive_label(drive));
        let (ssh, scripts) = hosts.link(&host.id).ok_or_else(connection_lost)?;
        let connections = match connections {
            Some(connections) => connections,
            None => Connections::open(ssh, place, None, false).await,
        };
        container::join(connections, scripts, container, &session, &report).await
    }

    /// Prints when the lease of `host` ends and `why` this laptop cannot join; then waits if the
    /// user agrees.
    async fn wait_outside(&mut self, host: &Instance, why: &str) -> Result<(), NotUp> {
        let drive = self.request.drive.clone();
        let ends = tags::until(&host.tags).map_or_else(
            || "it has no lease".to_owned(),
            |until| format!("its lease ends at {until:.0} unless it is renewed"),
        );
        if !self.waits_for_others {
            let in_use = format!(
                "{drive} is in use on {} by {}, and this laptop cannot join: {why}",
                host.id.short_label(),
                tags::owner(&host.tags)
            );
            self.drive.report.print(&Text::lines([&in_use, &ends]));
            self.waits_for_others = self.drive.ask("wait for that? [y/N]", false).await;
            if !self.waits_for_others {
                let error = anyhow!("{drive} is in use on {}, and {ends}", host.id.short_label());
                return Err(NotUp::Busy(Failure::new(Exit::TryAgain, error).hint(
                    format!(
                        "{} connect {drive} again after that; or let this caller use EC2 Instance \
                     Connect (ec2-instance-connect:SendSSHPublicKey)",
                        self.drive.cloud.command
                    ),
                )));
            }
        }
        let _step = self
            .drive
            .report
            .step(format!("wait for {}; {ends}", host.id.drive_label(&drive)));
        let waited = unless_ended(&mut self.drive.signals, &self.drive.report, sleep(WAIT)).await;
        waited.map_err(NotUp::Asked)
    }
}

impl Request {
    /// Refuses `--from`: what this guest would work on is another state of the drive.
    fn refuse_head(&self, holder: &Holder, command: &str) -> Result<(), Failure> {
        if self.options.config.once.from.is_none() {
            return Ok(());
        }
        let drive = &self.drive;
        let error = anyhow!(
            "{drive} is in use by {} since {}, and --from is for one that nobody uses",
            holder.owner,
            holder.since
        );
        Err(Failure::new(Exit::TryAgain, error).hint(format!(
            "without --from this session joins that one; {command} stop {drive} ends it"
        )))
    }

    /// Names the flags that change nothing, since the drive is up on `host`; those of the container if
    /// it runs already. Returns whether there are some of those.
    pub(super) fn report_ineffective_flags(
        &mut self,
        host: &Instance,
        has_container: bool,
        report: &Report,
    ) -> bool {
        let Ineffective { launch, container } = &mut self.ineffective;
        let drive = &self.drive;
        if let Some(flags) = listed(&take(launch)) {
            report.print(&format!(
                "{flags} for a launch: {drive} is up on {}, and nothing changes now",
                host.instance_type
            ));
        }
        let flags = listed(container).filter(|_| has_container);
        if let Some(flags) = &flags {
            report.print(&format!(
                "{flags} for who starts the container, which runs as another session wanted it"
            ));
        }
        flags.is_some()
    }
}

impl Drive {
    /// Writes `note` on the volume that is mounted on `host`, unless another one is there. The error is
    /// why not, in words.
    async fn write_note(&self, host: &Instance, note: &Note) -> Result<(), String> {
        let mounted = self.demand_mounted(host).await?;
        let there = Record::read(&mounted.tags).note;
        if let Some(there) = there.filter(|there| there != note) {
            return Err(format!("as this generation has one ({there})"));
        }
        self.write(&mounted, &tags::noted(note)).await
    }

    /// Gives the volume that is mounted on this host these tags.
    async fn tag_mounted(&self, host: &Instance, tags: &Tags) -> Result<(), String> {
        let mounted = self.demand_mounted(host).await?;
        self.write(&mounted, tags).await
    }

    async fn demand_mounted(&self, host: &Instance) -> Result<Volume, String> {
        let mounted = self.mounted_volume(host).await;
        let mounted = mounted.map_err(|error| error.to_string())?;
        mounted.ok_or_else(|| "as the drive's volume is not listed yet".to_owned())
    }

    async fn write(&self, volume: &Volume, tags: &Tags) -> Result<(), String> {
        let writing = self.cloud.ec2.tag(volume.id.as_str(), tags);
        writing.await.map_err(|error| error.to_string())
    }
}

/// The flags as the subject of a sentence, with its verb; none without any.
fn listed(flags: &[String]) -> Option<String> {
    match flags {
        [] => None,
        [one] => Some(format!("{one} is")),
        [others @ .., last] => Some(format!("{} and {last} are", others.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn flags_are_listed_as_people_do() {
        let listed = |flags: &[&str]| {
            let flags: Vec<String> = flags.iter().map(|it| (*it).to_owned()).collect();
            super::listed(&flags)
        };
        assert_eq!(listed(&[]), None);
        assert_eq!(listed(&["--size"]).unwrap(), "--size is");
        assert_eq!(listed(&["-a", "-b", "-c"]).unwrap(), "-a, -b and -c are");
    }
}
