//! The stay of a session in the container of a mounted drive, from its entry to the end of its
//! shell or command.
//!
//! While the drive is in use two things run side by side: `shell` (or the command, or `reconnect`)
//! and `monitor`. The one `select!` between their endings is in `Monitor::run_with`. They share the
//! reconciler through a lock, so neither may ever be left unpolled while the other works.

use std::time::Duration;

use anyhow::anyhow;
use tokio::sync::{Mutex, mpsc};
use tokio::time::timeout;

use super::along::{self, Along};
use super::answers::{answers, ask_cost, lister};
use super::container::{self, Arrival, ContainerSession};
use super::forwards::{self, Forwards};
use super::ready::Entry;
use super::request::{Leases, Request, SPOOL, Task};
use super::return_to_shell::{self, rule_of_command};
use super::runs::{self, run_client};
use super::shell::{InTerminal, Piped, notice_variable, run_command, run_shell};
use super::state::{Parts, Session};
use super::throwaway;
use super::tries::Try;
use super::worker::Worker;
use crate::attached::{ANSWER, Context, Monitor, Output, Reconnector, noticed, was_taken_back};
use crate::drive::HostError;
use crate::ec2::Instance;
use crate::failure::Failure;
use crate::host::MountedDrive;
use crate::host::container::CommandId;
use crate::host::facts::ScriptError;
use crate::host::runs::{Attempt, CommandOrder};
use crate::opener::{Drive, Ending, Growth, Interruption, unless_ended};
use crate::signals::End;
use crate::ssh::DedicatedConnection;
use crate::ssh::shell::{Progress, ShellError};

/// How long after its refusal the announcement of a host that closes may arrive: the host looks for
/// what it has to announce five times a second, and then it takes half a round trip.
const ANNOUNCED: Duration = Duration::from_secs(2);

impl Session {
    /// Stays in the container on `host` until its shell or command ends; not at all if a signal asked
    /// for the end before.
    pub(super) async fn stay(&mut self, host: &Instance, entry: Entry) -> Ending {
        let (volume, generation, asked) = match entry {
            Entry::Lead {
                volume,
                generation,
                asked,
            } => (volume, generation, asked),
            Entry::Guest {
                container,
                connections,
            } => {
                let connections = connections.map(|opened| *opened);
                return self.stay_as_guest(host, *container, connections).await;
            }
            Entry::Over(ending) => return ending,
        };
        let hosts = self.reconciler.hosts();
        let found = hosts.find(host, &volume, generation).await;
        match (asked, found) {
            (Some(end), _) => Ending::Asked(end),
            (None, Err(error)) => {
                let failure = anyhow::Error::new(error).into();
                self.not_begun(host, failure).await
            }
            (None, Ok(())) => self.enter(host).await,
        }
    }

    /// Starts the container on the mounted drive, and stays in it until the shell or command ends.
    async fn enter(&mut self, instance: &Instance) -> Ending {
        let mounted = self.reconciler.hosts().mounted();
        let room = mounted.and_then(|mounted| mounted.room);
        if mounted.is_some_and(|mounted| mounted.released) {
            let drive = &self.request.drive;
            self.drive.report.print(&format!(
                "{drive} was full: a part of the room that is reserved for this is free now, to \
                 delete files"
            ));
        }
        self.drive.warn_if_full(room, Growth::Now);
        let session = self.reconciler.session().clone();
        let thaws = self.may_thaw(instance).await;
        let hosts = self.reconciler.hosts();
        let ready = hosts.take_ready(&instance.id);
        let (Some((ssh, host)), Some(mounted)) = (hosts.link(&instance.id), hosts.mounted()) else {
            let host = instance.id.drive_label(&self.request.drive);
            return Ending::Failed(anyhow!("the connection to {host} was lost").into());
        };
        self.drive.report_mount(mounted);
        let enter = container::enter(
            &self.request,
            &session,
            Arrival {
                instance,
                ssh,
                host,
                mounted,
                ready,
                settings: &self.recorded,
                shares: &self.shares,
                thaws,
            },
            &self.drive.cloud,
            &self.drive.report,
        );
        let entered = unless_ended(&mut self.drive.signals, &self.drive.report, Box::pin(enter));
        let (inside, line) = match entered.await {
            Ok(Ok(inside)) => inside,
            Err(end) => return Ending::Asked(end),
            Ok(Err(failure)) => return self.not_begun(instance, failure).await,
        };
        self.stay_inside(instance, inside, line).await
    }

    /// The ending of a stay that could not begin. EC2's notice explains why nothing could be started.
    /// An instance that is gone at once announces none, and EC2 says afterwards that it took it.
    async fn not_begun(&mut self, host: &Instance, failure: Failure) -> Ending {
        // A host that closes refuses at once, and its announcement of a notice may come after that.
        let error = &failure.error;
        let is_refused = matches!(error.downcast_ref(), Some(ScriptError::Closing(_)))
            || matches!(error.downcast_ref(), Some(HostError::Closing(_)))
            || matches!(error.downcast_ref(), Some(ShellError::NoKeeper(_)));
        let wait = if is_refused {
            ANNOUNCED
        } else {
            Duration::ZERO
        };
        if let Ok(Some(at)) = timeout(wait, noticed(&mut self.news)).await {
            return Ending::Interruption(Interruption::Noticed { at, code: None });
        }
        let asked = was_taken_back(&self.drive.cloud.ec2, host);
        if timeout(ANSWER, asked).await.unwrap_or(false) {
            Ending::Interruption(Interruption::Taken)
        } else {
            Ending::Failed(failure)
        }
    }

    /// The command that the session is for; none for a shell.
    fn piped_command(
        &mut self,
        inside: &ContainerSession,
        attempt: Try,
        freezes: bool,
    ) -> Result<Option<Piped>, getrandom::Error> {
        let progress = self.progress.clone();
        let attach = format!("{} attach {}", self.drive.cloud.command, self.request.drive);
        let there = match &self.request.task {
            Task::Attach(Some(id)) => {
                self.command = CommandId::parse(id);
                true
            }
            _ => attempt == Try::There,
        };
        if there {
            let is_run = !matches!(self.request.task, Task::Connect);
            if let Some(id) = self.command.as_ref().filter(|_| !is_run) {
                self.reconciler.hosts().adopt_command(run_client(id));
            }
            return Ok(self.command.clone().map(|id| Piped {
                remote: inside.host.command_there(&id).after(progress.arrived()),
                id,
                is_run,
                is_detached: matches!(self.request.task, Task::Again(_)),
                has_input: true,
                progress,
                attach,
                lease: self.leases.command,
            }));
        }
        let is_detached = match &self.request.task {
            Task::Run { is_detached, .. } => *is_detached,
            Task::Again(_) => true,
            _ if self.request.has_terminal() => return Ok(None),
            _ => false,
        };
        let limit = self.request.limit(self.drive.cloud.clock.now());
        let is_run = limit.is_some();
        let number = attempt.number();
        // Its order may be on the drive by now.
        let id = match self.command.clone().filter(|_| is_run) {
            Some(id) => id,
            None => CommandId::new()?,
        };
        self.command = Some(id.clone());
        let mut client = self.client_of(&id);
        if !is_run {
            // Only while this computer is away; and it ends with the session that comes to its end.
            client.insert(0, '?');
            self.reconciler.hosts().adopt_command(run_client(&id));
        }
        let limit = limit.map(|limit| self.limit_of_run(limit));
        let words = &self.request.command;
        let mut variables = vec![
            notice_variable(self.request.notice()),
            format!("XDRIVE_RUN={}", id.as_str()),
        ];
        variables.extend(number.map(|number| format!("XDRIVE_TRY={number}")));
        variables.extend(self.request.worker.iter().flat_map(Worker::variables));
        let remote = inside.host.command(&CommandOrder {
            id: &id,
            label: &runs::label(words),
            client: &client,
            limit,
            attempt: number.map(|number| Attempt {
                number,
                retry: &self.request.retry,
            }),
            freezes,
            command: &inside.container.command(&id, &variables, words),
            kept: self.request.options.config.spool.map_or(SPOOL, |it| it.0),
        });
        Ok(Some(Piped {
            id,
            remote,
            is_run,
            is_detached,
            has_input: !self.request.is_tried() && !is_detached && !freezes,
            progress,
            attach,
            lease: self.leases.command,
        }))
    }

    /// Brings variables, agent and credentials into the container, and opens the forwards. Returns
    /// what was brought, the forwards, and the command unless it has a terminal. A signal
    /// ends the wait.
    async fn begin_stay(
        &mut self,
        instance: &Instance,
        inside: &mut ContainerSession,
    ) -> Result<(Along, Forwards, Option<Piped>), Ending> {
        let failed = |error: anyhow::Error| Ending::Failed(Failure::from(error));
        self.examine(instance).await.map_err(Ending::Asked)?;
        if inside.thaws {
            self.thaw(inside).await;
        }
        self.join_leader(instance, inside).await?;
        let attempt = self.prepare_try(instance, inside).await?;
        self.keep_budget(instance, inside).await?;
        if !(self.is_frozen.replace(false) && attempt == Try::There) {
            self.progress = Progress::default();
        }
        let freezes = attempt != Try::There && self.prepare_to_freeze(instance, inside).await;
        let mut parts = Parts {
            request: &self.request,
            reconciler: &mut self.reconciler,
            report: &self.drive.report,
        };
        let opening = async {
            let along = along::bring(&mut parts, instance, inside, &self.drive.cloud).await?;
            let forwards = forwards::open_all(&mut parts, instance, inside).await?;
            Ok::<_, Failure>((along, forwards))
        };
        let opened = unless_ended(&mut self.drive.signals, &self.drive.report, opening).await;
        let (along, forwards) = opened.map_err(Ending::Asked)?.map_err(Ending::Failed)?;
        let command = self.piped_command(inside, attempt, freezes);
        let command = command.map_err(|error| failed(error.into()))?;
        self.reconciler.hosts().freeze_at_close(false);
        Ok((along, forwards, command))
    }

    /// Runs the shell or command in the container, and the monitor beside it, until one of them
    /// ends the session.
    pub(super) async fn stay_inside(
        &mut self,
        instance: &Instance,
        inside: ContainerSession,
        line: DedicatedConnection,
    ) -> Ending {
        let thaws = inside.thaws;
        match self.run_inside(instance, inside, line).await {
            Ending::Failed(failure) if !self.has_begun => {
                // Whatever has gone on, nobody was there to see it.
                self.reconciler.hosts().freeze_at_close(thaws);
                self.not_begun(instance, failure).await
            }
            ending => ending,
        }
    }

    async fn run_inside(
        &mut self,
        instance: &Instance,
        mut inside: ContainerSession,
        line: DedicatedConnection,
    ) -> Ending {
        let (along, forwards, command) = match self.begin_stay(instance, &mut inside).await {
            Ok(begun) => begun,
            Err(ending) => return ending,
        };
        let (request, leases) = (&self.request, self.leases);
        let Drive {
            cloud,
            report,
            signals,
            ..
        } = &mut self.drive;
        let (cloud, report) = (&*cloud, &*report);
        self.port = inside.port().or(self.port);
        let hint = format!("{} connect {}", cloud.command, request.place());
        let drive = Mutex::new(&mut self.reconciler);
        let (sender, mut messages) = mpsc::unbounded_channel();
        let output = match command {
            None => Output::Terminal(sender),
            Some(_) => Output::Report(report.clone()),
        };
        let monitor = Monitor::new(Context {
            checkpoint: request.checkpoint(),
            notice: (!request.command.is_empty()).then(|| request.notice()),
            command: self.command.clone().map(|id| (id, &self.is_frozen)),
            is_idle_reported: Some(&self.is_idle_reported),
            ..Context::new(&request.drive, instance, cloud, &drive, output.clone())
        });
        let middle = async {
            let cost = ask_cost(request, instance, cloud);
            let list = lister(&inside, &forwards, &along);
            let answers = answers(request, list, forwards.clone(), output.clone(), cost);
            let grace = if command.is_some() {
                // The host is kept as long.
                leases.command
            } else {
                cloud.timing.grace
            };
            let mut reconnector = Reconnector {
                name: &request.drive,
                drive: &drive,
                host: instance,
                ec2: &cloud.ec2,
                report,
                grace,
                command: hint,
            };
            let ended = if let Some(command) = command {
                if let Task::Connect = request.task {
                    report.note(&rule(request, leases, || {
                        rule_of_command(leases.command, &command.attach)
                    }));
                }
                run_command(
                    &mut inside,
                    line,
                    &mut reconnector,
                    command,
                    &mut self.has_begun,
                    answers,
                    &mut *signals,
                )
                .await
            } else {
                let in_terminal = InTerminal {
                    command: &request.command,
                    freezes: request.freezes(),
                    notice: request.notice(),
                    has_begun: &mut self.has_begun,
                    messages: &mut messages,
                };
                let saved = || return_to_shell::rule(leases.session, cloud.timing.grace);
                report.note(&rule(request, leases, saved));
                let name = request.container();
                let shell = run_shell(
                    &mut inside,
                    line,
                    &mut reconnector,
                    in_terminal,
                    answers,
                    &mut *signals,
                );
                tokio::select! {
                    ended = shell => ended,
                    never = forwards.offer(&drive, instance, name, &output) => match never {},
                }
            };
            if matches!(ended, Ok(Ending::Exit(_))) {
                // A signal ends that alone: the session ends all the same.
                let _ = unless_ended(signals, report, forwards.settled(report)).await;
            }
            ended
        };
        let ending = monitor.run_with(&mut self.news, middle).await;
        forwards.keep_in(&mut self.request.options);
        if let Ending::Closed(_) | Ending::Interruption(_) | Ending::Failed(_) = ending {
            self.report_unconfirmed();
        }
        ending
    }

    /// Reports what of the command's input is lost with its host.
    pub(super) fn report_unconfirmed(&self) {
        let bytes = self.progress.unconfirmed();
        if bytes > 0 {
            self.drive.report.print(&format!(
                "{bytes} bytes of the command's input may not have reached it"
            ));
        }
    }

    /// Runs the request's examination, if it has one; fails with the signal that asks for the end meanwhile.
    async fn examine(&mut self, host: &Instance) -> Result<(), End> {
        let link = self.reconciler.hosts().link(&host.id);
        let (Some(examination), Some((ssh, _))) = (&self.request.examination, link) else {
            return Ok(());
        };
        let examining = examination.run(ssh);
        unless_ended(&mut self.drive.signals, &self.drive.report, examining).await
    }
}

impl Drive {
    /// Reports what is out of the ordinary about a mounted drive.
    fn report_mount(&self, mounted: &MountedDrive) {
        if mounted.held > 0 {
            self.report.print(&format!(
                "warning: not started, since xdrive did not make them and no container of the drive has \
                 Docker's socket (--docker): {} containers, plugins or swarms that are on the drive",
                mounted.held
            ));
        }
        if mounted.dirty_bytes.is_none() {
            self.report.warn(
                "this host could not limit its unwritten data: saving may take longer \
                 than a notice of EC2's lasts",
            );
        }
    }
}

/// The line at the beginning of a stay; `saved` is that of a session that is saved.
fn rule(request: &Request, leases: Leases, saved: impl FnOnce() -> String) -> String {
    if request.options.config.once.discard {
        return throwaway::rule(leases.session);
    }
    saved()
}
