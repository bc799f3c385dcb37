//! The scripts that run on the host, as functions.
//!
//! `shell/host/*` is part of this program. The first contact brings it there ([`bundle`]), and every
//! function here is one command over SSH: inputs as quoted environment, secrets on standard input,
//! answers as facts.
//!
//! The scripts are idempotent: where a connection is lost half way, the same call on a new
//! connection is the way to know. Nothing here decides what should be done next, and nothing here
//! retries. What ends a drive's time on a host is [`Host::close`]; it is for good.

mod arrive;
mod bundle;

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::AsyncRead;

use super::container::{Came, CommandId, Container, Signal};
use super::facts::{Facts, HostError, STILL_MOUNTED};
use super::pull::Pulled;
use super::room::Room;
use crate::quote::quote;
use crate::ssh::Ssh;
use crate::ssh::terminal::Terminal;

use bundle::DIRECTORY;

pub use arrive::{ArriveOrder, Arrived};

pub use super::client_lock::{ClientLock, HostEvent, LockOrder, Role};
pub use super::closed::{Closed, Committed};
pub use super::contact::{Contact, MountedVolume, Remaining};

/// What answers what a host knows.
const CONTACT: &str = "session contact";

/// A host that can be told what to do: it answered, and has the scripts. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Host {
    ssh: Ssh,
}

/// What to mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountOrder {
    /// `vol-…`; must be attached, or be on the way.
    pub volume: String,
    /// The generation this mount is.
    pub generation: u64,
    /// Whether xdrive made this volume empty, and it is still tagged so: the leave to format it,
    /// if it also reads as blank.
    pub blank: bool,
    /// The file system's UUID, where it is recorded: another one is not mounted.
    pub uuid: Option<String>,
    /// Where it was attached, such as `/dev/sdf`: for machines whose disks have no serial numbers.
    pub device: String,
    /// Its size in bytes, where that is known: without it the name of a device proves nothing.
    pub size: Option<u64>,
    /// How long to wait for the device to appear.
    pub wait: Duration,
    /// The most data in bytes that may wait to be written (`vm.dirty_bytes`); the host lets a tenth
    /// of its memory wait where that is less.
    pub dirty_bytes: u64,
}

/// The mounted drive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mounted {
    /// The file system's UUID.
    pub uuid: String,
    /// The volume's size in bytes.
    pub size: u64,
    /// How much room there is on it, where that can be said.
    pub room: Option<Room>,
    /// Whether it was blank and is formatted now.
    pub formatted: bool,
    /// Whether the file system was grown to the volume's size.
    pub grown: bool,
    /// The generation that the drive itself had last seen.
    pub recorded: Option<u64>,
    /// What its container was made from ([`Image`]'s own words), if it has one.
    pub source: Option<String>,
    /// The machine's GPUs.
    pub gpus: Gpus,
    /// How much data in bytes may wait to be written there; none if that could not be limited.
    pub dirty_bytes: Option<u64>,
    /// The steps and their times, in order.
    pub timings: Vec<(String, Duration)>,
}

/// The GPUs of NVIDIA's that a host has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gpus {
    /// None on its bus.
    None,
    /// Some, whose driver has not answered yet: see [`Host::gpus`].
    Waiting,
    /// Some, with their driver.
    Ready,
}

/// What the container is to be made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Image {
    /// Whatever the drive's container was made from; an error if it has none yet.
    Kept,
    /// A registry reference, which [`Host::pull`] brought.
    Reference(String),
    /// An archive that [`Host::load_image`] brought.
    Loaded(LoadedImage),
}

/// An image that came as an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadedImage {
    /// Docker's id of it, or its tag where the archive named one.
    pub id: String,
    /// What it came from, as the caller named it: compared with [`Mounted::source`].
    pub source: String,
}

/// The container that is to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerOrder {
    /// The drive's name: the container is `xdrive-NAME`, its host name NAME.
    pub drive: String,
    /// What to make it from.
    pub image: Image,
    /// Environment of everything in it. Values with newlines cannot be passed to docker.
    pub environment: Vec<(String, String)>,
}

impl Host {
    /// Tells the host that somebody came (its first sign of life), and asks what it knows; brings
    /// the scripts there first if it has not got them.
    pub async fn contact(ssh: Ssh) -> Result<(Self, Contact), HostError> {
        let command = bundle::command(CONTACT);
        let question = bundle::QUESTION;
        let output = ssh
            .run_if_asked(CONTACT, &command, question, || bundle::packed(CONTACT))
            .await?;
        let contact = Contact::read(&Facts::read(CONTACT, &output, &[])?)?;
        Ok((Self { ssh }, contact))
    }

    /// Asks again what it knows.
    pub async fn look(&self) -> Result<Contact, HostError> {
        Contact::read(&self.run(CONTACT, &[]).await?)
    }

    /// Attaches this client and sets the lease; [`HostError::Busy`] if it wants to lead and another
    /// client does. A hold of the same session that the host still believes in is taken over.
    pub async fn hold(&self, order: &LockOrder<'_>) -> Result<ClientLock, HostError> {
        let lease = order.lease.as_secs().to_string();
        let inputs = [
            ("XDRIVE_OWNER", order.client),
            ("XDRIVE_ROLE", order.role.name()),
            ("XDRIVE_LEASE", &lease),
        ];
        ClientLock::begin(&self.ssh, &call("session hold", &inputs)).await
    }

    /// Ends being attached as `client` (its line, as in [`LockOrder`]); who goes on. Of all clients
    /// that leave, just one hears that nobody does, however often it asks.
    pub async fn leave(&self, client: &str) -> Result<Remaining, HostError> {
        let inputs = [("XDRIVE_OWNER", client)];
        Remaining::read(&self.run("session leave", &inputs).await?)
    }

    /// Lets the lease end so long from now (whole seconds), without being attached.
    pub async fn lease(&self, length: Duration) -> Result<(), HostError> {
        let lease = length.as_secs().to_string();
        let inputs = [("XDRIVE_LEASE", lease.as_str())];
        self.run("session lease", &inputs).await.map(drop)
    }

    /// Lets `key`, a line of `authorized_keys`, log in from now on, until the machine boots anew.
    pub async fn admit(&self, key: &str) -> Result<(), HostError> {
        self.run("session admit", &[("XDRIVE_KEY", key)])
            .await
            .map(drop)
    }

    /// Waits for the volume, makes it an ext4 that can be mounted, and mounts it as the drive.
    pub async fn mount(&self, order: &MountOrder) -> Result<Mounted, HostError> {
        let generation = order.generation.to_string();
        let wait = order.wait.as_secs().to_string();
        let size = order.size.map(|bytes| bytes.to_string());
        let dirty_bytes = order.dirty_bytes.to_string();
        let facts = self
            .run(
                "drive mount",
                &[
                    ("XDRIVE_VOLUME", &order.volume),
                    ("XDRIVE_GENERATION", &generation),
                    ("XDRIVE_BLANK", if order.blank { "yes" } else { "no" }),
                    ("XDRIVE_UUID", order.uuid.as_deref().unwrap_or_default()),
                    ("XDRIVE_WAIT", &wait),
                    ("XDRIVE_DEVICE", &order.device),
                    ("XDRIVE_SIZE", size.as_deref().unwrap_or_default()),
                    ("XDRIVE_DIRTY_BYTES", &dirty_bytes),
                ],
            )
            .await?;
        Mounted::read(&facts)
    }

    /// Brings to the volume what is written on the mounted drive and not there yet (`sync -f`).
    pub async fn sync(&self) -> Result<(), HostError> {
        self.run("drive sync", &[]).await.map(drop)
    }

    /// Brings an image archive to the drive: what `docker save` wrote, or a plain root file system
    /// as tar; either may be compressed. `source` names it, in one line.
    pub async fn load_image(
        &self,
        source: &str,
        archive: impl AsyncRead + Unpin + Send,
    ) -> Result<LoadedImage, HostError> {
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

    /// Brings the image `reference` from its registry to the drive, and calls `hear` with how far
    /// that is, some times a second. None if it was there. [`HostError::NotPulled`] if it cannot be
    /// had.
    pub async fn pull(
        &self,
        reference: &str,
        hear: &mut (dyn FnMut(Pulled) + Send),
    ) -> Result<Option<Pulled>, HostError> {
        const SCRIPT: &str = "container pull";
        let command = call(SCRIPT, &[("XDRIVE_IMAGE", reference)]);
        let mut last = Pulled::default();
        let mut facts = |fact: &str| {
            if let Some(pulled) = fact
                .strip_prefix("pull=")
                .and_then(|said| said.parse().ok())
            {
                last = pulled;
                hear(pulled);
            }
        };
        let output = self
            .ssh
            .run_with_facts(SCRIPT, &command, &b""[..], &mut facts)
            .await?;
        let facts = Facts::read(SCRIPT, &output, &[])?;
        Ok(facts.yes("pulled").then_some(last))
    }

    /// Waits until the driver of the machine's GPUs answers, so long at most (whole seconds); the
    /// GPUs' names. [`HostError::NoGpu`] if it does not, as soon as that is known.
    pub async fn gpus(&self, wait: Duration) -> Result<Vec<String>, HostError> {
        let wait = wait.as_secs().to_string();
        let inputs = [("XDRIVE_GPU_WAIT", wait.as_str())];
        let facts = self.run("container gpus", &inputs).await?;
        Ok(facts.all("gpu").map(str::to_owned).collect())
    }

    /// Starts the drive's container, makes it, or makes it again, as `order` asks. Where the
    /// machine has GPUs the container has them, or is not made.
    pub async fn container(&self, order: &ContainerOrder) -> Result<Container, HostError> {
        let (source, image) = match &order.image {
            Image::Kept => ("", ""),
            Image::Reference(reference) => (reference.as_str(), reference.as_str()),
            Image::Loaded(loaded) => (loaded.source.as_str(), loaded.id.as_str()),
        };
        let environment: Vec<String> = order
            .environment
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        let facts = self
            .run(
                "container start",
                &[
                    ("XDRIVE_NAME", &order.drive),
                    ("XDRIVE_SOURCE", source),
                    ("XDRIVE_IMAGE", image),
                    ("XDRIVE_ENVIRONMENT", &environment.join("\n")),
                ],
            )
            .await?;
        let came = match facts.require::<String>("came")?.as_str() {
            "running" => Came::Running,
            "started" => Came::Started,
            "created" => Came::Created,
            "recreated" => Came::Recreated(facts.require("because")?),
            _ => return Err(facts.garbled("came")),
        };
        Ok(Container {
            name: facts.require("container")?,
            address: facts.require("address")?,
            came,
            lab: facts.get("lab").map(|said| said == "yes"),
            timings: facts.timings(),
        })
    }

    /// The drive's container, if it runs and is whole. Starts nothing, and waits for nobody who is
    /// at work on it.
    pub async fn running(&self) -> Result<Option<Container>, HostError> {
        let facts = self.run("container running", &[]).await?;
        let name: String = facts.require("container")?;
        if name == "none" {
            return Ok(None);
        }
        running(&facts).map(Some)
    }

    /// Makes `token` one that opens Jupyter, `session`'s only one, next to those of other sessions
    /// that are attached; and starts Jupyter if it does not run. None if the image has no
    /// `JupyterLab`. Does not wait until it listens. The token travels on standard input.
    pub async fn jupyter(
        &self,
        session: &str,
        token: &str,
    ) -> Result<Option<SocketAddr>, HostError> {
        const SCRIPT: &str = "container jupyter";
        let command = call(SCRIPT, &[("XDRIVE_SESSION", session)]);
        let output = self
            .ssh
            .run_named(SCRIPT, &command, token.as_bytes())
            .await?;
        let facts = Facts::read(SCRIPT, &output, &[])?;
        match facts.require::<String>("jupyter")?.as_str() {
            "none" => Ok(None),
            _ => facts.require("jupyter").map(Some),
        }
    }

    /// Waits until the Jupyter that was started listens, a minute at most.
    pub async fn jupyter_listens(&self) -> Result<(), HostError> {
        self.run("container listens", &[]).await.map(drop)
    }

    /// Sends `signal` to a command and what it started; a command that has ended is success.
    pub async fn signal(&self, command: &CommandId, signal: Signal) -> Result<(), HostError> {
        let inputs = [
            ("XDRIVE_COMMAND", command.as_str()),
            ("XDRIVE_SIGNAL", signal.name()),
        ];
        self.run("container signal", &inputs).await.map(drop)
    }

    /// Closes the drive, for `reason` (one line): latch, stop, commit, unmount. From the first
    /// moment on this host refuses to mount or start anything, for good.
    pub async fn close(&self, reason: &str) -> Result<Closed, HostError> {
        const SCRIPT: &str = "close";
        let command = call(SCRIPT, &[("XDRIVE_REASON", reason)]);
        let output = self.ssh.run_named(SCRIPT, &command, &b""[..]).await?;
        let facts = Facts::read(SCRIPT, &output, &[STILL_MOUNTED])?;
        Closed::read(&facts)
    }

    /// The terminal `name` on this host, in which `command` runs: see [`crate::ssh::Shell`].
    #[must_use]
    pub fn terminal(&self, name: &str, command: &str) -> Terminal {
        terminal(name, command)
    }

    /// The terminals on this host that sessions left behind, the latest first.
    pub async fn left_terminals(&self) -> Result<Vec<String>, HostError> {
        const SCRIPT: &str = "terminal.py left";
        let command = format!("exec python3 -I -S {}/{SCRIPT}", *DIRECTORY);
        let output = self.ssh.run(&command, b"").await?;
        let facts = Facts::read(SCRIPT, &output, &[])?;
        Ok(facts.all("left").map(str::to_owned).collect())
    }

    async fn run(&self, script: &'static str, inputs: &[(&str, &str)]) -> Result<Facts, HostError> {
        let output = self
            .ssh
            .run_named(script, &call(script, inputs), &b""[..])
            .await?;
        Facts::read(script, &output, &[])
    }
}

impl Mounted {
    fn read(facts: &Facts) -> Result<Self, HostError> {
        Ok(Self {
            uuid: facts.require("uuid")?,
            size: facts.require("size")?,
            room: Room::read(facts),
            formatted: facts.yes("formatted"),
            grown: facts.yes("grown"),
            recorded: facts.get("recorded").and_then(|said| said.parse().ok()),
            source: facts.get("source").map(str::to_owned),
            gpus: match facts.require::<String>("gpus")?.as_str() {
                "none" => Gpus::None,
                "yes" => Gpus::Waiting,
                "ready" => Gpus::Ready,
                _ => return Err(facts.garbled("gpus")),
            },
            dirty_bytes: facts.get("dirty").and_then(|said| said.parse().ok()),
            timings: facts.timings(),
        })
    }
}

/// As [`Host::terminal`], where nothing is known yet of the host.
pub(super) fn terminal(name: &str, command: &str) -> Terminal {
    Terminal::new(&format!("{}/terminal.py", *DIRECTORY), name, command)
}

/// A container that runs.
fn running(facts: &Facts) -> Result<Container, HostError> {
    Ok(Container {
        name: facts.require("container")?,
        address: facts.require("address")?,
        came: Came::Running,
        lab: facts.get("lab").map(|said| said == "yes"),
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
#[path = "scripts/tests.rs"]
mod tests;
