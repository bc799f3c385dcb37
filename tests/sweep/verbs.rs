//! The commands that make, name, note and delete drives, killed at every point and then given
//! again: what there is afterwards is what one that nobody disturbed leaves, and nothing else.
//!
//! On paper, each case in a copy of one EC2 in a folder with the same past: none of these commands
//! needs a host.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use anyhow::ensure;
use tempfile::TempDir;
use tokio::time::sleep;
use xdrive::cloud::folder;
use xdrive::ec2::{SnapshotState, Tags, VolumeState};
use xdrive::local::plane::PaperSuperblock;

use crate::client::{AFTER, KILL, TRACE};
use crate::jobs::side_by_side;
use crate::points::{self, Kill};
use harness::cloud::{made_snapshot, made_volume, open, tags, volume_order};
use harness::evidence::may_delete;
use harness::home::environment;
use harness::pace::Pace;

/// The drive that there is, with generations 1 and 2.
const DRIVE: &str = "demo";
/// The drive that a command makes.
const NEW: &str = "new";
/// The time between two looks.
const PAUSE: Duration = Duration::from_millis(20);
/// How often a point is tried that a command may skip.
const TRIES: u32 = 3;

/// The billed resources: the kind of each, with the tags that say whose it is and what.
type Things = BTreeMap<String, u32>;

/// The past of every case.
struct Past {
    folder: TempDir,
    /// A volume and a snapshot that are no drive's.
    foreign: [String; 2],
}

/// A command, and what it leaves if nobody disturbs it.
struct Verb {
    words: Vec<String>,
    leaves: Things,
}

/// A point of a command.
struct Target {
    verb: usize,
    kill: Kill,
}

/// Takes all commands, or as many points of them as the pace says.
pub(crate) fn killed(pace: &mut Pace) -> anyhow::Result<()> {
    let past = Past::make()?;
    let [volume, snapshot] = &past.foreign;
    let commands: [&[&str]; 8] = [
        &["fork", DRIVE, NEW],
        &["fork", "demo@1", NEW],
        &["rename", DRIVE, NEW],
        &["note", DRIVE, "some words"],
        &["adopt", volume, NEW],
        &["adopt", snapshot, NEW],
        &["delete", "demo@1", "--yes"],
        &["delete", DRIVE, "--yes"],
    ];
    let (mut verbs, mut targets) = (Vec::new(), Vec::new());
    for words in commands {
        let (verb, kills) = past.undisturbed(words)?;
        let index = verbs.len();
        targets.extend(kills.into_iter().map(|kill| Target { verb: index, kill }));
        verbs.push(verb);
    }
    let all = targets.len();
    let targets = pace.choose(targets);
    let failed = Mutex::new(Vec::new());
    let missed = Mutex::new(0);
    let taken = side_by_side(
        pace,
        &targets,
        || Ok(()),
        |(), row, target| {
            let verb = &verbs[target.verb];
            let name = format!("{:24}  {}", verb.words[..2].join(" "), target.kill.point);
            match past.point(verb, &target.kill) {
                Ok(true) => println!("{row:4}  {name}"),
                Ok(false) => *missed.lock().unwrap() += 1,
                Err(error) => failed.lock().unwrap().push(format!("{name}: {error:#}")),
            }
            Ok(())
        },
    )?;
    let (failed, missed) = (failed.into_inner()?, missed.into_inner()?);
    println!(
        "{taken} of {all} points, {missed} of them not reached, {} failed",
        failed.len()
    );
    ensure!(failed.is_empty(), "failed at\n{}", failed.join("\n"));
    ensure!(missed * 10 <= taken, "too many points were not reached");
    Ok(())
}

impl Past {
    fn make() -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("sweep-").tempdir()?;
        std::fs::create_dir(folder.path().join("home"))?;
        let dir = state(folder.path());
        std::fs::create_dir(&dir)?;
        std::fs::write(dir.join("settings.toml"), "plane = \"paper\"\n")?;
        let local = open(&dir)?;
        let ec2 = folder::ec2(&local);
        let foreign = runtime()?.block_on(async {
            for generation in ["1", "2"] {
                let own = [
                    ("Name", DRIVE),
                    ("xdrive:drive", DRIVE),
                    ("xdrive:session", "an earlier one"),
                    ("xdrive:owner", "arn:aws:iam::000000000000:user/local"),
                    ("xdrive:base", "0"),
                    ("xdrive:generation", generation),
                    ("xdrive:formatted", "1"),
                ];
                let order = volume_order(generation, tags(&own));
                let volume = made_volume(&ec2, &order).await?;
                let saved = [&own[..], &[("xdrive:kind", "clean"), ("xdrive:op", "op")]];
                made_snapshot(&ec2, &volume, &tags(&saved.concat())).await?;
                ec2.delete_volume(may_delete(&volume)).await?;
            }
            let name = tags(&[("Name", "old")]);
            let volume = made_volume(&ec2, &volume_order("old", name.clone())).await?;
            local.write(
                volume.as_str(),
                PaperSuperblock::clean(*b"0123456789abcdef"),
            )?;
            let snapshot = made_snapshot(&ec2, &volume, &name).await?;
            anyhow::Ok([volume.to_string(), snapshot.to_string()])
        })?;
        Ok(Self { folder, foreign })
    }

    /// A copy of it.
    fn copy(&self) -> anyhow::Result<TempDir> {
        let copy = tempfile::Builder::new().prefix("sweep-").tempdir()?;
        let from = self.folder.path().join(".");
        let copied = Command::new("cp")
            .arg("-a")
            .args([&from, copy.path()])
            .status()?;
        ensure!(copied.success(), "cp: {copied}");
        Ok(copy)
    }

    /// A command that nobody disturbs, and the points that it passes.
    fn undisturbed(&self, words: &[&str]) -> anyhow::Result<(Verb, Vec<Kill>)> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let copy = self.copy()?;
        let trace = copy.path().join("trace");
        let output = run(copy.path(), &words, Some((&trace, None)))?;
        ensure!(output.status.success(), "{words:?}: {output:?}");
        let passed = points::read(&trace)?;
        let kills = passed.iter().enumerate().map(|(index, point)| Kill {
            point: point.name.clone(),
            after: points::middle(&passed, index),
        });
        let leaves = things(copy.path(), &self.foreign)?;
        Ok((Verb { words, leaves }, kills.collect()))
    }

    /// Kills a command at a point, gives it again, and compares; false if the point was not reached.
    fn point(&self, verb: &Verb, kill: &Kill) -> anyhow::Result<bool> {
        for _ in 0..TRIES {
            let copy = self.copy()?;
            let trace = copy.path().join("trace");
            let killed = run(copy.path(), &verb.words, Some((&trace, Some(kill))))?;
            let again = run(copy.path(), &verb.words, None)?;
            let left = things(copy.path(), &self.foreign)?;
            // A command that was over already may find nothing to do.
            ensure!(
                left == verb.leaves,
                "{left:#?} instead of {:#?}\nkilled: {}\nagain: {}",
                verb.leaves,
                String::from_utf8_lossy(&killed.stderr),
                String::from_utf8_lossy(&again.stderr)
            );
            if killed.status.code().is_none() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// The state directory of a case.
fn state(folder: &Path) -> PathBuf {
    folder.join("state")
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    Ok(runtime.enable_all().build()?)
}

/// Runs this program as xdrive.
fn run(
    folder: &Path,
    words: &[String],
    trace: Option<(&Path, Option<&Kill>)>,
) -> anyhow::Result<Output> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .arg("client")
        .args(words)
        .env_clear()
        .envs(environment(&folder.join("home"), &state(folder)))
        .stdin(Stdio::null());
    if let Some((file, kill)) = trace {
        command.env(TRACE, file);
        if let Some(Kill { point, after }) = kill {
            command.env(KILL, point);
            command.env(AFTER, after.as_micros().to_string());
        }
    }
    Ok(command.output()?)
}

/// The resources of any drive once all changes have ended; the foreign ones have to be as they
/// were.
fn things(folder: &Path, [volume, snapshot]: &[String; 2]) -> anyhow::Result<Things> {
    let local = open(&state(folder))?;
    let ec2 = folder::ec2(&local);
    runtime()?.block_on(async {
        // What was deleted is listed for so long.
        sleep(local.delays().deleted + PAUSE).await;
        let found = ec2.volume(&volume.parse()?).await?;
        ensure!(found.is_some_and(|it| is_foreign(&it.tags)), "{volume}");
        let found = ec2.snapshot(&snapshot.parse()?).await?;
        ensure!(found.is_some_and(|it| is_foreign(&it.tags)), "{snapshot}");
        loop {
            let (instances, volumes, snapshots) = ec2.everything().await?;
            let is_changing = volumes.iter().any(|it| it.state != VolumeState::Available)
                || snapshots
                    .iter()
                    .any(|it| it.state != SnapshotState::Completed);
            if is_changing {
                sleep(PAUSE).await;
                continue;
            }
            let mut all = Things::new();
            let instances = instances.iter().map(|it| ("instance", &it.tags));
            let volumes = volumes.iter().map(|it| ("volume", &it.tags));
            let snapshots = snapshots.iter().map(|it| ("snapshot", &it.tags));
            for (kind, tags) in instances.chain(volumes).chain(snapshots) {
                *all.entry(described(kind, tags)).or_default() += 1;
            }
            return Ok(all);
        }
    })
}

fn is_foreign(tags: &Tags) -> bool {
    tags.len() == 1 && tags.get("Name").is_some_and(|name| name == "old")
}

/// A thing by its kind and its tags, but for those that differ each time.
fn described(kind: &str, tags: &Tags) -> String {
    let kept = tags
        .iter()
        .filter(|(key, _)| !["xdrive:op", "xdrive:session"].contains(&key.as_str()))
        .map(|(key, value)| format!("{key}={value}"));
    let kept: Vec<String> = kept.collect();
    format!("{kind}: {}", kept.join(", "))
}
