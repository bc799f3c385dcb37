//! Files between this computer and a drive's container.
//!
//! It visits a drive that is up; from one that is asleep its snapshot is read. After a lost connection it goes on over another one, as shells and
//! commands do.

use std::pin::pin;
use std::time::Duration;

use anyhow::anyhow;
use tokio::sync::Mutex;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::asleep::Files;
use super::ending::{Ending, Interruption};
use super::guest::Awaited;
use super::monitor::{Context, Monitor, Output};
use super::prompt::unless_ended;
use super::reconnect::Reconnector;
use super::request::Request;
use super::state::{Session, begin};
use crate::access::by_ssh;
use crate::cloud::Cloud;
use crate::drive::HostError;
use crate::ec2::Instance;
use crate::failure::{Exit, Failure};
use crate::host::EarlySibling;
use crate::host::container::Container;
use crate::host::scripts::Host;
use crate::host::sftp::{Sftp, SftpError};
use crate::ids::Generation;
use crate::report::{Report, Step, one_line};
use crate::ssh::{Ssh, UserKey};
use crate::transfer::watch::Watch;
use crate::transfer::{Copying, Order, Problem, Servers, Stop, Transfer};

/// How many problems are printed: enough to see what they have in common.
const SHOWN: usize = 10;

/// The interval between two looks at how far it is.
const LOOK: Duration = Duration::from_millis(200);

/// A copy under way.
struct Running<'a> {
    transfer: Transfer,
    watch: Option<Watch>,
    how: Copying,
    report: &'a Report,
}

/// What leads to the files in a container.
pub(super) struct Access {
    ssh: Ssh,
    host: Host,
    container: Container,
    /// What the host calls this visit's servers.
    name: String,
}

/// Copies what `order` says, to or from the drive of `request`. Returns the exit code.
pub(crate) async fn copy(
    request: Request,
    cloud: Cloud,
    key: UserKey,
    (generation, order): (Option<Generation>, Order),
    how: Copying,
) -> Result<u8, Failure> {
    let (mut session, listing) = begin(request, cloud, key).await?;
    let facts = session.check(listing).await?;
    let files = match &order {
        Order::Down { .. } => session.find_files(facts, generation).await?,
        Order::Up { .. } | Order::Sync { .. } => {
            Files::Up(Box::new(session.host_that_is_up(facts, how.verb)?))
        }
    };
    // Before anything is sent, so that no change is missed.
    let watch = order.folder().filter(|_| how.watches).map(Watch::begin);
    let report = session.report.clone();
    let mut running = Running {
        transfer: Transfer::new(order, how.ignores_times),
        watch,
        how,
        report: &report,
    };
    let ending = match &files {
        Files::Up(host) => match session.enter_for_files(host).await? {
            Ok(access) => session.carry_files(host, access, &mut running).await,
            Err(ending) => ending,
        },
        Files::Asleep(sleeping) => {
            let copying = async |servers| running.run(servers).await;
            session.read_asleep(sleeping, copying).await
        }
    };
    let transfer = &running.transfer;
    if let Ending::Asked(_) = ending
        && !how.watches
    {
        session.report.print(&format!(
            "{}; the same command goes on with it",
            transfer
                .progress()
                .summary(&format!("stopped: {}", how.done()))
        ));
    }
    if let Files::Up(host) = &files {
        // A host that is closing, or gone, needs no farewell.
        let _gone = session.reconciler.hosts().leave_to_others(host).await;
    }
    let code = match ending {
        // What was copied until the end is copied, whatever EC2 does with the instance.
        Ending::Interruption(Interruption::Noticed {
            code: Some(code), ..
        }) => code,
        Ending::Interruption(_) => {
            let drive = &session.request.drive;
            let what = if how.watches {
                "nothing more is sent"
            } else {
                "not everything is copied"
            };
            if let Some(failure) = failure(&transfer.problems(), &session.report) {
                session.report.print(&format!("{:#}", failure.error));
            }
            let taken = anyhow!("EC2 takes {drive}'s instance back, and {what}");
            let hint = format!(
                "the same command goes on with it once the drive is up again: {} connect {drive}",
                session.cloud.command
            );
            return Err(Failure::new(Exit::Disconnected, taken).hint(hint));
        }
        ending => Session::code(ending)?,
    };
    match failure(&transfer.problems(), &session.report) {
        Some(failure) if code == 0 => Err(failure),
        _ => Ok(code),
    }
}

/// The failure of a copy with these problems, which it prints; none without any.
fn failure(problems: &[Problem], report: &Report) -> Option<Failure> {
    let error = match problems {
        [] => return None,
        [Problem { path, why }] => anyhow!("{} was not copied: {why}", one_line(path)),
        problems => {
            for Problem { path, why } in problems.iter().take(SHOWN) {
                report.print(&format!("not copied: {}: {why}", one_line(path)));
            }
            if problems.len() > SHOWN {
                report.print(&format!("not copied: {} more", problems.len() - SHOWN));
            }
            anyhow!("{} files or folders were not copied", problems.len())
        }
    };
    Some(Failure::new(Exit::Failed, error))
}

impl Session {
    /// Attaches to the host, and connects to it for the files once the container runs.
    pub(super) async fn enter_for_files(
        &mut self,
        host: &Instance,
    ) -> Result<Result<Access, Ending>, Failure> {
        let owner = by_ssh(&self.owner);
        let lease = self.request.lease();
        let session = self.reconciler.session().clone();
        let name = self.request.container();
        let hosts = self.reconciler.hosts();
        let attaching = async {
            let (ssh, scripts, early) = hosts.reach_for_files(host).await?;
            let (attached, container, files) = tokio::join!(
                hosts.join(host, &session, &owner, lease),
                scripts.running(name),
                EarlySibling::beside(early, &ssh),
            );
            attached?;
            let files = files.map_err(|error| HostError::Unreachable(error.to_string()))?;
            Ok::<_, HostError>((files, scripts, container.unwrap_or_default()))
        };
        let attached = match unless_ended(&mut self.signals, &self.report, attaching).await {
            Ok(attached) => attached,
            Err(end) => return Ok(Err(Ending::Asked(end))),
        };
        let (ssh, scripts, container) = match attached {
            Ok(attached) => attached,
            Err(error) => return Err(self.not_attached(host, error)),
        };
        let container = match container {
            Some(container) => container,
            None => match self.wait_for_container(host).await {
                Awaited::Runs(container, _) => self.running_container(host, *container).await?,
                Awaited::Over => return Err(self.no_container(host)),
                Awaited::Ended(ending) => return Ok(Err(ending)),
            },
        };
        Ok(Ok(Access {
            ssh,
            host: scripts,
            container,
            name: session.to_string(),
        }))
    }

    /// Copies until all is copied, a signal asks for the end, or the host closes the drive.
    async fn carry_files(
        &mut self,
        host: &Instance,
        access: Access,
        running: &mut Running<'_>,
    ) -> Ending {
        let cloud = &self.cloud;
        let drive = Mutex::new(&mut self.reconciler);
        let output = Output::Report(self.report.clone());
        let name = &self.request.drive;
        let monitor = Monitor::new(Context::new((name, host), cloud, &drive, output));
        let reconnector = Reconnector {
            name,
            drive: &drive,
            host,
            ec2: &cloud.ec2,
            report: &self.report,
            grace: cloud.timing.grace,
            command: format!("{} {}", cloud.command, running.how.verb),
        };
        let copying = through_cuts(access, running, &reconnector);
        let copying = unless_ended(&mut self.signals, &self.report, copying);
        let copying = async { Ok(copying.await.unwrap_or_else(Ending::Asked)) };
        monitor.run_with(&mut self.news, copying).await
    }
}

/// Copies over this connection, and over others when it is lost.
async fn through_cuts(
    mut access: Access,
    running: &mut Running<'_>,
    reconnector: &Reconnector<'_>,
) -> Ending {
    // When the connection was lost, until there is another one.
    let mut lost: Option<Instant> = None;
    loop {
        let stopped = match access.servers().await {
            Ok(servers) => {
                if let Some(since) = lost.take() {
                    reconnector.report_again(since.elapsed());
                }
                running.run(servers).await
            }
            Err(SftpError::Lost(why)) => Err(Stop::Lost(why)),
            Err(error) => Err(Stop::Refused(anyhow!(error))),
        };
        let why = match stopped {
            Ok(()) => return Ending::Exit(0),
            Err(Stop::Refused(error)) => {
                return Ending::Failed(Failure::new(Exit::Failed, error));
            }
            Err(Stop::Lost(why)) => why,
        };
        let (ssh, host) = match reconnector.after_loss(&mut lost, &why).await {
            Ok(reached) => reached,
            Err(ending) => return ending,
        };
        access.host = host;
        match ssh.sibling().await {
            Ok(files) => access.ssh = files,
            // Starting servers over it fails, as a lost connection does.
            Err(_) => access.ssh = ssh,
        }
    }
}

impl Running<'_> {
    /// Copies, and then what changes if that is watched.
    async fn run(&mut self, servers: Servers) -> Result<(), Stop> {
        let mut ignored = None;
        loop {
            let step = self.report.step(self.how.verb);
            self.round(servers.clone(), &step).await?;
            let progress = self.transfer.progress();
            if self.watch.is_none() || progress.has_changed() {
                step.done(&progress.summary(self.how.done()));
            }
            let before = std::mem::replace(&mut ignored, progress.ignored());
            if let Some(line) = ignored.as_ref().filter(|_| ignored != before) {
                self.report.print(line);
            }
            let Some(watch) = &mut self.watch else {
                return Ok(());
            };
            for Problem { path, why } in self.transfer.problems().iter().take(SHOWN) {
                self.report
                    .print(&format!("not sent: {}: {why}", one_line(path)));
            }
            let step = self.report.step("wait for changes");
            watch.changed().await;
            drop(step);
            self.transfer.begin_again();
        }
    }

    /// Copies, and shows how far it is.
    async fn round(&self, servers: Servers, step: &Step) -> Result<(), Stop> {
        let mut ticking = interval(LOOK);
        ticking.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut copying = pin!(self.transfer.run(servers));
        loop {
            tokio::select! {
                copied = &mut copying => return copied,
                _ = ticking.tick() => {
                    let line = self.transfer.progress().line();
                    step.now(format!("{} {line}", self.how.verb));
                }
            }
        }
    }
}

impl Access {
    /// Starts two servers, since one processor and one SSH window limit each.
    pub(super) async fn servers(&self) -> Result<Servers, SftpError> {
        let [one, other] = [1, 2].map(|number| {
            let name = format!("{}-{number}", self.name);
            self.host.file_server(&self.container, &name)
        });
        let (one, other) =
            tokio::try_join!(Sftp::open(&self.ssh, &one), Sftp::open(&self.ssh, &other))?;
        Ok(Servers::new(vec![one, other]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_problem_is_the_error_and_several_are_counted() {
        let problem = |path: &str| Problem {
            path: path.to_owned(),
            why: "permission denied".to_owned(),
        };
        let report = Report::in_memory();
        assert!(failure(&[], &report).is_none());
        let one = failure(&[problem("a")], &report).unwrap();
        assert_eq!(one.error.to_string(), "a was not copied: permission denied");
        assert_eq!(report.printed(), "");
        let many: Vec<Problem> = (0..12).map(|n| problem(&n.to_string())).collect();
        let many = failure(&many, &report).unwrap();
        assert_eq!(
            many.error.to_string(),
            "12 files or folders were not copied"
        );
        let printed = report.printed();
        assert_eq!(printed.lines().count(), SHOWN + 1);
        assert!(printed.ends_with("not copied: 2 more\n"), "{printed}");
    }

    #[test]
    fn no_name_of_a_file_is_obeyed_by_a_terminal() {
        let problem = || Problem {
            path: "p\u{1b}[31mipe\nhint: x".to_owned(),
            why: "\u{9b}2Jdenied\r\nhint: y".to_owned(),
        };
        let report = Report::in_memory();
        let one = failure(&[problem()], &report).unwrap();
        let of_one = "error: p?[31mipe?hint: x was not copied: ?2Jdenied\n  | hint: y";
        assert_eq!(one.to_string(), of_one);
        let many = failure(&[problem(), problem()], &report);
        assert!(many.is_some());
        let line = "not copied: p?[31mipe?hint: x: ?2Jdenied\n  | hint: y\n";
        assert_eq!(report.printed(), line.repeat(2));
    }
}
