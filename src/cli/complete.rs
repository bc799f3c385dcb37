//! Completions: what a shell asks xdrive for when its user presses Tab.
//!
//! The shell runs `COMPLETE=SHELL xdrive -- WORDS`. Drives are completed from the names that the
//! last listing found, for a minute; after that EC2 is asked again, for no longer than a person
//! notices, and once a minute also where it does not answer. Older names are better than none.
//!
//! What is offered may become part of a command: of tags only what parses as a drive's name, and to
//! bash, which quotes nothing, only words.

mod bash;

use std::ffi::{OsStr, OsString};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use clap::{ArgMatches, Command};
use clap_complete::CompleteEnv;
use clap_complete::engine::{
    ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter as _,
};
use clap_complete::env::{Elvish, Fish, Powershell, Shells, Zsh};

use super::topic::TOPICS;
use crate::cloud::{Cloud, Which};
use crate::commands::{Context, Names};
use crate::config::Paths;
use crate::ec2::{self, Account};
use crate::failure::{Exit, Failure};
use crate::ids::DriveName;
use crate::report;

/// The shells that may ask.
const SHELLS: Shells<'static> = Shells(&[&bash::Quoted, &Elvish, &Fish, &Powershell, &Zsh]);

/// The variable by which a shell asks.
const VARIABLE: &str = "COMPLETE";

/// How old names may be before EC2 is asked again.
const FRESH: Duration = Duration::from_mins(1);

/// How long EC2 is asked: with xdrive's own start a tenth of a second.
const TIMEOUT: Duration = Duration::from_millis(70);

/// The regions (AWS general reference, *Amazon EC2 endpoints*). A new one can be typed.
const REGIONS: [&str; 39] = [
    "af-south-1",
    "ap-east-1",
    "ap-east-2",
    "ap-northeast-1",
    "ap-northeast-2",
    "ap-northeast-3",
    "ap-south-1",
    "ap-south-2",
    "ap-southeast-1",
    "ap-southeast-2",
    "ap-southeast-3",
    "ap-southeast-4",
    "ap-southeast-5",
    "ap-southeast-6",
    "ap-southeast-7",
    "ca-central-1",
    "ca-west-1",
    "cn-north-1",
    "cn-northwest-1",
    "eu-central-1",
    "eu-central-2",
    "eu-north-1",
    "eu-south-1",
    "eu-south-2",
    "eu-west-1",
    "eu-west-2",
    "eu-west-3",
    "eusc-de-east-1",
    "il-central-1",
    "me-central-1",
    "me-south-1",
    "mx-central-1",
    "sa-east-1",
    "us-east-1",
    "us-east-2",
    "us-gov-east-1",
    "us-gov-west-1",
    "us-west-1",
    "us-west-2",
];

/// Adds completers to the arguments of `command` and of its subcommands.
pub(super) fn with_completers(command: Command) -> Command {
    let command = command.mut_args(|arg| match arg.get_id().as_str() {
        "drive" | "before" | "after" => arg.add(ArgValueCompleter::new(drives)),
        "place" => arg.add(ArgValueCompleter::new(on_drives)),
        "places" => arg.add(ArgValueCompleter::new(places)),
        "types" => arg.add(ArgValueCompleter::new(types)),
        "region" => arg.add(ArgValueCompleter::new(regions)),
        "profile" => arg.add(ArgValueCompleter::new(profiles)),
        "topic" => arg.add(ArgValueCompleter::new(topics)),
        "words" => arg.add(ArgValueCompleter::new(explained)),
        _ => arg,
    });
    command.mut_subcommands(with_completers)
}

/// Answers a shell, if one asks; false if none does.
pub(super) fn answer(words: &[OsString]) -> Result<bool, Failure> {
    if std::env::var_os(VARIABLE).is_none() {
        return Ok(false);
    }
    let here = std::env::current_dir().ok();
    CompleteEnv::with_factory(super::definition)
        .var(VARIABLE)
        .shells(SHELLS)
        .try_complete(words.iter().cloned(), here.as_deref())
        .map_err(|error| Failure::new(Exit::Usage, anyhow::anyhow!("{error}")))
}

/// The text that follows a script for zsh: as a file `_xdrive` in the `fpath` it is the body of a
/// function, first called for an answer (zsh manual, *Completion System*, *Autoloaded files*).
const AUTOLOADED: &str = "\
if [[ \"$funcstack[1]\" == _xdrive ]]; then
    _clap_dynamic_completer_xdrive \"$@\"
fi
";

/// Prints what makes `shell` ask. Returns the exit code.
pub(super) fn register(shell: clap_complete::Shell) -> Result<u8, Failure> {
    let mut script = Vec::new();
    let is_zsh = shell == clap_complete::Shell::Zsh;
    if let Some(shell) = SHELLS.completer(&shell.to_string()) {
        shell
            .write_registration(VARIABLE, "xdrive", "xdrive", "xdrive", &mut script)
            .map_err(anyhow::Error::from)?;
    }
    if is_zsh {
        script.extend(AUTOLOADED.bytes());
    }
    // Of clap's making, and for a shell.
    report::bytes(true, &script).map_err(anyhow::Error::from)?;
    Ok(0)
}

/// The drives whose names begin with `begun`.
fn drives(begun: &OsStr) -> Vec<CompletionCandidate> {
    let drives = known_drives().unwrap_or_default().into_iter();
    beginning(begun, drives.map(|name| name.to_string()).collect())
}

/// The files here, and drives with a colon, that `begun` may begin.
fn places(begun: &OsStr) -> Vec<CompletionCandidate> {
    let mut found = on_drives(begun);
    found.extend(PathCompleter::any().complete(begun));
    found
}

/// Drives with a colon that `begun` may begin.
fn on_drives(begun: &OsStr) -> Vec<CompletionCandidate> {
    let drives = known_drives().unwrap_or_default().into_iter();
    beginning(begun, drives.map(|name| format!("{name}:")).collect())
}

/// The instance types that begin with what follows the last comma of `begun`.
fn types(begun: &OsStr) -> Vec<CompletionCandidate> {
    let begun = begun.to_string_lossy();
    let before = begun.rfind(',').map_or(0, |comma| comma + 1);
    let (before, rest) = begun.split_at(before);
    let types = ec2::type_names().iter();
    let types = types.filter(|name| name.starts_with(rest));
    types
        .map(|name| candidate(format!("{before}{name}")))
        .collect()
}

/// The regions that `begun` may begin.
fn regions(begun: &OsStr) -> Vec<CompletionCandidate> {
    beginning(begun, REGIONS.map(str::to_owned).into())
}

/// The profiles of `~/.aws` that `begun` may begin.
fn profiles(begun: &OsStr) -> Vec<CompletionCandidate> {
    beginning(begun, ec2::profile_names())
}

/// The topics that `begun` may begin.
fn topics(begun: &OsStr) -> Vec<CompletionCandidate> {
    beginning(begun, TOPICS.map(|topic| topic.name.to_owned()).into())
}

/// The topics and commands that `begun` may begin.
fn explained(begun: &OsStr) -> Vec<CompletionCandidate> {
    let top = super::definition();
    let commands = top
        .get_subcommands()
        .filter(|command| !command.is_hide_set());
    let commands = commands.map(|command| command.get_name().to_owned());
    let mut found = topics(begun);
    found.extend(beginning(begun, commands.collect()));
    found
}

fn beginning(begun: &OsStr, names: Vec<String>) -> Vec<CompletionCandidate> {
    let begun = begun.to_string_lossy();
    let names = names.into_iter().filter(|name| name.starts_with(&*begun));
    names.map(candidate).collect()
}

fn candidate(name: String) -> CompletionCandidate {
    CompletionCandidate::new(name)
}

/// The names of the drives on the EC2 that the words on the line choose, if they can be had.
fn known_drives() -> Option<Vec<DriveName>> {
    let (paths, which) = place()?;
    let names = Names::new(&paths, &which.command(&paths));
    let (known, age) = names.read().unzip();
    if age.is_some_and(|age| age < FRESH) {
        return known;
    }
    let drives = ask(which, paths).or(known).unwrap_or_default();
    // Without an answer, too: the next Tab would wait in vain again.
    names.write(&drives);
    Some(drives)
}

/// Asks EC2 for the drives; none if it does not answer in time.
fn ask(which: Which, paths: Paths) -> Option<Vec<DriveName>> {
    let (answer, answered) = mpsc::channel();
    let asks = move || {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().ok()?;
        let drives = runtime.block_on(async {
            let cloud = Cloud::open(&which, &paths).await.ok()?;
            cloud.drives().await.ok()
        });
        answer.send(drives).ok()
    };
    // Not waited for: it ends with the process, whatever it waits for.
    thread::Builder::new().spawn(asks).ok()?;
    answered.recv_timeout(TIMEOUT).ok().flatten()
}

/// The EC2 that the words on the line choose: those behind `--`, as far as they are typed.
fn place() -> Option<(Paths, Which)> {
    let words = std::env::args_os().skip_while(|word| word != "--").skip(1);
    let matches = super::definition()
        .ignore_errors(true)
        .try_get_matches_from(words)
        .ok()?;
    let text = |name: &str| value(&matches, name);
    let dir = matches.try_get_one::<std::path::PathBuf>("local_dir");
    let account = Account {
        profile: text("profile"),
        region: text("region"),
    };
    let is_local = matches.get_flag("local") || matches.subcommand_name() == Some("local");
    let context = Context::new(is_local, account, dir.ok().flatten().cloned());
    let paths = context.paths().ok()?;
    let which = context.which(&paths).ok()?;
    Some((paths, which))
}

fn value(matches: &ArgMatches, name: &str) -> Option<String> {
    matches.try_get_one::<String>(name).ok().flatten().cloned()
}
