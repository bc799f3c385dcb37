//! A session, top to bottom: bring the drive up, stay in it, leave it.
//!
//! ```text
//! ready ──▶ stay: container ──▶ shell or command ──▶ leave: save
//!   │ ▲             │                  │               │ │
//!   │ └─────────────┼── on another ────┼── host ───────│─┘
//!   └─▶ not up      └── any ending ────┴──▶ ───────────┘
//! ```
//!
//! Whatever ends a session (the command's end, `~.`, a signal, a closed terminal, a lost
//! connection, a failure, EC2) becomes an [`Ending`], and every ending leads to the same save.
//! Before the drive was ever attached, the save is an unwind; `drive` decides which.

mod address;
mod along;
mod answers;
mod browser;
mod budget;
mod build;
mod capacity;
mod container;
mod container_failure;
mod credentials;
mod dry_run;
mod examine;
mod first;
mod forwards;
mod freeze;
mod gpu;
mod guest;
mod ingress;
mod interruption;
mod joining;
mod leave;
mod left_running;
mod local_ports;
mod preflight;
mod pull;
mod ready;
mod request;
mod return_to_shell;
mod runs;
mod shares;
mod shell;
mod start;
mod state;
mod stay;
mod thawed;
mod throwaway;
mod tries;
mod worker;

use crate::cloud::Cloud;
use crate::failure::Failure;
use crate::ssh::UserKey;

pub use crate::host::container::shell_without_terminal;
pub use crate::host::criu::find as criu_archive;
pub use crate::host::runs::Retry;
pub use crate::host::tries::Results;
pub use budget::OVERDUE;
pub use examine::Examination;
pub use joining::Unjoined;
pub use request::{Again, Ineffective, Named, Request, Task};
pub use worker::Worker;

use leave::Parting;
use ready::Led;
use state::Session;

/// Runs one session: connects, and saves at the end. Returns the exit code: the shell's or
/// command's own, or that of the signal that ended it.
pub async fn connect(request: Request, cloud: Cloud, key: UserKey) -> Result<u8, Failure> {
    cloud.check_machine()?;
    let is_dry_run = request.options.config.dry_run;
    let mut session = Session::begin(request, cloud, key).await?;
    let mut drive = session.drive.facts.clone();
    if is_dry_run {
        let request = &session.request;
        request.foresee_fork(&mut drive, &session.drive).await?;
    } else {
        session.reconciler.hosts().ingress().look_ahead();
    }
    session.check(&drive).await?;
    if is_dry_run {
        return session.preview(&drive).await;
    }
    if let Some(address) = &session.request.notify {
        session.drive.try_address(address).await?;
    }
    session.prepare(drive).await?;
    let ended = session.go_on().await;
    session.drive.report_cost(&session.reconciler).await;
    ended
}

impl Session {
    /// Goes on until it ends, on as many hosts as that takes. Returns the exit code.
    async fn go_on(&mut self) -> Result<u8, Failure> {
        loop {
            let Led { host, entry } = match self.ready().await {
                Ok(led) => led,
                Err(why) => {
                    self.mark_over(self.run_not_up(&why)).await;
                    return why.report(&self.drive, &mut self.reconciler);
                }
            };
            let ending = Box::pin(self.stay(&host, entry)).await;
            if let Parting::Ends(code) = Box::pin(self.leave(&host, ending)).await? {
                return Ok(code);
            }
        }
    }
}
