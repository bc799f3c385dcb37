//! The supervisor: one process an instance, which brings it up, answers for it, and clears up.
//!
//! It is a session of its own, so that no terminal's Ctrl-C or hang-up reaches it. It says on
//! stdout, in one line of JSON, that the instance is up or why not; afterwards it takes orders from
//! the `control` FIFO in the instance's folder. It never outlives the instance, nor the instance
//! it. If it is killed, what it would have cleared up is left to [`super::Plane::clear`].

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use rustix::fs::{CWD, FlockOperation, Mode, flock, mkfifoat};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::unix::pipe;
use tokio::time::{Instant, sleep_until};

use crate::clock::Clock;

use super::cgroup::Cgroups;
use super::computer::Computer;
use super::console::Console;
use super::folder::Folder;
use super::guest::{self, Guest};
use super::metadata::{self, Metadata};
use super::order::Order;
use super::process::Process;
use super::{PlaneError, Up, disk, images, network, power, root, sweep};

/// How long an instance gets to power off before it is asked again.
const ASK_AGAIN: Duration = Duration::from_millis(500);

/// The first and only line on a supervisor's stdout.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Report {
    /// The instance's process 1 runs.
    Up(Up),
    /// It does not, for want of something on this computer.
    Missing(String),
    /// It does not.
    Failed(String),
}

/// The supervisor of one instance: launched by [`super::Plane::launch`] as its own process, it
/// brings the instance up, serves its metadata, and clears up when it ends.
///
/// Must run on the main thread, outside of any runtime: the instance lives as long as the thread.
pub fn supervise(dir: &Path, cache: &Path, instance: &str) -> anyhow::Result<()> {
    // Fails where it was started as the head of a session already, which is as good.
    let _ = rustix::process::setsid();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting the supervisor")?;
    let result = runtime.block_on(run(dir, cache, instance));
    if let Err(error) = &result {
        // A second line is never read: after the first this only reaches the log.
        report(&match error {
            PlaneError::Missing(text) => Report::Missing(text.clone()),
            other => Report::Failed(format!("{:#}", anyhow::anyhow!(other.to_string()))),
        });
    }
    Ok(result?)
}

/// The launcher may be gone, and the instance is its record's, not its launcher's.
fn report(report: &Report) {
    let mut stdout = std::io::stdout();
    let line = serde_json::to_string(report).unwrap_or_default();
    let _ = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
}

async fn run(dir: &Path, cache: &Path, instance: &str) -> Result<(), PlaneError> {
    let folder = Folder::new(dir, instance);
    let Some(_alive) = folder.lock()? else {
        return Err(anyhow::anyhow!("{instance} has a supervisor already").into());
    };
    let machine = folder.machine()?;
    let this = Process::now(std::process::id())?;
    folder.set_supervisor(this)?;
    let tree = images::tree(cache, &machine.image)?;
    // While this is held the tree's builder does not remove it.
    let lower = File::open(&tree).with_context(|| format!("opening {}", tree.display()))?;
    flock(&lower, FlockOperation::LockShared).context("locking the machine tree")?;

    let ended = live(dir, &folder, &machine, &tree, this).await;
    let cleared = sweep::clear_up(dir, &folder);
    ended?;
    cleared
}

/// From the network to the end of the instance.
async fn live(
    dir: &Path,
    folder: &Folder,
    machine: &super::Machine,
    tree: &Path,
    this: Process,
) -> Result<(), PlaneError> {
    let cgroups = Cgroups::new(folder.name())?;
    cgroups.create()?;
    let network = network::up(folder.name())?;
    metadata::describe(&folder.metadata(), machine, &network, Clock::system().now())?;
    guest::personalize(folder, &machine.instance, &network)?;
    root::prepare(folder, tree)?;
    let listener = tokio::net::TcpListener::from_std(metadata::listen(folder.name())?)
        .context("serving metadata")?;
    let service = Metadata::new(folder.metadata(), machine.tokens_required);
    mkfifoat(CWD, folder.control(), Mode::RUSR | Mode::WUSR).context("making the control FIFO")?;
    // Open for writing too: otherwise it would read as ended whenever no client has it open.
    let orders = pipe::OpenOptions::new()
        .read_write(true)
        .open_receiver(folder.control())
        .context("opening the control FIFO")?;
    let console = Console::open(&folder.console())?;

    let mut guest = boot(folder, &cgroups, &console).await?;
    report(&Report::Up(Up {
        address: network.address,
        supervisor: this.pid,
        started: this.started,
    }));

    let mut orders = BufReader::new(orders).lines();
    let serving = service.serve(listener);
    tokio::pin!(serving);
    let mut ask = None;
    let mut end: Option<Instant> = None;
    let mut reset: Option<Instant> = None;
    let mut cut: Option<Instant> = None;
    let never = Instant::now() + Duration::from_hours(24 * 365);
    let status = loop {
        tokio::select! {
            status = guest.ended() => {
                let status = status.context("waiting for the instance")?;
                let is_forced = reset.is_some_and(|reset| reset <= Instant::now());
                if ask.is_some() || !(is_forced || guest::asks_for_reboot(status)) {
                    break status;
                }
                reset = None;
                // systemd expects to find none of its cgroups.
                cgroups.kill()?;
                cgroups.remove()?;
                cgroups.create()?;
                guest = boot(folder, &cgroups, &console).await?;
                disk::plug_in_again(dir, folder, guest.init)?;
            }
            error = &mut serving => return Err(error.into()),
            order = orders.next_line() => {
                let now = Instant::now();
                match order.context("reading orders")?.as_deref().and_then(Order::parse) {
                    Some(Order::PowerOff { grace }) => {
                        ask = Some(now);
                        end = Some(end.unwrap_or(never).min(now + grace));
                    }
                    Some(Order::Reboot { grace }) => {
                        guest.ask_to_reboot()?;
                        reset = Some(reset.unwrap_or(never).min(now + grace));
                    }
                    Some(Order::Cut { after }) => {
                        cut = Some(cut.unwrap_or(never).min(now + after));
                    }
                    None => {}
                }
            }
            () = sleep_until(ask.unwrap_or(never)), if ask.is_some() => {
                guest.ask_to_power_off()?;
                ask = Some(Instant::now() + ASK_AGAIN);
            }
            () = sleep_until(end.unwrap_or(never)), if end.is_some() => {
                cgroups.kill()?;
                end = None;
            }
            () = sleep_until(reset.unwrap_or(never)), if reset.is_some() => cgroups.kill()?,
            () = sleep_until(cut.unwrap_or(never)), if cut.is_some() => {
                if let Err(error) = power::cut(dir, folder, guest.init) {
                    tracing::error!(instance = machine.instance, %error, "not quite a power cut");
                }
                cgroups.kill()?;
                cut = None;
            }
        }
    };
    console.close();
    tracing::info!(instance = machine.instance, "{}", guest::ending(status));
    Ok(())
}

/// Starts the instance, and writes down its process 1.
async fn boot(folder: &Folder, cgroups: &Cgroups, console: &Console) -> Result<Guest, PlaneError> {
    let guest = {
        let _mounts = Computer::Mounts.share()?;
        let _loops = root::lock(folder)?;
        Guest::start(folder, cgroups, console).await?
    };
    folder.set_init(guest.init)?;
    Ok(guest)
}
