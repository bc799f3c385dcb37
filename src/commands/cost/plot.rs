//! The picture of costs: a bar for each day or week, stacked by kind or drive, as SVG.
//!
//! There are other colours for a dark page. An amount that is certain is drawn whole, and what may come on top of it
//! hatched.

use jiff::civil::Date;
use svg::Document;
use svg::node::element::path::Data;
use svg::node::element::{Definitions, Group, Pattern, Rectangle, Style, Title};

use super::table::{amount, digits};
use crate::commands::plot::{Axis, COLOURS, label, mark_step, marks};
use crate::launch::ledger::Bounds;

/// The picture's width, in pixels.
const WIDTH: f64 = 960.0;

/// The rectangle that the bars are in: left, top, right, bottom.
const LEFT: f64 = 76.0;
const TOP: f64 = 64.0;
const RIGHT: f64 = 740.0;
const BOTTOM: f64 = 400.0;

/// From one name in the legend to the next, and from one line below the picture to the next.
const ROW: f64 = 22.0;
const LINE: f64 = 18.0;

/// The most notes below the picture, and the most characters of each.
const NOTES: usize = 6;
const NOTE: usize = 130;

/// The most characters of a name in the legend.
const NAME: usize = 20;

/// The series that are drawn apart: black, the last colour, is none on a dark page.
pub(super) const APART: usize = COLOURS.len() - 1;

/// The colour of those that are not.
const OTHERS: &str = "#8c8c8c";

/// About so many dates below the bars.
const DATES: usize = 8;

const STYLE: &str = "\
text{font-family:sans-serif;font-size:13px;fill:#444}\
.title{font-size:18px}.page{fill:#fff}.grid{stroke:#e4e4e4}.axis{stroke:#444}\
.part{stroke:#fff;stroke-width:.6}.hatch,.more{stroke:#777;stroke-width:.8}\
@media(prefers-color-scheme:dark){text{fill:#d0d0d0}.page{fill:#1c1c1c}.grid{stroke:#3a3a3a}\
.axis{stroke:#d0d0d0}.part{stroke:#1c1c1c}.hatch,.more{stroke:#a0a0a0}}";

/// The parts of one colour: a name, and the amount in each bar.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Series {
    colour: &'static str,
    name: String,
    amounts: Vec<Bounds>,
}

impl Series {
    /// The series in the colour of this number.
    pub(super) fn new(number: usize, name: &str, amounts: Vec<Bounds>) -> Self {
        let colour = COLOURS[..APART].get(number).copied();
        Self {
            colour: colour.unwrap_or(OTHERS),
            name: name.to_owned(),
            amounts,
        }
    }

    pub(super) fn sum(&self) -> Bounds {
        self.amounts.iter().copied().sum()
    }
}

/// The largest of these, the largest first, and all others added up.
pub(super) fn largest(mut series: Vec<Series>, most: usize) -> Vec<Series> {
    series.sort_by(|one, other| {
        let by_amount = other.sum().most.total_cmp(&one.sum().most);
        by_amount.then_with(|| one.name.cmp(&other.name))
    });
    if series.len() > most {
        let others = series.split_off(most);
        let count = others.len();
        let bars = others.iter().map(|it| it.amounts.len()).max();
        let of_bar = |bar: usize| {
            others
                .iter()
                .filter_map(|it| it.amounts.get(bar))
                .copied()
                .sum()
        };
        let amounts = (0..bars.unwrap_or_default()).map(of_bar).collect();
        series.push(Series::new(APART, &format!("{count} others"), amounts));
    }
    let numbered = series.into_iter().enumerate();
    numbered
        .map(|(number, it)| Series::new(number, &it.name, it.amounts))
        .collect()
}

/// The picture of `what`: a bar for each of these `days`, or weeks if it `is_weekly`, of these series. Below stand the
/// sum of all in the title, and notes on what is not known.
pub(super) fn svg(
    what: &str,
    days: &[Date],
    is_weekly: bool,
    series: &[Series],
    (all, notes): (Bounds, &[String]),
) -> String {
    let bars = bars(days, series);
    let highest = bars.iter().map(|bar| bar.sum.most).fold(0.0, f64::max);
    let range = if highest > 0.0 { highest * 1.06 } else { 1.0 };
    let y = Axis::new(0.0..range, BOTTOM..TOP);
    let title = match days.first() {
        Some(first) => format!("{what} since {first}: {}", in_words(all)),
        None => what.to_owned(),
    };
    let step = if is_weekly { "week" } else { "day" };
    let per = format!("US dollars a {step} (UTC)");
    let mut group = Group::new()
        .add(label(&title, (LEFT, 28.0), "start").set("class", "title"))
        .add(label(&per, (LEFT, TOP - 10.0), "start"));
    group = add_grid(group, &y);
    for bar in &bars {
        group = bar.add_to(group, &y, series);
    }
    let border = Data::new().move_to((LEFT, BOTTOM)).line_to((RIGHT, BOTTOM));
    group = group.add(line(border, "axis"));
    group = add_dates(group, &bars);
    let (group, end) = add_legend(group, series, bars.iter().any(Bar::may_be_more));
    let (group, height) = add_notes(group, notes, end.max(BOTTOM + 44.0));
    let document = Document::new()
        .set("width", WIDTH)
        .set("height", height)
        .set("viewBox", (0, 0, WIDTH, height))
        .add(Style::new(STYLE))
        .add(Definitions::new().add(hatching()))
        .add(
            Rectangle::new()
                .set("width", "100%")
                .set("height", "100%")
                .set("class", "page"),
        )
        .add(group);
    document.to_string() + "\n"
}

/// A bar: its day, where it is, and what each series has of it.
struct Bar {
    day: Date,
    left: f64,
    width: f64,
    parts: Vec<Bounds>,
    sum: Bounds,
}

/// The bars from the left to the right.
fn bars(days: &[Date], series: &[Series]) -> Vec<Bar> {
    let count = days.iter().fold(0.0, |count, _| count + 1.0);
    let x = Axis::new(0.0..count, LEFT..RIGHT);
    let numbers = std::iter::successors(Some(0.0), |number| Some(number + 1.0));
    let slots = numbers.zip(days).enumerate();
    slots
        .map(|(index, (number, day))| {
            let (from, to) = (x.at(number), x.at(number + 1.0));
            let width = ((to - from) * 0.8).min(48.0);
            let of_bar = |it: &Series| it.amounts.get(index).copied().unwrap_or_default();
            let parts: Vec<Bounds> = series.iter().map(of_bar).collect();
            Bar {
                day: *day,
                left: (from + to - width) / 2.0,
                width,
                sum: parts.iter().copied().sum(),
                parts,
            }
        })
        .collect()
}

impl Bar {
    /// Whether more may come on top of it, to be seen.
    fn may_be_more(&self) -> bool {
        self.sum.most > self.sum.least
    }

    fn add_to(&self, mut group: Group, y: &Axis, series: &[Series]) -> Group {
        let digits = digits(self.sum);
        let mut base = 0.0;
        for (part, series) in self.parts.iter().zip(series) {
            if part.least > 0.0 {
                let words = format!("{}, {}: {}", self.day, series.name, amount(*part, digits));
                let part_of = self.part(y, (base, base + part.least), &words);
                group = group.add(part_of.set("fill", series.colour).set("class", "part"));
                base += part.least;
            }
        }
        if self.may_be_more() {
            let words = format!("{}: {}", self.day, amount(self.sum, digits));
            let more = self.part(y, (base, self.sum.most), &words);
            group = group.add(more.set("fill", "url(#more)").set("class", "more"));
        }
        group
    }

    fn part(&self, y: &Axis, (from, to): (f64, f64), words: &str) -> Rectangle {
        let (bottom, top) = (y.at(from), y.at(to));
        Rectangle::new()
            .set("x", tenth(self.left))
            .set("y", top)
            .set("width", tenth(self.width))
            .set("height", tenth(bottom - top))
            .add(Title::new(words))
    }
}

/// The lines of equal amounts, with their amounts.
fn add_grid(mut group: Group, y: &Axis) -> Group {
    let step = mark_step(y.values.end - y.values.start);
    let digits = if step >= 0.01 { 2 } else { 4 };
    for dollars in marks(&y.values) {
        let at = y.at(dollars);
        let across = Data::new().move_to((LEFT, at)).line_to((RIGHT, at));
        let amount = label(
            &format!("${dollars:.digits$}"),
            (LEFT - 8.0, at + 4.5),
            "end",
        );
        group = group.add(line(across, "grid")).add(amount);
    }
    group
}

/// The dates of some bars, as many as there is room for.
fn add_dates(mut group: Group, bars: &[Bar]) -> Group {
    let every = bars.len().div_ceil(DATES).max(1);
    for bar in bars.iter().step_by(every) {
        let middle = tenth(bar.left + bar.width / 2.0);
        let tick = Data::new()
            .move_to((middle, BOTTOM))
            .line_to((middle, BOTTOM + 5.0));
        let date = bar.day.strftime("%b %-d").to_string();
        let date = label(&date, (middle, BOTTOM + 21.0), "middle");
        group = group.add(line(tick, "axis")).add(date);
    }
    group
}

/// The names of the series, the uppermost first as in the bars. Returns also where they end.
fn add_legend(mut group: Group, series: &[Series], has_more: bool) -> (Group, f64) {
    let mut top = TOP;
    let names = series.iter().rev();
    let names = names.map(|it| (it.colour, "part", short(&it.name, NAME)));
    let more = has_more.then(|| ("url(#more)", "more", "may be more".to_owned()));
    for (fill, class, name) in more.into_iter().chain(names) {
        let sample = Rectangle::new()
            .set("x", RIGHT + 16.0)
            .set("y", top)
            .set("width", 14)
            .set("height", 14)
            .set("fill", fill)
            .set("class", class);
        group = group
            .add(sample)
            .add(label(&name, (RIGHT + 38.0, top + 11.5), "start"));
        top += ROW;
    }
    (group, top)
}

/// The notes, from `top` on. Returns also where the picture ends.
fn add_notes(mut group: Group, notes: &[String], mut top: f64) -> (Group, f64) {
    let beyond = notes.len().saturating_sub(NOTES);
    let rest = (beyond > 0).then(|| format!("and {beyond} more, which xdrive cost names"));
    let shown = notes.iter().take(NOTES).map(|note| short(note, NOTE));
    for note in shown.chain(rest) {
        top += LINE;
        group = group.add(label(&note, (LEFT, top), "start"));
    }
    (group, top + 16.0)
}

/// Thin lines from the lower left to the upper right.
fn hatching() -> Pattern {
    let stroke = Data::new().move_to((0, 0)).line_to((0, 5));
    Pattern::new()
        .set("id", "more")
        .set("width", 5)
        .set("height", 5)
        .set("patternUnits", "userSpaceOnUse")
        .set("patternTransform", "rotate(45)")
        .add(line(stroke, "hatch"))
}

fn line(data: Data, class: &str) -> svg::node::element::Path {
    svg::node::element::Path::new()
        .set("d", data)
        .set("class", class)
}

/// The sum of all, as the end of the title.
fn in_words(all: Bounds) -> String {
    let digits = digits(all);
    if all.is_open {
        return format!("at least ${:.digits$}", all.least);
    }
    amount(all, digits)
}

/// `text`, cut to so many characters.
fn short(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let kept: String = text.chars().take(most - 1).collect();
    kept + "…"
}

fn tenth(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn days(count: i8) -> Vec<Date> {
        (1..=count)
            .map(|day| Date::constant(2026, 11, day))
            .collect()
    }

    fn series(number: usize, name: &str, amounts: &[f64]) -> Series {
        let amounts = amounts.iter().map(|it| Bounds::between(*it, *it));
        Series::new(number, name, amounts.collect())
    }

    fn drawn(name: &str, series: &[Series], notes: &[String]) -> String {
        let all = series.iter().map(Series::sum).sum();
        svg(name, &days(3), false, series, (all, notes))
    }

    #[test]
    fn a_picture_is_the_same_each_time_and_obeys_no_name() {
        let hostile = "<script>alert(1)</script>&\"'";
        let all = [
            series(0, hostile, &[1.0, 0.0, 2.0]),
            series(1, "b", &[0.5; 3]),
        ];
        let picture = drawn(hostile, &all, &[hostile.to_owned()]);
        assert_eq!(picture, drawn(hostile, &all, &[hostile.to_owned()]));
        assert!(!picture.contains("<script"), "{picture}");
        assert!(picture.contains("&lt;script&gt;"), "{picture}");
        assert!(!picture.contains("http://") || picture.matches("http://").count() == 1);
        // Five parts of bars, and two of the legend.
        assert_eq!(picture.matches("class=\"part\"").count(), 7, "{picture}");
        assert!(!picture.contains("url(#more)"), "{picture}");
    }

    #[test]
    fn bars_are_as_high_as_their_amounts_and_doubts_stand_on_top() {
        let uncertain = Series::new(1, "snapshots", vec![Bounds::between(1.0, 3.0)]);
        let bars = bars(&days(1), &[series(0, "spot", &[2.0]), uncertain]);
        assert_eq!((bars[0].sum.least, bars[0].sum.most), (3.0, 5.0));
        assert!(bars[0].may_be_more());
        let y = Axis::new(0.0..5.0, BOTTOM..TOP);
        let part = bars[0].part(&y, (3.0, 5.0), "x").to_string();
        let (top, height) = (TOP, tenth((BOTTOM - TOP) * 0.4));
        assert!(part.contains(&format!("y=\"{top}\"")), "{part}");
        assert!(part.contains(&format!("height=\"{height}\"")), "{part}");
    }

    #[test]
    fn the_largest_drives_are_drawn_apart() {
        let all = ["a", "b", "c", "d"].into_iter().zip([1.0, 4.0, 2.0, 3.0]);
        let all = all.map(|(name, dollars)| series(0, name, &[dollars, 0.0]));
        let shown = [
            series(0, "b", &[4.0, 0.0]),
            series(1, "d", &[3.0, 0.0]),
            series(2, "2 others", &[3.0, 0.0]),
        ];
        assert_eq!(largest(all.collect(), 2), shown);
        assert_eq!(series(APART, "others", &[]).colour, OTHERS);
    }

    #[test]
    fn nothing_and_long_names_and_many_notes_are_drawn_too() {
        assert!(
            drawn("demo", &[], &[]).contains("$0.0000")
                || drawn("demo", &[], &[]).contains("$0.00")
        );
        let notes: Vec<String> = (0..9)
            .map(|it| format!("{it}{}", "x".repeat(200)))
            .collect();
        let picture = drawn("demo", &[series(0, &"n".repeat(64), &[1.0])], &notes);
        assert!(picture.contains("and 3 more, which xdrive cost names"));
        let long = picture.lines().map(|line| line.chars().count()).max();
        assert!(long < Some(800), "{long:?}");
    }
}
