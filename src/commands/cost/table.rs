//! The costs as text: a line a drive, or a line a day.

use std::fmt::Write as _;

use jiff::civil::Date;

use crate::launch::ledger::{Bounds, Costs, Kind, Ledger};
use crate::report::one_line;

/// A line: its name, the cost by kind, and in all.
type Line = (String, Costs, Bounds);

/// Amounts of less than so many dollars in all are shown with four digits after the point, others with two.
const SMALL: f64 = 1.0;

/// The name of the last line.
const IN_ALL: &str = "in all";

/// The table of several drives, since that day.
pub(super) fn of_drives(drives: &[(String, Ledger)], since: Date) -> String {
    let lines = drives.iter();
    let lines = lines.map(|(name, ledger)| (one_line(name), ledger.costs(), ledger.sum()));
    let lines: Vec<Line> = lines.collect();
    let costs = lines.iter().map(|(_, costs, _)| *costs).sum();
    let sum = lines.iter().map(|(.., sum)| *sum).sum();
    let all = (IN_ALL.to_owned(), costs, sum);
    let lines = if lines.len() > 1 {
        [lines, vec![all.clone()]].concat()
    } else {
        lines
    };
    table("drive", &lines, &all) + &notes_below(&all, since, &notes(drives, false))
}

/// The table of one drive by these `rows`, which are its days or weeks, since that day.
pub(super) fn of_days(ledger: &Ledger, rows: &[(Date, Costs)], since: Date) -> String {
    let lines = rows.iter();
    let lines = lines.map(|(day, costs)| (day.to_string(), *costs, costs.sum()));
    // Before there was anything of the drive.
    let mut lines: Vec<Line> = lines
        .skip_while(|(_, costs, _)| *costs == Costs::default())
        .collect();
    let all = (IN_ALL.to_owned(), ledger.costs(), ledger.sum());
    lines.push(all.clone());
    let is_weekly = rows.len() < ledger.days.len();
    let first = if is_weekly { "week from" } else { "day" };
    let unknown: Vec<String> = ledger.unknown.iter().map(ToString::to_string).collect();
    table(first, &lines, &all) + &notes_below(&all, since, &unknown)
}

/// The gaps in what is known of these drives, a line each; with their names unless it `is_one`.
pub(super) fn notes(drives: &[(String, Ledger)], is_one: bool) -> Vec<String> {
    let of_drive = |(name, ledger): &(String, Ledger)| {
        let before = if is_one {
            String::new()
        } else {
            format!("{}: ", one_line(name))
        };
        let lines = ledger.unknown.iter();
        lines
            .map(|gap| format!("{before}{gap}"))
            .collect::<Vec<_>>()
    };
    drives.iter().flat_map(of_drive).collect()
}

/// An amount with so many digits after the point: one, the bounds of one, or what it is more than.
pub(super) fn amount(bounds: Bounds, digits: usize) -> String {
    let [least, most] = [bounds.least, bounds.most].map(|it| format!("{it:.digits$}"));
    if bounds == Bounds::default() {
        "-".to_owned()
    } else if bounds.is_open {
        format!("${least}+")
    } else if least == most {
        format!("${least}")
    } else {
        format!("${least}–{most}")
    }
}

/// How many digits after the point amounts have beside this sum of them.
pub(super) fn digits(sum: Bounds) -> usize {
    if sum.most < SMALL { 4 } else { 2 }
}

/// The lines in columns: their names, and those kinds of which `all` has something.
fn table(first: &str, lines: &[Line], all: &Line) -> String {
    let (_, of_all, sum) = all;
    let digits = digits(*sum);
    let kinds: Vec<Kind> = Kind::ALL
        .into_iter()
        .filter(|kind| of_all[*kind] != Bounds::default())
        .collect();
    let mut header = vec![first.to_owned()];
    header.extend(kinds.iter().map(|kind| kind.as_str().to_owned()));
    header.push("sum".to_owned());
    let mut rows = vec![header];
    for (name, costs, sum) in lines {
        let mut row = vec![name.clone()];
        row.extend(kinds.iter().map(|kind| amount(costs[*kind], digits)));
        row.push(amount(*sum, digits));
        rows.push(row);
    }
    let widest = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..rows[0].len()).map(widest).collect();
    let mut text = String::new();
    for row in &rows {
        let name = widths[0];
        let _ = write!(text, "{:name$}", row[0]);
        for (cell, width) in row.iter().zip(&widths).skip(1) {
            let _ = write!(text, "  {cell:>width$}");
        }
        text.push('\n');
    }
    text
}

/// The lines below a table: since when it is, how to read it, and what is not known.
fn notes_below((_, costs, sum): &Line, since: Date, unknown: &[String]) -> String {
    let mut text = format!("\nsince {since}, in UTC\n");
    let snapshots = costs[Kind::Snapshots];
    if snapshots.least < snapshots.most {
        text.push_str("snapshots share blocks: from the largest alone to each for itself\n");
    }
    if sum.is_open {
        text.push_str("+ is at least, because something is not known:\n");
    }
    for line in unknown {
        let _ = writeln!(text, "  {line}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::ledger::Unknown;

    fn costs(amounts: &[(Kind, f64, f64)]) -> Costs {
        let mut costs = Costs::default();
        for (kind, least, most) in amounts {
            costs[*kind] = Bounds::between(*least, *most);
        }
        costs
    }

    fn day(number: i8) -> Date {
        Date::constant(2026, 11, number)
    }

    fn ledger() -> Ledger {
        let up = costs(&[
            (Kind::Spot, 1.5, 1.5),
            (Kind::Addresses, 0.06, 0.06),
            (Kind::Disks, 0.2, 0.2),
            (Kind::Snapshots, 0.01, 0.02),
        ]);
        let asleep = costs(&[(Kind::Snapshots, 0.02, 0.04)]);
        Ledger {
            days: vec![(day(1), Costs::default()), (day(2), up), (day(3), asleep)],
            unknown: Vec::new(),
        }
    }

    #[test]
    fn one_drive_is_shown_day_by_day() {
        let ledger = ledger();
        assert_eq!(
            of_days(&ledger, &ledger.days, day(1)),
            "\
day          spot  addresses  disks   snapshots         sum
2026-11-02  $1.50      $0.06  $0.20  $0.01–0.02  $1.77–1.78
2026-11-03      -          -      -  $0.02–0.04  $0.02–0.04
in all      $1.50      $0.06  $0.20  $0.03–0.06  $1.79–1.82

since 2026-11-01, in UTC
snapshots share blocks: from the largest alone to each for itself
"
        );
        let weeks = of_days(&ledger, &ledger.days[1..2], day(1));
        assert!(weeks.starts_with("week from "), "{weeks}");
    }

    #[test]
    fn drives_are_shown_with_their_sum_and_gaps_make_it_the_least() {
        let gone = Ledger {
            days: vec![(day(1), costs(&[(Kind::OnDemand, 0.25, 0.25)]))],
            unknown: vec![Unknown::Deleted([3, 4].into_iter().collect())],
        };
        let hostile = "x\u{1b}[2J\n";
        let drives = [("demo".to_owned(), ledger()), (hostile.to_owned(), gone)];
        assert_eq!(
            of_drives(&drives, day(1)),
            "\
drive    spot  on demand  addresses  disks   snapshots         sum
demo    $1.50          -      $0.06  $0.20  $0.03–0.06  $1.79–1.82
x?[2J?      -      $0.25          -      -           -      $0.25+
in all  $1.50      $0.25      $0.06  $0.20  $0.03–0.06      $2.04+

since 2026-11-01, in UTC
snapshots share blocks: from the largest alone to each for itself
+ is at least, because something is not known:
  x?[2J?: no snapshot is left of generations 3–4: what they cost is not known
"
        );
        let text = of_drives(&drives[1..], day(1));
        assert!(
            !text.contains(IN_ALL) && text.contains("$0.2500+"),
            "{text}"
        );
    }
}
