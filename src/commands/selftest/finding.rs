//! The results of a selftest: lines as text, and a JSON document.

use std::path::Path;

use anyhow::anyhow;
use serde::Serialize;

use crate::cloud::Place;
use crate::failure::{Exit, Failure};
use crate::report::{self, Label, Text};

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "result")]
pub(super) enum CheckResult {
    Ok {
        /// What was found.
        found: String,
    },
    Failed {
        why: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        hint: Option<String>,
    },
    NotAsked {
        why: String,
    },
}

/// A line of the selftest.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Finding {
    name: &'static str,
    #[serde(flatten)]
    result: CheckResult,
    /// The estimated cost of its host, on the first line of each host.
    #[serde(skip_serializing_if = "Option::is_none")]
    dollars: Option<f64>,
    #[serde(skip)]
    exit: Exit,
}

impl Finding {
    pub(super) fn new(name: &'static str, result: CheckResult) -> Self {
        Self {
            name,
            result,
            dollars: None,
            exit: Exit::Failed,
        }
    }

    pub(super) fn ok(name: &'static str, found: impl Into<String>) -> Self {
        let found = found.into();
        Self::new(name, CheckResult::Ok { found })
    }

    pub(super) fn failed(name: &'static str, why: impl Into<String>, hint: Option<&str>) -> Self {
        let (why, hint) = (why.into(), hint.map(str::to_owned));
        Self::new(name, CheckResult::Failed { why, hint })
    }

    pub(super) fn not_asked(name: &'static str, why: impl Into<String>) -> Self {
        let why = why.into();
        Self::new(name, CheckResult::NotAsked { why })
    }

    pub(super) fn of_failure(name: &'static str, failure: &Failure) -> Self {
        let causes: Vec<String> = failure.error.chain().map(ToString::to_string).collect();
        Self {
            exit: failure.exit,
            ..Self::failed(name, causes.join(": "), failure.hint.as_deref())
        }
    }

    /// The line with the cost of its host.
    pub(super) fn cost(self, dollars: f64) -> Self {
        Self {
            dollars: Some(dollars),
            ..self
        }
    }

    fn text(&self) -> Text {
        let (mark, words, hint) = match &self.result {
            CheckResult::Ok { found } => ("ok", found, None),
            CheckResult::Failed { why, hint } => ("failed", why, hint.as_ref()),
            CheckResult::NotAsked { why } => ("not asked", why, None),
        };
        let words = words.replace('\n', " ");
        let mut text = Text::block(&format!("{mark:9}  {:18}  {words}\n", self.name));
        if let Some(hint) = hint {
            let hint = hint.replace('\n', " ");
            text.push(&format!("{:9}  {:18}  ", "", ""));
            text.push(&Text::labelled(Label::Hint, &hint));
            text.push_line("");
        }
        text
    }
}

/// All lines so far.
#[derive(Debug, Default)]
pub(super) struct Lines(Vec<Finding>);

impl Lines {
    /// Prints a line, and keeps it.
    pub(super) fn add(&mut self, line: Finding) -> Result<(), Failure> {
        let text = line.text();
        self.0.push(line);
        report::data(&text).map_err(|error| anyhow!("cannot write a line: {error}").into())
    }

    pub(super) fn all(&self) -> &[Finding] {
        &self.0
    }

    /// The exit code of the first line that failed.
    pub(super) fn worst(&self) -> Option<Exit> {
        let failed = |line: &&Finding| matches!(line.result, CheckResult::Failed { .. });
        self.0.iter().find(failed).map(|line| line.exit)
    }
}

/// The report; `xdrive selftest --help` describes it.
#[derive(Debug, Serialize)]
pub(super) struct Document<'a> {
    pub(super) version: u32,
    pub(super) xdrive: &'static str,
    pub(super) drives: String,
    pub(super) owner: Option<String>,
    pub(super) region: String,
    pub(super) place: Place,
    pub(super) began: String,
    pub(super) ended: String,
    pub(super) budget_dollars: f64,
    pub(super) spent_dollars: f64,
    pub(super) lines: &'a [Finding],
    pub(super) left: &'a [String],
}

impl Document<'_> {
    pub(super) fn write(&self, path: &Path) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(self).map_err(anyhow::Error::from)? + "\n";
        std::fs::write(path, text).map_err(|error| {
            let path = path.display();
            Failure::from(anyhow!("cannot write the report to {path}: {error}"))
        })
    }
}
