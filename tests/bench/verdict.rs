//! The results of all rounds, beside the goals.

use std::fmt;

use super::path::{Line, Path, seconds};
use super::sessions::Took;
use harness::bench::Spread;

/// The allowed seconds over the path: to the prompt, to the instance shutting down.
const GOALS: [f64; 2] = [1.0, 0.5];

/// The measurements of a round.
pub(crate) struct Round {
    pub(crate) path: Path,
    pub(crate) xdrive: Took,
    pub(crate) by_hand: Took,
}

impl Round {
    /// (path, xdrive, by hand) in seconds, to the prompt and to the instance shutting down.
    fn times(&self) -> [[f64; 3]; 2] {
        let of = |took: Took| [took.connect.as_secs_f64(), took.terminating.as_secs_f64()];
        let path = [seconds(&self.path.connect), seconds(&self.path.terminating)];
        let (xdrive, by_hand) = (of(self.xdrive), of(self.by_hand));
        [0, 1].map(|index| [path[index], xdrive[index], by_hand[index]])
    }
}

impl fmt::Display for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [connect, terminating] = self.times();
        let [path, xdrive, by_hand] = connect;
        write!(
            f,
            "connect: path {path:.2} s, xdrive {xdrive:.2} s, by hand {by_hand:.2} s; "
        )?;
        let [path, xdrive, by_hand] = terminating;
        write!(
            f,
            "to terminating: path {path:.2} s, xdrive {xdrive:.2} s, by hand {by_hand:.2} s"
        )
    }
}

/// All rounds.
#[derive(Default)]
pub(crate) struct Verdict {
    rounds: Vec<Round>,
}

impl Verdict {
    /// Adds a round.
    pub(crate) fn add(&mut self, round: Round) {
        self.rounds.push(round);
    }

    fn spread(&self, value: impl Fn(&Round) -> f64) -> Spread {
        Spread::from_values(self.rounds.iter().map(value))
    }

    /// Writes a line of the table: path, xdrive and by hand, and how xdrive compares.
    fn row(&self, f: &mut fmt::Formatter<'_>, index: usize, name: &str) -> fmt::Result {
        let time = |side: usize| self.spread(|round| round.times()[index][side]);
        let over = self.spread(|round| {
            let [path, xdrive, _] = round.times()[index];
            xdrive - path
        });
        let ratio = self.spread(|round| {
            let [_, xdrive, by_hand] = round.times()[index];
            by_hand / xdrive
        });
        writeln!(
            f,
            "{name:<28} {:>8} {:>22} {:>24} {:>20} {:>14} {:>16}",
            format!("{:.2}", time(0).median),
            time(1),
            time(2),
            over,
            over.against(GOALS[index]),
            ratio,
        )
    }

    /// The path, line by line: medians.
    fn path(
        &self,
        f: &mut fmt::Formatter<'_>,
        name: &str,
        lines: impl Fn(&Path) -> &[Line],
    ) -> fmt::Result {
        let Some(first) = self.rounds.first() else {
            return Ok(());
        };
        writeln!(f, "{name}")?;
        for (index, line) in lines(&first.path).iter().enumerate() {
            let took = self.spread(|round| lines(&round.path)[index].took.as_secs_f64());
            writeln!(f, "  {:<30} {:>6.2}", line.what, took.median)?;
        }
        let sum = self.spread(|round| seconds(lines(&round.path)));
        writeln!(f, "  {:<30} {:>6.2}", "together", sum.median)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.rounds.is_empty() {
            return Ok(());
        }
        writeln!(
            f,
            "\nseconds with AWS-like delays, medians of {} rounds (lowest to highest)\n",
            self.rounds.len()
        )?;
        writeln!(
            f,
            "{:<28} {:>8} {:>22} {:>24} {:>20} {:>14} {:>16}",
            "", "path", "xdrive", "by hand", "xdrive over path", "goal", "by hand/xdrive"
        )?;
        self.row(f, 0, "Enter to prompt")?;
        self.row(f, 1, "exit to terminating")?;
        let saved = |side: fn(&Round) -> Took| self.spread(|round| side(round).saved.as_secs_f64());
        writeln!(
            f,
            "{:<28} {:>8.2} {:>22} {:>24}",
            "exit to saved, tidied up",
            self.spread(|round| seconds(&round.path.saved)).median,
            saved(|round| round.xdrive),
            saved(|round| round.by_hand)
        )?;
        writeln!(f, "\nthe path, step by step (medians)\n")?;
        self.path(f, "Enter to prompt", |path| &path.connect)?;
        self.path(f, "exit to terminating", |path| &path.terminating)
    }
}
