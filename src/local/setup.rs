//! Setting a computer up for local instances: the machine tree that they run, and the image of new
//! drives.
//!
//! Both are built by the scripts of `shell/local`, which are part of this program ([`scripts`]) and
//! which `shell/setup.sh` runs too. A script names what it builds by a hash of what that is made
//! of, builds it whole or not at all, keeps what it downloaded, and waits for another run of itself.
//! So nothing is built twice, and the next run goes on where one was interrupted.
//!
//! What this computer lacks is known before anything is begun ([`check`]). Nothing is installed
//! here.

mod computer;
mod scripts;

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::{ExitStatus, Stdio};

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

pub use computer::{Unmet, check, packages};

/// A part of the computer's setup that a script builds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The image of new drives, with `JupyterLab`.
    Image,
    /// The machine tree.
    Machine,
}

/// Why a part could not be built.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The script that builds the part failed.
    #[error("{}: {why}{}", part.name(), indented(output))]
    Script {
        /// The part that the script builds.
        part: Part,
        /// The step that failed.
        why: String,
        /// The last lines of the script's output, without its error and hint.
        output: Vec<String>,
        /// The script's hint.
        hint: Option<String>,
    },
    /// The script could not be run.
    #[error(transparent)]
    Other(#[from] anyhow::Error),
}

impl Part {
    /// The part's name for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Image => "image",
            Self::Machine => "machine tree",
        }
    }

    /// The name of its script, with which it begins each of its lines.
    fn script(self) -> &'static str {
        match self {
            Self::Image => "jupyter",
            Self::Machine => "machine",
        }
    }

    /// Where it is once it was built.
    fn path(self, cache: &Path) -> PathBuf {
        cache.join(match self {
            Self::Image => "jupyter.tar",
            Self::Machine => "machine",
        })
    }
}

/// Whether both parts are in `cache`, of this version of xdrive or of another one.
#[must_use]
pub fn is_done(cache: &Path) -> bool {
    let parts = [Part::Image, Part::Machine];
    parts.iter().all(|part| part.path(cache).exists())
}

/// Builds in `cache` what is not there as this version of xdrive has it. Calls `on_progress` with
/// the words for each step as that begins. When `stop` is over first, ends what it had begun, and
/// returns the value of `stop`.
pub async fn build<T>(
    cache: &Path,
    on_progress: &mut impl FnMut(Part, &str),
    stop: impl Future<Output = T>,
) -> Result<Option<T>, SetupError> {
    let scripts = scripts::unpack(cache)?;
    // One downloads after the other. The image's has more left to do without: it begins.
    let image = Builder::start(Part::Image, scripts.path(), cache)?;
    let machine = Builder::start(Part::Machine, scripts.path(), cache)?;
    let groups = [image.group, machine.group];
    let (lines, mut printed) = unbounded_channel();
    let both = async { tokio::join!(image.finish(lines.clone()), machine.finish(lines)) };
    let (mut both, mut stop) = (pin!(both), pin!(stop));
    let mut stopped = None;
    let (image, machine) = loop {
        tokio::select! {
            biased;
            Some((part, line)) = printed.recv() => on_progress(part, &line),
            ended = &mut both => break ended,
            value = &mut stop, if stopped.is_none() => {
                stopped = Some(value);
                for group in groups.into_iter().flatten() {
                    // One that has ended needs no signal.
                    let _ = kill_process_group(group, Signal::TERM);
                }
            }
        }
    };
    while let Ok((part, line)) = printed.try_recv() {
        on_progress(part, &line);
    }
    if stopped.is_none() {
        image.and(machine)?;
    }
    Ok(stopped)
}

/// The script of a part, while it runs.
struct Builder {
    part: Part,
    child: Child,
    /// The process group of the script and all that it starts; no other group gets the terminal's
    /// signals for it.
    group: Option<Pid>,
}

impl Builder {
    fn start(part: Part, scripts: &Path, cache: &Path) -> anyhow::Result<Self> {
        let script = scripts.join(part.script()).with_extension("sh");
        let child = Command::new(&script)
            // The scripts have the rule for what is below it.
            .env("XDRIVE_CACHE", cache.parent().unwrap_or(cache))
            .env("PATH", computer::path())
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .with_context(|| format!("starting {}", script.display()))?;
        let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        Ok(Self { part, child, group })
    }

    /// Waits for its end, and sends the words of its steps to `lines`.
    async fn finish(mut self, lines: UnboundedSender<(Part, String)>) -> Result<(), SetupError> {
        let script = self.part.script();
        let mut rest = Vec::new();
        if let Some(stderr) = self.child.stderr.take() {
            let mut printed = BufReader::new(stderr).split(b'\n');
            // An error reading is an end: the exit code has the result.
            while let Ok(Some(line)) = printed.next_segment().await {
                let line = String::from_utf8_lossy(&line).into_owned();
                let step = line.strip_prefix(script);
                match step.and_then(|line| line.strip_prefix(": ")) {
                    // The receiver lives until this is over.
                    Some(words) => drop(lines.send((self.part, words.to_owned()))),
                    None => rest.push(line),
                }
            }
        }
        let status = self.child.wait().await;
        let status = status.with_context(|| format!("waiting for {script}.sh"))?;
        if status.success() {
            return Ok(());
        }
        Err(setup_error(self.part, &rest, status))
    }
}

/// The error of a script that printed `lines` besides its steps.
fn setup_error(part: Part, lines: &[String], status: ExitStatus) -> SetupError {
    let prefixed = |prefix: &str| {
        let found = lines.iter().find_map(|line| line.strip_prefix(prefix));
        found.map(str::to_owned)
    };
    let is_output = |line: &&String| {
        !(line.is_empty() || line.starts_with("error: ") || line.starts_with("hint: "))
    };
    SetupError::Script {
        part,
        why: prefixed(&format!("error: {}: ", part.script()))
            .unwrap_or_else(|| format!("its builder ended with {status}")),
        output: lines.iter().filter(is_output).cloned().collect(),
        hint: prefixed("hint: "),
    }
}

/// Lines below an error's first one.
fn indented(lines: &[String]) -> String {
    let indented = lines.iter().map(|line| format!("\n  {line}"));
    indented.collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    #[test]
    fn a_script_that_fails_says_which_step_and_what_helps() {
        let printed = "E: no mirror\nE: giving up\nerror: machine: could not unpack the base system\n\n\
                    hint: the whole output is in machine.log";
        let lines: Vec<String> = printed.lines().map(str::to_owned).collect();
        let error = setup_error(Part::Machine, &lines, ExitStatus::from_raw(1 << 8));
        assert_eq!(
            error.to_string(),
            "machine tree: could not unpack the base system\n  E: no mirror\n  E: giving up"
        );
        let SetupError::Script { hint, .. } = error else {
            panic!("{error:?}")
        };
        assert_eq!(hint.as_deref(), Some("the whole output is in machine.log"));
        let error = setup_error(Part::Image, &[], ExitStatus::from_raw(9));
        assert!(error.to_string().contains("signal: 9"), "{error}");
    }
}
