//! The scripts that run on the host, as functions.
//!
//! `shell/host/*` is part of this program, and sent to a host at the first contact ([`bundle`]).
//! Every function here is one command over SSH: inputs as quoted environment, secrets on standard
//! input, results as facts.
//!
//! The scripts are idempotent: where a connection is lost half way, the same call over a new
//! connection shows the result. Nothing here decides what is done next, and nothing here retries.
//! [`Host::close`] ends a drive's time on a host for good.

mod along;
mod arrive;
mod budget;
mod build;
mod containers;
mod freeze;
mod notebook;
mod tries;
mod workers;

use std::fmt::Write as _;
use std::time::Duration;

use tokio::io::AsyncRead;

use super::bundle::{self, DIRECTORY, python};
use super::client_lock::{ClientLock, LockOrder};
use super::closed::CloseReport;
use super::contact::{HostState, Remaining};
use super::container::{Came, CommandId, Container, ContainerSignal};
use super::facts::{Facts, STILL_MOUNTED, ScriptError};
use super::mount::{self, MountOrder, MountedDrive};
use super::places::Places;
use super::pull::Pulled;
use super::registry::RegistryLogin;
use super::room::Room;
use super::runs::{CommandOrder, Run};
use super::shares::{self, Reached};
use crate::ids::{ContainerName, DriveName};
use crate::quote::quote;
use crate::ssh::channel::Session;
use crate::ssh::terminal::Terminal;
use crate::ssh::{Output, PublicHostKey, RemoteCommand, Ssh, SshError};

pub use arrive::{ArriveOrder, Arrived};
pub use budget::{BudgetOrder, Budgeted};
pub use build::BuildOrder;
pub use containers::Removed;
pub use freeze::{Freezes, NotThawed, Thawed};
pub use workers::{JoinToken, Joining};

/// The script that prints a host's state.
const CONTACT: &str = "session contact";

/// A host that answered and has the scripts. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Host {
    ssh: Ssh,
}

/// The image that a container is to be made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Image {
    /// The one that the container was made from; an error if there is no such container yet.
    Kept,
    /// A registry reference that [`Host::pull`] has pulled.
    Reference(String),
    /// An image that [`Host::load_image`] has loaded from an archive, or [`Host::build`] has built.
    Loaded(LoadedImage),
}

/// An image that was loaded from an archive, or built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadedImage {
    /// Docker's id of it, or its tag if the archive has one.
    pub id: String,
    /// The caller's name for what it was made from, which is compared with [`MountedDrive::source`].
    pub source: String,
}

/// A request to run a container of the drive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerOrder {
    /// The drive's name, which is the host name of its main container, with `-` for dots: what follows one
    /// would be a domain there.
    pub drive: DriveName,
    /// The container's name, and its host name; none for the main one.
    pub named: Option<ContainerName>,
    /// The image to make it from.
    pub image: Image,
    /// The environment of everything in it. Values with newlines cannot be passed to docker.
    pub environment: Vec<(String, String)>,
    /// The parts of the host that the container is to have.
    pub places: Places,
    /// All of its shares; `None` leaves them as the container has them.
    pub shares: Option<Vec<Reached>>,
}

impl Host {
    /// Asks the host for its state, which counts as a client's sign of life; sends the scripts
    /// first if it lacks them.
    pub async fn contact(ssh: Ssh) -> Result<(Self, HostState), ScriptError> {
        let command = bundle::command(CONTACT);
        let question = bundle::QUESTION;
        let output = ssh
            .run_if_asked(CONTACT, &command, question, || bundle::packed(CONTACT))
            .await?;
        let contact = HostState::read(&Facts::read(CONTACT, &output, &[])?)?;
        Ok((Self { ssh }, contact))
    }

    /// Asks again for its state.
    pub async fn look(&self) -> Result<HostState, ScriptError> {
        HostState::read(&self.run(CONTACT, &[]).await?)
    }

    /// Attaches this client and sets the lease; [`ScriptError::Busy`] if it is to lead and another
    /// client does. A lock of the same session that the host still has is replaced.
    pub async fn hold(&self, order: &LockOrder<'_>) -> Result<ClientLock, ScriptError> {
        let lease = order.lease.as_secs().to_string();
        let inputs = [
            ("XDRIVE_OWNER", order.client),
            ("XDRIVE_ROLE", order.role.name()),
            ("XDRIVE_LEASE", &lease),
        ];
        ClientLock::begin(&self.ssh, &call("session hold", &inputs)).await
    }

    /// Detaches `client` (its line, as in [`LockOrder`]); returns the clients that remain. Of all
    /// clients that leave, just one learns that none remains, however often it asks.
    pub async fn leave(&self, client: &str) -> Result<Remaining, ScriptError> {
        let inputs = [("XDRIVE_OWNER", client)];
        Remaining::read(&self.run("session leave", &inputs).await?)
    }

    /// Makes the lease end so long from now (whole seconds), without being attached.
    pub async fn lease(&self, length: Duration) -> Result<(), ScriptError> {
        let lease = length.as_secs().to_string();
        let inputs = [("XDRIVE_LEASE", lease.as_str())];
        self.run("session lease", &inputs).await.map(drop)
    }

    /// Authorizes `key`, a line of `authorized_keys`, until the machine boots again.
    pub async fn authorize(&self, key: &str) -> Result<(), ScriptError> {
        self.run("session admit", &[("XDRIVE_KEY", key)])
            .await
            .map(drop)
    }

    /// Has the host make a key of its own, unless it has one, and offer it beside the launch key;
    /// returns its public half.
    pub async fn make_host_key(&self) -> Result<PublicHostKey, ScriptError> {
        self.run("host_key make", &[]).await?.require("host_key")
    }

    /// Has the host offer its own key alone from now on: `recorded`, which is in the instance's tag.
    pub async fn settle_host_key(&self, recorded: &PublicHostKey) -> Result<(), ScriptError> {
        let recorded = recorded.to_string();
        self.run("host_key settle", &[("XDRIVE_HOST_KEY", &recorded)])
            .await
            .map(drop)
    }

    /// Waits for the volume, formats it if it is blank and may be, and mounts it as the drive.
    pub async fn mount(&self, order: &MountOrder) -> Result<MountedDrive, ScriptError> {
        let inputs = mount::inputs(order);
        let inputs = inputs
            .each_ref()
            .map(|(name, value)| (*name, value.as_str()));
        MountedDrive::read(&self.run("drive mount", &inputs).await?)
    }

    /// Flushes the mounted drive to its volume (`sync -f`).
    pub async fn sync(&self) -> Result<(), ScriptError> {
        self.run("drive sync", &[]).await.map(drop)
    }

    /// Grows the mounted drive, whose volume has `bytes`. Returns its room; none where this host may not grow it, which
    /// the next mount does.
    pub async fn grow(&self, bytes: u64) -> Result<Option<Room>, ScriptError> {
        let facts = self
            .run("drive grow", &[("XDRIVE_SIZE", &bytes.to_string())])
            .await?;
        Ok(Room::read(&facts).filter(|_| facts.yes("grown")))
    }

    /// Loads an image archive onto the drive: from `docker save`, or a plain root file system as
    /// tar; either may be compressed. `source` names it, in one line.
    pub async fn load_image(
        &self,
        source: &str,
        archive: impl AsyncRead + Unpin + Send,
    ) -> Result<LoadedImage, ScriptError> {
        const SCRIPT: &str = "container load";
        let output = self
            .ssh
            .run_named(SCRIPT, &call(SCRIPT, &[]), archive)
            .await?;
        let facts = Facts::read(SCRIPT, &output, &[])?;
        Ok(LoadedImage {
            id: facts.require("image")?,
            source: source.to_owned(),
        })
    }

    /// Pulls the image `reference` from its registry onto the drive, and calls `on_progress` some
    /// times a second. `None` if it was there already. [`ScriptError::NotPulled`] if that fails. The
    /// `login` at that registry is sent on standard input, and outranks one that the host has.
    pub async fn pull(
        &self,
        reference: &str,
        login: Option<&RegistryLogin>,
        on_progress: &mut (dyn FnMut(Pulled) + Send),
    ) -> Result<Option<Pulled>, ScriptError> {
        const SCRIPT: &str = "container pull";
        let command = call(SCRIPT, &[("XDRIVE_IMAGE", reference)]);
        let login = login.map(RegistryLogin::document).unwrap_or_default();
        let mut last = Pulled::default();
        let mut facts = |fact: &str| {
            if let Some(pulled) = fact
                .strip_prefix("pull=")
                .and_then(|progress| progress.parse().ok())
            {
                last = pulled;
                on_progress(pulled);
            }
        };
        let output = self
            .ssh
            .run_with_facts(SCRIPT, &command, &login[..], &mut facts)
            .await?;
        let facts = Facts::read(SCRIPT, &output, &[])?;
        Ok(facts.yes("pulled").then_some(last))
    }

    /// Waits until the driver of the machine's GPUs answers, so long at most (whole seconds); the
    /// GPUs' names. [`ScriptError::NoGpu`] as soon as it is known that it does not.
    pub async fn gpus(&self, wait: Duration) -> Result<Vec<String>, ScriptError> {
        let wait = wait.as_secs().to_string();
        let inputs = [("XDRIVE_GPU_WAIT", wait.as_str())];
        let facts = self.run("container gpus", &inputs).await?;
        Ok(facts.all("gpu").map(str::to_owned).collect())
    }

    /// Starts a container of the drive, makes it, or makes it again, as `order` requires. Where the
    /// machine has GPUs the container gets them, or is not made.
    pub async fn container(&self, order: &ContainerOrder) -> Result<Container, ScriptError> {
        let (source, image) = match &order.image {
            Image::Kept => ("", ""),
            Image::Reference(reference) => (reference.as_str(), reference.as_str()),
            Image::Loaded(loaded) => (loaded.source.as_str(), loaded.id.as_str()),
        };
        let environment = order.environment.iter();
        let environment: Vec<String> = environment
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        let (mounts, docker) = order.places.inputs();
        let (shares, targets) = shares::inputs(order.shares.as_deref());
        let facts = self
            .run(
                "container start",
                &[
                    ("XDRIVE_NAME", order.drive.as_str()),
                    container_input(order.named.as_ref()),
                    ("XDRIVE_SOURCE", source),
                    ("XDRIVE_IMAGE", image),
                    ("XDRIVE_ENVIRONMENT", &environment.join("\n")),
                    ("XDRIVE_MOUNTS", &mounts),
                    ("XDRIVE_DOCKER", docker),
                    ("XDRIVE_SHARES", &shares),
                    ("XDRIVE_TARGETS", &targets),
                ],
            )
            .await?;
        let came = match facts.require::<String>("came")?.as_str() {
            "running" => Came::Running,
            "started" => Came::Started,
            "created" => {
                let former = facts.optional("former")?;
                former.map_or(Came::Created, Came::Replaced)
            }
            "recreated" => Came::Recreated(facts.require("because")?),
            _ => return Err(facts.garbled("came")),
        };
        let container = running(&facts, order.named.as_ref())?;
        Ok(Container { came, ..container })
    }

    /// The container of this name, or the main one, if it runs and is whole. Starts nothing, and does
    /// not wait for other commands that work on it.
    pub async fn running(
        &self,
        name: Option<&ContainerName>,
    ) -> Result<Option<Container>, ScriptError> {
        let facts = self
            .run("container running", &[container_input(name)])
            .await?;
        if facts.require::<String>("container")? == "none" {
            return Ok(None);
        }
        running(&facts, name).map(Some)
    }

    /// Sends `signal` to a command in a container, the main one unless it has a `name`, and to what it
    /// started; success if the command has ended.
    pub async fn signal(
        &self,
        name: Option<&ContainerName>,
        command: &CommandId,
        signal: ContainerSignal,
    ) -> Result<(), ScriptError> {
        let inputs = [
            container_input(name),
            ("XDRIVE_COMMAND", command.as_str()),
            ("XDRIVE_SIGNAL", signal.name()),
        ];
        self.run("container signal", &inputs).await.map(drop)
    }

    /// Closes the drive, for `reason` (one line): latch, stop, commit, unmount. From the latch on
    /// this host refuses to mount or start anything, for good.
    pub async fn close(&self, reason: &str) -> Result<CloseReport, ScriptError> {
        const SCRIPT: &str = "close";
        let command = call(SCRIPT, &[("XDRIVE_REASON", reason)]);
        let output = self.ssh.run_named(SCRIPT, &command, &b""[..]).await?;
        let facts = Facts::read(SCRIPT, &output, &[STILL_MOUNTED])?;
        CloseReport::read(&facts)
    }

    /// The command for an SSH channel *without* a terminal: an SSH server for one client, on the
    /// channel's stdin and stdout. It has this host's key, knows the keys that may log in here, and
    /// leads into `container`. A server with a `name` ends the one that had it before, whose
    /// connection is lost.
    #[must_use]
    pub fn ssh_server(&self, container: &Container, name: Option<&str>) -> String {
        let host_key = self.ssh.host_key().algorithm();
        let mut inputs = vec![
            ("XDRIVE_CONTAINER", container.name.as_str()),
            ("XDRIVE_HOST_KEY", &host_key),
            container_input(container.named.as_ref()),
        ];
        inputs.extend(name.map(|name| ("XDRIVE_SERVER", name)));
        call("ssh serve", &inputs)
    }

    /// Likewise: an SFTP server for `container`, which [`super::sftp`] speaks to.
    #[must_use]
    pub fn file_server(&self, container: &Container, name: &str) -> String {
        let container = ("XDRIVE_CONTAINER", container.name.as_str());
        call("ssh files", &[container, ("XDRIVE_SERVER", name)])
    }

    /// The terminal `name` on this host, in which `command` runs: see [`crate::ssh::Shell`].
    #[must_use]
    pub fn terminal(&self, name: &str, command: &str, freezes: bool) -> Terminal {
        terminal(name, command, freezes)
    }

    /// The command that `order` describes, on this host: see [`crate::ssh::Shell`].
    #[must_use]
    pub fn command(&self, order: &CommandOrder<'_>) -> RemoteCommand {
        let program = format!("{}/command.py", *DIRECTORY);
        let id = order.id.as_str();
        let limit = order.limit.map_or_else(String::new, |limit| {
            let (time, notice) = (limit.time.as_secs().max(1), limit.notice.as_secs());
            format!("{time} {notice} {}", limit.by)
        });
        let attempt = order.attempt.map_or_else(String::new, |it| it.words());
        let freeze = if order.freezes { "freeze" } else { "" };
        let words = [order.label, order.client, &limit, &attempt, freeze];
        RemoteCommand::new(&program, id, order.kept, words, order.command)
    }

    /// The command `id` that is on this host.
    #[must_use]
    pub fn command_there(&self, id: &CommandId) -> RemoteCommand {
        RemoteCommand::existing(&format!("{}/command.py", *DIRECTORY), id.as_str())
    }

    /// Starts a command, without any input; it runs when this returns.
    pub async fn begin(&self, command: &RemoteCommand) -> Result<(), ScriptError> {
        const SCRIPT: &str = "command.py begin";
        let output = self.ssh.run(&command.begin(), b"").await?;
        Facts::read(SCRIPT, &output, &[]).map(drop)
    }

    /// Makes `client` (its line) a client of the host while the command `id` runs, for which no
    /// caller waits any more. Done already is success.
    pub async fn leave_command(&self, id: &CommandId, client: &str) -> Result<(), ScriptError> {
        const SCRIPT: &str = "command.py leave";
        let command = format!(
            "exec python3 -I -S {}/{SCRIPT} {} {}",
            *DIRECTORY,
            quote(id.as_str()),
            quote(client)
        );
        let output = self.ssh.run(&command, b"").await?;
        Facts::read(SCRIPT, &output, &[]).map(drop)
    }

    /// The commands that run on this host, and those that are on record on its drive, the oldest
    /// first.
    pub async fn runs(&self) -> Result<Vec<Run>, ScriptError> {
        const SCRIPT: &str = "runs.py list";
        let output = self.run_python(SCRIPT).await?;
        let facts = Facts::read(SCRIPT, &output, &[])?;
        let runs = facts.all("run").map(Run::parse);
        runs.collect::<Option<_>>()
            .ok_or_else(|| facts.garbled("run"))
    }

    /// The terminals that earlier sessions left on this host, the latest first; the name of one in a
    /// container with a name ends in `..` and that.
    pub async fn left_terminals(&self) -> Result<Vec<String>, ScriptError> {
        const SCRIPT: &str = "terminal.py left";
        let output = self.run_python(SCRIPT).await?;
        let facts = Facts::read(SCRIPT, &output, &[])?;
        Ok(facts.all("left").map(str::to_owned).collect())
    }

    /// Runs a script in Python (its name, verb and arguments).
    pub(super) async fn run_python(&self, script: &str) -> Result<Output, SshError> {
        self.ssh.run(&format!("exec {}", python(script)), b"").await
    }

    /// Starts a script in Python.
    pub(super) async fn exec_python(&self, script: &str) -> Result<Session, SshError> {
        let command = format!("exec {}", python(script));
        self.ssh.exec(&command, None).await
    }

    /// Why one that was started ended without an exit status.
    pub(super) async fn why_ended(&self) -> SshError {
        self.ssh.why_ended().await
    }

    async fn run(
        &self,
        script: &'static str,
        inputs: &[(&str, &str)],
    ) -> Result<Facts, ScriptError> {
        let output = self
            .ssh
            .run_named(script, &call(script, inputs), &b""[..])
            .await?;
        Facts::read(script, &output, &[])
    }
}

/// As [`Host::terminal`], for a host that has not answered yet.
pub(super) fn terminal(name: &str, command: &str, freezes: bool) -> Terminal {
    let flag = if freezes { "--freeze " } else { "" };
    let command = format!("{flag}{command}");
    Terminal::new(&format!("{}/terminal.py", *DIRECTORY), name, &command)
}

/// The input that says which container of the drive a script is about.
fn container_input(name: Option<&ContainerName>) -> (&'static str, &str) {
    ("XDRIVE_NAMED", name.map_or("", ContainerName::as_str))
}

/// A container that runs, of this name.
fn running(facts: &Facts, name: Option<&ContainerName>) -> Result<Container, ScriptError> {
    Ok(Container {
        named: name.cloned(),
        name: facts.require("container")?,
        address: facts.require("address")?,
        came: Came::Running,
        lab: facts.get("lab").map(|text| text == "yes"),
        docker: facts.yes("docker"),
        variables: None,
        git: None,
        words: None,
        timings: facts.timings(),
    })
}

/// The command that runs `script` (its name and verb) with these inputs.
fn call(script: &str, inputs: &[(&str, &str)]) -> String {
    let mut command = String::new();
    for (name, value) in inputs {
        let _ = write!(command, "{name}={} ", quote(value));
    }
    let _ = write!(command, "sh {}/{script}", *DIRECTORY);
    command
}

#[cfg(test)]
mod tests;
