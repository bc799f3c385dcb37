//! The list as a table for a terminal, a line a drive.

use std::fmt::Write as _;

use comfy_table::ColumnConstraint::ContentWidth;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use jiff::Timestamp;

use super::{BACKUP, Entry, INSTANCE, ROOT_DISK, Row, SNAPSHOT};
use crate::report::{Text, ToText as _, Tone, one_line};

const HEADER: [&str; COLUMNS] = [
    "drive", "state", "where", "gen", "size", "age", "a month", "an hour",
];

const COLUMNS: usize = 8;

/// The tones of states; the others are as quiet as what they stand for.
const TONES: [(&str, Tone); 5] = [
    ("running", Tone::Good),
    ("throwaway", Tone::Notable),
    ("saving", Tone::Notable),
    ("volume", Tone::Notable),
    ("failed", Tone::Bad),
];

/// The columns that words may be broken in: the name, and where it is.
const NAME: usize = 0;
const WHERE: usize = 2;

/// The table of these drives, at most `width` columns wide unless names are longer than that.
pub(super) fn table(entries: &[Entry], width: u16, now: Timestamp) -> Text {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(width)
        .set_header(HEADER);
    for entry in entries {
        table.add_row(entry.cells(now));
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        let gap = if index + 1 == COLUMNS { 0 } else { 2 };
        column.set_padding((0, gap));
        if index != NAME && index != WHERE {
            column.set_constraint(ContentWidth);
        }
        if index > WHERE {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut shown = with_tones(&table.trim_fmt());
    let mut text = "\n".to_owned();
    if entries.len() > 1 {
        let sum = |of: fn(&Entry) -> f64| entries.iter().map(of).fold(0.0, std::ops::Add::add);
        let month = sum(|entry| entry.dollars_a_month);
        let _ = write!(text, "\nin all at most ${month:.2} a month");
        let hour = sum(|entry| entry.dollars_an_hour);
        if hour > 0.0 {
            let _ = write!(text, ", and ${hour:.4} an hour for what runs");
        }
        text.push('\n');
    }
    if entries.iter().any(Entry::has_unknown_price) {
        text.push_str("\n? is a price that is not known, and in no sum\n");
    }
    for entry in entries {
        if let Some(advice) = &entry.advice {
            let _ = writeln!(text, "\n{}: {advice}", one_line(&entry.drive));
        }
    }
    for entry in entries {
        if let Some(run) = &entry.run {
            let _ = writeln!(text, "\n{}: {}", one_line(&entry.drive), run.line);
        }
    }
    let backups = entries.iter().filter_map(Entry::backups);
    text.extend(backups.map(|line| format!("\n{line}\n")));
    shown.push(&Text::block(&text));
    shown
}

/// The lines of a table with its states in their tones.
fn with_tones(lines: &str) -> Text {
    let at = lines.find(HEADER[1]).unwrap_or_default();
    let mut text = Text::default();
    for (index, line) in lines.lines().enumerate() {
        if index > 0 {
            text.push_line("");
        }
        let (before, rest) = line.split_at_checked(at).unwrap_or((line, ""));
        match TONES.iter().find(|(state, _)| rest.starts_with(state)) {
            Some((state, tone)) => {
                text.push(before);
                text.push(&Text::toned(state, *tone));
                text.push(&rest[state.len()..]);
            }
            None => text.push(line),
        }
    }
    text
}

/// A state in its tone.
pub(super) fn toned(state: &str) -> Text {
    let found = TONES.iter().find(|(known, _)| *known == state);
    found.map_or_else(|| state.to_text(), |(_, tone)| Text::toned(state, *tone))
}

impl Entry {
    fn cells(&self, now: Timestamp) -> [String; COLUMNS] {
        let is_drive = |row: &&Row| row.kind != ROOT_DISK && row.kind != INSTANCE;
        let gib = self
            .things
            .iter()
            .filter(is_drive)
            .filter_map(|row| row.gib);
        let snapshots = self.things.iter().filter(|row| row.kind == SNAPSHOT);
        let first = self.things.iter().find(|row| row.billed);
        let place = match first {
            // Two columns narrower than in the text, and 80 are few.
            Some(row) if row.kind != SNAPSHOT => one_line(&row.detail).replacen(" in ", ", ", 1),
            _ => match snapshots.count() {
                1 => "1 snapshot".to_owned(),
                many => format!("{many} snapshots"),
            },
        };
        [
            one_line(&self.drive),
            self.state.to_owned(),
            place,
            self.generation.to_string(),
            gib.max().map_or_else(String::new, gibibytes),
            first.map_or_else(String::new, |row| row.age(now)),
            format!("${:.2}", self.dollars_a_month),
            if self.has_unknown_price() {
                "?".to_owned()
            } else {
                an_hour(self.dollars_an_hour)
            },
        ]
    }

    /// A line on the backups of it that somebody else made, if there are any.
    fn backups(&self) -> Option<String> {
        let count = self.things.iter().filter(|row| row.kind == BACKUP).count();
        let words = match count {
            0 => return None,
            1 => "1 backup of it is".to_owned(),
            many => format!("{many} backups of it are"),
        };
        Some(format!(
            "{}: {words} somebody else's, and in no sum (list -v)",
            one_line(&self.drive)
        ))
    }

    /// Whether something of it is billed by the hour, at a price that is not known.
    fn has_unknown_price(&self) -> bool {
        let mut billed = self.things.iter().filter(|row| row.billed);
        billed.any(|row| row.kind == INSTANCE && row.dollars_an_hour.is_none())
    }
}

impl Row {
    /// How long ago it was made.
    fn age(&self, now: Timestamp) -> String {
        let Ok(since) = self.since.parse::<Timestamp>() else {
            return String::new();
        };
        let minutes = now.duration_since(since).as_mins().max(0);
        match minutes {
            0..120 => format!("{minutes} min"),
            120..2880 => format!("{} h", minutes / 60),
            _ => format!("{} d", minutes / 1440),
        }
    }
}

fn gibibytes(size: u32) -> String {
    format!("{size} GiB")
}

fn an_hour(dollars: f64) -> String {
    if dollars > 0.0 {
        format!("${dollars:.4}")
    } else {
        String::new()
    }
}

#[cfg(test)]
mod tests {
    use super::super::VOLUME;
    use super::*;

    fn row(kind: &'static str, id: &str, detail: &str) -> Row {
        Row {
            kind,
            id: id.to_owned(),
            state: "in-use",
            detail: detail.to_owned(),
            gib: Some(32).filter(|_| kind != INSTANCE),
            generation: Some(3).filter(|_| kind == VOLUME),
            since: "2026-11-22T10:00:00Z".to_owned(),
            billed: true,
            used: kind == VOLUME,
            is_thrown_away: false,
            dollars_a_month: Some(2.56).filter(|_| kind != INSTANCE),
            dollars_an_hour: Some(0.02295).filter(|_| kind == INSTANCE),
        }
    }

    fn running(drive: &str) -> Entry {
        let mut entry = Entry {
            drive: drive.to_owned(),
            things: vec![
                row(
                    INSTANCE,
                    "i-08c174e1c2beca74e",
                    "c6a.large spot in us-east-1a",
                ),
                row(VOLUME, "vol-0cc5b831b224510fe", "in us-east-1a"),
                row(ROOT_DISK, "vol-0aa5b831b224510ab", "in us-east-1a"),
            ],
            ..Entry::default()
        };
        entry.sum_up();
        entry
    }

    fn saved(drive: &str) -> Entry {
        let mut entry = Entry {
            drive: drive.to_owned(),
            things: vec![Row {
                state: "completed",
                generation: Some(2),
                ..row(SNAPSHOT, "snap-049200fba559103ef", "clean")
            }],
            ..Entry::default()
        };
        entry.sum_up();
        entry
    }

    fn shown(entries: &[Entry]) -> String {
        table(entries, 80, "2026-11-22T13:30:00Z".parse().unwrap()).to_string()
    }

    #[test]
    fn a_drive_is_a_line_and_the_sums_stand_below() {
        assert_eq!(
            shown(&[running("demo"), saved("train")]),
            "\
drive  state    where                       gen    size  age  a month  an hour
demo   running  c6a.large spot, us-east-1a    3  32 GiB  3 h    $5.12  $0.0230
train  saved    1 snapshot                    2  32 GiB  3 h    $2.56

in all at most $7.68 a month, and $0.0230 an hour for what runs
"
        );
    }

    #[test]
    fn an_unknown_price_does_not_look_free() {
        let mut entry = running("demo");
        entry.things[0].dollars_an_hour = None;
        entry.sum_up();
        let text = shown(&[entry, saved("train")]);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].ends_with("$5.12        ?"), "{text}");
        let end =
            "\n\nin all at most $7.68 a month\n\n? is a price that is not known, and in no sum\n";
        assert!(text.ends_with(end), "{text}");
    }

    #[test]
    fn lines_fit_a_terminal_however_long_names_are() {
        let text = shown(&[running(&"x".repeat(64)), saved("train")]);
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{text}");
        }
    }

    #[test]
    fn ages_are_short() {
        let age = |now: &str| row(VOLUME, "vol-1", "").age(now.parse().unwrap());
        assert_eq!(
            age("2026-11-22T09:00:00Z"),
            "0 min",
            "a clock that is behind"
        );
        assert_eq!(age("2026-11-22T11:59:59Z"), "119 min");
        assert_eq!(age("2026-11-24T09:00:00Z"), "47 h");
        assert_eq!(age("2026-11-24T10:00:00Z"), "2 d");
    }

    #[test]
    fn nothing_of_a_tag_is_obeyed_by_a_terminal_and_columns_stay_aligned() {
        let mut hostile = running("x\u{9b}2J\u{1b}[31m\nhint: y");
        hostile.things[0].detail = "\u{202e}t3\n.small".to_owned();
        hostile.advice = Some("look".to_owned());
        let text = shown(&[hostile.clone(), saved("train")]);
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[1].starts_with("x?2J?[31m?hint: y  running  ?t3?.small  "),
            "{text}"
        );
        let column = |line: &str, word: &str| line.find(word).unwrap();
        assert_eq!(
            column(lines[1], "running"),
            column(lines[2], "saved"),
            "{text}"
        );
        assert!(text.ends_with("\nx?2J?[31m?hint: y: look\n"), "{text}");
        let parts = hostile.text().to_string();
        assert!(
            parts.starts_with("x?2J?[31m?hint: y   running, "),
            "{parts}"
        );
        assert!(
            !parts.contains(|c: char| c != '\n' && c.is_control()),
            "{parts:?}"
        );
    }
}
