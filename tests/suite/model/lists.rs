//! The possible results of one read of a list: for each resource any version that is not too old,
//! and this process's own new ones even if the list lacks them.

use super::world::Thing;

/// A resource as a list, or a read by id, showed it.
#[derive(Debug, Clone, Hash)]
pub(super) struct Seen<T> {
    pub(super) id: u8,
    /// `None`: in no answer yet; it is shown as its create call answered it.
    pub(super) record: Option<T>,
    pub(super) listed: bool,
}

/// All possible results of one read of a list: for each resource, the versions it may show.
pub(super) struct Offer<T> {
    ways: Vec<Vec<Option<Seen<T>>>>,
}

impl<T: Clone + PartialEq> Offer<T> {
    /// `made`: whether this process made a resource, and so lately that it may be missing.
    pub(super) fn from_things(things: &[Thing<T>], made: impl Fn(u8) -> Option<bool>) -> Self {
        let ways = things.iter().map(|thing| {
            let id = thing.id;
            let mut ways = Vec::new();
            for version in thing.versions() {
                if let Some(record) = version {
                    ways.push(Some(Seen {
                        id,
                        record: Some(record),
                        listed: true,
                    }));
                    continue;
                }
                // Not listed: a resource of this process is read by id, which may miss it as well.
                let Some(young) = made(id) else {
                    ways.push(None);
                    continue;
                };
                let by_id = |record| {
                    Some(Seen {
                        id,
                        record,
                        listed: false,
                    })
                };
                ways.extend(thing.now.clone().map(|now| by_id(Some(now))));
                ways.push(if young { by_id(None) } else { None });
            }
            ways
        });
        Self {
            ways: ways.collect(),
        }
    }

    pub(super) fn count(&self) -> u16 {
        let product = self.ways.iter().map(Vec::len).product::<usize>();
        u16::try_from(product).unwrap()
    }

    /// The read number `mix`; the first shows the truth.
    pub(super) fn pick(&self, mix: u16) -> Vec<Seen<T>> {
        let mut rest = usize::from(mix);
        let mut seen = Vec::new();
        for ways in &self.ways {
            seen.extend(ways[rest % ways.len()].clone());
            rest /= ways.len();
        }
        seen
    }
}
