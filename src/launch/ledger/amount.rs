//! Amounts of money, between bounds, by the kind of what they are for.

use std::iter::Sum;
use std::ops::{Add, AddAssign, Index, IndexMut};

/// US dollars: so many at least, and so many at most.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Bounds {
    /// The least.
    pub(crate) least: f64,
    /// The most, of all whose price and time are known.
    pub(crate) most: f64,
    /// Whether it may be more than the most: something is not known.
    pub(crate) is_open: bool,
}

impl Bounds {
    /// The amount of which nothing is known.
    pub(crate) const UNKNOWN: Self = Self {
        least: 0.0,
        most: 0.0,
        is_open: true,
    };

    /// From `least` to `most`.
    pub(crate) fn between(least: f64, most: f64) -> Self {
        Self {
            least,
            most: most.max(least),
            is_open: false,
        }
    }

    /// The most, if that is known.
    pub(crate) fn known_most(self) -> Option<f64> {
        (!self.is_open).then_some(self.most)
    }
}

impl Add for Bounds {
    type Output = Self;

    fn add(self, more: Self) -> Self {
        Self {
            least: self.least + more.least,
            most: self.most + more.most,
            is_open: self.is_open || more.is_open,
        }
    }
}

impl AddAssign for Bounds {
    fn add_assign(&mut self, more: Self) {
        *self = *self + more;
    }
}

impl Sum for Bounds {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), Add::add)
    }
}

/// The kind of what money is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Instances, at the price of spot.
    Spot,
    /// Instances, on demand.
    OnDemand,
    /// Public addresses of instances.
    Addresses,
    /// Drives' volumes, and instances' root disks.
    Disks,
    /// Snapshots.
    Snapshots,
}

impl Kind {
    /// All kinds.
    pub(crate) const ALL: [Self; 5] = [
        Self::Spot,
        Self::OnDemand,
        Self::Addresses,
        Self::Disks,
        Self::Snapshots,
    ];

    /// The kind in words.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Spot => "spot",
            Self::OnDemand => "on demand",
            Self::Addresses => "addresses",
            Self::Disks => "disks",
            Self::Snapshots => "snapshots",
        }
    }
}

/// Money of each kind.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Costs([Bounds; Kind::ALL.len()]);

impl Costs {
    /// All of it.
    pub(crate) fn sum(&self) -> Bounds {
        self.0.iter().copied().sum()
    }
}

impl Index<Kind> for Costs {
    type Output = Bounds;

    fn index(&self, kind: Kind) -> &Bounds {
        &self.0[kind as usize]
    }
}

impl IndexMut<Kind> for Costs {
    fn index_mut(&mut self, kind: Kind) -> &mut Bounds {
        &mut self.0[kind as usize]
    }
}

impl Sum for Costs {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, more| {
            let mut added = sum;
            for kind in Kind::ALL {
                added[kind] += more[kind];
            }
            added
        })
    }
}
