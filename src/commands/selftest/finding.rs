//! The results of a selftest: lines as text, and a JSON document.

use std::path::Path;

use anyhow::anyhow;
use serde::Serialize;

use crate::cloud::Place;
use crate::failure::{Exit, Failure};
use crate::report::{self, Label, Text};

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", tag = "result")]
pub(super) enum CheckResult {
    /// The check passed.
    Ok {
        /// Finding.
        found: String,
    },
    /// The check failed.
    Failed {
        /// Reason.
        why: String,
        /// Advice.
        #[serde(skip_serializing_if = "Option::is_none")]
        hint: Option<String>,
    },
    /// The check could not be made here.
    NotAsked {
        /// Reason.
        why: String,
    },
}

/// A line of the selftest.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Finding {
    /// Name of the check.
    name: &'static str,
    #[serde(flatten)]
    result: CheckResult,
    /// Cost of its instance in US dollars, about; on the first line of each.
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
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Document<'a> {
    /// Version of this format.
    #[cfg_attr(test, schemars(extend("const" = 1)))]
    pub(super) version: u32,
    /// Version of the program.
    pub(super) xdrive: &'static str,
    /// Beginning of the names of its drives.
    pub(super) drives: String,
    /// Owner of the credentials; null if that was not found out.
    pub(super) owner: Option<String>,
    /// Region.
    pub(super) region: String,
    /// EC2 that was asked.
    pub(super) place: Place,
    /// When it began, RFC 3339.
    pub(super) began: String,
    /// When it ended, RFC 3339.
    pub(super) ended: String,
    /// Most that it might spend, in US dollars.
    pub(super) budget_dollars: f64,
    /// Money that it spent, about, in US dollars.
    pub(super) spent_dollars: f64,
    /// Each check, in the order they were made.
    pub(super) lines: &'a [Finding],
    /// Ids of what is still billed.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_the_committed_schema() {
        let (title, description) = ("xdrive selftest --json FILE", "The report of a selftest.");
        crate::report::schema::check::<Document>("selftest", title, description);
    }
}
