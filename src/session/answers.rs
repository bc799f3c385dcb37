//! The answers to what a user asks a session for, by `~` and a key.

use std::io::IsTerminal as _;

use super::along::Along;
use super::container::ContainerSession;
use super::forwards::Forwards;
use super::request::Request;
use super::throwaway;
use crate::attached::Output;
use crate::cloud::Cloud;
use crate::ec2::Instance;
use crate::opener::Cost;
use crate::report::harmless;
use crate::ssh::escape::{Answers, Question};

/// The cost of a session on `instance`, if that can be asked for: without a terminal there is no `~$`.
pub(super) fn ask_cost(request: &Request, instance: &Instance, cloud: &Cloud) -> Option<Cost> {
    std::io::stdin()
        .is_terminal()
        .then(|| Cost::ask(instance, &request.drive, &cloud.ec2, &cloud.clock))
}

/// Why `~f` does nothing in a session without `--freeze`.
const NO_FREEZE: &str = "only what was begun with --freeze can be frozen";

/// The answers to what the user asks the terminal for, by `~` and a key.
pub(super) fn answers(
    request: &Request,
    list: impl Fn() -> String + Send + 'static,
    table: Forwards,
    shown: Output,
    cost: Option<Cost>,
) -> Answers {
    let discards = request.options.config.once.discard;
    let freezes = request.options.launch.may_freeze();
    let answer = move |question| match question {
        Question::Detach | Question::Freeze if discards => throwaway::STAYS.to_owned(),
        Question::Freeze if !freezes => NO_FREEZE.to_owned(),
        Question::Detach | Question::Freeze => String::new(),
        Question::Forwards => list(),
        Question::Prompt => table.prompt(),
        Question::Line(line) => table.obey(&line, &shown),
        Question::Cost => cost.as_ref().map_or_else(String::new, Cost::text),
    };
    // Shown in the shell's terminal, by no report.
    Box::new(move |question| harmless(&answer(question)))
}

/// A function that lists the forwarded ports, the agent and the credentials, a line each.
pub(super) fn lister(
    inside: &ContainerSession,
    forwards: &Forwards,
    along: &Along,
) -> impl Fn() -> String + Send + use<> {
    let jupyter = inside.jupyter_line();
    let forwards = forwards.clone();
    let along = along.lines();
    move || {
        let others = forwards.lines();
        let others = (!others.is_empty()).then_some(others);
        let lines = jupyter().into_iter().chain(others).chain(along.clone());
        let lines: Vec<String> = lines.collect();
        if lines.is_empty() {
            return "nothing is forwarded".to_owned();
        }
        lines.join("\n")
    }
}
