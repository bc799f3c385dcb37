//! The critical path: the steps that must follow each other, and the least time of each.
//!
//! AWS's delays are the table's, the rest are the parts' times without delays. The machine boots
//! when its state is `running`; the volume is made meanwhile.

use std::time::Duration;

use anyhow::Context as _;
use xdrive::local::{Delays, Preset};

use harness::bench::parts::Session;

/// A step of the path.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line {
    pub(crate) what: &'static str,
    pub(crate) took: Duration,
}

/// The path of one round.
#[derive(Debug, Clone)]
pub(crate) struct Path {
    /// From Enter to the prompt.
    pub(crate) connect: Vec<Line>,
    /// From `exit` to the instance shutting down.
    pub(crate) terminating: Vec<Line>,
    /// From `exit` to nothing but a completed snapshot.
    pub(crate) saved: Vec<Line>,
}

impl Path {
    /// The path by the parts' times of a session, and AWS's delays.
    pub(crate) fn new(alone: &Session, delays: &Delays) -> anyhow::Result<Self> {
        let connecting = |name| step(&alone.connect_steps, name);
        let saving = |name| step(&alone.save_steps, name);
        let in_order = alone.connect_steps.iter();
        let in_order = in_order.filter(|(name, _)| !name.starts_with('['));
        let before_the_command: Duration = in_order.map(|(_, took)| *took).sum();
        // The parts' machine is `pending` too, for a moment.
        let boot = connecting("boot")?.saturating_sub(Delays::new(Preset::Fast).running);
        let line = |what, took| Line { what, took };
        Ok(Self {
            connect: vec![
                line("launch", connecting("open")? + connecting("launch")?),
                line("pending", delays.running),
                line("boot", boot),
                line("attach", delays.attached),
                line("mount", connecting("mount")?),
                line("container", connecting("container")?),
                line(
                    "first command",
                    alone.connect.saturating_sub(before_the_command),
                ),
            ],
            terminating: vec![
                line("close", saving("close")?),
                line("snapshot", saving("snapshot")?),
                line("terminate", saving("terminate")?),
            ],
            saved: vec![
                line("the parts' whole save", alone.save),
                line("snapshot pending", delays.completed),
            ],
        })
    }
}

/// The sum of the steps, in seconds.
pub(crate) fn seconds(lines: &[Line]) -> f64 {
    let sum: Duration = lines.iter().map(|line| line.took).sum();
    sum.as_secs_f64()
}

fn step(steps: &[(String, Duration)], name: &str) -> anyhow::Result<Duration> {
    let found = steps.iter().find(|(step, _)| step == name);
    let (_, took) = found.with_context(|| format!("the parts have no step {name:?}"))?;
    Ok(*took)
}
