//! Parts of the pictures that commands draw, as SVG.

use std::fs;
use std::ops::Range;
use std::path::Path as FilePath;

use anyhow::anyhow;
use svg::node::element::path::Data;
use svg::node::element::{Path, Text};

use crate::failure::{Exit, Failure};

/// Colours that people who do not see all of them tell apart too (Okabe and Ito, *Color Universal
/// Design*), without the yellow, which is too pale for a line.
pub(super) const COLOURS: [&str; 7] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000",
];

/// About so many marks on each axis.
const MARKS: f64 = 6.0;

/// Writes a picture to `file`, in the place of what is there.
pub(super) fn write(file: &FilePath, svg: &str) -> Result<(), Failure> {
    fs::write(file, svg).map_err(|error| {
        let error = anyhow!("cannot write {}: {error}", file.display());
        Failure::new(Exit::Failed, error)
    })
}

/// An axis: from values to pixels.
pub(super) struct Axis {
    pub(super) values: Range<f64>,
    pixels: Range<f64>,
}

impl Axis {
    /// The axis of these values, on these pixels.
    pub(super) fn new(values: Range<f64>, pixels: Range<f64>) -> Self {
        Self { values, pixels }
    }

    /// Where a value is, to a tenth of a pixel.
    pub(super) fn at(&self, value: f64) -> f64 {
        let Self { values, pixels } = self;
        let part = (value - values.start) / (values.end - values.start);
        let at = pixels.start + part * (pixels.end - pixels.start);
        (at * 10.0).round() / 10.0
    }
}

/// The values that get a mark.
pub(super) fn marks(values: &Range<f64>) -> impl Iterator<Item = f64> {
    let step = mark_step(values.end - values.start);
    let (first, end) = ((values.start / step).ceil(), values.end);
    // Each by a product: sums would drift.
    std::iter::successors(Some(first), |number| Some(number + 1.0))
        .map(move |number| number * step)
        .take_while(move |value| *value <= end)
}

/// From one mark to the next: 1, 2 or 5 times a power of ten, about [`MARKS`] of them in `range`.
pub(super) fn mark_step(range: f64) -> f64 {
    let rough = range / MARKS;
    let power = 10_f64.powf(rough.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
    steps
        .into_iter()
        .find(|step| *step >= rough)
        .unwrap_or(rough)
}

/// A line along `data`.
pub(super) fn stroke(data: Data, colour: &str, width: f64) -> Path {
    Path::new()
        .set("d", data)
        .set("fill", "none")
        .set("stroke", colour)
        .set("stroke-width", width)
        .set("stroke-linejoin", "round")
}

/// Words at a place.
pub(super) fn label(text: &str, (x, y): (f64, f64), anchor: &str) -> Text {
    Text::new(text)
        .set("x", x)
        .set("y", y)
        .set("text-anchor", anchor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_round_and_within_the_range() {
        let all: Vec<f64> = marks(&(0.0113..0.0247)).collect();
        let shown: Vec<String> = all.iter().map(|mark| format!("{mark:.4}")).collect();
        assert_eq!(shown, ["0.0150", "0.0200"]);
        assert_eq!(marks(&(20_000.5..20_030.5)).count(), 6);
        for range in [1e-6, 0.3, 7.0, 90.0] {
            let count = marks(&(0.0..range)).count();
            assert!((3..=8).contains(&count), "{count} of {range}");
        }
    }
}
