//! The containers that a drive has: a list, and the end of a named one.

use super::{Host, named};
use crate::host::facts::ScriptError;
use crate::ids::ContainerName;

/// A container that is on record on the drive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnRecord {
    /// Its name; none for the main one.
    pub name: Option<ContainerName>,
    /// Whether it runs.
    pub state: ContainerState,
    /// What it was made from: a reference, or [`LoadedImage::source`](super::LoadedImage::source).
    pub source: String,
}

/// What a container does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContainerState {
    /// It runs.
    Running,
    /// It is there, and nothing runs in it.
    Stopped,
    /// It is made again from its own image the next time.
    Gone,
    /// The drive is asleep, and all of it.
    Asleep,
}

/// How a removal ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Removed {
    /// It is removed.
    Yes,
    /// There was no such container.
    NotThere,
    /// These programs run in it, and it stays.
    Busy(String),
}

impl Host {
    /// The containers that are on record, the main one first. Starts nothing.
    pub async fn containers(&self) -> Result<Vec<OnRecord>, ScriptError> {
        let facts = self.run("containers list", &[]).await?;
        let containers = facts.all("listed").map(OnRecord::parse);
        containers
            .collect::<Option<_>>()
            .ok_or_else(|| facts.garbled("listed"))
    }

    /// Removes the container `name` with its images, its volumes and its records, unless programs run
    /// in it.
    pub async fn remove_container(&self, name: &ContainerName) -> Result<Removed, ScriptError> {
        let facts = self.run("containers remove", &[named(Some(name))]).await?;
        Ok(match facts.get("busy") {
            Some(programs) => Removed::Busy(programs.trim().to_owned()),
            None if facts.yes("removed") => Removed::Yes,
            None => Removed::NotThere,
        })
    }
}

impl OnRecord {
    /// Parses the value of a fact `listed`.
    fn parse(fact: &str) -> Option<Self> {
        let mut words = fact.splitn(3, ' ');
        let (state, name, source) = (words.next()?, words.next()?, words.next()?);
        Some(Self {
            name: match name {
                crate::ids::MAIN => None,
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
