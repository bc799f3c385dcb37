//! One session, top to bottom: get the drive ready, be in it, save it.
//!
//! ```text
//! ready ──▶ container ──▶ shell or command ──▶ save
//!   │           │                │               │
//!   └───────────┴── any ending ──┴──▶ ───────────┘
//! ```
//!
//! Everything that can end a session (the command's end, `~.`, a signal, a closed terminal, a lost
//! connection, a failure) is looked at here and leads to the same save. Before the drive was ever
//! attached, the save is an unwind; `drive` decides which, not this file.

mod capacity;
mod console;
mod container;
mod cost;
mod discard;
mod dry_run;
mod ending;
mod examine;
pub mod finish;
mod gpu;
mod guest;
mod interruption;
mod kept;
mod launch_failure;
mod leave;
mod monitor;
mod outcome;
mod patience;
mod preflight;
mod progress;
mod prompt;
mod pull;
mod reconnect;
mod request;
mod room;
mod shell;
mod state;

use std::pin::pin;
use std::time::Duration;

use anyhow::anyhow;
use tokio::sync::{Mutex, mpsc, oneshot};

use crate::cloud::Cloud;
use crate::config::{Options, Reach};
use crate::drive::{DriveName, Generation, Goal, Outcome};
use crate::ec2::{Instance, VolumeId};
use crate::failure::Failure;
use crate::signals::Signal;
use crate::ssh::escape::Question;
use crate::ssh::{DedicatedConnection, UserKey};

pub use discard::discard;
pub use examine::Examination;
pub use request::Request;

use container::Inside;
use cost::Cost;
use ending::{Ending, Interruption};
use guest::Joined;
use monitor::{Context, Monitor, Output};
use outcome::code_of;
use preflight::Parts;
use prompt::unless_ended;
use reconnect::Reconnector;
use shell::{in_a_command, in_a_shell};
use state::Session;

/// How long an instance lives without a sign of life from here, if nobody says otherwise: longer
/// than a laptop is carried from one room to another, shorter than a forgotten GPU hurts.
const LEASE: Duration = Duration::from_mins(15);

/// The same for an instance that is left running on purpose (`~d`): a night.
const DETACHED: Duration = Duration::from_hours(8);

/// Connects, and saves at the end. The answer is the exit code: the shell's or command's own, or
/// that of what ended it.
pub async fn connect(request: Request, cloud: Cloud, key: UserKey) -> Result<u8, Failure> {
    cloud.check_machine()?;
    let is_dry_run = request.dry_run;
    let (mut session, parts) = look(request, cloud, key).await?;
    if !is_dry_run {
        session.reconciler.hosts().ingress().look_ahead();
    }
    let found = session.check_patiently(parts).await?;
    session.check_request(&found)?;
    if is_dry_run {
        return session.preview(&found).await;
    }
    session.settle_terms(&found)?;
    if found.live.is_some() {
        session.comes_to_a_host();
    }
    // The drive's own image goes before the default, where its container is not made yet.
    if let Some(image) = found.settings.image() {
        image.clone_into(&mut session.cloud.image);
    }
    let mut goes_on = false;
    let (host, ending) = loop {
        let (outcome, asked) = if goes_on {
            session.run_elsewhere().await
        } else {
            session.run_where_there_is_room().await
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
                Joined::Asked(signal) => return Ok(code_of(signal)),
                Joined::Over => continue,
            },
            (outcome, asked) => return session.not_ready(outcome, asked),
        };
        match ending {
            Ending::Interruption(taken) => {
                if let Some(end) = session.interrupted(taken, &host).await {
                    return end;
                }
                goes_on = true;
                // Wherever the session goes on, Jupyter is where it was.
                let port = &mut session.request.options.port;
                *port = session.port.or(*port);
            }
            ending => break (host, ending),
        }
    };
    if matches!(ending, Ending::Detached) && !session.is_one_of_several_guests(&host).await {
        return session.leave_running(&host).await;
    }
    let is_shell = session.request.command.is_empty();
    session.leave(&host, ending, is_shell).await
}

/// Begins a session, and lists what there is of its drive. Who calls is asked of another service:
/// neither look waits for the other's connection.
async fn look(
    request: Request,
    cloud: Cloud,
    key: UserKey,
) -> Result<(Session, Result<Parts, Failure>), Failure> {
    let (ec2, drive) = (cloud.ec2.clone(), request.drive.clone());
    let (session, parts) = tokio::join!(
        Session::begin(request, cloud, key),
        Parts::list(&ec2, &drive)
    );
    Ok((session?, parts))
}

/// Saves a drive from anywhere; the answer is the exit code.
pub async fn stop(
    drive: DriveName,
    shared: bool,
    reach: Reach,
    cloud: Cloud,
    key: UserKey,
) -> Result<u8, Failure> {
    let options = Options {
        reach,
        ..Options::default()
    };
    let request = Request {
        shared,
        ..Request::of(drive, options)
    };
    let (mut session, parts) = look(request, cloud, key).await?;
    session.check_patiently(parts).await?;
    let (outcome, asked) = session.run(Goal::Saved { even_if_used: true }).await;
    let ending = asked.map_or(Ending::Exit(0), Ending::Asked);
    session.report_commit();
    session.finish(ending, outcome)
}

impl Session {
    /// From a drive that is ready to the end of the shell or command, unless somebody `asked` for
    /// the end before.
    async fn lead(
        &mut self,
        host: &Instance,
        (volume, generation): (&VolumeId, Generation),
        asked: Option<Signal>,
    ) -> Ending {
        let found = self.reconciler.hosts().find(host, volume, generation);
        match (asked, found.await) {
            (Some(signal), _) => Ending::Asked(signal),
            (None, Err(error)) => Ending::Failed(anyhow::Error::new(error).into()),
            (None, Ok(())) => self.be_inside(host).await,
        }
    }

    /// From a mounted drive to the end of the shell or command in its container.
    async fn be_inside(&mut self, instance: &Instance) -> Ending {
        let mounted = self.reconciler.hosts().mounted();
        let room = mounted.and_then(|mounted| mounted.room);
        self.warn_of(room, room::When::InUse);
        let hosts = self.reconciler.hosts();
        let ready = hosts.take_ready(&instance.id);
        let (Some((ssh, host)), Some(mounted)) = (hosts.link(&instance.id), hosts.mounted()) else {
            let id = &instance.id;
            return Ending::Failed(anyhow!("the connection to {id} was lost").into());
        };
        if mounted.dirty_bytes.is_none() {
            self.report.print(
                "warning: how much data may wait to be written could not be limited on this host: \
                 saving may take long, and longer than a notice of EC2's gives",
            );
        }
        let enter = container::enter(
            &self.request,
            hosts.session(),
            (instance, ssh, host),
            (mounted, ready),
            &self.cloud,
            &self.report,
        );
        let entered = unless_ended(&mut self.signals, &self.report, Box::pin(enter));
        let (inside, line) = match entered.await {
            Ok(Ok(inside)) => inside,
            Err(signal) => return Ending::Asked(signal),
            // Nothing can be begun on a host that is being taken away.
            Ok(Err(failure)) => {
                return match monitor::noticed(&mut self.news) {
                    Some(at) => Ending::Interruption(Interruption::Noticed { at, code: None }),
                    None => Ending::Failed(failure),
                };
            }
        };
        self.stay(instance, inside, line).await
    }

    /// In the container, to the end of the shell or command, or of the host.
    async fn stay(
        &mut self,
        instance: &Instance,
        mut inside: Inside,
        line: DedicatedConnection,
    ) -> Ending {
        self.examine(instance).await;
        let (request, cloud) = (&self.request, &self.cloud);
        let command = &request.command;
        self.port = inside.port().or(self.port);
        let hint = format!("{} connect {}", cloud.command, request.drive);
        let (stop, stopped) = oneshot::channel();
        let drive = Mutex::new(&mut self.reconciler);
        let (words, mut said) = mpsc::unbounded_channel();
        let monitor = Monitor::new(Context {
            instance,
            ec2: &cloud.ec2,
            clock: &cloud.clock,
            drive: &drive,
            checkpoint: request.options.checkpoint,
            output: match command.as_slice() {
                [] => Output::Terminal(words),
                _ => Output::Report(self.report.clone()),
            },
        });
        let mut monitor = pin!(monitor.keep(&mut self.news, stopped));
        let middle = async {
            if command.is_empty() {
                let lease = request.options.keep.unwrap_or(LEASE);
                self.report
                    .print(&reconnect::rule(lease, cloud.timing.grace));
                let cost = Cost::of(instance, &request.drive, &cloud.ec2, &cloud.clock);
                let forwards = inside.forwards();
                let answers = Box::new(move |question| match question {
                    Question::Forwards => forwards(),
                    Question::Cost => cost.text(),
                });
                let mut reconnector = Reconnector {
                    drive: &drive,
                    host: instance,
                    ec2: &cloud.ec2,
                    report: &self.report,
                    grace: cloud.timing.grace,
                    command: hint,
                };
                let signals = &mut self.signals;
                in_a_shell(
                    &mut inside,
                    line,
                    &mut reconnector,
                    answers,
                    signals,
                    &mut said,
                )
                .await
            } else {
                in_a_command(&inside, line, command, &hint, &mut self.signals).await
            }
        };
        let ended = tokio::select! {
            ended = middle => {
                drop(stop);
                // What the host said first is why the shell ended.
                match (monitor.await, ended) {
                    (Some(Ending::Interruption(Interruption::Noticed { at, .. })), Ok(Ending::Exit(code))) => {
                        let code = Some(code);
                        return Ending::Interruption(Interruption::Noticed { at, code });
                    }
                    (Some(Ending::Interruption(_)), Ok(asked @ Ending::Asked(_))) => return asked,
                    (Some(ending), _) => return ending,
                    (None, ended) => ended,
                }
            }
            Some(ending) = &mut monitor => return ending,
        };
        ended.unwrap_or_else(|error| Ending::Failed(Failure::from(error)))
    }
}
