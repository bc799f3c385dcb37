//! How a drive comes up for a session: mounted by this one, or by another that it joins. Where it does
//! not come up, the reason has a type, so that a caller may go on by it.

use super::container::Connections;
use super::state::Session;
use crate::drive::reconcile::{NoCapacity, RunError, RunFailure};
use crate::drive::{Hosts, Left, Outcome, Reconciler, Stuck};
use crate::ec2::Instance;
use crate::failure::{Exit, Failure};
use crate::host::container::Container;
use crate::ids::{Generation, VolumeId};
use crate::opener::{Drive, Ending};
use crate::signals::End;

/// A drive that is up, on its host.
pub(super) struct Led {
    pub(super) host: Box<Instance>,
    pub(super) entry: Entry,
}

/// How a session enters a drive that is up.
pub(super) enum Entry {
    /// As the leading session, which starts the container.
    Lead {
        /// The volume that is mounted.
        volume: VolumeId,
        /// The generation at which it is mounted.
        generation: Generation,
        /// The signal that asked for the end meanwhile.
        asked: Option<End>,
    },
    /// As a guest of the leading session, in this container.
    Guest {
        container: Box<Container>,
        /// The connections into the container, if they are open already.
        connections: Option<Box<Connections>>,
    },
    /// Not at all: the session was a guest, and this ended it before the container ran.
    Over(Ending),
}

/// Why a drive did not come up.
pub(super) enum NotUp {
    /// A signal asked for the end while the session waited for another one. Nothing was begun.
    Asked(End),
    /// The run ended in order before the drive was mounted; a signal `asked` for that.
    Undone {
        /// The outcome of ending what the run had begun.
        outcome: Box<Outcome>,
        asked: Option<End>,
    },
    /// No pool has capacity for the launch.
    NoCapacity {
        lack: Box<NoCapacity>,
        /// The outcome of ending what the run had begun.
        also: Option<Box<Outcome>>,
        /// The resources that are still billed.
        left: Left,
    },
    /// Another session has the drive, and this one does not join it.
    Busy(Failure),
    /// The drive cannot come up safely before its user chooses.
    Stuck(Box<Stuck>),
    /// The caller may not use the drive, or lacks a right.
    Denied(Failure),
    /// Any other failure.
    Failed(Failure),
}

impl From<Failure> for NotUp {
    fn from(failure: Failure) -> Self {
        match failure.exit {
            Exit::Denied => Self::Denied(failure),
            _ => Self::Failed(failure),
        }
    }
}

impl NotUp {
    /// The reason why a run towards a mounted drive ended with this `outcome`; a signal may have
    /// `asked` for the end.
    fn from_outcome<H: Hosts>(
        outcome: Outcome,
        asked: Option<End>,
        drive: &Drive,
        reconciler: &mut Reconciler<H>,
    ) -> Self {
        match outcome {
            Outcome::Busy(holder) => Self::Busy(drive.busy(&holder)),
            Outcome::Stuck(stuck) => Self::Stuck(Box::new(stuck)),
            Outcome::StoppedWaiting(left) => drive.stopped_waiting(&left).into(),
            Outcome::Failed(RunFailure {
                error: RunError::NoCapacity(lack),
                also,
                left,
            }) => Self::NoCapacity { lack, also, left },
            Outcome::Failed(failure) => drive.failed(reconciler, failure).into(),
            outcome => Self::Undone {
                outcome: Box::new(outcome),
                asked,
            },
        }
    }

    /// Prints what was undone. Returns the exit code, or the failure that is the session's result.
    pub(super) fn report<H: Hosts>(
        self,
        drive: &Drive,
        reconciler: &mut Reconciler<H>,
    ) -> Result<u8, Failure> {
        match self {
            Self::Asked(end) => Ok(Exit::from(end).code()),
            Self::Undone {
                outcome,
                asked: Some(end),
            } => drive.finish(reconciler, Ending::Asked(end), *outcome),
            Self::Undone {
                outcome,
                asked: None,
            } => drive.report_outcome(reconciler, *outcome).map(|()| 0),
            Self::NoCapacity { lack, also, left } => {
                let error = RunError::NoCapacity(lack);
                Err(drive.failed(reconciler, RunFailure { error, also, left }))
            }
            Self::Stuck(stuck) => Err(drive.stuck(reconciler, &stuck)),
            Self::Busy(failure) | Self::Denied(failure) | Self::Failed(failure) => Err(failure),
        }
    }
}

impl Session {
    /// Brings the drive up: mounts it on a host, or joins the session that has it. Once EC2 has taken
    /// an earlier host of this session, on another one.
    pub(super) async fn ready(&mut self) -> Result<Led, NotUp> {
        loop {
            let frozen = self.frozen_at_mount();
            let hosts = self.reconciler.hosts();
            hosts.frozen = frozen;
            hosts.hot = self.request.options.config.hot.unwrap_or(true);
            // On the heap: unoptimised, a future is in the stack frames of all that wait for it.
            let (outcome, asked) = if self.is_resumed {
                Box::pin(self.resume()).await
            } else {
                Box::pin(self.run_with_fallbacks()).await
            };
            match (outcome, asked) {
                (
                    Outcome::Ready {
                        instance,
                        volume,
                        generation,
                    },
                    asked,
                ) => {
                    if let Err(error) = self.reconciler.note_mounter().await {
                        let why = format!("what is frozen now does not go on later: {error}");
                        self.drive.report.warn(&why);
                    }
                    let entry = Entry::Lead {
                        volume,
                        generation,
                        asked,
                    };
                    let mut host = instance;
                    self.reconciler.hosts().locate(&mut host).await;
                    return Ok(Led { host, entry });
                }
                (Outcome::Busy(holder), None) => {
                    if let Some(led) = Box::pin(self.join(&holder)).await? {
                        return Ok(led);
                    }
                    // Whoever had it may be another caller.
                    self.drive.look_again().await?;
                }
                (outcome, asked) => {
                    let (drive, reconciler) = (&self.drive, &mut self.reconciler);
                    return Err(NotUp::from_outcome(outcome, asked, drive, reconciler));
                }
            }
        }
    }
}
