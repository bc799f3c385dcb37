//! The spread of several rounds.

use std::fmt;

/// The spread of one value over several rounds.
#[derive(Debug, Clone, Copy)]
pub struct Spread {
    /// The middle one, or the mean of the two in the middle.
    pub median: f64,
    pub lowest: f64,
    pub highest: f64,
}

impl Spread {
    /// Of at least one value.
    pub fn from_values(values: impl Iterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        let median = if values.len() % 2 == 1 {
            values[middle]
        } else {
            f64::midpoint(values[middle - 1], values[middle])
        };
        Self {
            median,
            lowest: values[0],
            highest: values[values.len() - 1],
        }
    }

    /// The goal, and whether the median is within it.
    pub fn against(&self, goal: f64) -> String {
        verdict(goal, self.median <= goal)
    }

    /// The goal of a value that should be large, and whether the median reaches it.
    pub fn against_least(&self, goal: f64) -> String {
        verdict(goal, self.median >= goal)
    }
}

/// The median, the least and the greatest.
impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            median,
            lowest,
            highest,
        } = self;
        f.pad(&format!("{median:.2} ({lowest:.2} to {highest:.2})"))
    }
}

fn verdict(goal: f64, is_met: bool) -> String {
    format!("{goal:?}, {}", if is_met { "met" } else { "missed" })
}
