//! Interrupts a spot instance while its session runs: by Fault Injection Service with the role of
//! `--fis-role`, or with `--local` by the EC2 in a folder itself.
//!
//! The experiment's target is the instance of the session's own drive, by its ARN
//! ([`crate::ec2::Injection`]). Whatever ends the session, the experiment's template is deleted
//! before anything else is done.

use std::time::Duration;

use anyhow::anyhow;
use tokio::sync::watch;

use super::Run;
use super::finding::Finding;
use crate::cloud::folder;
use crate::ec2::{Injection, Instance, InstanceState, NoExperiment, State};
use crate::failure::{Exit, Failure};
use crate::ids::{DriveName, InstanceId};
use crate::session::Examination;

pub(super) const NAME: &str = "interruption";

/// The notice of an interruption with `--local` (AWS: two minutes).
const NOTICE: Duration = Duration::from_secs(30);

/// The interval between two looks whether the host was examined.
const LOOK: Duration = Duration::from_millis(100);

/// The interval between two looks at the experiment: it takes some seconds to begin, and up to half
/// a minute.
const ASK: Duration = Duration::from_secs(3);

/// The result of interrupting the instance.
#[derive(Debug)]
pub(super) enum Injected {
    /// The instance was interrupted; the beginning of its line, which names the cause.
    Done(String),
    /// The session was over before.
    Nothing,
    /// An interruption is not allowed, or not possible.
    NotAsked(String),
    Failed(Failure),
}

/// The line if an interruption is refused here. Tried before a host is launched for it: a template
/// for an instance that does not exist is made, and not started.
pub(super) async fn refused(run: &mut Run<'_>, owner: &str, drive: &DriveName) -> Option<Finding> {
    let role = run.order.fis_role.clone()?;
    let region = run.cloud.ec2.region().to_owned();
    if !run.cloud.ec2.has_interruptions() {
        let why =
            format!("Fault Injection Service has no interruptions of spot instances in {region}");
        return Some(Finding::not_asked(NAME, why));
    }
    match inject(run, owner, drive, &role, None).await {
        Ok(_) => None,
        Err(error) if error.is_no_answer() => {
            let at = run.cloud.ec2.fis_endpoint();
            let why = format!("no Fault Injection Service answers at {at}: {error}");
            Some(Finding::not_asked(NAME, why))
        }
        Err(error) => Some(match not_injected(run, &error) {
            Injected::NotAsked(why) => Finding::not_asked(NAME, why),
            Injected::Failed(failure) => Finding::of_failure(NAME, &failure),
            Injected::Done(_) | Injected::Nothing => return None,
        }),
    }
}

/// Runs `session` to its end, and interrupts its instance once the host was examined.
pub(super) async fn during(
    run: &mut Run<'_>,
    owner: &str,
    drive: &DriveName,
    examination: &Examination,
    session: impl Future<Output = Result<u8, Failure>>,
) -> (Result<u8, Failure>, Injected) {
    let (sender, over) = watch::channel(false);
    let session = async {
        let ended = session.await;
        sender.send_replace(true);
        ended
    };
    // Both to their ends: a call that changes something is never dropped in the middle.
    tokio::join!(session, take(run, owner, drive, examination, over))
}

async fn take(
    run: &mut Run<'_>,
    owner: &str,
    drive: &DriveName,
    examination: &Examination,
    mut over: watch::Receiver<bool>,
) -> Injected {
    while examination.answer().is_none() {
        if is_over(&mut over, LOOK).await {
            return Injected::Nothing;
        }
    }
    let instance = match running(run, drive).await {
        Ok(instance) => instance,
        Err(failure) => return Injected::Failed(failure),
    };
    let Some(role) = run.order.fis_role.clone() else {
        return interrupted_by_the_folder(run, &instance);
    };
    let experiment = match inject(run, owner, drive, &role, Some(&instance)).await {
        Ok(experiment) => experiment,
        Err(error) => return not_injected(run, &error),
    };
    let cause = format!("{experiment} of Fault Injection Service: ");
    while !is_over(&mut over, ASK).await {
        match run.cloud.ec2.experiment(&experiment).await {
            Ok(State::Running) => {}
            Ok(State::Failed(why)) => {
                let failure = Failure::from(anyhow!("{cause}{why}"));
                return Injected::Failed(failure.hint(format!(
                    "{role} has to trust fis.amazonaws.com, and to allow \
                     ec2:SendSpotInstanceInterruptions and ec2:DescribeInstances"
                )));
            }
            // The session's end shows whether the notice came.
            Ok(State::Completed) | Err(_) => break,
        }
    }
    Injected::Done(cause)
}

/// Whether the session is over, or ends within that time.
async fn is_over(over: &mut watch::Receiver<bool>, within: Duration) -> bool {
    tokio::time::timeout(within, over.wait_for(|over| *over))
        .await
        .is_ok()
}

/// The drive's running instance.
async fn running(run: &Run<'_>, drive: &DriveName) -> Result<InstanceId, Failure> {
    let instances = run.cloud.ec2.instances(drive).await?;
    let is_running = |instance: &Instance| instance.state == InstanceState::Running;
    let found = instances.into_iter().find(is_running);
    let found = found.ok_or_else(|| anyhow!("{drive} has no instance"))?;
    Ok(found.id)
}

fn interrupted_by_the_folder(run: &Run<'_>, instance: &InstanceId) -> Injected {
    match folder::interrupt(run.paths, instance, NOTICE) {
        Ok(_) => Injected::Done(String::new()),
        Err(failure) => Injected::Failed(failure),
    }
}

/// Starts the experiment, and adds a line if its template is left. Returns its id, which is empty
/// without an `instance`.
async fn inject(
    run: &mut Run<'_>,
    owner: &str,
    drive: &DriveName,
    role: &str,
    instance: Option<&InstanceId>,
) -> Result<String, NoExperiment> {
    let ec2 = &run.cloud.ec2;
    let injected = ec2.inject_interruption(owner, drive, role, instance);
    let Injection { experiment, left } = injected.await;
    if let Some((template, why)) = left {
        let hint = "`aws fis delete-experiment-template --id ID`; it costs nothing";
        let why = format!("{template} is left: {why}");
        super::account::add(run, Finding::failed("cleared away", why, Some(hint)));
    }
    Ok(experiment?.unwrap_or_default())
}

/// An error of Fault Injection Service as a result.
fn not_injected(run: &Run<'_>, error: &NoExperiment) -> Injected {
    let command = &run.cloud.command;
    if error.is_denied() {
        let why = format!("{error}; {command} policy --selftest prints the policy that allows it");
        return Injected::NotAsked(why);
    }
    let failure = Failure::new(Exit::Failed, anyhow!("Fault Injection Service: {error}"));
    Injected::Failed(failure)
}

/// The line on the interruption, by how the session ended.
pub(super) fn line(ended: &Result<u8, Failure>, injected: &Injected) -> Finding {
    // Taken away and saved: see the exit codes.
    let is_saved = match ended {
        Ok(code) => *code == Exit::TryAgain.code(),
        Err(failure) => failure.exit == Exit::TryAgain,
    };
    match (injected, ended) {
        (Injected::Done(by), _) if is_saved => Finding::ok(
            NAME,
            format!("{by}a notice, and the drive was saved in time"),
        ),
        (_, Err(failure)) | (Injected::Failed(failure), Ok(_)) => {
            Finding::of_failure(NAME, failure)
        }
        (Injected::NotAsked(why), Ok(_)) => Finding::not_asked(NAME, why.clone()),
        (Injected::Done(by), Ok(code)) => {
            let why = format!("{by}no notice came, and the session ended with {code}");
            Finding::failed(NAME, why, None)
        }
        (Injected::Nothing, Ok(code)) => Finding::failed(NAME, format!("ended with {code}"), None),
    }
}
