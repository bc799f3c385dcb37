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

mod along;
mod browser;
mod build;
mod capacity;
mod container;
mod container_failure;
mod credentials;
mod dry_run;
mod examine;
mod first;
mod forwards;
mod gpu;
mod guest;
mod interruption;
mod leave;
mod left_running;
mod local_ports;
mod preflight;
mod pull;
mod request;
mod return_to_shell;
mod runs;
mod shell;
mod start;
mod state;
mod stay;
mod throwaway;

use crate::cloud::Cloud;
use crate::config::quantity::Port;
use crate::drive::Outcome;
use crate::failure::{Exit, Failure};
use crate::opener::Ending;
use crate::ssh::UserKey;

pub use crate::host::container::shell_without_terminal;
pub use examine::Examination;
pub use request::{Idle, Named, Request, Task};

use guest::Joined;
use state::Session;

/// Runs one session: connects, and saves at the end. Returns the exit code: the shell's or
/// command's own, or that of the signal that ended it.
pub async fn connect(request: Request, cloud: Cloud, key: UserKey) -> Result<u8, Failure> {
    cloud.check_machine()?;
    let is_dry_run = request.options.config.dry_run;
    let mut session = Session::begin(request, cloud, key).await?;
    if !is_dry_run {
        session.reconciler.hosts().ingress().look_ahead();
    }
    let mut drive = session.drive.facts.clone();
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
