//! The list as text: the parts of each drive.

use std::fmt::Write as _;

use super::table::toned;
use super::{BACKUP, Entry};
use crate::report::{Text, one_line};

impl Entry {
    /// The entry as text.
    pub(crate) fn text(&self) -> Text {
        let mut shown = Text::block(&format!("{}   ", one_line(&self.drive)));
        shown.push(&toned(self.state));
        let mut text = format!(
            ", generation {}, at most ${:.2} a month",
            self.generation, self.dollars_a_month
        );
        if self.dollars_an_hour > 0.0 {
            let _ = write!(text, " and ${:.4} an hour", self.dollars_an_hour);
        }
        text.push('\n');
        if let Some(advice) = &self.advice {
            let _ = writeln!(text, "  {advice}");
        }
        if let Some(run) = &self.run {
            let _ = writeln!(text, "  {}", run.line);
        }
        for line in &self.things {
            let cost = match (line.dollars_a_month, line.dollars_an_hour) {
                _ if !line.billed => "billed no longer".to_owned(),
                _ if line.kind == BACKUP => "billed as theirs".to_owned(),
                (Some(month), _) => format!("${month:.2} a month"),
                (None, Some(hour)) => format!("${hour:.4} an hour"),
                (None, None) => "price not known".to_owned(),
            };
            let generation = line
                .generation
                .map_or_else(String::new, |number| format!("generation {number}, "));
            let size = line
                .gib
                .map_or_else(String::new, |gib| format!("{gib} GiB, "));
            let _ = writeln!(
                text,
                "  {:9}  {}  {}, {generation}{size}{}\n{:13}since {}, {cost}",
                line.kind,
                line.id,
                line.state,
                one_line(&line.detail),
                "",
                line.since
            );
        }
        shown.push(&Text::block(&text));
        shown
    }
}
