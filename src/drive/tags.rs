//! The record: the tags that xdrive writes, and how they are read back.
//!
//! The tags that a thing needs are written in the call that creates it. Later a tag is added or,
//! for a generation, raised; none is deleted to mean something. So a stale read can make xdrive
//! wait or take an extra snapshot, but never lose data.
//!
//! A resource that has the drive's tag and cannot be parsed is [`Unreadable`], never skipped: it
//! may be the drive's newest state.

mod carried;
mod copies;
mod keys;
mod leaving;
mod mounter;
mod read;
mod record;
mod settings;
mod throwaway;
mod types;
mod wanted;
mod workers;
mod write;

pub use carried::Carried;
pub use copies::{FORKED_FROM, adopt, fork, fork_now, forked_from, is_copy};
pub use keys::{
    AMI, ARCH, BASE, BLANK, DELETING, DISK, DRIVE, FORMATTED, GENERATION, HOST_KEY, KIND, MOUNTER,
    NAME, NUMBER, OP, OWNER, RENAMING, SCRATCH, SESSION, UNTIL, UUID, WORKER_OF,
};
pub use leaving::Leaving;
pub use mounter::{NOBODY, mounted_by, mounter, mounter_before};
pub use read::{
    drive, has_owner, host_key, is_disposable, is_scratch, newest, owner, read_snapshot,
    read_volume, session, until, worker_of,
};
pub use record::{InvalidNote, Note, Record, noted};
pub use settings::{OWN_MOST, Settings};
pub use throwaway::{DISCARD, throwaway, thrown_away_by};
pub use types::{Identity, SnapshotKind, SnapshotTags, Unreadable, VolumeTags};
pub use wanted::{RunState, RunTags, WantedRun, run_over, run_tended, run_waits};
pub use workers::{MOST_WORKERS, WantedWorkers, names_workers};
pub use write::{
    arch, claim, common, formatted, group, identified, image, instance, lease, of_kind,
    own_host_key, raised, renamed, root, snapshot, volume,
};

#[cfg(test)]
mod tests;
