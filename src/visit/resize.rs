//! `xdrive resize`: a larger or faster drive, also in the middle of its use.
//!
//! EC2 changes the volume; then its host grows the file system that is mounted there. A drive whose volume waits for
//! its next host grows with its next mount. A resize that was cut off is finished by the same command.

use std::time::Duration;

use anyhow::anyhow;
use tokio::time::{sleep, timeout};

use super::visitor::{Visit, Visitor};
use crate::attached::reach_live;
use crate::config::quantity::SIZES;
use crate::drive::tags::{self, Settings};
use crate::ec2::{self, Ec2, GibiBytes, Instance, Modified, Speed, Volume};
use crate::failure::{Exit, Failure};
use crate::ids::VolumeId;
use crate::opener::{Drive, free_words, or_interrupted};

/// How long EC2 may take until the volume has its new size, which it usually has within seconds (EBS user guide,
/// *Monitor the progress of volume modifications*).
const PATIENCE: Duration = Duration::from_mins(5);

/// How often it is asked.
const POLL: Duration = Duration::from_millis(500);

/// EC2's codes for a volume that cannot be modified yet.
const NOT_YET: [&str; 2] = [
    "IncorrectModificationState",
    "VolumeModificationRateExceeded",
];

/// The change of a volume.
#[derive(Debug, Clone, Copy)]
struct Change {
    /// The new size, if it becomes larger.
    size: Option<GibiBytes>,
    /// The new speed, where it is another one.
    speed: Speed,
}

/// Changes the drive's volume to this size and speed, where they are given. Returns the exit code.
pub(crate) async fn resize(
    mut drive: Drive,
    visitor: Visitor,
    size: Option<GibiBytes>,
    speed: Speed,
) -> Result<u8, Failure> {
    let volume = volume_of(&drive).await?;
    if let Some(change) = check(&drive, &volume, size, speed)? {
        let label = volume.id.drive_label(&drive.name);
        let ec2 = drive.cloud.ec2.clone();
        let asked = ec2.modify_volume(&volume.id, change.size, change.speed);
        asked.await.map_err(refused)?;
        if change.speed != Speed::default() {
            let settings = Settings::default().with_speed(change.speed);
            ec2.tag(volume.id.as_str(), &settings.tags()).await?;
        }
        let step = drive
            .report
            .step(format!("wait until EC2 has changed {label}"));
        let changed = timeout(PATIENCE, changed(&ec2, &volume.id, change));
        let changed = or_interrupted(&mut drive.signals, &drive.report, changed).await?;
        drop(step);
        changed.map_err(|_late| anyhow!("EC2 has not changed {label} in 5 min"))??;
        drive.report.print(&format!("EC2 has changed {label}"));
    }
    if let Some(size) = size {
        if let Some(host) = drive.facts.host.clone() {
            grow(drive, visitor, host, size).await?;
        } else {
            let name = &drive.name;
            let words = format!("{name} has {size} GiB from its next mount on");
            drive.report.print(&words);
        }
    }
    Ok(0)
}

/// Has the host grow the file system of the drive, whose volume has `size`.
async fn grow(
    drive: Drive,
    visitor: Visitor,
    host: Instance,
    size: GibiBytes,
) -> Result<(), Failure> {
    let mut visit = Visit::new(drive, visitor, false)?;
    let live = reach_live(&mut visit.drive, visit.reconciler.hosts(), Some(host)).await?;
    let growing = live.host.grow(u64::from(size) << 30);
    let drive = &mut visit.drive;
    let grown = or_interrupted(&mut drive.signals, &drive.report, growing).await?;
    let name = &drive.name;
    let words = match grown.map_err(anyhow::Error::new)? {
        Some(room) => {
            let free = free_words(room);
            format!("{name} has {size} GiB, of which {free} are free")
        }
        None => format!(
            "{name} has {size} GiB from its next mount on: its host may not grow a file system that is \
             mounted"
        ),
    };
    drive.report.print(&words);
    Ok(())
}

/// The drive's volume: that on its host, or the newest that waits for one.
async fn volume_of(drive: &Drive) -> Result<Volume, Failure> {
    let (name, facts) = (&drive.name, &drive.facts);
    let found = match &facts.host {
        Some(host) => drive.mounted_volume(host).await?,
        None => tags::newest(facts.volumes_left(), |it| &it.tags).map(|(_, it)| it.clone()),
    };
    found.ok_or_else(|| {
        let command = &drive.cloud.command;
        if facts.snapshots.is_empty() && facts.host.is_none() {
            return Failure::no_drive(name, command);
        }
        let error = anyhow!("{name} has no volume now that could be changed");
        Failure::new(Exit::Unavailable, error).hint(format!(
            "{command} connect {name} --size GIB makes the next one larger; --throughput and --iops make it \
             faster"
        ))
    })
}

/// The change of this volume, if it is one; refuses what cannot be.
fn check(
    drive: &Drive,
    volume: &Volume,
    size: Option<GibiBytes>,
    speed: Speed,
) -> Result<Option<Change>, Failure> {
    let (name, now) = (&drive.name, volume.size);
    let usage = |words: String, hint: String| {
        let failure = Failure::new(Exit::Usage, anyhow!(words));
        Err(failure.hint(hint))
    };
    let wanted = size.unwrap_or(now);
    if wanted < now {
        let words = format!("{name} has {now} GiB, and cannot have {wanted}");
        let hint = format!("a volume only grows, up to {} GiB", SIZES.end());
        return usage(words, hint);
    }
    // One that cannot be parsed was not bought by xdrive.
    let own = Settings::read(&volume.tags).speed().unwrap_or_default();
    let has_speed = speed.or(own) == own;
    // On a host the file system may still have to grow.
    let is_done = size.is_none() || drive.facts.host.is_none();
    if wanted == now && has_speed && is_done {
        let hint = "a larger size, --throughput and --iops change it".to_owned();
        return usage(
            format!("{name} has {now} GiB already, and that speed"),
            hint,
        );
    }
    if let Err((words, hint)) = speed.or(own).check_for(wanted) {
        return usage(words, hint);
    }
    let size = (wanted > now).then_some(wanted);
    let speed = if has_speed { Speed::default() } else { speed };
    Ok((size.is_some() || !has_speed).then_some(Change { size, speed }))
}

/// The failure of a change that EC2 refuses.
fn refused(error: ec2::Error) -> Failure {
    if !NOT_YET.contains(&error.code.as_str()) {
        return error.into();
    }
    Failure::new(Exit::TryAgain, anyhow!("{error}")).hint(
        "nothing was changed; AWS takes up to four changes of a volume a day, one after the other",
    )
}

/// Waits until the volume has its new size.
async fn changed(ec2: &Ec2, volume: &VolumeId, change: Change) -> Result<(), Failure> {
    loop {
        let found = ec2.volume_modification(volume, change.size, change.speed);
        match found.await? {
            Modified::Done => return Ok(()),
            Modified::Failed(why) => {
                return Err(anyhow!("EC2 could not change the volume: {why}").into());
            }
            Modified::Not => sleep(POLL).await,
        }
    }
}
