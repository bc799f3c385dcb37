//! An instance that is taken back while its session goes on: by Fault Injection Service in the role
//! that was named, or (with `--local`, where nobody names one) by the EC2 in a folder itself.
//!
//! The experiment's target is the one instance that the session's own drive has, by its ARN
//! ([`crate::ec2::Injection`]). Whatever ends the session, the experiment's template is deleted
//! before anything else is done.

use std::time::Duration;

use anyhow::anyhow;
use tokio::sync::watch;

use super::Run;
use super::finding::Finding;
use crate::cloud::folder;
use crate::drive::DriveName;
use crate::ec2::{Injection, Instance, InstanceId, InstanceState, NoExperiment, State};
use crate::failure::{Exit, Failure};
use crate::session::Examination;

pub(super) const NAME: &str = "interruption";

/// How long before its end an instance of the EC2 in a folder is told that it is taken back (AWS: two
/// minutes).
const NOTICE: Duration = Duration::from_secs(30);

/// How often it is looked whether the host was looked at.
const LOOK: Duration = Duration::from_millis(100);

/// How often an experiment is asked after: it takes some seconds to begin, and half a minute where
/// there is much to do.
const ASK: Duration = Duration::from_secs(3);

/// What was done to the instance, or why nothing was.
#[derive(Debug)]
pub(super) enum Came {
    /// It was told, by whom.
    Told(String),
    /// The session was over before.
    Nothing,
    /// Nobody may, or can.
    NotAsked(String),
    /// It failed.
    Failed(Failure),
}

/// Why it is not asked here, if it is not, before a host is had for it: everything is done but the
/// start, of a template that names no instance there is.
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
        Err(error) if error.is_silence() => {
            let at = run.cloud.ec2.fis_endpoint();
            let why = format!("no Fault Injection Service answers at {at}: {error}");
            Some(Finding::not_asked(NAME, why))
        }
        Err(error) => Some(match came_of(run, &error) {
            Came::NotAsked(why) => Finding::not_asked(NAME, why),
            Came::Failed(failure) => Finding::of_failure(NAME, &failure),
            Came::Told(_) | Came::Nothing => return None,
        }),
    }
}

/// Lets `session` go on to its end, and has its instance taken back once its host was looked at.
pub(super) async fn during(
    run: &mut Run<'_>,
    owner: &str,
    drive: &DriveName,
    examination: &Examination,
    session: impl Future<Output = Result<u8, Failure>>,
) -> (Result<u8, Failure>, Came) {
    let (tell, over) = watch::channel(false);
    let session = async {
        let ended = session.await;
        tell.send_replace(true);
        ended
    };
    // Both to their ends: a call that changes something is never given up in the middle.
    tokio::join!(session, take(run, owner, drive, examination, over))
}

async fn take(
    run: &mut Run<'_>,
    owner: &str,
    drive: &DriveName,
    examination: &Examination,
    mut over: watch::Receiver<bool>,
) -> Came {
    while examination.answer().is_none() {
        if is_over(&mut over, LOOK).await {
            return Came::Nothing;
        }
    }
    let instance = match running(run, drive).await {
        Ok(instance) => instance,
        Err(failure) => return Came::Failed(failure),
    };
    let Some(role) = run.order.fis_role.clone() else {
        return interrupted_by_the_folder(run, &instance);
    };
    let experiment = match inject(run, owner, drive, &role, Some(&instance)).await {
        Ok(experiment) => experiment,
        Err(error) => return came_of(run, &error),
    };
    let told = format!("{experiment} of Fault Injection Service: ");
    while !is_over(&mut over, ASK).await {
        match run.cloud.ec2.experiment(&experiment).await {
            Ok(State::Running) => {}
            Ok(State::Failed(why)) => {
                let failure = Failure::from(anyhow!("{told}{why}"));
                return Came::Failed(failure.hint(format!(
                    "{role} has to trust fis.amazonaws.com, and to allow \
                     ec2:SendSpotInstanceInterruptions and ec2:DescribeInstances"
                )));
            }
            // The session itself shows what came of it.
            Ok(State::Completed) | Err(_) => break,
        }
    }
    Came::Told(told)
}

/// Whether the session is over, or is so within that time.
async fn is_over(over: &mut watch::Receiver<bool>, within: Duration) -> bool {
    tokio::time::timeout(within, over.wait_for(|over| *over))
        .await
        .is_ok()
}

/// The instance that the drive has.
async fn running(run: &Run<'_>, drive: &DriveName) -> Result<InstanceId, Failure> {
    let instances = run.cloud.ec2.instances(drive.as_str()).await?;
    let is_running = |instance: &Instance| instance.state == InstanceState::Running;
    let found = instances.into_iter().find(is_running);
    let found = found.ok_or_else(|| anyhow!("{drive} has no instance"))?;
    Ok(found.id)
}

fn interrupted_by_the_folder(run: &Run<'_>, instance: &InstanceId) -> Came {
    match folder::interrupt(run.paths, instance, NOTICE) {
        Ok(_) => Came::Told(String::new()),
        Err(failure) => Came::Failed(failure),
    }
}

/// The experiment's id, which is empty where none was started; what is left of its template is
/// written down.
async fn inject(
    run: &mut Run<'_>,
    owner: &str,
    drive: &DriveName,
    role: &str,
    instance: Option<&InstanceId>,
) -> Result<String, NoExperiment> {
    let ec2 = &run.cloud.ec2;
    let injected = ec2.inject_interruption(owner, drive.as_str(), role, instance);
    let Injection { experiment, left } = injected.await;
    if let Some((template, why)) = left {
        let hint = "`aws fis delete-experiment-template --id ID`; it costs nothing";
        let why = format!("{template} is left: {why}");
        super::account::add(run, Finding::failed("cleared away", why, Some(hint)));
    }
    Ok(experiment?.unwrap_or_default())
}

/// Why there is no experiment, in the run's words.
fn came_of(run: &Run<'_>, error: &NoExperiment) -> Came {
    let command = &run.cloud.command;
    if error.is_denied() {
        let why = format!("{error}; {command} policy --selftest prints the policy that allows it");
        return Came::NotAsked(why);
    }
    let failure = Failure::new(Exit::Failed, anyhow!("Fault Injection Service: {error}"));
    Came::Failed(failure)
}

/// What the end of the session says of it.
pub(super) fn line(ended: &Result<u8, Failure>, came: &Came) -> Finding {
    // Taken away and saved: see the README's exit codes.
    let is_saved = match ended {
        Ok(code) => *code == Exit::TryAgain.code(),
        Err(failure) => failure.exit == Exit::TryAgain,
    };
    match (came, ended) {
        (Came::Told(by), _) if is_saved => Finding::ok(
            NAME,
            format!("{by}a notice, and the drive was saved in time"),
        ),
        (_, Err(failure)) | (Came::Failed(failure), Ok(_)) => Finding::of_failure(NAME, failure),
        (Came::NotAsked(why), Ok(_)) => Finding::not_asked(NAME, why.clone()),
        (Came::Told(by), Ok(code)) => {
            let why = format!("{by}no notice came, and the session ended with {code}");
            Finding::failed(NAME, why, None)
        }
        (Came::Nothing, Ok(code)) => Finding::failed(NAME, format!("ended with {code}"), None),
    }
}
