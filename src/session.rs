//! One session, top to bottom: prepare the drive, run in it, save it.
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
//!
//! While the drive is in use two things run side by side: `shell` (or the command, or `reconnect`)
//! and `monitor`. The one `select!` between their endings is in `Monitor::run_with`. They share the
//! reconciler through a lock, so neither may ever be left unpolled while the other works.

mod along;
mod browser;
mod capacity;
mod console;
mod container;
mod copy;
mod cost;
mod credentials;
mod discard;
mod dry_run;
mod ending;
mod examine;
pub mod finish;
mod first;
mod forwards;
mod gpu;
mod guest;
mod interruption;
mod launch_failure;
mod leave;
mod monitor;
mod outcome;
mod ports;
mod preflight;
mod progress;
mod prompt;
mod proxy;
mod pull;
mod reconnect;
mod request;
mod room;
mod runs;
mod shell;
mod snapshot_cost;
mod state;
mod stop;
mod visit;

use std::io::IsTerminal as _;

use anyhow::anyhow;
use tokio::sync::{Mutex, mpsc};

use crate::cloud::Cloud;
use crate::drive::Outcome;
use crate::ec2::Instance;
use crate::failure::Failure;
use crate::host::container::CommandId;
use crate::host::facts::ScriptError;
use crate::host::runs::CommandOrder;
use crate::ids::{Generation, SessionId, VolumeId};
use crate::signals::End;
use crate::ssh::escape::Question;
use crate::ssh::{DedicatedConnection, UserKey};

pub use crate::host::ports::Listener;
pub(crate) use copy::copy;
pub use discard::discard;
pub use examine::Examination;
pub use ports::list_ports;
pub use prompt::{ask, can_ask};
pub use proxy::proxy;
pub use request::{Request, Task};
pub use runs::{Listed, list_runs, logs};
pub use stop::stop;
pub use visit::check_up;

use container::ContainerSession;
use cost::Cost;
use ending::{Ending, Interruption};
use forwards::Forwards;
use guest::Joined;
use monitor::{Context, Monitor, Output};
use prompt::unless_ended;
use reconnect::Reconnector;
use request::{LEASE, NOTICE, SPOOL};
use shell::{Piped, run_command, run_shell};
use state::{Parts, Session, begin};

/// Runs one session: connects, and saves at the end. Returns the exit code: the shell's or
/// command's own, or that of the signal that ended it.
pub async fn connect(request: Request, cloud: Cloud, key: UserKey) -> Result<u8, Failure> {
    cloud.check_machine()?;
    let is_dry_run = request.dry_run;
    let (mut session, listing) = begin(request, cloud, key).await?;
    if !is_dry_run {
        session.reconciler.hosts().ingress().look_ahead();
    }
    let drive = session.check(listing).await?;
    session.check_request(&drive)?;
    if is_dry_run {
        return session.preview(&drive).await;
    }
    if let Task::Attach(wanted) = session.request.task.clone() {
        let host = drive.host.clone();
        let id = session.choose_run(host, wanted.as_deref()).await?;
        session.request.task = Task::Attach(Some(id));
    }
    session.settle_terms(&drive)?;
    session.explain_first(&drive).await;
    if drive.host.is_some() {
        session.prepare_for_live_host();
    }
    // A drive whose container is not made yet may have an image of its own: it replaces the
    // default.
    if let Some(image) = drive.settings.image() {
        image.clone_into(&mut session.cloud.image);
    }
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
                Joined::Asked(end) => return Ok(end.exit_code()),
                Joined::Over => continue,
            },
            (outcome, asked) => return session.not_ready(outcome, asked),
        };
        match ending {
            Ending::Interruption(interruption) => {
                if let Some(result) = session.interrupted(interruption, &host).await {
                    return result;
                }
                is_resumed = true;
                // Jupyter keeps its local port on the next instance.
                let port = &mut session.request.options.jupyter_port;
                *port = session.port.or(*port);
            }
            ending => break (host, ending),
        }
    };
    if matches!(ending, Ending::Detached) {
        session.leave_command(&host).await?;
        if !session.is_one_of_several_guests(&host).await {
            return session.leave_running(&host).await;
        }
    }
    let is_shell = session.request.is_shell();
    session.leave(&host, ending, is_shell).await
}

impl Session {
    /// Leads the session on `host`, whose drive is mounted, until its shell or command ends; not at
    /// all if a signal `asked` for the end before.
    async fn lead(
        &mut self,
        host: &Instance,
        (volume, generation): (&VolumeId, Generation),
        asked: Option<End>,
    ) -> Ending {
        let found = self.reconciler.hosts().find(host, volume, generation);
        match (asked, found.await) {
            (Some(end), _) => Ending::Asked(end),
            (None, Err(error)) => Ending::Failed(anyhow::Error::new(error).into()),
            (None, Ok(())) => self.enter(host).await,
        }
    }

    /// Starts the container on the mounted drive, and stays in it until the shell or command ends.
    async fn enter(&mut self, instance: &Instance) -> Ending {
        let mounted = self.reconciler.hosts().mounted();
        let room = mounted.and_then(|mounted| mounted.room);
        self.warn_if_full(room, room::Growth::AfterThisSession);
        let session = self.reconciler.session().clone();
        let hosts = self.reconciler.hosts();
        let ready = hosts.take_ready(&instance.id);
        let (Some((ssh, host)), Some(mounted)) = (hosts.link(&instance.id), hosts.mounted()) else {
            let id = &instance.id;
            return Ending::Failed(
                anyhow!("the connection to the instance ({id}) was lost").into(),
            );
        };
        if mounted.dirty_bytes.is_none() {
            self.report.print(
                "warning: this host could not limit its unwritten data: saving may take longer \
                 than a notice of EC2's lasts",
            );
        }
        let enter = container::enter(
            &self.request,
            &session,
            (instance, ssh, host),
            (mounted, ready),
            &self.cloud,
            &self.report,
        );
        let entered = unless_ended(&mut self.signals, &self.report, Box::pin(enter));
        let (inside, line) = match entered.await {
            Ok(Ok(inside)) => inside,
            Err(end) => return Ending::Asked(end),
            Ok(Err(failure)) => return self.not_begun(failure),
        };
        self.stay(instance, inside, line).await
    }

    /// The ending of a stay that could not begin. EC2's notice explains why nothing could be started.
    fn not_begun(&mut self, failure: Failure) -> Ending {
        match monitor::noticed(&mut self.news) {
            Some(at) => Ending::Interruption(Interruption::Noticed { at, code: None }),
            None => Ending::Failed(failure),
        }
    }

    /// The command that the session is for; none for a shell.
    fn piped_command(
        &mut self,
        inside: &ContainerSession,
    ) -> Result<Option<Piped>, getrandom::Error> {
        let (is_run, is_detached) = match &self.request.task {
            Task::Attach(Some(id)) => {
                self.command = CommandId::parse(id);
                return Ok(self.command.clone().map(|id| Piped {
                    remote: inside.host.command_there(&id),
                    id,
                    is_run: true,
                    is_detached: false,
                    has_input: true,
                }));
            }
            Task::Run { is_detached, .. } => (true, *is_detached),
            _ if self.request.command.is_empty() => return Ok(None),
            _ => (false, false),
        };
        let id = CommandId::new()?;
        self.command = Some(id.clone());
        let client = if is_run {
            self.client_of(&id)
        } else {
            String::new()
        };
        let words = &self.request.command;
        let notice = self.request.options.notice.unwrap_or(NOTICE).as_secs();
        let notice = format!("XDRIVE_NOTICE={notice}");
        let remote = inside.host.command(&CommandOrder {
            id: &id,
            label: &runs::label(words),
            client: &client,
            command: &inside.container.command(&id, &notice, words),
            kept: self.request.options.spool.unwrap_or(SPOOL),
        });
        Ok(Some(Piped {
            id,
            remote,
            is_run,
            is_detached,
            has_input: !self.request.may_restart(),
        }))
    }

    /// Whether the last try of a command that may be started again ended well after all, by its
    /// record on the drive. What cannot be known is no reason to start it again.
    async fn has_ended_well(&self, inside: &ContainerSession) -> Result<bool, ScriptError> {
        let Some(last) = self.command.as_ref().filter(|_| self.request.may_restart()) else {
            return Ok(false);
        };
        let runs = inside.host.runs().await?;
        let last = runs.iter().find(|run| run.id == last.as_str());
        Ok(last.is_some_and(|run| run.status == Some(0)))
    }

    /// The client line of the command `id`, which keeps its host up without an attached session.
    fn client_of(&mut self, id: &CommandId) -> String {
        let client = SessionId(format!("run-{}", id.as_str()));
        self.reconciler.hosts().line_of(&client, &self.owner)
    }

    /// Makes the session's command, if it has one, a client of the host: as long as it runs, a
    /// session that joins and leaves does not save the drive.
    async fn leave_command(&mut self, host: &Instance) -> anyhow::Result<()> {
        let Some(id) = self.command.clone() else {
            return Ok(());
        };
        let client = self.client_of(&id);
        let (_, scripts) = self.reconciler.hosts().reach(host).await?;
        Ok(scripts.leave_command(&id, &client).await?)
    }

    /// Brings variables, agent and credentials into the container, and opens the forwards. Returns
    /// the forwards, and the command unless the session is for a shell. A signal ends the wait.
    async fn begin_stay(
        &mut self,
        instance: &Instance,
        inside: &mut ContainerSession,
    ) -> Result<(Forwards, Option<Piped>), Ending> {
        let failed = |error: anyhow::Error| Ending::Failed(Failure::from(error));
        let is_over = self.has_ended_well(inside).await;
        if is_over.map_err(|error| failed(error.into()))? {
            return Err(Ending::Exit(0));
        }
        let mut parts = Parts {
            request: &self.request,
            reconciler: &mut self.reconciler,
            report: &self.report,
        };
        let opening = async {
            along::bring(&mut parts, instance, inside).await?;
            forwards::open_all(&mut parts, instance, inside).await
        };
        let opened = unless_ended(&mut self.signals, &self.report, opening).await;
        let forwards = opened
            .map_err(Ending::Asked)?
            .map_err(|failure| self.not_begun(failure))?;
        let command = self.piped_command(inside);
        Ok((forwards, command.map_err(|error| failed(error.into()))?))
    }

    /// Runs the shell or command in the container, and the monitor beside it, until one of them
    /// ends the session.
    async fn stay(
        &mut self,
        instance: &Instance,
        mut inside: ContainerSession,
        line: DedicatedConnection,
    ) -> Ending {
        self.examine(instance).await;
        let (forwards, command) = match self.begin_stay(instance, &mut inside).await {
            Ok(begun) => begun,
            Err(ending) => return ending,
        };
        inside.forwards = forwards.clone();
        let (request, cloud) = (&self.request, &self.cloud);
        self.port = inside.port().or(self.port);
        let hint = format!("{} connect {}", cloud.command, request.drive);
        let drive = Mutex::new(&mut self.reconciler);
        let (sender, mut messages) = mpsc::unbounded_channel();
        let output = match command {
            None => Output::Terminal(sender),
            Some(_) => Output::Report(self.report.clone()),
        };
        let monitor = Monitor::new(Context {
            checkpoint: request.options.checkpoint,
            notice: match (&command, &request.task) {
                (None, _) | (_, Task::Attach(_)) => None,
                (Some(_), _) => Some(request.options.notice.unwrap_or(NOTICE)),
            },
            ..Context::new(instance, cloud, &drive, output.clone())
        });
        let middle = async {
            // Without a terminal there is no `~$`.
            let cost = std::io::stdin()
                .is_terminal()
                .then(|| Cost::of(instance, &request.drive, &cloud.ec2, &cloud.clock));
            let list = inside.forwards();
            let (table, shown) = (forwards.clone(), output.clone());
            let answers = Box::new(move |question| match question {
                Question::Forwards => list(),
                Question::Prompt => table.prompt(),
                Question::Line(line) => table.obey(&line, &shown),
                Question::Cost => cost.as_ref().map_or_else(String::new, Cost::text),
            });
            let grace = match request.task {
                // The host is kept as long.
                Task::Run { .. } => request.options.keep.unwrap_or(LEASE),
                _ => cloud.timing.grace,
            };
            let mut reconnector = Reconnector {
                drive: &drive,
                host: instance,
                ec2: &cloud.ec2,
                report: &self.report,
                grace,
                command: hint,
            };
            let signals = &mut self.signals;
            if let Some(command) = command {
                run_command(
                    &mut inside,
                    line,
                    &mut reconnector,
                    command,
                    answers,
                    signals,
                )
                .await
            } else {
                let lease = request.options.keep.unwrap_or(LEASE);
                self.report
                    .note(&reconnect::rule(lease, cloud.timing.grace));
                let shell = run_shell(
                    &mut inside,
                    line,
                    &mut reconnector,
                    answers,
                    signals,
                    &mut messages,
                );
                tokio::select! {
                    ended = shell => ended,
                    never = forwards.offer(&drive, instance, &output) => match never {},
                }
            }
        };
        let ending = monitor.run_with(&mut self.news, middle).await;
        forwards.keep_in(&mut self.request.options);
        ending
    }
}
