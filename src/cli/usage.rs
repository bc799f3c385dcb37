//! Command lines that cannot be meant, as failures: what is wrong, and what to type.
//!
//! The first line is clap's. Its tips are not used: the one for an unknown flag is to pass it on as
//! a value, which is hardly ever meant.

use std::error::Error as _;
use std::ffi::OsString;

use anyhow::anyhow;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::config::quantity::Invalid;
use crate::failure::{Exit, Failure};

/// The failure of the command line `words`. Help and versions, which clap hands out as errors, are
/// none: see [`answer`].
pub(super) fn failure(error: &clap::Error, words: &[OsString]) -> Failure {
    let rendered = error.render().to_string();
    let message = rendered.strip_prefix("error: ").unwrap_or(&rendered);
    let message = message.split("\n\n").next().unwrap_or_default().trim_end();
    Failure::new(Exit::Usage, anyhow!("{message}")).hint(hint(error, &command(words)))
}

/// Whether these words ask for JSON. Those of the command in a drive are its own, and `selftest`
/// writes its report to a file.
pub(super) fn wants_json(words: &[OsString]) -> bool {
    let own = || words.iter().take_while(|word| *word != "--");
    own().any(|word| word == "--json") && !own().any(|word| word == "selftest")
}

/// The text that was asked for, if this is help or a version, and the exit code.
pub(super) fn answer(error: &clap::Error) -> Option<(String, u8)> {
    let code = match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => 0,
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => Exit::Usage.code(),
        _ => return None,
    };
    Some((error.render().to_string(), code))
}

fn hint(error: &clap::Error, command: &str) -> String {
    if let Some(hint) = error.source().and_then(invalid).and_then(|it| it.hint()) {
        return hint.to_owned();
    }
    // Not clap's line of usage, which names flags that a variable has set.
    let missing = text(error, ContextKind::InvalidArg).unwrap_or_default();
    let missing = missing.trim_matches(['<', '>']);
    let meant = [
        ContextKind::SuggestedArg,
        ContextKind::SuggestedSubcommand,
        ContextKind::SuggestedValue,
    ];
    let meant = meant.into_iter().find_map(|kind| text(error, kind));
    match (meant, error.kind()) {
        (Some(meant), _) => format!("is {meant} meant? `{command} --help` lists all there are"),
        (None, ErrorKind::MissingRequiredArgument) => {
            format!("{command} {missing}; `{command} --help` explains it")
        }
        (None, ErrorKind::UnknownArgument) if command.ends_with(" connect") => {
            format!("`{command} --help` lists its flags; a command to run follows after --")
        }
        (None, ErrorKind::InvalidSubcommand) => format!("`{command} --help` lists the commands"),
        (None, _) => format!("`{command} --help` lists its arguments"),
    }
}

/// The quantity that was refused, if that is what `error` is.
fn invalid<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a Invalid> {
    error.downcast_ref()
}

/// What clap says of the error.
/// Of several texts the last: clap's suggestions end with the nearest.
fn text(error: &clap::Error, kind: ContextKind) -> Option<String> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text.clone()),
        ContextValue::Strings(texts) => texts.last().cloned(),
        ContextValue::StyledStr(text) => Some(text.to_string()),
        ContextValue::StyledStrs(texts) => texts.last().map(ToString::to_string),
        _ => None,
    }
}

/// The command that `words` name, as far as they name one.
fn command(words: &[OsString]) -> String {
    let top = super::definition();
    let mut found = &top;
    let mut path = top.get_name().to_owned();
    for word in words.iter().skip(1) {
        if let Some(below) = found.find_subcommand(word) {
            path = format!("{path} {}", below.get_name());
            found = below;
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_of_the_command_in_the_drive_is_not_xdrives_own() {
        let asks = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            wants_json(&words)
        };
        assert!(asks("xdrive stop demo --json"));
        assert!(!asks("xdrive connect demo -- jq --json"));
        assert!(!asks("xdrive selftest --json report.json"));
    }
}
