//! `xdrive local setup`, and the offer of it before the first drive.

use std::collections::BTreeMap;
use std::pin::pin;

use crate::cloud::folder;
use crate::commands::{Context, block_on};
use crate::config::Paths;
use crate::failure::{Exit, Failure};
use crate::opener::{ask, can_ask};
use crate::report::{Report, Step, Text};
use crate::signals::{End, Job, Signal, Signals};

/// The cost of the setup, measured on two cores that are not busy with anything else.
const COST: &str = "about two minutes, 250 MB to download, 1 GB to keep";

/// Builds what is not there. Returns the exit code: 0, or that of the signal that ended it.
pub(super) fn run(context: &Context) -> Result<u8, Failure> {
    let paths = context.paths()?;
    block_on(async {
        folder::check_setup(&paths)?;
        let report = Report::stderr();
        let mut signals = Signals::install().map_err(anyhow::Error::from)?;
        if !folder::is_set_up(&paths)? {
            let cache = paths.local_cache.display();
            report.print(&format!("setting up {cache}: {COST}"));
        }
        if let Some(end) = set_up(&paths, &report, &mut signals).await? {
            return Ok(Exit::from(end).code());
        }
        report.print("ready for xdrive --local connect NAME");
        Ok(0)
    })
}

/// Asks at a terminal whether to set this computer up, if it is not, and does it; with `yes` without
/// asking. Returns an exit code if a signal ended that. Without a terminal it does nothing: what
/// needs the setup says so.
pub(in crate::commands) async fn offer(paths: &Paths, yes: bool) -> Result<Option<u8>, Failure> {
    if !(yes || can_ask()) || folder::is_set_up(paths)? {
        return Ok(None);
    }
    folder::check_setup(paths)?;
    let report = Report::stderr();
    let mut signals = Signals::install().map_err(anyhow::Error::from)?;
    report.print(&Text::lines([
        "local drives need a machine tree and an image, built here once:",
        COST,
    ]));
    if !yes && !ask(&mut signals, &report, "build them now? [y/N]", false).await {
        return Ok(None);
    }
    let ended = set_up(paths, &report, &mut signals).await?;
    Ok(ended.map(|end| Exit::from(end).code()))
}

/// Builds what is not there, with a line for each step. Returns what asked for the end, if it came
/// to that.
async fn set_up(
    paths: &Paths,
    report: &Report,
    signals: &mut Signals,
) -> Result<Option<End>, Failure> {
    let mut running: BTreeMap<&str, (Step, String)> = BTreeMap::new();
    let on_progress = |part, words: &str| {
        if let Some((step, words)) = running.remove(part) {
            step.done(&words);
        }
        let words = format!("{part}: {words}");
        if words.contains(": built in ") {
            report.print(&words);
        } else {
            running.insert(part, (report.step(words.clone()), words));
        }
    };
    let stop = async {
        loop {
            match signals.next().await {
                Signal::End(end) => return end,
                // What was begun goes on: it is not the terminal's.
                Signal::Job(Job::Suspend) => report.suspend(),
                Signal::Job(Job::Continue) | Signal::Resize => {}
            }
        }
    };
    let mut ticking = pin!(report.keep_ticking());
    let mut built = pin!(folder::set_up(paths, on_progress, stop));
    let built = loop {
        tokio::select! {
            built = &mut built => break built,
            () = &mut ticking => {}
        }
    };
    if let Ok(Some(_)) = built {
        report.print("interrupted: `xdrive local setup` goes on from here");
    }
    built
}
