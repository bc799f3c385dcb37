//! The user's browser, on this computer.

use std::process::Stdio;

use tokio::process::Command;

use crate::report::Report;

/// The program that opens an address as the user would have it.
const OPENER: &str = if cfg!(target_os = "macos") {
    "open"
} else {
    "xdg-open"
};

/// Opens `url` in the browser, beside the session. A failure is printed, and costs nothing.
pub(super) fn open(url: String, report: &Report) {
    let report = report.clone();
    tokio::spawn(async move {
        let mut command = Command::new(OPENER);
        command
            .arg(url)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let why = match command.status().await {
            Ok(status) if status.success() => return,
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        };
        report.warn(&format!("no browser was opened: {OPENER}: {why}"));
    });
}
