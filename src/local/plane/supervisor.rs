//! The supervisor: one process an instance, which brings it up, serves its metadata, and clears up.
//!
//! It is a session of its own, so that no terminal's Ctrl-C or hang-up reaches it. It reports on
//! stdout, in one line of JSON, that the instance is up or why not. Then it takes orders from the
//! `control` FIFO in the instance's folder, and carries out what is due later: the first boot,
//! devices, the ends of graces. Neither outlives the other. If it is killed,
//! [`super::Plane::clear`] clears up in its place.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use anyhow::Context as _;
use rustix::fs::{CWD, FlockOperation, Mode, flock, mkfifoat};
use serde::{Deserialize, Serialize};
use tokio::net::unix::pipe;

use xdrive_ground::clock::Clock;

use super::cgroup::Cgroups;
use super::console::{self, Console};
use super::folder::Folder;
use super::lifecycle::Lifecycle;
use super::metadata::{self, Metadata};
use super::process::Process;
use super::{Machine, PlaneError, Up, images, network, root, sweep};
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
/// brings the instance up, serves its metadata, and clears up when it ends.
///
/// Must run on the main thread, outside of any runtime: the instance lives as long as the thread.
pub fn supervise(dir: &Path, cache: &Path, instance: &str) -> anyhow::Result<()> {
    // Fails only if it leads a session already, which is as good.
    let _ = rustix::process::setsid();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting the supervisor")?;
    let result = runtime.block_on(run(dir, cache, instance));
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
    machine: &Machine,
    tree: &Path,
    this: Process,
) -> Result<(), PlaneError> {
    let cgroups = Cgroups::new(folder.name())?;
    cgroups.create()?;
    let network = network::up(folder.name())?;
    metadata::describe(&folder.metadata(), machine, &network, Clock::system().now())?;
    guest::personalize(folder, &machine.instance, &network)?;
    gpu::install(&folder.bus(), &folder.upper(), machine.gpu)?;
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
