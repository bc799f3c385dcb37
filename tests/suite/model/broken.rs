//! Plans that are broken on purpose, each in one way that a reader of the rules could take for
//! harmless. The checker has to find what comes of it.

use xdrive::drive::memory::Sweep;
use xdrive::drive::observed::Observed;
use xdrive::drive::{Client, Contact, HostView, Mounted};
use xdrive::ec2::{Snapshot, SnapshotState};

/// In which way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Broken {
    /// A snapshot that is pending counts as made.
    DeleteBeforeCompleted,
    /// The newest is what was started last.
    NewestByStartTime,
    /// A host that does not answer is taken for gone.
    SilenceIsProof,
}

impl Broken {
    /// What it makes of a look.
    pub(super) fn distort_look(self, sweep: &mut Sweep) {
        match self {
            Self::DeleteBeforeCompleted => {
                for snapshot in &mut sweep.snapshots {
                    self.distort_read(snapshot);
                }
            }
            Self::SilenceIsProof => {
                for (_, contact) in &mut sweep.instances {
                    if *contact == Contact::Unreachable {
                        *contact = Contact::Reached(HostView {
                            client: Client::Nobody,
                            guests: 0,
                            closing: true,
                            mounted: Mounted::Nothing,
                        });
                    }
                }
            }
            Self::NewestByStartTime => {}
        }
    }

    /// What it makes of what it knows.
    pub(super) fn distort(self, seen: &mut Observed) {
        if self != Self::NewestByStartTime {
            return;
        }
        let snapshots = seen.snapshots.iter();
        let mut generations: Vec<_> = snapshots.map(|snapshot| snapshot.generation).collect();
        generations.sort();
        seen.snapshots.sort_by(|one, other| one.id.cmp(&other.id));
        for (snapshot, generation) in seen.snapshots.iter_mut().zip(generations) {
            snapshot.generation = generation;
        }
    }

    /// What it makes of a snapshot that it reads by id.
    pub(super) fn distort_read(self, snapshot: &mut Snapshot) {
        if self == Self::DeleteBeforeCompleted && snapshot.state == SnapshotState::Pending {
            snapshot.state = SnapshotState::Completed;
        }
    }
}
