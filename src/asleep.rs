//! The files of a drive that is asleep, read from a snapshot of it: no instance is needed.
//!
//! A snapshot's blocks are read one by one ([`Ec2::read_block`]), its file system by [`ext4`], which
//! replays its journal in memory: a snapshot of a drive that was in use is read as well. The
//! paths are those in the container, whose own layers are found where Docker keeps them on the
//! drive.
//!
//! What Docker's layers say only in extended attributes is not seen: a folder that was deleted and
//! made again in the container also has what an image below has in it.

mod blocks;
mod containers;
mod ext4;
mod files;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod kept;
mod layers;
mod reader;
mod runs;
mod tree;

use std::sync::Arc;

use tokio::task::spawn_blocking;

use crate::ec2::{self, Ec2};
use crate::host::container::CommandId;
use crate::host::logs::Piece;
use crate::host::on_record::OnRecord;
use crate::host::runs::Run;
use crate::host::sftp::{Sftp, SftpError};
use crate::host::tries::Tries;
use crate::ids::{DriveIn, DriveName, SnapshotId};

use blocks::Blocks;
use files::SnapshotFiles;

pub(crate) use blocks::Reading;

/// How many threads read: a file system is read by one, and waits for a block at a time where it
/// reads no large file.
const SERVERS: usize = 4;

/// How many read where all of two snapshots is compared.
const COMPARING: usize = 16;

/// A snapshot whose files are read.
pub(crate) struct Asleep {
    blocks: Blocks,
    servers: Vec<Sftp>,
}

impl Asleep {
    /// The files of the container at `place` in the drive's completed `snapshot`. Nothing is read yet.
    pub(crate) fn new(ec2: Ec2, snapshot: &SnapshotId, place: &DriveIn<DriveName>) -> Self {
        Self::with_servers(
            Blocks::new(ec2, snapshot.clone()),
            (snapshot, place),
            SERVERS,
        )
    }

    /// As [`Asleep::new`], to compare all of it with another one.
    pub(crate) fn to_compare(ec2: Ec2, snapshot: &SnapshotId, place: &DriveIn<DriveName>) -> Self {
        Self::with_servers(
            Blocks::new(ec2, snapshot.clone()),
            (snapshot, place),
            COMPARING,
        )
    }

    /// The files of the same drive in a later snapshot: what is the same in both is read once.
    pub(crate) fn later(&self, snapshot: &SnapshotId, place: &DriveIn<DriveName>) -> Self {
        let blocks = self.blocks.for_snapshot(snapshot.clone());
        Self::with_servers(blocks, (snapshot, place), COMPARING)
    }

    fn with_servers(
        blocks: Blocks,
        (snapshot, place): (&SnapshotId, &DriveIn<DriveName>),
        servers: usize,
    ) -> Self {
        let id: Arc<str> = frozen_id(snapshot, place).into();
        let servers = (0..servers).map(|_| {
            let (blocks, place) = (blocks.clone(), place.clone());
            Sftp::served(Arc::clone(&id), move || {
                SnapshotFiles::open(&blocks, &place)
            })
        });
        let servers = servers.collect();
        Self { blocks, servers }
    }

    /// The SFTP servers of the snapshot's files.
    pub(crate) fn servers(&self) -> Vec<Sftp> {
        self.servers.clone()
    }

    /// The containers that are on record, the main one first.
    pub(crate) async fn containers(&self) -> Result<Vec<OnRecord>, SftpError> {
        self.blocking(containers::read).await
    }

    /// The runs that are on record, the oldest first.
    pub(crate) async fn runs(&self) -> Result<Vec<Run>, SftpError> {
        self.blocking(runs::read).await
    }

    /// The ends of what each try of a run wrote, the first try first, and standard output before standard
    /// error; nothing of a run that is not on record.
    pub(crate) async fn run_output(&self, id: &CommandId) -> Result<Vec<Vec<Piece>>, SftpError> {
        let id = id.clone();
        self.blocking(move |blocks| runs::read_output(blocks, &id))
            .await
    }

    /// The tries of a run.
    pub(crate) async fn tries(&self, id: &CommandId) -> Result<Tries, SftpError> {
        let id = id.clone();
        self.blocking(move |blocks| runs::read_tries(blocks, &id))
            .await
    }

    /// The result of a `read` that blocks.
    async fn blocking<T: Send + 'static>(
        &self,
        read: impl FnOnce(Blocks) -> Result<T, SftpError> + Send + 'static,
    ) -> Result<T, SftpError> {
        let blocks = self.blocks.clone();
        let reading = spawn_blocking(move || read(blocks)).await;
        reading.map_err(|error| SftpError::Lost(error.to_string()))?
    }

    /// The call to AWS that ended the reading, if one did.
    pub(crate) fn failed(&self) -> Option<&ec2::Error> {
        self.blocks.failed()
    }

    /// The calls that reading has taken until now.
    pub(crate) fn reading(&self) -> Reading {
        self.blocks.reading()
    }
}

/// The id of what never changes. Containers have files of their own by the same paths.
fn frozen_id(snapshot: &SnapshotId, place: &DriveIn<DriveName>) -> String {
    format!("{snapshot} {place}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_snapshot_or_another_container_has_other_files() {
        let of = |snapshot: &str, place: &str| {
            frozen_id(&snapshot.parse().unwrap(), &place.parse().unwrap())
        };
        assert_eq!(of("snap-1", "demo"), of("snap-1", "demo"));
        assert_ne!(of("snap-1", "demo"), of("snap-2", "demo"));
        assert_ne!(of("snap-1", "demo"), of("snap-1", "demo/tools"));
    }
}
