//! What is compared, and the table of it.

use std::fmt;

use harness::bench::Spread;

/// A value of both sides.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
    /// The ratio that is the goal.
    pub(crate) goal: f64,
    /// Whether that is the least.
    pub(crate) is_least: bool,
}

/// The values of xdrive and OpenSSH, round by round.
pub(crate) struct Table {
    rows: &'static [Row],
    rounds: Vec<[Vec<f64>; 2]>,
}

/// A row whose value should be large.
pub(crate) const fn more(name: &'static str, unit: &'static str, goal: f64) -> Row {
    Row {
        name,
        unit,
        goal,
        is_least: true,
    }
}

/// A row whose value should be small.
pub(crate) const fn less(name: &'static str, unit: &'static str, goal: f64) -> Row {
    Row {
        is_least: false,
        ..more(name, unit, goal)
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
        let mut table = Self {
            rows,
            rounds: Vec::new(),
        };
        for round in 0..rounds {
            let first = round % 2;
            let mut values = [Vec::new(), Vec::new()];
            for side in [first, 1 - first] {
                values[side] = one(side)?;
            }
            eprintln!("round {} of {rounds}", round + 1);
            table.rounds.push(values);
        }
        Ok(table)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\nmedians of {} rounds; ratio: median (lowest to highest)\n\n\
             {:<38} {:>6} {:>9} {:>9} {:>22} {:>8}",
            self.rounds.len(),
            "",
            "",
            "OpenSSH",
            "xdrive",
            "ratio",
            "goal"
        )?;
        for (index, row) in self.rows.iter().enumerate() {
            let median = |side: usize| {
                let values = self.rounds.iter().map(|round| round[side][index]);
                Spread::of(values).median
            };
            let ratios = self
                .rounds
                .iter()
                .map(|round| round[0][index] / round[1][index]);
            let (ours, theirs, ratio) = (median(0), median(1), Spread::of(ratios));
            let sign = if row.is_least { '≥' } else { '≤' };
            let digits = if ours < 10.0 { 2 } else { 0 };
            writeln!(
                f,
                "{:<38} {:>6} {theirs:>9.digits$} {ours:>9.digits$} {ratio:>22} {:>8}",
                row.name,
                row.unit,
                format!("{sign} {}", row.goal)
            )?;
        }
        Ok(())
    }
}
