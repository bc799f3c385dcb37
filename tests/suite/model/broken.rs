//! Plans that are broken on purpose, each in one way that looks harmless. The checker has to find
//! its consequence.

use xdrive::clock::BootTime;
use xdrive::drive::observed::{Observed, SeenSnapshot, SeenThrowaway, SeenVolume};
use xdrive::drive::overlay::Sweep;
use xdrive::drive::tags::{self, Carried, SnapshotKind, SnapshotTags};
use xdrive::drive::{Client, Contact, CopyOrder, Goal, HostView, Timing};
use xdrive::ec2::{self, Snapshot, SnapshotState};
use xdrive::host::Mounted;
use xdrive::host::runs::Run;

use super::lease::First;
use super::world::Volume;
use super::{past, values};

/// The way in which a plan is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Broken {
    /// A snapshot that is pending counts as made.
    DeleteBeforeCompleted,
    /// Proofs never expire.
    LastingProofs,
    /// Takes a host's answer in a look for its state now.
    OldWord,
    /// The newest snapshot is the one started last.
    NewestByStartTime,
    /// A drive that is in no list once does not exist.
    EmptyAfterOneList,
    /// Waits less than a list can be old.
    ShortSettle,
    /// A host that does not answer is taken for gone.
    SilenceIsProof,
    /// Reads snapshots together with instances, before the volumes.
    ParallelSweep,
    /// Deletes a volume as soon as its snapshot is completed, before all lists have that.
    NotEverywhere,
    /// A checkpoint counts as a save.
    CheckpointSaves,
    /// A checkpoint is preferred over a save of its generation.
    CheckpointFirst,
    /// Takes the end of a lease for the end of its host.
    NoMargin,
    /// Renews a host's lease before that is recorded.
    HostFirst,
    /// Mounts a drive that is being deleted or renamed.
    MountsLeaving,
    /// A throwaway volume counts as the drive's newest state.
    ThrowawayIsNewest,
    /// Deletes a throwaway volume whose snapshot is gone.
    OriginUnneeded,
    /// Takes the drive's volume for one that is thrown away.
    DiscardsDrive,
    /// Marks a drive that it deletes or renames, and does not look again whether anybody uses it.
    LeavesUnseen,
    /// Deletes whatever the drive has when it first looks.
    DeletesUnshown,
    /// Copies on a look of long ago.
    CopiesOnOldLook,
    /// Copies again at once if the answer was lost.
    CopiesAgain,
    /// A copy that is pending counts as made.
    PendingIsCopied,
    /// Once it sees its copy, it does not look whether anybody else began the drive.
    SeesOnlyItsCopy,
    /// A copy is like any other snapshot: the highest generation is the newest state.
    CopyIsNewest,
    /// Takes its user's word that a host hangs, without EC2's check.
    HungUnchecked,
    /// Begins a try of the drive's run although that has begun.
    NoFence,
    /// Takes the run for lost, whatever its record says of its end.
    EndUnread,
    /// Saves the drive without the tags of its run.
    ForgetsRun,
}

/// A host without a client.
const NOTHING_THERE: HostView = HostView {
    client: Client::Nobody,
    guests: 0,
    closing: false,
    noticed: false,
    mounted: Mounted::Nothing,
    unmounted: None,
};

impl Broken {
    /// The broken client's timing.
    pub(super) fn timing(self, timing: Timing) -> Timing {
        match self {
            Self::ShortSettle => Timing {
                settle: values::ticks(0),
                ..timing
            },
            Self::NoMargin => Timing {
                lease_margin: values::ticks(0),
                ..timing
            },
            _ => timing,
        }
    }

    /// The half of a renewal, or of a claim, that comes first.
    pub(super) fn first_renewed(self) -> First {
        match self {
            Self::HostFirst => First::Host,
            _ => First::Record,
        }
    }

    /// Distorts a look.
    pub(super) fn distort_look(self, sweep: &mut Sweep) {
        match self {
            Self::DeleteBeforeCompleted | Self::CheckpointSaves => {
                for snapshot in &mut sweep.snapshots {
                    self.distort_read(snapshot);
                }
            }
            Self::SilenceIsProof => {
                for (_, contact) in &mut sweep.instances {
                    if *contact == Contact::Unreachable {
                        *contact = Contact::Reached(HostView {
                            closing: true,
                            ..NOTHING_THERE
                        });
                    }
                }
            }
            _ => {}
        }
    }

    /// Distorts the client's knowledge.
    pub(super) fn distort(self, seen: &mut Observed, goal: &Goal) {
        match self {
            // It waits for nothing, whatever it made or read a moment ago.
            Self::EmptyAfterOneList if is_nowhere(seen) => {
                seen.first = values::moment(0);
                seen.me.announced = None;
            }
            // Nor does it wait until every client can see the snapshot.
            Self::DeleteBeforeCompleted | Self::NotEverywhere => {
                for snapshot in &mut seen.snapshots {
                    snapshot.is_everywhere = true;
                }
            }
            // Only if snapshots alone decide what is newest.
            Self::CheckpointFirst if seen.volumes.iter().all(SeenVolume::is_unused) => {
                for snapshot in &mut seen.snapshots {
                    snapshot.kind = match snapshot.kind {
                        SnapshotKind::Checkpoint => SnapshotKind::Clean,
                        _ => SnapshotKind::Checkpoint,
                    };
                }
            }
            Self::MountsLeaving if matches!(goal, Goal::Ready { .. }) => {
                for snapshot in &mut seen.snapshots {
                    snapshot.leaving = None;
                }
            }
            Self::LeavesUnseen if matches!(goal, Goal::Deleted { .. } | Goal::Renamed(_)) => {
                let is_marked = seen.snapshots.iter().any(|it| it.leaving.is_some());
                seen.instances.retain(|_| !is_marked);
                seen.volumes.retain(|_| !is_marked);
            }
            Self::DeletesUnshown if matches!(goal, Goal::Deleted { .. }) => {
                let all = seen.snapshots.iter().map(|it| it.id.clone());
                seen.me.leaving.extend(all);
            }
            Self::CopyIsNewest => {
                for snapshot in &mut seen.snapshots {
                    snapshot.is_forked = false;
                }
            }
            _ if let Goal::Copied(order) = goal => self.distort_copied(seen, order),
            Self::ThrowawayIsNewest if *goal != Goal::Throwaway => {
                let thrown = std::mem::take(&mut seen.throwaways);
                seen.volumes.extend(thrown.into_iter().map(|it| SeenVolume {
                    generation: it.volume.base.next(),
                    ..it.volume
                }));
                for instance in &mut seen.instances {
                    instance.throwaway = None;
                }
            }
            Self::OriginUnneeded => {
                let origins = seen.throwaways.iter().filter_map(|it| {
                    let id = it.volume.snapshot.clone()?;
                    let is_gone = seen.snapshots.iter().all(|there| there.id != id);
                    let like = seen.snapshots.first().filter(|_| is_gone)?.clone();
                    Some(SeenSnapshot { id, ..like })
                });
                let origins: Vec<SeenSnapshot> = origins.collect();
                seen.snapshots.extend(origins);
            }
            Self::DiscardsDrive if !goal.is_mounted() => {
                let taken = seen.volumes.iter().filter(|it| it.snapshot.is_some());
                let volumes = taken.cloned().map(|volume| SeenThrowaway { volume });
                let volumes: Vec<SeenThrowaway> = volumes.collect();
                seen.throwaways.extend(volumes);
                seen.volumes.retain(|it| it.snapshot.is_none());
            }
            Self::NewestByStartTime => {
                let mut generations: Vec<_> = seen
                    .snapshots
                    .iter()
                    .map(|snapshot| snapshot.generation)
                    .collect();
                generations.sort();
                seen.snapshots.sort_by(|one, other| one.id.cmp(&other.id));
                for (snapshot, generation) in seen.snapshots.iter_mut().zip(generations) {
                    snapshot.generation = generation;
                }
            }
            _ => {}
        }
    }

    /// Distorts the client's knowledge of a drive that is to begin with a copy.
    fn distort_copied(self, seen: &mut Observed, order: &CopyOrder) {
        match self {
            Self::CopiesAgain => seen.me.unsure = None,
            Self::PendingIsCopied => {
                for snapshot in &mut seen.snapshots {
                    if snapshot.state == SnapshotState::Pending {
                        snapshot.state = SnapshotState::Completed;
                    }
                }
            }
            Self::SeesOnlyItsCopy if seen.snapshots.iter().any(|it| it.op == order.op) => {
                seen.instances.clear();
                seen.volumes.clear();
                seen.snapshots.retain(|it| it.op == order.op);
            }
            _ => {}
        }
    }

    /// Distorts a volume that the client reads by id before a snapshot or a mount of it.
    pub(super) fn distort_volume(self, volume: &mut Volume) {
        if self == Self::ThrowawayIsNewest && volume.thrown.is_some() {
            volume.generation = volume.base + 1;
        }
    }

    /// Distorts a volume that the client reads by id before it deletes it, and the snapshot on
    /// which that rests.
    pub(super) fn distort_discarded(
        self,
        volume: &mut ec2::Volume,
        snapshot: &mut Option<Snapshot>,
    ) {
        match self {
            Self::OriginUnneeded if snapshot.is_none() => {
                let base = volume.tags[tags::BASE].parse().unwrap();
                let id = volume
                    .snapshot
                    .as_ref()
                    .map(|id| values::number(id.as_str()));
                *snapshot = id.map(|id| values::snapshot(id, &past::snapshot(0, base)));
            }
            Self::DiscardsDrive => {
                let base = volume.tags[tags::BASE].clone();
                volume.tags.insert(tags::GENERATION.to_owned(), base);
                volume.tags.extend(tags::throwaway(&values::session(0)));
            }
            _ => {}
        }
    }

    /// Distorts a snapshot that the client reads by id.
    pub(super) fn distort_read(self, snapshot: &mut Snapshot) {
        if self == Self::DeleteBeforeCompleted && snapshot.state == SnapshotState::Pending {
            snapshot.state = SnapshotState::Completed;
        }
        if self == Self::CheckpointSaves
            && let Ok(own) = tags::read_snapshot(&snapshot.tags)
            && own.kind == SnapshotKind::Checkpoint
        {
            let own = SnapshotTags {
                kind: SnapshotKind::Crashed,
                number: 0,
                ..own
            };
            let who = values::who(0);
            snapshot.tags = tags::snapshot(values::drive(), &who, &own, &Carried::default());
        }
    }

    /// Distorts the record of the drive's run.
    pub(super) fn distort_record(self, record: Run) -> Run {
        match self {
            Self::EndUnread => Run {
                status: None,
                is_lost: !record.runs(),
                ..record
            },
            _ => record,
        }
    }

    /// The moment from which it counts the age of a re-read.
    pub(super) fn clock_of_proofs(self, now: BootTime, read: BootTime) -> BootTime {
        match self {
            Self::LastingProofs => read,
            _ => now,
        }
    }

    /// Distorts a host's answer when the client asks again.
    pub(super) fn answer_of_host(self, contact: Option<Contact>) -> Option<Contact> {
        match self {
            Self::OldWord => contact.map(|_| Contact::Reached(NOTHING_THERE)),
            _ => contact,
        }
    }
}

/// Whether no list has anything that could be the drive.
fn is_nowhere(seen: &Observed) -> bool {
    let is_empty = |volume: &SeenVolume| volume.is_unused() || volume.is_unformatted();
    seen.snapshots.is_empty() && seen.volumes.iter().all(is_empty)
}
