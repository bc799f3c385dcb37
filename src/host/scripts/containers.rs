//! The containers that a drive has: a list, and the end of a named one.

use super::{Host, container_input};
use crate::host::facts::ScriptError;
use crate::host::on_record::OnRecord;
use crate::ids::ContainerName;

/// How a removal ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Removed {
    /// The container is removed.
    Yes,
    /// There was no such container.
    NotThere,
    /// The container stays: these programs run in it.
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
        let facts = self
            .run("containers remove", &[container_input(Some(name))])
            .await?;
        Ok(match facts.get("busy") {
            Some(programs) => Removed::Busy(programs.trim().to_owned()),
            None if facts.yes("removed") => Removed::Yes,
            None => Removed::NotThere,
        })
    }
}
