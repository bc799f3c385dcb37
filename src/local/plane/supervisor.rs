//! The supervisor: one process an instance, which brings it up, serves its metadata and the API inside it,
//! and clears up.
//!
//! It is a session of its own, so that no terminal's Ctrl-C or hang-up reaches it. It reports on
//! stdout, in one line of JSON, that the instance is up or why not. Then it takes orders from the
//! `control` FIFO in the instance's folder, and carries out what is due later: the first boot,
//! devices, the ends of graces. Neither outlives the other. If it is killed,
//! [`super::Plane::clear`] clears up in its place.

use std::convert::Infallible;
use std::fs::File;
use std::future::Future;
use std::io::Write as _;
use std::path::Path;

use anyhow::Context as _;
use rustix::fs::{CWD, FlockOperation, Mode, flock, mkfifoat};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::net::unix::pipe;

use xdrive_ground::clock::Clock;

use super::cgroup::Cgroups;
use super::console::{self, Console};
use super::folder::Folder;
use super::lifecycle::Lifecycle;
use super::metadata::{self, Metadata};
use super::process::Process;
use super::{Machine, PlaneError, Up, images, inside, network, root, sweep};
use super::{gpu, guest};

/// The first and only line on a supervisor's stdout.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Report {
    /// The instance's process 1 runs, or is due later and lacks nothing.
    Up(Up),
    /// Not up: this computer lacks something.
    Missing(String),
    /// Not up, for any other reason.
    Failed(String),
}

/// The supervisor of one instance: launched by [`super::Plane::launch`] as its own process, it
/// brings the instance up, serves its metadata, has `api` answer on the API's socket, and clears up
/// when it ends.
///
/// Must run on the main thread, outside of any runtime: the instance lives as long as the thread.
pub(crate) fn supervise<A: Future<Output = Infallible>>(
    dir: &Path,
    cache: &Path,
    instance: &str,
    api: impl FnOnce(TcpListener) -> A,
) -> anyhow::Result<()> {
    // Fails only if it leads a session already, which is as good.
    let _ = rustix::process::setsid();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting the supervisor")?;
    let result = runtime.block_on(run(dir, cache, instance, api));
    if let Err(error) = &result {
        // After the first report this only reaches the log.
        report(&match error {
            PlaneError::Missing(text) => Report::Missing(text.clone()),
            other => Report::Failed(format!("{:#}", anyhow::anyhow!(other.to_string()))),
        });
    }
    Ok(result?)
}

/// Writes `report` to the launcher, which may be gone: the instance lives on, as recorded.
fn report(report: &Report) {
    let mut stdout = std::io::stdout();
    let line = serde_json::to_string(report).unwrap_or_default();
    let _ = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
}

async fn run<A: Future<Output = Infallible>>(
    dir: &Path,
    cache: &Path,
    instance: &str,
    api: impl FnOnce(TcpListener) -> A,
) -> Result<(), PlaneError> {
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

    let ended = live(dir, &folder, &machine, &tree, this, api).await;
    let cleared = sweep::clear_up(dir, &folder);
    ended?;
    cleared
}

/// From the network to the end of the instance.
async fn live<A: Future<Output = Infallible>>(
    dir: &Path,
    folder: &Folder,
    machine: &Machine,
    tree: &Path,
    this: Process,
    api: impl FnOnce(TcpListener) -> A,
) -> Result<(), PlaneError> {
    let cgroups = Cgroups::new(folder.name())?;
    cgroups.create()?;
    let network = network::up(folder.name())?;
    inside::add_api(folder.name())?;
    metadata::describe(&folder.metadata(), machine, &network, Clock::system().now())?;
    guest::personalize(folder, &machine.instance, &network)?;
    gpu::install(&folder.bus(), &folder.upper(), machine.gpu)?;
    root::prepare(folder, tree)?;
    let listener = inside::listen(folder.name(), inside::METADATA)?;
    let api = api(inside::listen(folder.name(), inside::API)?);
    let service = Metadata::new(folder.metadata(), machine, network.address, dir);
    mkfifoat(CWD, folder.control(), Mode::RUSR | Mode::WUSR).context("making the control FIFO")?;
    // Open for writing too: otherwise it would read as ended whenever no client has it open.
    let orders = pipe::OpenOptions::new()
        .read_write(true)
        .open_receiver(folder.control())
        .context("opening the control FIFO")?;
    let console = Console::open(&folder.console())?;
    let life = Lifecycle {
        dir,
        folder,
        cgroups: &cgroups,
        console: &console,
    };
    let up = || {
        report(&Report::Up(Up {
            address: network.address,
            supervisor: this.pid,
            started: this.started,
        }));
    };
    let ended = tokio::select! {
        ended = life.run(machine.boots, orders, up) => ended,
        error = service.serve(listener) => Err(error.into()),
        never = api => match never {},
    };
    console.close();
    match &ended {
        Ok(Some(status)) => {
            tracing::info!(instance = machine.instance, "{}", guest::ending(*status));
        }
        Ok(None) => tracing::info!(instance = machine.instance, "ended before it booted"),
        Err(error) => {
            // The log goes with the instance; its console stays.
            let words = format!("xdrive: {error:#}{}", folder.log_tail());
            console::append(&folder.console(), &words)?;
        }
    }
    ended.map(|_| ())
}
