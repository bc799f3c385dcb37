//! `adopt`: a drive of a snapshot or a volume that is none yet, such as those of the first xdrive.
//!
//! The original is only read: nothing here changes it, tags it, or could delete it. The drive begins
//! with a copy, as a fork does.

use anyhow::anyhow;

use super::copied::{copy, demand_new, most_a_month, report_copy};
use crate::drive::superblock;
use crate::drive::tags::{self, SnapshotKind, VolumeTags};
use crate::drive::{CopyOrder, CopySource};
use crate::ec2::{DRIVE, Ec2, Encryption, Snapshot, SnapshotState, Tags, Volume, VolumeState};
use crate::failure::{Exit, Failure};
use crate::ids::{DriveName, SnapshotId};
use crate::opener::{Drive, Ending};

/// The result of a look into a snapshot.
enum Look {
    /// An ext4, and how it was left.
    Ext4(SnapshotKind),
    /// Not an ext4: the text says what instead.
    Other(String),
    /// Not read, for this reason.
    Unread(String),
}

/// Makes `drive`, which must be new, of a copy of `source`. Returns the exit code.
pub(crate) async fn adopt(mut drive: Drive, source: CopySource) -> Result<u8, Failure> {
    let region = drive.cloud.ec2.region().to_owned();
    demand_adoptable(&drive, &source).await?;
    let of = source.to_string();
    let order = |kind| {
        let (own, tags) = tags::adopt(&source, kind);
        CopyOrder {
            region: region.clone(),
            source: source.clone(),
            op: own.op,
            tags,
        }
    };
    demand_new(&drive, &order(SnapshotKind::Clean), &of)?;
    let is_whole = is_copied_whole(&drive.cloud.ec2, &source).await;
    // A volume cannot be read; its copy can.
    let found = match &source {
        CopySource::Snapshot(id) => Some(look(&drive.cloud.ec2, id).await),
        CopySource::Volume(_) => None,
    };
    let kind = match &found {
        Some(Look::Other(what)) => return Err(no_ext4(&source, what)),
        Some(Look::Ext4(kind)) => *kind,
        Some(Look::Unread(_)) | None => SnapshotKind::Clean,
    };
    let copied = copy(&mut drive, order(kind)).await;
    let copied = copied.map_err(|failure| may_not(failure, &source))?;
    if let Some(copy) = &copied.copy {
        let found = match found {
            Some(Look::Ext4(kind)) => Look::Ext4(kind),
            _ => look(&drive.cloud.ec2, &copy.snapshot).await,
        };
        match found {
            // A volume that was taken from its host by force; the copy was marked before the look.
            Look::Ext4(left) if left != kind => {
                let id = copy.snapshot.as_str();
                drive.cloud.ec2.tag(id, &tags::of_kind(left)).await?;
            }
            Look::Ext4(_) => {}
            Look::Other(what) => {
                let (name, command) = (&drive.name, &drive.cloud.command);
                let hint = format!("{command} delete {name} deletes the copy that was made");
                return Err(no_ext4(&source, &what).hint(hint));
            }
            Look::Unread(why) => drive.report.print(&format!(
                "whether it holds an ext4 was not looked into: {why}; the first connect finds out"
            )),
        }
        report_copy(&drive, copy, &of, "");
        report_cost(&drive, &source, is_whole, &copy.snapshot).await;
    }
    copied.asked.map_or(Ending::Exit(0), Ending::Asked).code()
}

/// Refuses a source that is not there, that is a drive's, or that cannot be copied now.
async fn demand_adoptable(drive: &Drive, source: &CopySource) -> Result<(), Failure> {
    let (ec2, to, command) = (&drive.cloud.ec2, &drive.name, &drive.cloud.command);
    let refused = match source {
        CopySource::Snapshot(id) => {
            let snapshot = ec2.snapshot(id).await?;
            snapshot.map(|it| refuse_snapshot(&it, to, command))
        }
        CopySource::Volume(id) => {
            let gone = [VolumeState::Deleting, VolumeState::Deleted];
            let volume = ec2.volume(id).await?;
            let volume = volume.filter(|it| !gone.contains(&it.state));
            volume.map(|it| refuse_volume(&it, to, command))
        }
    };
    refused.unwrap_or_else(|| {
        let error = anyhow!("there is no {source} in {}", ec2.region());
        let hint = "--region names another region";
        Err(Failure::new(Exit::Unavailable, error).hint(hint))
    })
}

/// Whether the copy of a snapshot has all of its data, since it is not encrypted as drives are.
async fn is_copied_whole(ec2: &Ec2, source: &CopySource) -> bool {
    let CopySource::Snapshot(id) = source else {
        return false;
    };
    // A look that fails keeps only a sentence back.
    let found = ec2.encryption(id).await;
    matches!(found, Ok(Some(Encryption::None)))
}

/// Prints what the copy of `source`, which `is_whole` if that has no encryption, costs a month.
async fn report_cost(drive: &Drive, source: &CopySource, is_whole: bool, copy: &SnapshotId) {
    let ec2 = &drive.cloud.ec2;
    let Some(most) = most_a_month(ec2, copy).await else {
        return;
    };
    let found = ec2.encryption(copy).await;
    let is_plain = matches!(found, Ok(Some(Encryption::None)));
    drive.report.note(&match source {
        CopySource::Snapshot(_) if is_whole => format!(
            "{source} is as it was, and not encrypted; the copy is, as drives are, and so a whole \
             one: at most {most} a month"
        ),
        CopySource::Volume(_) if is_plain => format!(
            "{source} is as it was, and not encrypted; the copy costs at most {most} a month, and \
             the first save, which is encrypted, as much again"
        ),
        CopySource::Snapshot(_) => format!(
            "{source} is as it was; the copy costs what differs from it, at most {most} a month"
        ),
        CopySource::Volume(_) => {
            format!("{source} is as it was; the copy costs at most {most} a month")
        }
    });
}

/// Refuses a snapshot that is a drive's, or not completed; `to` is the new drive's name.
fn refuse_snapshot(snapshot: &Snapshot, to: &DriveName, command: &str) -> Result<(), Failure> {
    let id = &snapshot.id;
    // Somebody else's backup of a drive is none of that drive's saves.
    if !snapshot.is_backup() {
        refuse_drives(id.as_str(), &snapshot.tags, to, command)?;
    }
    let (exit, error, hint) = match snapshot.state {
        SnapshotState::Completed => return Ok(()),
        SnapshotState::Pending => (
            Exit::TryAgain,
            anyhow!("{id} is not completed yet"),
            "the same again once it is",
        ),
        SnapshotState::Error => (
            Exit::Unavailable,
            anyhow!("{id} failed, and holds nothing: {}", snapshot.message),
            "another snapshot, or its volume",
        ),
    };
    Err(Failure::new(exit, error).hint(hint))
}

/// Refuses a volume that is a drive's, in use, or not there yet; `to` is the new drive's name.
fn refuse_volume(volume: &Volume, to: &DriveName, command: &str) -> Result<(), Failure> {
    let id = &volume.id;
    refuse_drives(id.as_str(), &volume.tags, to, command)?;
    let (exit, error, hint) = match (volume.state, &volume.attachment) {
        (VolumeState::Available, None) => return Ok(()),
        (VolumeState::Creating, _) => (
            Exit::TryAgain,
            anyhow!("{id} is being made"),
            "the same again once it is there".to_owned(),
        ),
        (VolumeState::Error | VolumeState::Deleting | VolumeState::Deleted, _) => (
            Exit::Unavailable,
            anyhow!("{id} failed, or is being deleted"),
            "a snapshot of it, if there is one".to_owned(),
        ),
        (VolumeState::Available | VolumeState::InUse, by) => {
            let by = by.as_ref();
            let by = by.map_or_else(String::new, |it| format!(" by {}", it.instance));
            (
                Exit::TryAgain,
                anyhow!("{id} is in use{by}"),
                format!("unmount it there first: aws ec2 detach-volume --volume-id {id}"),
            )
        }
    };
    Err(Failure::new(exit, error).hint(hint))
}

/// Refuses what is part of a drive already, as its `tags` say.
fn refuse_drives(id: &str, tags: &Tags, to: &DriveName, command: &str) -> Result<(), Failure> {
    let Some(drive) = tags.get(DRIVE) else {
        return Ok(());
    };
    let error = anyhow!("{id} is of the drive {drive} already");
    // No command is made of what may be anything.
    let Some(drive) = tags::drive(tags) else {
        let hint = format!("{command} list -v shows it");
        return Err(Failure::new(Exit::Usage, error).hint(hint));
    };
    let hint = match (tags::read_snapshot(tags), tags::read_volume(tags)) {
        (Ok(own), _) => format!("{command} fork {drive}@{} {to}", own.generation),
        (_, Ok(VolumeTags::Drive { .. })) => {
            format!("{command} stop {drive} saves it, and {command} fork {drive} {to} copies it")
        }
        _ => format!("{command} list {drive} -v shows it"),
    };
    Err(Failure::new(Exit::Usage, error).hint(hint))
}

/// Looks into a snapshot for an ext4.
async fn look(ec2: &Ec2, id: &SnapshotId) -> Look {
    match ec2.snapshot_block(id, 0).await {
        Ok(block) => match superblock::identify(block.as_deref()) {
            Ok(kind) => Look::Ext4(kind),
            Err(what) => Look::Other(what.to_owned()),
        },
        Err(error) => Look::Unread(error.to_string()),
    }
}

fn no_ext4(source: &CopySource, what: &str) -> Failure {
    let error = anyhow!("{source} holds {what}, and a drive is an ext4 on the whole disk");
    Failure::new(Exit::Usage, error)
        .hint("copy its files with cp or rsync to a new drive: xdrive connect NAME")
}

/// The failure of a copy; that of a volume is one that `xdrive policy` does not allow.
fn may_not(failure: Failure, source: &CopySource) -> Failure {
    match source {
        CopySource::Volume(id) if failure.exit == Exit::Denied => failure.hint(format!(
            "xdrive's own policy allows no snapshot of a volume that is no drive's; who may, makes \
             one: aws ec2 create-snapshot --volume-id {id}, and adopt takes that"
        )),
        _ => failure,
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::ec2::{Attachment, AttachmentState, Zone};

    fn volume(state: VolumeState, tags: &[(&str, &str)]) -> Volume {
        Volume {
            id: "vol-1".parse().unwrap(),
            state,
            zone: Zone("us-east-1a".to_owned()),
            size: 8,
            created: Timestamp::UNIX_EPOCH,
            snapshot: None,
            attachment: None,
            tags: with(tags),
        }
    }

    fn snapshot(state: SnapshotState, tags: &[(&str, &str)]) -> Snapshot {
        Snapshot {
            id: "snap-1".parse().unwrap(),
            state,
            volume: None,
            size: 8,
            full_size: None,
            started: Timestamp::UNIX_EPOCH,
            message: "no room".to_owned(),
            tags: with(tags),
        }
    }

    fn with(tags: &[(&str, &str)]) -> Tags {
        let tags = tags.iter().chain(&[("Name", "demo")]);
        tags.map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    }

    const OF_A_DRIVE: [(&str, &str); 5] = [
        ("xdrive:drive", "lab"),
        ("xdrive:base", "2"),
        ("xdrive:generation", "3"),
        ("xdrive:kind", "clean"),
        ("xdrive:op", "op"),
    ];

    #[test]
    fn volumes_and_snapshots_that_cannot_be_adopted_are_refused_with_a_remedy() {
        let new: DriveName = "new".parse().unwrap();
        let of_volume = |it: &Volume| refuse_volume(it, &new, "xdrive");
        let of_snapshot = |it: &Snapshot| refuse_snapshot(it, &new, "xdrive");
        of_volume(&volume(VolumeState::Available, &[])).unwrap();
        of_snapshot(&snapshot(SnapshotState::Completed, &[])).unwrap();
        of_snapshot(&snapshot(SnapshotState::Completed, &OF_A_DRIVE[..3])).unwrap();
        let attached = Volume {
            attachment: Some(Attachment {
                instance: "i-1".parse().unwrap(),
                device: "/dev/sdf".to_owned(),
                state: AttachmentState::Attached,
                since: Timestamp::UNIX_EPOCH,
                delete_on_termination: false,
            }),
            ..volume(VolumeState::InUse, &[])
        };
        let table = [
            (
                of_volume(&attached),
                Exit::TryAgain,
                "in use by i-1",
                "detach-volume",
            ),
            (
                of_volume(&volume(VolumeState::Creating, &[])),
                Exit::TryAgain,
                "being made",
                "again",
            ),
            (
                of_volume(&volume(VolumeState::Error, &[])),
                Exit::Unavailable,
                "failed",
                "a snapshot of it",
            ),
            (
                of_volume(&volume(VolumeState::Available, &OF_A_DRIVE[..3])),
                Exit::Usage,
                "vol-1 is of the drive lab already",
                "xdrive stop lab saves it, and xdrive fork lab new",
            ),
            (
                of_volume(&volume(VolumeState::InUse, &[("xdrive:drive", "lab")])),
                Exit::Usage,
                "vol-1 is of the drive lab already",
                "xdrive list lab -v",
            ),
            (
                of_snapshot(&snapshot(SnapshotState::Pending, &[])),
                Exit::TryAgain,
                "not completed yet",
                "again",
            ),
            (
                of_snapshot(&snapshot(SnapshotState::Error, &[])),
                Exit::Unavailable,
                "no room",
                "another snapshot",
            ),
            (
                of_snapshot(&snapshot(SnapshotState::Completed, &OF_A_DRIVE)),
                Exit::Usage,
                "snap-1 is of the drive lab already",
                "xdrive fork lab@3 new",
            ),
        ];
        for (refused, exit, why, hint) in table {
            let failure = refused.unwrap_err();
            assert_eq!(failure.exit, exit, "{failure:?}");
            assert!(failure.error.to_string().contains(why), "{failure:?}");
            let hinted = failure.hint.as_ref().unwrap();
            assert!(hinted.contains(hint), "{failure:?}");
        }
    }

    #[test]
    fn a_volume_that_may_not_be_saved_is_left_to_who_may() {
        let denied = || Failure::new(Exit::Denied, anyhow!("no"));
        let volume = may_not(denied(), &CopySource::Volume("vol-1".parse().unwrap()));
        let hint = volume.hint.unwrap();
        assert!(hint.contains("create-snapshot --volume-id vol-1"), "{hint}");
        let snapshot = may_not(denied(), &CopySource::Snapshot("snap-1".parse().unwrap()));
        assert_eq!(snapshot.hint, None);
    }
}
