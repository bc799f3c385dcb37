//! Medians, as a table.

use std::fmt;
use std::time::Duration;

use harness::bench::Spread;
use harness::bench::parts::Session;

/// All measurements, session by session.
#[derive(Default)]
pub(crate) struct Table {
    rows: Vec<Row>,
}

/// A kind of session, over all rounds.
struct Row {
    name: &'static str,
    parts: Vec<Session>,
    /// The program's connects and saves, in the same order.
    whole: Vec<[Duration; 2]>,
}

impl Table {
    /// Adds a session of both sides.
    pub(crate) fn add(&mut self, name: &'static str, parts: Session, whole: &Session) {
        let times = [whole.connect, whole.save];
        if let Some(row) = self.rows.iter_mut().find(|row| row.name == name) {
            row.parts.push(parts);
            row.whole.push(times);
        } else {
            self.rows.push(Row {
                name,
                parts: vec![parts],
                whole: vec![times],
            });
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rounds = self.rows.first().map_or(0, |row| row.parts.len());
        writeln!(
            f,
            "\nseconds, medians of {rounds} rounds; own: median (lowest to highest)\n"
        )?;
        writeln!(
            f,
            "{:<42} {:>7} {:>7} {:>6} {:>22}",
            "", "parts", "xdrive", "ratio", "xdrive's own"
        )?;
        for (index, what) in ["connect", "save"].into_iter().enumerate() {
            for row in &self.rows {
                line(f, &format!("{what}: {}", row.name), &row.pairs(index))?;
            }
        }
        writeln!(
            f,
            "\nthe parts, step by step ([…]: beside the steps before it)\n"
        )?;
        for row in &self.rows {
            let connects: Vec<_> = row.parts.iter().map(|one| &one.connect_steps).collect();
            steps(f, &format!("connect: {}", row.name), &connects)?;
            let saves: Vec<_> = row.parts.iter().map(|one| &one.save_steps).collect();
            steps(f, &format!("save: {}", row.name), &saves)?;
        }
        Ok(())
    }
}

impl Row {
    /// (parts, program) in seconds, round by round.
    fn pairs(&self, index: usize) -> Vec<(f64, f64)> {
        let parts = self.parts.iter().map(|one| [one.connect, one.save][index]);
        parts
            .zip(&self.whole)
            .map(|(parts, whole)| (parts.as_secs_f64(), whole[index].as_secs_f64()))
            .collect()
    }
}

fn line(f: &mut fmt::Formatter<'_>, name: &str, pairs: &[(f64, f64)]) -> fmt::Result {
    let parts = Spread::from_values(pairs.iter().map(|(parts, _)| *parts)).median;
    let whole = Spread::from_values(pairs.iter().map(|(_, whole)| *whole)).median;
    let own = Spread::from_values(pairs.iter().map(|(parts, whole)| whole - parts));
    writeln!(
        f,
        "{name:<42} {parts:>7.2} {whole:>7.2} {:>6.2} {:>6.2} ({:>5.2} to {:>5.2})",
        whole / parts,
        own.median,
        own.lowest,
        own.highest
    )
}

/// Steps in the order of the first round; one that is missing in a round counts as zero there.
fn steps(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    rounds: &[&Vec<(String, Duration)>],
) -> fmt::Result {
    let Some(first) = rounds.first() else {
        return Ok(());
    };
    write!(f, "{name}\n ")?;
    for (step, _) in *first {
        let took = rounds.iter().map(|round| {
            let found = round.iter().find(|(name, _)| name == step);
            found.map_or(0.0, |(_, took)| took.as_secs_f64())
        });
        write!(f, " {step} {:.2}", Spread::from_values(took).median)?;
    }
    writeln!(f)
}
