//! The comparison of xdrive with OpenSSH, and its table.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::ensure;

use harness::bench::Spread;

/// A value of both sides.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
    goal: Goal,
}

/// The goal of a value.
enum Goal {
    /// The least ratio.
    Least(f64),
    /// The greatest ratio.
    Most(f64),
    /// The greatest value of xdrive's own, in the row's unit.
    OwnMost(f64),
    /// No goal: the value is only shown.
    None,
}

/// The values of xdrive and OpenSSH, round by round.
pub(crate) struct Table {
    rows: &'static [Row],
    rounds: Vec<[Vec<f64>; 2]>,
    took: Duration,
}

/// A row whose ratio should be large.
pub(crate) const fn more(name: &'static str, unit: &'static str, least: f64) -> Row {
    let goal = Goal::Least(least);
    Row { name, unit, goal }
}

/// A row whose ratio should be small.
pub(crate) const fn less(name: &'static str, unit: &'static str, most: f64) -> Row {
    let goal = Goal::Most(most);
    Row { name, unit, goal }
}

/// A row whose value of xdrive's should be small, whatever OpenSSH's is.
pub(crate) const fn at_most(name: &'static str, unit: &'static str, most: f64) -> Row {
    let goal = Goal::OwnMost(most);
    Row { name, unit, goal }
}

/// A row without a goal.
pub(crate) const fn shown(name: &'static str, unit: &'static str) -> Row {
    let goal = Goal::None;
    Row { name, unit, goal }
}

impl Goal {
    /// The goal, and whether it is met by the medians of xdrive's values and of the ratios.
    fn against(&self, own: f64, ratio: f64) -> (String, &'static str) {
        let (text, is_met) = match self {
            Self::Least(least) => (format!("≥ {least:?}"), ratio >= *least),
            Self::Most(most) => (format!("≤ {most:?}"), ratio <= *most),
            Self::OwnMost(most) => (format!("own ≤ {most:.0}"), own <= *most),
            Self::None => return (String::new(), ""),
        };
        (text, if is_met { "met" } else { "missed" })
    }
}

impl Table {
    /// Measures `rows` in so many rounds: `one` returns the values of xdrive (0) or OpenSSH (1). They
    /// take turns in being the first.
    pub(crate) fn measured(
        rows: &'static [Row],
        rounds: usize,
        mut one: impl FnMut(usize) -> anyhow::Result<Vec<f64>>,
    ) -> anyhow::Result<Self> {
        let began = Instant::now();
        let mut all = Vec::new();
        for round in 0..rounds {
            let first = round % 2;
            let mut values = [Vec::new(), Vec::new()];
            for side in [first, 1 - first] {
                values[side] = one(side)?;
                ensure!(values[side].len() == rows.len(), "a value without a row");
            }
            eprintln!("round {} of {rounds}", round + 1);
            all.push(values);
        }
        Ok(Self {
            rows,
            rounds: all,
            took: began.elapsed(),
        })
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\nmedians of {} rounds ({} s); ratio: median (lowest to highest)\n\n\
             {:<40} {:>6} {:>9} {:>9} {:>22} {:>10} {:>7}",
            self.rounds.len(),
            self.took.as_secs(),
            "",
            "",
            "OpenSSH",
            "xdrive",
            "ratio",
            "goal",
            ""
        )?;
        for (index, row) in self.rows.iter().enumerate() {
            let median = |side: usize| {
                let values = self.rounds.iter().map(|round| round[side][index]);
                Spread::from_values(values).median
            };
            let ratios = self
                .rounds
                .iter()
                .map(|round| round[0][index] / round[1][index]);
            let (ours, theirs, ratio) = (median(0), median(1), Spread::from_values(ratios));
            let (goal, met) = row.goal.against(ours, ratio.median);
            let digits = if ours < 10.0 { 2 } else { 0 };
            writeln!(
                f,
                "{:<40} {:>6} {theirs:>9.digits$} {ours:>9.digits$} {ratio:>22} {goal:>10} {met:>7}",
                row.name, row.unit,
            )?;
        }
        Ok(())
    }
}
