//! Command lines that cannot be meant, as failures: what is wrong, and what to type.
//!
//! The first line is clap's. Its tips are not used: the one for an unknown flag is to pass it on as
//! a value, which is hardly ever meant.

use std::error::Error as _;
use std::ffi::OsString;

use anyhow::anyhow;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::help;
use crate::config::quantity::Invalid;
use crate::failure::{Exit, Failure};
use crate::report;

/// The failure of the command line `words`. Help and versions, which clap hands out as errors, are
/// none: see [`answer`].
pub(super) fn failure(error: &clap::Error, words: &[OsString]) -> Failure {
    let rendered = error.render().to_string();
    let message = rendered.strip_prefix("error: ").unwrap_or(&rendered);
    let message = message.split("\n\n").next().unwrap_or_default().trim_end();
    let mut top = super::definition();
    top.build();
    Failure::new(Exit::Usage, anyhow!("{message}"))
        .hint(hint(error, &mut find_subcommand(top, words)))
}

/// Whether these words ask for JSON. Those of the command in a drive are its own, and `selftest`
/// writes its report to a file.
pub(super) fn wants_json(words: &[OsString]) -> bool {
    let mut own = words.iter().take_while(|word| *word != "--");
    own.any(|word| word == "--json")
        && find_subcommand(super::definition(), words).get_name() != "selftest"
}

/// `--color`, of words that are wrong elsewhere.
pub(super) fn color(words: &[OsString]) -> report::Color {
    let parsed = super::command()
        .ignore_errors(true)
        .try_get_matches_from(words);
    let color = parsed.ok().and_then(|it| it.get_one("color").copied());
    color.unwrap_or_default()
}

/// The text that was asked for, if this is help or a version, and the exit code. Without a command
/// it is the short help, also where clap names what is missing because a flag or a variable is set.
pub(super) fn answer(error: &clap::Error, words: &[OsString]) -> Option<(String, u8)> {
    let code = match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => 0,
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => Exit::Usage.code(),
        ErrorKind::MissingSubcommand => {
            let mut top = help::for_screen(super::command(), words);
            top.build();
            let help = find_subcommand(top, words).render_help();
            return Some((help.to_string(), Exit::Usage.code()));
        }
        _ => return None,
    };
    Some((error.render().to_string(), code))
}

fn hint(error: &clap::Error, found: &mut clap::Command) -> String {
    let command = found.get_bin_name().unwrap_or("xdrive").to_owned();
    if let Some(hint) = error.source().and_then(invalid).and_then(|it| it.hint()) {
        return hint.to_owned();
    }
    let missing = text(error, ContextKind::InvalidArg).unwrap_or_default();
    let meant = [
        ContextKind::SuggestedArg,
        ContextKind::SuggestedSubcommand,
        ContextKind::SuggestedValue,
    ];
    let meant = meant.into_iter().find_map(|kind| text(error, kind));
    match (meant, error.kind()) {
        (Some(meant), _) => format!("is {meant} meant? `{command} --help` lists all there are"),
        (None, ErrorKind::MissingRequiredArgument) if missing.starts_with('-') => {
            format!("{command} {missing}; `{command} --help` explains it")
        }
        (None, ErrorKind::MissingRequiredArgument | ErrorKind::TooFewValues) => {
            format!("{}; `{command} --help` explains it", forms(found))
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

/// The text that clap has for `kind`; of several the last, which of suggestions is the nearest.
fn text(error: &clap::Error, kind: ContextKind) -> Option<String> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text.clone()),
        ContextValue::Strings(texts) => texts.last().cloned(),
        ContextValue::StyledStr(text) => Some(text.to_string()),
        ContextValue::StyledStrs(texts) => texts.last().map(ToString::to_string),
        _ => None,
    }
}

/// The command of `top` that `words` name, as far as they name one.
fn find_subcommand(top: clap::Command, words: &[OsString]) -> clap::Command {
    words.iter().skip(1).fold(top, |above, word| {
        let below = above.find_subcommand(word).cloned();
        below.unwrap_or(above)
    })
}

/// How `command` is called: each form of its usage, without the flags that can be left out. Those
/// of an error have the flags that a variable has set.
fn forms(command: &mut clap::Command) -> String {
    let usage = command.render_usage().to_string();
    let forms = usage.trim_start_matches("Usage: ").lines();
    let forms: Vec<String> = forms
        .map(|form| form.trim().replacen(" [OPTIONS]", "", 1))
        .map(|form| form.replace(['<', '>'], ""))
        .collect();
    forms.join(", or ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_argument_is_answered_with_every_form_of_the_command() {
        let hint = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let error = crate::cli::command().try_get_matches_from(&words);
            failure(&error.unwrap_err(), &words).hint.unwrap()
        };
        assert_eq!(
            hint("xdrive cp"),
            "xdrive cp SRC… NAME:DST, or xdrive cp NAME[@N]:SRC… DST; `xdrive cp --help` explains it"
        );
        assert_eq!(hint("xdrive cp one"), hint("xdrive cp"));
        assert_eq!(
            hint("xdrive sync"),
            "xdrive sync DIR NAME:DST; `xdrive sync --help` explains it"
        );
        assert_eq!(
            hint("xdrive local stop"),
            "xdrive local stop NAME; `xdrive local stop --help` explains it"
        );
        assert_eq!(
            hint("xdrive run demo --tries 3 -- true"),
            "xdrive run --restart; `xdrive run --help` explains it"
        );
    }

    #[test]
    fn a_flag_of_the_command_in_the_drive_is_not_xdrives_own() {
        let asks = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            wants_json(&words)
        };
        assert!(asks("xdrive stop demo --json"));
        assert!(!asks("xdrive connect demo -- jq --json"));
        assert!(!asks("xdrive selftest --json report.json"));
        assert!(asks("xdrive stop selftest --json"));
    }
}
