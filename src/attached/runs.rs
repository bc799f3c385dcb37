//! The runs on a drive's host.

use anyhow::anyhow;

use crate::access::SshHosts;
use crate::ec2::Instance;
use crate::failure::{Exit, Failure};
use crate::host::runs::Run;
use crate::host::scripts::Host;
use crate::opener::{Drive, or_interrupted};
use crate::report::Report;

/// A drive's instance that is up, and its scripts.
pub(crate) struct Live {
    pub(crate) instance: Instance,
    pub(crate) host: Host,
}

/// Connects to the drive's `instance`. Fails if it has none.
pub(crate) async fn reach_live(
    drive: &mut Drive,
    hosts: &mut SshHosts,
    instance: Option<Instance>,
) -> Result<Live, Failure> {
    let name = &drive.name;
    let instance = instance.ok_or_else(|| {
        let why = anyhow!("{name} is not up: nothing runs on it");
        let xdrive = &drive.cloud.command;
        Failure::new(Exit::Unavailable, why)
            .hint(format!("{xdrive} run {name} -d -- CMD… runs a command"))
    })?;
    // On the heap: the future of a login nests deeply.
    let reached = Box::pin(hosts.reach(&instance));
    let reached = or_interrupted(&mut drive.signals, &drive.report, reached).await?;
    let (_, host) = reached.map_err(anyhow::Error::new)?;
    Ok(Live { instance, host })
}

/// The runs that are there or on record, the oldest first.
pub(crate) async fn list(drive: &mut Drive, live: &Live) -> Result<Vec<Run>, Failure> {
    let runs = live.host.runs();
    let runs = or_interrupted(&mut drive.signals, &drive.report, runs).await?;
    Ok(runs.map_err(anyhow::Error::new)?)
}

/// The run whose id begins so, if just one does.
pub(crate) fn with_prefix<'a>(runs: &'a [Run], wanted: &str) -> Option<&'a Run> {
    let mut found = runs.iter().filter(|run| run.id.starts_with(wanted));
    let first = found.next()?;
    found.next().is_none().then_some(first)
}

/// Reports what is lost of a command's standard output, and of its standard error: what its host did
/// not keep, or its record on the drive.
pub(crate) fn report_missing(report: &Report, lost: [u64; 2], is_on_record: bool) {
    let why = if is_on_record {
        "the record of a command that has ended has the last MiB"
    } else {
        "more than the host keeps; `spool` in the configuration says how much that is"
    };
    for (bytes, stream) in lost.iter().zip(["output", "error"]) {
        if *bytes > 0 {
            report.print(&format!(
                "{bytes} bytes of its standard {stream} are lost: {why}"
            ));
        }
    }
}

/// The failure of a request that does not name one of `runs`.
pub(crate) fn no_run(drive: &Drive, runs: &[Run], wanted: Option<&str>) -> Failure {
    let (xdrive, drive) = (&drive.cloud.command, &drive.name);
    let why = match (wanted, runs) {
        (Some(wanted), _) => {
            anyhow!("{wanted} is not the beginning of exactly one run's id on {drive}")
        }
        (None, []) => anyhow!("no command runs on {drive}"),
        (None, several) => anyhow!("{} commands run on {drive}", several.len()),
    };
    Failure::new(Exit::Unavailable, why).hint(format!("{xdrive} ps {drive} lists them"))
}
