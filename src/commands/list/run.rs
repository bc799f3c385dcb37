//! The run of a drive that is begun again where its host is lost, as the list has it.

use jiff::Timestamp;
use serde::Serialize;

use crate::commands::tend::{tended, waiting};
use crate::drive::tags::WantedRun;

/// A run that is wanted.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct WantedRow {
    /// Id of the run.
    run: String,
    /// When the time of all its tries is over, RFC 3339.
    until: String,
    /// Since when its next try waits, RFC 3339, if it could not begin.
    #[serde(skip_serializing_if = "Option::is_none")]
    waits_since: Option<String>,
    /// Why it could not; in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    /// When somebody last looked after it (`xdrive tend`), RFC 3339, some minutes late.
    #[serde(skip_serializing_if = "Option::is_none")]
    tended: Option<String>,
    /// All that, in words.
    #[serde(skip)]
    pub(super) line: String,
}

impl WantedRow {
    /// The row of the run of a drive that is in this `state`; `command` is how xdrive is called.
    pub(super) fn new(run: &WantedRun, state: &str, now: Timestamp, command: &str) -> Self {
        let id = run.id.as_str();
        let line = if state == "running" {
            let who = tended(run, now).unwrap_or_else(|| {
                format!("by its session while that is there, else by {command} tend")
            });
            format!("run {id} is begun again if EC2 takes the instance; {who}")
        } else {
            format!("run {id} {}", waiting(run, now, command))
        };
        let printed = |at: &Timestamp| format!("{at:.0}");
        Self {
            run: id.to_owned(),
            until: printed(&run.until),
            waits_since: run.waits.as_ref().map(|(since, _)| printed(since)),
            why: run.waits.as_ref().map(|(_, why)| why.clone()),
            tended: run.tended.as_ref().map(printed),
            line,
        }
    }
}
