//! The gaps of a ledger: of which generations, prices and times nothing is recorded any more.

use std::fmt;

use crate::ec2::{Market, Zone};

/// The most ranges of generations that are named.
const NAMED: usize = 8;

/// Generations, as ranges in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Generations(Vec<(u64, u64)>);

impl Generations {
    /// Adds `first` to `last`, which come after all that are there.
    pub(super) fn push(&mut self, first: u64, last: u64) {
        match self.0.last_mut() {
            Some(before) if before.1.checked_add(1) == Some(first) => before.1 = last,
            _ => self.0.push((first, last)),
        }
    }

    /// The ranges: first and last generation of each.
    pub(crate) fn ranges(&self) -> &[(u64, u64)] {
        &self.0
    }

    fn is_one(&self) -> bool {
        matches!(self.0[..], [(first, last)] if first == last)
    }
}

impl FromIterator<u64> for Generations {
    /// From generations in order.
    fn from_iter<I: IntoIterator<Item = u64>>(generations: I) -> Self {
        let mut all = Self::default();
        for generation in generations {
            all.push(generation, generation);
        }
        all
    }
}

impl fmt::Display for Generations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_one() {
            "generation "
        } else {
            "generations "
        })?;
        let named = &self.0[..self.0.len().min(NAMED)];
        for (index, (first, last)) in named.iter().enumerate() {
            let is_last = index + 1 == self.0.len();
            f.write_str(match index {
                0 => "",
                _ if is_last => " and ",
                _ => ", ",
            })?;
            if first == last {
                write!(f, "{first}")?;
            } else {
                write!(f, "{first}–{last}")?;
            }
        }
        if named.len() < self.0.len() {
            f.write_str(" and others")?;
        }
        Ok(())
    }
}

/// Something that is not known of what a drive has cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unknown {
    /// Generations without any snapshot.
    Deleted(Generations),
    /// Generations whose snapshots have no record that can be read.
    Unrecorded(Generations),
    /// Generations whose host was not there any more when they were saved, or is not while they are not.
    Late(Generations),
    /// Generations of which only checkpoints are left.
    Endless(Generations),
    /// Ids of snapshots and volumes with tags that cannot be read.
    Unreadable(Vec<String>),
    /// Price of a type in a zone.
    Price(String, Market, Zone),
}

impl Unknown {
    /// Whether there may be more than what is counted.
    pub(crate) fn is_open(&self) -> bool {
        !matches!(self, Self::Late(_))
    }

    /// The reason, as scripts read it.
    pub(crate) fn as_str(&self) -> &'static str {
        match self {
            Self::Deleted(_) => "deleted",
            Self::Unrecorded(_) => "unrecorded",
            Self::Late(_) => "late",
            Self::Endless(_) => "endless",
            Self::Unreadable(_) => "unreadable",
            Self::Price(..) => "price",
        }
    }

    /// The generations, if it is about some.
    pub(crate) fn generations(&self) -> Option<&Generations> {
        match self {
            Self::Deleted(of) | Self::Unrecorded(of) | Self::Late(of) | Self::Endless(of) => {
                Some(of)
            }
            Self::Unreadable(_) | Self::Price(..) => None,
        }
    }
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cost = |of: &Generations| {
            let they = if of.is_one() { "it" } else { "they" };
            format!("what {they} cost is not known")
        };
        match self {
            Self::Deleted(of) => write!(f, "no snapshot is left of {of}: {}", cost(of)),
            Self::Unrecorded(of) => write!(f, "no instance is recorded of {of}: {}", cost(of)),
            Self::Late(of) => write!(
                f,
                "the host of {of} was gone before the save, and is counted until that at most"
            ),
            Self::Endless(of) => write!(
                f,
                "only checkpoints are left of {of}: what came after is not known"
            ),
            Self::Unreadable(ids) => {
                let named = ids[..ids.len().min(NAMED)].join(", ");
                let others = if ids.len() > NAMED { " and others" } else { "" };
                write!(f, "the tags of {named}{others} cannot be read")
            }
            Self::Price(kind, market, zone) => {
                write!(f, "the price of {kind} {market} in {zone} is not known")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generations_are_named_in_ranges() {
        let words = |of: &[u64]| of.iter().copied().collect::<Generations>().to_string();
        assert_eq!(words(&[3]), "generation 3");
        assert_eq!(words(&[3, 4, 5, 9]), "generations 3–5 and 9");
        assert_eq!(words(&[1, 3, 5]), "generations 1, 3 and 5");
        let many: Vec<u64> = (0..20).map(|it| it * 2).collect();
        assert_eq!(
            words(&many),
            "generations 0, 2, 4, 6, 8, 10, 12, 14 and others"
        );
        let mut all = Generations::default();
        all.push(1, u64::MAX);
        all.push(3, 3);
        assert_eq!(all.ranges().len(), 2);
    }

    #[test]
    fn a_gap_says_what_is_missing() {
        let of = |generations: &[u64]| generations.iter().copied().collect::<Generations>();
        assert_eq!(
            Unknown::Deleted(of(&[3, 4])).to_string(),
            "no snapshot is left of generations 3–4: what they cost is not known"
        );
        let price = Unknown::Price(
            "m5.large".to_owned(),
            Market::OnDemand,
            Zone("z".to_owned()),
        );
        assert_eq!(
            price.to_string(),
            "the price of m5.large on demand in z is not known"
        );
        assert!(price.is_open() && !Unknown::Late(of(&[1])).is_open());
    }
}
