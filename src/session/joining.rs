//! The session of a worker.
//!
//! A run whose changes are discarded, and which is left at once: its host keeps itself while the command runs,
//! at most for its limit, and as long as the leader is there.

use std::fmt;

use anyhow::anyhow;

use super::container::ContainerSession;
use super::state::Session;
use crate::drive::tags;
use crate::ec2::Instance;
use crate::failure::{Exit, Failure};
use crate::host::facts::{ScriptError, UNHEARD};
use crate::host::scripts::Joining;
use crate::ids::DriveName;
use crate::opener::{DriveFacts, Ending, unless_ended};

/// An error: a worker did not come into its leader's network.
#[derive(Debug)]
pub struct Unjoined {
    drive: DriveName,
    leader: DriveName,
    /// Whether its host came there and hears of nobody, so that another one may.
    pub is_its_host: bool,
}

impl fmt::Display for Unjoined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { drive, leader, .. } = self;
        write!(f, "{drive} does not come into the network of {leader}")
    }
}

impl Session {
    /// Has the main container in the leader's network, if this session is a worker's. A signal ends the
    /// wait.
    pub(super) async fn join_leader(
        &mut self,
        instance: &Instance,
        inside: &ContainerSession,
    ) -> Result<(), Ending> {
        let Some(worker) = &self.request.worker else {
            return Ok(());
        };
        let Some(own) = instance.private else {
            let host = instance.id.drive_label(&self.request.drive);
            return Err(Ending::Failed(
                anyhow!("{host} has no private address").into(),
            ));
        };
        let alias = worker.alias();
        let step = self.drive.report.step(format!("join {}", worker.of));
        let joining = inside.host.join_network(Joining {
            own,
            leader: worker.leader,
            alias: &alias,
            token: &worker.token,
        });
        match unless_ended(&mut self.drive.signals, &self.drive.report, joining).await {
            Ok(Ok(())) => {
                step.done(&format!("joined {}, as {alias}", worker.of));
                Ok(())
            }
            Ok(Err(error)) => {
                let is_its_host = matches!(
                    error,
                    ScriptError::Failed {
                        status: UNHEARD,
                        ..
                    }
                );
                let why = anyhow::Error::new(error).context(Unjoined {
                    drive: self.request.drive.clone(),
                    leader: worker.of.clone(),
                    is_its_host,
                });
                Err(Ending::Failed(Failure::from(why)))
            }
            Err(end) => Err(Ending::Asked(end)),
        }
    }

    /// Refuses a drive that is up as somebody's worker: nobody joins its session.
    pub(super) fn refuse_worker(&self, found: &DriveFacts) -> Result<(), Failure> {
        let (Some(of), Some(host)) = (found.leader(), &found.host) else {
            return Ok(());
        };
        if tags::thrown_away_by(&host.tags).is_none() {
            return Ok(());
        }
        let (drive, xdrive) = (&self.request.drive, &self.drive.cloud.command);
        let error = anyhow!("{drive} is up as a worker of {of}, and has no sessions");
        let hint = format!(
            "{xdrive} logs {drive} -f shows what it prints, {xdrive} ps {drive} what runs there"
        );
        Err(Failure::new(Exit::TryAgain, error).hint(hint))
    }

    /// Whether the session leaves a worker that has begun, whose host stays: everything else ends it.
    pub(super) fn leaves_worker(&self, ending: &Ending) -> bool {
        self.request.worker.is_some() && matches!(ending, Ending::Detached)
    }
}
