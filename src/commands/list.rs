//! `xdrive list`: every drive, where it is, and what is billed for it.
//!
//! Read from tags alone, so it shows the same from any laptop. Everything that carries a drive's
//! tag is listed, including what the plan ignores: an odd line is better than an unseen bill.
//!
//! On a terminal it is a table; elsewhere, or with `--verbose`, a list of the parts of each drive.
//! Programs should read the JSON.

mod run;
mod table;
mod text;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;

use serde::Serialize;

use self::run::WantedRow;
use super::flags::Reach;
use super::{Context, Names, files};
use crate::cloud::Cloud;
use crate::drive::tags::{self, Settings, SnapshotKind, VolumeTags, WantedRun};
use crate::drive::tend;
use crate::ec2::{
    Instance, InstanceState, Snapshot, SnapshotState, StoragePrices, Tags, Volume, VolumeState,
};
use crate::failure::{Exit, Failure};
use crate::ids::{DriveName, InstanceId, InvalidName};
use crate::launch::cost::HourlyPrices;
use crate::report::{self, Text};

/// Everything of one drive that exists.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Entry {
    /// Name of the drive.
    pub(crate) drive: String,
    /// `running`; `throwaway`: what runs saves nothing, and the drive is saved; `saving`; `volume`: it
    /// waits as a volume for the next run to save it; `failed`: its newest snapshot is in error, and
    /// nothing else holds as much; `saved`.
    #[cfg_attr(test, schemars(extend("enum" = ["running", "throwaway", "saving", "volume", "failed", "saved"])))]
    state: &'static str,
    /// Meaning of the state and what helps, if somebody has to act.
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
    /// How often it has been mounted: the highest of its volumes and snapshots.
    generation: u64,
    /// US dollars a month for what is kept, at most: snapshots are billed by changed blocks.
    dollars_a_month: f64,
    /// US dollars an hour for what runs, with public addresses, where the price is known.
    dollars_an_hour: f64,
    /// Drive that leads it, if it is a worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    worker_of: Option<String>,
    /// Its run that is begun again where its host is lost, while that is wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<WantedRow>,
    /// Instances, volumes, then snapshots, the newest generation first, then others' backups.
    things: Vec<Row>,
}

/// An instance, volume or snapshot.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Row {
    /// Kind; `throwaway` is the volume of a session that saves nothing, `backup` a snapshot of the
    /// drive's volumes that somebody else made and xdrive leaves alone.
    #[cfg_attr(test, schemars(extend("enum" = ["instance", "volume", "root disk", "throwaway", "snapshot", "backup"])))]
    kind: &'static str,
    /// Id in EC2.
    id: String,
    /// State, as EC2 calls it.
    state: &'static str,
    /// Type, market and zone of an instance, the zone of a volume, the kind of a snapshot; in words.
    detail: String,
    /// Size.
    #[serde(skip_serializing_if = "Option::is_none")]
    gib: Option<u32>,
    /// How often the drive had been mounted.
    #[serde(skip_serializing_if = "Option::is_none")]
    generation: Option<u64>,
    /// When it was made, RFC 3339.
    since: String,
    /// Whether it is billed now: an instance that is shutting down is not (EC2 user guide,
    /// *Instance lifecycle*), nor is a disk that is deleted with it.
    billed: bool,
    /// Whether it is a volume that was attached at least once: it may hold data of its own.
    #[serde(skip)]
    used: bool,
    /// Whether it is an instance that runs for a volume that is thrown away.
    #[serde(skip)]
    is_thrown_away: bool,
    /// US dollars a month, about; of a snapshot at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    dollars_a_month: Option<f64>,
    /// US dollars an hour, with its public address, where the price is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    dollars_an_hour: Option<f64>,
}

/// `xdrive list`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only this drive, or what is in a folder on it.
    ///
    /// Paths are below /work unless they begin with / or ~. Of a drive that is not up its newest
    /// snapshot is read, with @N that of generation N; no instance is launched for it.
    #[arg(value_name = "NAME | NAME[@N][/CONTAINER]:PATH")]
    pub drive: Option<OsString>,

    /// One JSON document instead of text.
    #[arg(long)]
    pub json: bool,

    /// Look at files although another caller has or had the drive.
    ///
    /// Callers are IAM users and roles.
    #[arg(long, hide_short_help = true)]
    pub shared: bool,

    /// How hosts are reached.
    #[command(flatten)]
    pub reach: Reach,
}

/// Lists the drives. Returns the exit code.
pub(crate) fn run(args: &Args, context: &Context) -> Result<u8, Failure> {
    let only = match &args.drive {
        Some(place) if files::is_place(place) => {
            let reach = super::reach(args.reach.clone(), &context.paths()?)?;
            return files::list(place, (args.shared, reach, args.json), context);
        }
        Some(name) => Some(
            name.to_string_lossy()
                .parse()
                .map_err(|error: InvalidName| {
                    Failure::new(Exit::Usage, error).hint("NAME:PATH lists files on a drive")
                })?,
        ),
        None => None,
    };
    let paths = context.paths()?;
    super::block_on(async {
        let cloud = context.open(&paths).await?;
        let names = Names::find(&cloud, &paths);
        let what = (only.as_ref(), args.json, context.verbose > 0);
        list(&cloud, names, what).await
    })?;
    Ok(0)
}

/// Lists all drives, or one; as text, or as one JSON document. Keeps their `names` for completions.
/// Fails if the one does not exist.
async fn list(
    cloud: &Cloud,
    names: Option<Names>,
    (only, json, verbose): (Option<&DriveName>, bool, bool),
) -> Result<(), Failure> {
    let entries = entries(cloud).await?;
    if let Some(names) = names {
        let drives = entries.iter().filter_map(|entry| entry.drive.parse().ok());
        let drives: Vec<DriveName> = drives.collect();
        names.write(&drives);
    }
    let entries: Vec<Entry> = entries
        .into_iter()
        .filter(|entry| only.is_none_or(|drive| drive.as_str() == entry.drive))
        .collect();
    if let (Some(drive), true) = (only, entries.is_empty()) {
        return Err(Failure::no_drive(drive, &cloud.command));
    }
    if json {
        return Ok(report::json(&entries)?);
    }
    let text = if entries.is_empty() {
        Text::block("no drives\n")
    } else if let Some(width) = report::width().filter(|_| !verbose) {
        table::table(&entries, width, cloud.clock.now())
    } else {
        let mut text = Text::default();
        for entry in &entries {
            text.push(&entry.text());
        }
        if let ([entry], Some(drive)) = (&entries[..], only)
            && (entry.things.iter())
                .filter(|it| it.kind == SNAPSHOT)
                .count()
                > 1
        {
            text.push(&Text::block(&format!(
                "to go back: {} connect {drive} --from SNAPSHOT\n",
                cloud.command
            )));
        }
        text
    };
    report::data(&text)
        .map_err(|error| Failure::from(anyhow::Error::new(error).context("cannot write the list")))
}

/// Lists all resources that carry a drive's tag, drive by drive. A drive of which nothing is billed
/// is left out: it is what an undone launch leaves behind for a minute.
pub(crate) async fn entries(cloud: &Cloud) -> Result<Vec<Entry>, Failure> {
    let (all, backups) = cloud.ec2.everything_and_backups().await?;
    let storage = cloud.ec2.storage_prices().await;
    let (instances, volumes, snapshots) = all;
    let ended: BTreeSet<InstanceId> = instances
        .iter()
        .filter(|instance| instance.state.is_over())
        .map(|instance| instance.id.clone())
        .collect();
    let wanted = tend::wanted(&volumes, &snapshots);
    let runs: BTreeMap<String, WantedRun> = wanted
        .into_iter()
        .map(|(name, wanted)| (name.to_string(), wanted.run))
        .collect();
    let mut drives = BTreeMap::<String, Entry>::new();
    let mut prices = HourlyPrices::default();
    for instance in instances {
        if instance.state == InstanceState::Terminated {
            continue;
        }
        let price = if instance.state.is_over() {
            None
        } else {
            prices.find(&instance, &cloud.ec2).await
        };
        let line = Row::of_instance(&instance, price);
        entry(&mut drives, &instance.tags).things.push(line);
    }
    for volume in volumes {
        if matches!(volume.state, VolumeState::Deleting | VolumeState::Deleted) {
            continue;
        }
        let line = Row::of_volume(&volume, &ended, storage);
        entry(&mut drives, &volume.tags).things.push(line);
    }
    for snapshot in snapshots {
        let entry = entry(&mut drives, &snapshot.tags);
        entry.things.push(Row::of_snapshot(&snapshot, storage));
        if let Some(leader) = tags::worker_of(&snapshot.tags) {
            entry.worker_of = Some(leader.to_string());
        }
    }
    drives.retain(|_, entry| entry.things.iter().any(|line| line.billed));
    let now = cloud.clock.now();
    for entry in drives.values_mut() {
        entry.sum_up();
        entry.advise(&cloud.command);
        let run = runs.get(&entry.drive);
        entry.run = run.map(|run| WantedRow::new(run, entry.state, now, &cloud.command));
    }
    for backup in &backups {
        let drive = backup.tags.get(tags::DRIVE);
        if let Some(entry) = drive.and_then(|drive| drives.get_mut(drive)) {
            entry.things.push(Row::of_backup(backup, storage));
        }
    }
    let mut entries: Vec<Entry> = drives.into_values().collect();
    // Workers below their leader, as their numbers are.
    let own = |it: &Entry| (it.worker_of.is_some(), it.drive.len(), it.drive.clone());
    entries.sort_by_key(|it| (it.worker_of.clone().unwrap_or(it.drive.clone()), own(it)));
    Ok(entries)
}

fn entry<'a>(drives: &'a mut BTreeMap<String, Entry>, tags: &Tags) -> &'a mut Entry {
    let drive = tags.get(tags::DRIVE).cloned().unwrap_or_default();
    drives.entry(drive.clone()).or_insert_with(|| Entry {
        drive,
        ..Entry::default()
    })
}

impl Entry {
    fn sum_up(&mut self) {
        let snapshots = self.things.partition_point(|line| line.kind != SNAPSHOT);
        self.things[snapshots..].sort_by_key(|line| Reverse(line.generation));
        let any = |is: &dyn Fn(&Row) -> bool| self.things.iter().any(is);
        let has = |kind| any(&|line| line.kind == kind);
        // A volume that was never mounted is not being saved, although its instance ends.
        let is_ending = has(INSTANCE) && any(&|line| line.used);
        let runs = |line: &Row| line.kind == INSTANCE && line.billed;
        self.state = if any(&|line| runs(line) && !line.is_thrown_away) {
            "running"
        } else if any(&runs) {
            THROWAWAY
        } else if is_ending || any(&|line| line.state == "pending") {
            "saving"
        } else if has(VOLUME) {
            "volume"
        } else if self.failed().is_some() {
            "failed"
        } else {
            "saved"
        };
        let generations = self.things.iter().filter_map(|line| line.generation);
        self.generation = generations.max().unwrap_or_default();
        self.dollars_a_month = self
            .things
            .iter()
            .filter_map(|line| line.dollars_a_month)
            .fold(0.0, std::ops::Add::add);
        self.dollars_an_hour = self
            .things
            .iter()
            .filter_map(|line| line.dollars_an_hour)
            .fold(0.0, std::ops::Add::add);
    }

    /// The failed snapshot of the newest generation, if no completed one has that generation.
    fn failed(&self) -> Option<&Row> {
        let is_final =
            |line: &&Row| line.kind == SNAPSHOT && line.detail != SnapshotKind::Checkpoint.as_str();
        let finals = || self.things.iter().filter(is_final);
        let whole = finals().filter(|line| line.state == "completed");
        let whole = whole.map(|line| line.generation).max();
        finals()
            .filter(|line| line.state == "error")
            .filter(|line| whole.is_none_or(|whole| line.generation > whole))
            .max_by_key(|line| line.generation)
    }

    /// Sets the advice for a drive whose newest snapshot failed; `command` is how xdrive is called.
    fn advise(&mut self, command: &str) {
        let Some(failed) = self.failed().filter(|_| self.state == "failed") else {
            return;
        };
        // No command is made of what may be anything.
        let Ok(drive) = self.drive.parse::<DriveName>() else {
            return;
        };
        let failed = &failed.id;
        let is_whole = |line: &&Row| line.kind == SNAPSHOT && line.state == "completed";
        let whole = self.things.iter().filter(is_whole);
        let helps = match whole.max_by_key(|line| line.generation) {
            Some(older) => format!(
                "{command} connect {drive} --from {}\n  goes on from generation {}",
                older.id,
                older.generation.unwrap_or_default()
            ),
            None if drive.as_str().contains(".fork-") => {
                format!("{command} delete {drive}\n  deletes what is left of it")
            }
            None => format!("{command} connect {drive} --from empty\n  begins anew"),
        };
        self.advice = Some(format!(
            "the newest snapshot ({failed}) failed, and its volume is gone\n  {helps}"
        ));
    }

    /// Root disks whose instance is gone.
    pub(crate) fn lone_root_disks(&self) -> impl Iterator<Item = &str> {
        self.things
            .iter()
            .filter(|line| line.kind == ROOT_DISK && line.state == "available")
            .map(|line| line.id.as_str())
    }
}

const INSTANCE: &str = "instance";
const VOLUME: &str = "volume";
const ROOT_DISK: &str = "root disk";
const SNAPSHOT: &str = "snapshot";
/// A snapshot of its volumes that somebody else made.
const BACKUP: &str = "backup";
/// A volume that a session throws away; and a drive whose instance runs for one.
const THROWAWAY: &str = "throwaway";

impl Row {
    fn of_instance(instance: &Instance, price: Option<f64>) -> Self {
        let market = instance.market;
        Self {
            kind: INSTANCE,
            id: instance.id.to_string(),
            state: match instance.state {
                InstanceState::Pending => "pending",
                InstanceState::Running => "running",
                InstanceState::Stopping => "stopping",
                InstanceState::Stopped => "stopped",
                InstanceState::ShuttingDown => "shutting-down",
                InstanceState::Terminated => "terminated",
            },
            detail: format!("{} {market} in {}", instance.instance_type, instance.zone),
            gib: None,
            generation: None,
            since: format!("{:.0}", instance.launched),
            billed: !instance.state.is_over(),
            used: false,
            is_thrown_away: tags::thrown_away_by(&instance.tags).is_some(),
            dollars_a_month: None,
            dollars_an_hour: price,
        }
    }

    /// A volume's row; `ended` are the instances that are shutting down or terminated.
    fn of_volume(volume: &Volume, ended: &BTreeSet<InstanceId>, prices: StoragePrices) -> Self {
        let zone = format!("in {}", volume.zone);
        let (kind, generation, used, detail) = match tags::read_volume(&volume.tags) {
            Ok(VolumeTags::Root) => (ROOT_DISK, None, false, zone),
            Ok(VolumeTags::Drive {
                generation, base, ..
            }) => (VOLUME, Some(generation.0), generation > base, zone),
            Ok(VolumeTags::Throwaway { base, .. }) => (
                THROWAWAY,
                None,
                false,
                format!("{zone}, made from generation {base} and never saved"),
            ),
            Err(error) => (VOLUME, None, true, format!("{zone}, {error}")),
        };
        let goes = volume
            .attachment
            .as_ref()
            .is_some_and(|to| to.delete_on_termination && ended.contains(&to.instance));
        // A speed that cannot be parsed was not bought by xdrive.
        let speed = Settings::read(&volume.tags).speed().unwrap_or_default();
        Self {
            kind,
            id: volume.id.to_string(),
            state: match volume.state {
                VolumeState::Creating => "creating",
                VolumeState::Available => "available",
                VolumeState::InUse => "in-use",
                VolumeState::Deleting => "deleting",
                VolumeState::Deleted => "deleted",
                VolumeState::Error => "error",
            },
            detail,
            gib: Some(volume.size),
            generation,
            since: format!("{:.0}", volume.created),
            billed: !goes,
            used,
            is_thrown_away: false,
            dollars_a_month: (!goes).then(|| prices.volume(volume.size, speed).to_a_cent()),
            dollars_an_hour: None,
        }
    }

    fn of_snapshot(snapshot: &Snapshot, prices: StoragePrices) -> Self {
        let (generation, detail) = match tags::read_snapshot(&snapshot.tags) {
            Ok(own) => (Some(own.generation.0), own.kind.as_str().to_owned()),
            Err(error) => (None, error.to_string()),
        };
        Self {
            kind: SNAPSHOT,
            id: snapshot.id.to_string(),
            state: match snapshot.state {
                SnapshotState::Pending => "pending",
                SnapshotState::Completed => "completed",
                SnapshotState::Error => "error",
            },
            detail,
            gib: Some(snapshot.size),
            generation,
            since: format!("{:.0}", snapshot.started),
            billed: true,
            used: false,
            is_thrown_away: false,
            dollars_a_month: Some(prices.snapshot(snapshot.size).to_a_cent()),
            dollars_an_hour: None,
        }
    }
}

impl Row {
    /// The row of somebody else's backup, which has no part in the drive, nor in its cost.
    fn of_backup(snapshot: &Snapshot, prices: StoragePrices) -> Self {
        Self {
            kind: BACKUP,
            detail: "somebody else's, which xdrive leaves alone".to_owned(),
            generation: None,
            dollars_a_month: None,
            ..Self::of_snapshot(snapshot, prices)
        }
    }
}

#[cfg(test)]
mod tests;
