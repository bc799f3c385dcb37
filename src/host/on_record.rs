//! The containers that a drive has on record.

use crate::ids::{ContainerName, MAIN};

/// A container that is on record on the drive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnRecord {
    /// The container's name; none for the main one.
    pub name: Option<ContainerName>,
    /// Whether it runs.
    pub state: ContainerState,
    /// The image that it was made from: a reference, or
    /// [`LoadedImage::source`](super::scripts::LoadedImage::source).
    pub source: String,
}

/// The state of a container on record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContainerState {
    /// The container runs.
    Running,
    /// The container is there, and nothing runs in it.
    Stopped,
    /// The container is made again from its own image the next time.
    Gone,
    /// The drive is asleep, and all of it.
    Asleep,
}

impl OnRecord {
    /// Parses the value of a fact `listed`.
    pub(super) fn parse(fact: &str) -> Option<Self> {
        let mut words = fact.splitn(3, ' ');
        let (state, name, source) = (words.next()?, words.next()?, words.next()?);
        Some(Self {
            name: match name {
                MAIN => None,
                name => Some(name.parse().ok()?),
            },
            state: match state {
                "running" => ContainerState::Running,
                "stopped" => ContainerState::Stopped,
                "gone" => ContainerState::Gone,
                _ => return None,
            },
            source: source.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_on_record_is_parsed() {
        let parsed = OnRecord::parse("stopped tools a b").unwrap();
        assert_eq!(parsed.name, Some("tools".parse().unwrap()));
        assert_eq!(parsed.state, ContainerState::Stopped);
        assert_eq!(parsed.source, "a b");
        let main = OnRecord::parse("running main busybox").unwrap();
        assert_eq!((main.name, main.state), (None, ContainerState::Running));
        for garbled in ["running main", "asleep main x", "running Tools x"] {
            assert_eq!(OnRecord::parse(garbled), None, "{garbled}");
        }
    }
}
