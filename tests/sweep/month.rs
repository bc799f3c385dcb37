//! A drive in use, session after session, and its checks after a bad one.

use anyhow::{Context as _, ensure};

use crate::journal::{Journal, READ, WRITE};
use crate::points::{self, Passed};
use crate::running::Ended;
use crate::site::Site;

/// A drive, and its expected journal.
#[derive(Clone)]
pub(crate) struct Month {
    pub(crate) drive: String,
    journal: Journal,
}

impl Month {
    /// A drive that does not exist yet.
    pub(crate) fn new(drive: String) -> Self {
        Self {
            drive,
            journal: Journal::default(),
        }
    }

    /// How many lines it holds.
    pub(crate) fn lines(&self) -> usize {
        self.journal.len()
    }

    /// Runs an undisturbed session; the points that it passes.
    pub(crate) fn reference_run(
        &mut self,
        site: &Site,
        what: &[&str],
    ) -> anyhow::Result<Vec<Passed>> {
        let trace = site.path("trace");
        let tag = format!("reference-{}", self.lines());
        let command = [&["sh", "-c", WRITE, &tag], what].concat();
        let ended = site.session(&self.drive, &command, Some((&trace, None)))?;
        ensure!(ended.code == 0, "the reference run failed: {ended:?}");
        let passed = points::read(&trace)?;
        std::fs::remove_file(&trace)?;
        self.recover(site, &tag, &ended)?;
        Ok(passed)
    }

    /// Runs another session after one that wrote as `tag`: it succeeds, every acknowledged line is
    /// there, and only snapshots are left.
    pub(crate) fn recover(
        &mut self,
        site: &Site,
        tag: &str,
        before: &Ended,
    ) -> anyhow::Result<Ended> {
        let read = site.session(&self.drive, &["sh", "-c", READ], None)?;
        let both_runs = || {
            format!(
                "before: {}\n{}next: {}\n{}",
                before.code, before.stderr, read.code, read.stderr
            )
        };
        ensure!(read.code == 0, "the next run failed\n{}", both_runs());
        self.journal
            .check(tag, &before.stdout, &read.stdout)
            .with_context(both_runs)?;
        let left = site.left()?;
        ensure!(
            left.is_empty(),
            "left: {}\n{}",
            left.join("\n"),
            both_runs()
        );
        Ok(read)
    }
}
