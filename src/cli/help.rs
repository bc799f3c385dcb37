//! `xdrive help`, and what the help of each command ends with.

use std::ffi::OsString;
use std::fmt::Write as _;

use anyhow::anyhow;

use super::pager;
use super::topic::{self, Topic};
use crate::config::environment::ALL;
use crate::failure::{Exit, Failure};

/// Where `-h` points to: it shows what a first day needs.
const MORE: &str = "All commands and flags: xdrive --help. Topics: xdrive help";

/// Where `connect -h` points to: it shows the flags of a first day alone.
const CONNECT: &str = "\
All flags, as for network, prices and Jupyter: xdrive connect --help
All about it: xdrive help aws (or money, endings, unattended, network, local)";

/// The commands that the short help leaves out, so that it fits a screen.
const RARE: [&str; 25] = [
    "adopt",
    "attach",
    "cat",
    "code",
    "containers",
    "copy",
    "cost",
    "delete",
    "diff",
    "fork",
    "freeze",
    "log",
    "logs",
    "note",
    "ports",
    "rename",
    "resize",
    "selftest",
    "share",
    "tend",
    "workers",
    "policy",
    "recipe",
    "man",
    "completions",
];

/// `top` without the rare commands, unless `words` ask for the long help.
pub(super) fn for_screen(top: clap::Command, words: &[OsString]) -> clap::Command {
    let mut own = words.iter().take_while(|word| *word != "--");
    if own.any(|word| word == "--help") {
        return top;
    }
    let hidden = |top: clap::Command, name| top.mut_subcommand(name, |it| it.hide(true));
    RARE.into_iter().fold(top, hidden)
}

/// The variables of the environment: a section of `--help` and of the manual page.
pub(super) fn environment() -> String {
    let mut text = "Environment:".to_owned();
    for (name, what) in ALL {
        let _ = write!(text, "\n  {name:16}  {what}");
    }
    text + "\n  and what every AWS tool reads, such as AWS_PROFILE and AWS_REGION;\n  \
            HTTPS_PROXY and NO_PROXY; NO_COLOR"
}

/// Adds the end of each command's help: where to find its other flags, and the topics.
pub(super) fn with_ends(top: clap::Command) -> clap::Command {
    let long = top.get_after_long_help().map(ToString::to_string);
    let long = long.unwrap_or_default();
    top.after_help(MORE)
        .after_long_help(format!(
            "{long}\n\nTopics of xdrive help:\n{}",
            topic::list()
        ))
        .mut_subcommands(|command| end("xdrive", command))
}

fn end(above: &str, command: clap::Command) -> clap::Command {
    let name = format!("{above} {}", command.get_name());
    let is_connect = command.get_name() == "connect";
    let long = match command.get_after_long_help() {
        Some(long) => long.to_string(),
        None => "More: xdrive help".to_owned(),
    };
    let command = command.after_long_help(long).after_help(if is_connect {
        CONNECT.to_owned()
    } else {
        format!("All flags: {name} --help")
    });
    command.mut_subcommands(|below| end(&name, below))
}

/// Shows a topic, or the help of a command; without words a list of both. Returns the exit code.
pub(super) fn explain(words: &[String]) -> Result<u8, Failure> {
    let mut command = super::command();
    command.build();
    let Some(first) = words.first() else {
        let commands = command.render_help();
        let topics = topic::list();
        return pager::show(&format!("{commands}\nTopics of xdrive help:\n{topics}"));
    };
    if let (Some(topic), 1) = (Topic::find(first), words.len()) {
        return pager::show(&topic.text());
    }
    let mut found = &mut command;
    for word in words {
        found = found.find_subcommand_mut(word).ok_or_else(|| {
            let error = anyhow!("there is no topic or command {:?}", words.join(" "));
            Failure::new(Exit::Usage, error).hint("xdrive help lists them")
        })?;
    }
    pager::show(&found.render_long_help().to_string())
}
