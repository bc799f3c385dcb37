//! The records of changes of volumes' sizes and speeds.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The size and the speed of a volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Shape {
    pub(crate) gib: u32,
    pub(crate) kind: String,
    pub(crate) iops: Option<u32>,
    pub(crate) throughput: Option<u32>,
}

/// A change of a volume's shape.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Modification {
    pub(crate) from: Shape,
    pub(crate) to: Shape,
    pub(crate) begun: Timestamp,
    /// When the volume has its new size, if it grows, and is `optimizing`.
    pub(crate) grown: Timestamp,
    pub(crate) completed: Timestamp,
    /// When its disk was made larger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) done: Option<Timestamp>,
}

impl Modification {
    /// The state at `at`, as EC2 writes it; none before it was begun.
    pub(crate) fn state(&self, at: Timestamp) -> Option<&'static str> {
        if at < self.begun {
            None
        } else if at < self.grown {
            Some("modifying")
        } else if at < self.completed {
            Some("optimizing")
        } else {
            Some("completed")
        }
    }

    /// How much of it is done at `at`, in percent.
    pub(crate) fn progress(&self, at: Timestamp) -> i64 {
        let passed = at.duration_since(self.grown).as_millis().max(0);
        let whole = self.completed.duration_since(self.grown).as_millis();
        let percent = (passed * 100).checked_div(whole).unwrap_or(100);
        i64::try_from(percent.min(100)).unwrap_or(100)
    }

    /// The size to which the disk is to grow by `now`, unless it has that.
    pub(crate) fn due(&self, now: Timestamp) -> Option<u32> {
        let grows = self.to.gib > self.from.gib && self.done.is_none();
        (grows && self.grown <= now).then_some(self.to.gib)
    }
}

/// The shape at `at` of a volume that was made with the `first` one.
pub(super) fn shape_at(first: Shape, modifications: &[Modification], at: Timestamp) -> Shape {
    let last = modifications.iter().rev().find(|it| it.grown <= at);
    last.map_or(first, |modification| modification.to.clone())
}

/// Each shape that is billed of a volume that was made with the `first` one at `from`, and is there until `end`, with
/// when it begins and ends: AWS bills a new one from the beginning of its modification on (EBS user guide, *Modify a
/// volume using Elastic Volumes operations*).
pub(super) fn billed_shapes(
    first: Shape,
    modifications: &[Modification],
    (mut from, end): (Timestamp, Timestamp),
) -> Vec<(Shape, Timestamp, Timestamp)> {
    let mut shapes = Vec::new();
    let mut shape = first;
    for modification in modifications {
        let until = modification.begun.min(end);
        shapes.push((shape, from, until));
        (from, shape) = (until, modification.to.clone());
    }
    shapes.push((shape, from, end));
    shapes
}
