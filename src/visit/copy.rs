//! Files between this computer and a drive's container.
//!
//! A drive that is up is visited; from one that is asleep its snapshot is read. After a lost
//! connection a copy goes on over another one, as shells and commands do.

use std::pin::pin;
use std::time::Duration;

use anyhow::anyhow;
use tokio::sync::Mutex;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::files::{Access, enter_for_files};
use super::up::demand_host;
use super::visitor::{Visit, Visitor};
use crate::attached::{Context, Monitor, Output, Reconnector};
use crate::ec2::Instance;
use crate::failure::{Exit, Failure};
use crate::host::sftp::SftpError;
use crate::ids::Generation;
use crate::opener::{Drive, Ending, Files, Interruption, unless_ended};
use crate::report::{Report, Step, one_line};
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

/// Copies what `order` says, to or from the drive, or from that `generation` of it. Where the drive is
/// up `visitor` visits. Returns the exit code.
pub(crate) async fn copy(
    mut drive: Drive,
    visitor: impl FnOnce() -> Result<Visitor, Failure>,
    generation: Option<Generation>,
    order: Order,
    how: Copying,
) -> Result<u8, Failure> {
    let files = match &order {
        Order::Down { .. } => drive.find_files(generation).await?,
        Order::Up { .. } | Order::Sync { .. } => {
            Files::Up(Box::new(demand_host(&drive, how.verb)?))
        }
    };
    // Before anything is sent, so that no change is missed.
    let watch = order.folder().filter(|_| how.watches).map(Watch::begin);
    let (report, name, command) = (
        drive.report.clone(),
        drive.name.clone(),
        drive.cloud.command.clone(),
    );
    let mut running = Running {
        transfer: Transfer::new(order, how.ignores_times),
        watch,
        how,
        report: &report,
    };
    let ending = match &files {
        Files::Up(host) => {
            let mut visit = Visit::new(drive, visitor()?, false)?;
            let ending = match enter_for_files(&mut visit, host).await? {
                Ok(access) => carry_files(&mut visit, host, access, &mut running).await,
                Err(ending) => ending,
            };
            running.report_stop(&ending);
            // A host that is closing, or gone, needs no farewell.
            let _gone = visit.reconciler.hosts().leave_to_others(host).await;
            ending
        }
        Files::Asleep(sleeping) => {
            let copying = async |servers| running.run(servers).await;
            let ending = drive.read_asleep(sleeping, copying).await;
            running.report_stop(&ending);
            ending
        }
    };
    let transfer = &running.transfer;
    let code = match ending {
        // What was copied until the end is copied, whatever EC2 does with the instance.
        Ending::Interruption(Interruption::Noticed {
            code: Some(code), ..
        }) => code,
        Ending::Interruption(_) => {
            let what = if how.watches {
                "nothing more is sent"
            } else {
                "not everything is copied"
            };
            if let Some(failure) = failure(&transfer.problems(), &report) {
                report.print(&format!("{:#}", failure.error));
            }
            let taken = anyhow!("EC2 takes {name}'s instance back, and {what}");
            let hint = format!(
                "the same command goes on with it once the drive is up again: {command} connect {name}"
            );
            return Err(Failure::new(Exit::Disconnected, taken).hint(hint));
        }
        ending => ending.code()?,
    };
    match failure(&transfer.problems(), &report) {
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

/// Copies until all is copied, a signal asks for the end, or the host closes the drive.
async fn carry_files(
    visit: &mut Visit,
    host: &Instance,
    access: Access,
    running: &mut Running<'_>,
) -> Ending {
    let Drive {
        name,
        cloud,
        report,
        signals,
        ..
    } = &mut visit.drive;
    let (name, cloud, report) = (&*name, &*cloud, &*report);
    let drive = Mutex::new(&mut visit.reconciler);
    let output = Output::Report(report.clone());
    let monitor = Monitor::new(Context::new(name, host, cloud, &drive, output));
    let reconnector = Reconnector {
        name,
        drive: &drive,
        host,
        ec2: &cloud.ec2,
        report,
        grace: cloud.timing.grace,
        command: format!("{} {}", cloud.command, running.how.verb),
    };
    let copying = through_cuts(access, running, &reconnector);
    let copying = unless_ended(signals, report, copying);
    let copying = async { Ok(copying.await.unwrap_or_else(Ending::Asked)) };
    monitor.run_with(&mut visit.news, copying).await
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
    /// Prints how far a copy is that a signal has stopped.
    fn report_stop(&self, ending: &Ending) {
        if let Ending::Asked(_) = ending
            && !self.how.watches
        {
            let stopped = format!("stopped: {}", self.how.done());
            let summary = self.transfer.progress().summary(&stopped);
            self.report
                .print(&format!("{summary}; the same command goes on with it"));
        }
    }

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
