//! A session, top to bottom: prepare the drive, run in it, save it.
//!
//! ```text
//! ready ──▶ container ──▶ shell or command ──▶ save
//!   │           │                │               │
//!   └───────────┴── any ending ──┴──▶ ───────────┘
//! ```
//!
//! Whatever ends a session (the command's end, `~.`, a signal, a closed terminal, a lost
//! connection, a failure, EC2) becomes an [`Ending`], and every ending leads to the same save.
//! Before the drive was ever attached, the save is an unwind; `drive` decides which.

mod adopt;
mod along;
mod asleep;
mod browser;
mod build;
mod capacity;
mod console;
mod container;
mod container_failure;
mod containers;
mod copy;
mod cost;
mod credentials;
mod delete;
mod difference;
mod dry_run;
mod ending;
mod examine;
pub mod finish;
mod first;
mod fork;
mod forwards;
mod gpu;
mod guest;
mod history;
mod interruption;
mod launch_failure;
mod leave;
mod local_ports;
mod look;
mod lookup;
mod monitor;
mod outcome;
mod ports;
mod preflight;
mod progress;
mod prompt;
mod proxy;
mod pull;
mod reconnect;
mod rename;
mod request;
mod room;
mod runs;
mod scratch;
mod shell;
mod snapshot_cost;
mod start;
mod state;
mod stay;
mod stop;
mod throwaway;
mod visit;

use crate::cloud::Cloud;
use crate::config::quantity::Port;
use crate::drive::Outcome;
use crate::failure::{Exit, Failure};
use crate::ssh::UserKey;

pub use crate::host::container::shell_without_terminal;
pub use crate::host::ports::Listener;
pub(crate) use crate::host::sftp::{Attributes, Entry, Kind};
pub(crate) use crate::transfer::size;
pub(crate) use adopt::adopt;
pub use containers::{ContainerState, OnRecord, list_containers, remove_container};
pub(crate) use copy::copy;
pub(crate) use delete::{Deletion, delete};
pub(crate) use difference::{Comparison, Difference, differences};
pub use examine::Examination;
pub(crate) use fork::{Original, fork, fork_once};
pub(crate) use history::{Saved, history, note};
pub(crate) use look::{Look, list_files, show_files};
pub use ports::list_ports;
pub use prompt::{ask, can_ask, unless_ended};
pub use proxy::proxy;
pub(crate) use rename::rename;
pub use request::{Idle, Named, Request, Task};
pub use runs::{Listed, list_runs, logs};
pub use scratch::end_scratch;
pub use stop::stop;
pub use visit::check_up;

use ending::Ending;
use guest::Joined;
use state::begin;

/// Runs one session: connects, and saves at the end. Returns the exit code: the shell's or
/// command's own, or that of the signal that ended it.
pub async fn connect(request: Request, cloud: Cloud, key: UserKey) -> Result<u8, Failure> {
    cloud.check_machine()?;
    let is_dry_run = request.options.config.dry_run;
    let (mut session, listing) = begin(request, cloud, key).await?;
    if !is_dry_run {
        session.reconciler.hosts().ingress().look_ahead();
    }
    let mut drive = session.check(listing).await?;
    if is_dry_run {
        session.foresee_fork(&mut drive).await?;
    }
    session.agree_to_discard(&drive).await?;
    session.refuse_unadopted(&drive).await?;
    session.take_up_new(&drive)?;
    session.check_request(&drive)?;
    session.refuse_unmade(&drive).await?;
    if is_dry_run {
        return session.preview(&drive).await;
    }
    if let Task::Attach(wanted) = session.request.task.clone() {
        let host = drive.host.clone();
        let run = session.choose_run(host, wanted.as_deref()).await?;
        session.request.named = run.container_name().map(Named::as_it_is);
        session.request.task = Task::Attach(Some(run.id));
    }
    session.settle_terms(&drive)?;
    session.explain_first(&drive).await;
    if let Some(host) = &drive.host {
        session.report_idle_flags(host, false);
        session.prepare_for_live_host();
    }
    session.recorded = drive.settings;
    let mut is_resumed = false;
    let (host, ending) = loop {
        let (outcome, asked) = if is_resumed {
            session.resume().await
        } else {
            session.run_with_fallbacks().await
        };
        let (host, ending) = match (outcome, asked) {
            (
                Outcome::Ready {
                    instance,
                    volume,
                    generation,
                },
                asked,
            ) => {
                let mounted = (&volume, generation);
                let ending = session.lead(&instance, mounted, asked).await;
                (instance, ending)
            }
            (Outcome::Busy(holder), None) => match session.join(&holder).await? {
                Joined::Ended(host, ending) => (host, ending),
                Joined::Asked(end) => return Ok(Exit::from(end).code()),
                Joined::Over => continue,
            },
            (outcome, asked) => return session.not_ready(outcome, asked),
        };
        if session.request.options.config.discard {
            return session.throw_away(&host, ending).await;
        }
        match ending {
            Ending::Interruption(interruption) => {
                if let Some(result) = session.interrupted(interruption, &host).await {
                    return result;
                }
                is_resumed = true;
                // Jupyter keeps its local port on the next instance.
                let port = &mut session.request.options.config.jupyter_port;
                *port = session.port.map(Port).or(*port);
            }
            ending => break (host, ending),
        }
    };
    let mut printed = Ok(());
    if matches!(ending, Ending::Detached) {
        printed = session.report_run();
        if let Err(error) = session.leave_command(&host).await {
            return Err(session.not_kept(&host, error));
        }
        // A run needs its host for longer than others may have it.
        let is_run = matches!(session.request.task, Task::Run { .. });
        if is_run || !session.is_one_of_several_guests(&host).await {
            let code = session.leave_running(&host).await?;
            return printed.map(|()| code);
        }
    }
    let code = session.leave(&host, ending).await?;
    printed.map(|()| code)
}
