//! The plot of prices: a line a pool, as SVG.

use jiff::{SignedDuration, Timestamp};
use svg::Document;
use svg::node::element::path::Data;
use svg::node::element::{Group, Rectangle};

use super::history::History;
use crate::commands::plot::{Axis, COLOURS, label, mark_step, marks, stroke};

/// The picture's width, in pixels.
const WIDTH: f64 = 960.0;

/// The rectangle that the lines are in: left, top, right, bottom.
const LEFT: f64 = 76.0;
const TOP: f64 = 52.0;
const RIGHT: f64 = 740.0;
const BOTTOM: f64 = 430.0;

/// From one name in the list of pools to the next.
const ROW: f64 = 20.0;

/// The colour of words and axes.
const INK: &str = "#444444";

/// A pool of the plot: its name, and its history.
pub(super) type Line<'a> = (String, &'a History);

/// The plot of `lines` from `start` to `end` under a title, the dearest now at the top of the list.
pub(super) fn svg(title: &str, lines: &[Line<'_>], start: Timestamp, end: Timestamp) -> String {
    let mut lines: Vec<&Line<'_>> = lines.iter().collect();
    let now = |line: &Line<'_>| line.1.steps().last().map_or(0.0, |(_, price)| price);
    lines.sort_by(|one, other| now(other).total_cmp(&now(one)));
    let prices = || lines.iter().flat_map(|(_, history)| history.steps());
    let low = prices()
        .map(|(_, price)| price)
        .fold(f64::INFINITY, f64::min);
    let high = prices().map(|(_, price)| price).fold(0.0, f64::max);
    // A price that never changes has a range too.
    let room = ((high - low) * 0.08).max(high * 0.02);
    let y = Axis::new((low - room).max(0.0)..high + room, BOTTOM..TOP);
    let x = Axis::new(day(start)..day(end), LEFT..RIGHT);

    let rows = ROW * lines.iter().fold(0.0, |count, _| count + 1.0);
    let height = (BOTTOM + 40.0).max(TOP + rows);
    let mut document = Document::new()
        .set("width", WIDTH)
        .set("height", height)
        .set("viewBox", (0, 0, WIDTH, height))
        .add(
            Rectangle::new()
                .set("width", "100%")
                .set("height", "100%")
                .set("fill", "white"),
        );
    let heading = label(title, (LEFT, 28.0), "start");
    let mut axes = Group::new()
        .set("font-family", "sans-serif")
        .set("font-size", 13)
        .set("fill", INK)
        .add(heading.set("font-size", 18))
        .add(label("dollars an hour", (LEFT, TOP - 8.0), "start"));
    for price in marks(&y.values) {
        let at = y.at(price);
        axes = axes
            .add(stroke(
                Data::new().move_to((LEFT, at)).line_to((RIGHT, at)),
                "#e4e4e4",
                1.0,
            ))
            .add(label(&format!("{price:.4}"), (LEFT - 8.0, at + 4.5), "end"));
    }
    let step = mark_step(x.values.end - x.values.start);
    for number in marks(&x.values) {
        let at = x.at(number);
        let tick = Data::new()
            .move_to((at, BOTTOM))
            .line_to((at, BOTTOM + 5.0));
        axes = axes.add(stroke(tick, INK, 1.0)).add(label(
            &date(number, step < 1.0),
            (at, BOTTOM + 21.0),
            "middle",
        ));
    }
    let border = Data::new().move_to((LEFT, BOTTOM)).line_to((RIGHT, BOTTOM));
    axes = axes.add(stroke(border, INK, 1.0));
    let mut top = TOP;
    for (index, (name, history)) in lines.iter().enumerate() {
        let mut data = Data::new();
        for (number, (time, price)) in history.steps().enumerate() {
            let corner = (x.at(day(time)), y.at(price));
            data = match number {
                0 => data.move_to(corner),
                _ => data.line_to(corner),
            };
        }
        let sample = Data::new()
            .move_to((RIGHT + 14.0, top))
            .line_to((RIGHT + 40.0, top));
        let colour = COLOURS[index % COLOURS.len()];
        for data in [data, sample] {
            let mut line = stroke(data, colour, 1.8);
            // More lines than colours: the next ones are dashed.
            if index >= COLOURS.len() {
                line = line.set("stroke-dasharray", "5 3");
            }
            axes = axes.add(line);
        }
        axes = axes.add(label(name, (RIGHT + 48.0, top + 4.5), "start"));
        top += ROW;
    }
    document = document.add(axes);
    document.to_string() + "\n"
}

/// Days since 1970.
fn day(time: Timestamp) -> f64 {
    time.duration_since(Timestamp::UNIX_EPOCH).as_secs_f64() / 86_400.0
}

/// A mark of the time axis: the day, or the hour (UTC) where marks are less than a day apart.
fn date(day: f64, is_hour: bool) -> String {
    let since = SignedDuration::try_from_secs_f64(day * 86_400.0).unwrap_or_default();
    let time = Timestamp::UNIX_EPOCH + since;
    let form = if is_hour { "%b %-d, %H:%M" } else { "%b %-d" };
    time.strftime(form).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_are_shown_where_days_would_repeat() {
        let noon = Timestamp::from_second(1_764_072_000).unwrap();
        assert_eq!(date(day(noon), true), "Nov 25, 12:00");
        assert_eq!(date(day(noon), false), "Nov 25");
    }
}
