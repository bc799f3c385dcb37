//! A day in minutes: one drive, session after session, each with an ending that the seed chooses.
//!
//! Every session prints the journal before it writes, which checks the session before: all lines
//! ever acknowledged are there, in the user's folder and in the container's own layer. If the
//! container is made from another image its layer begins anew; then the old one is checked in the
//! image that keeps it.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, ensure};

use crate::ending::{Ending, LAYERS, Session, SessionRecord};
use crate::journal::{Journal, Writer};
use crate::site::Site;
use harness::pace::Pace;

/// How many sessions make a day.
const SESSIONS: usize = 100;
/// How many snapshots are kept at its end.
const KEPT: usize = 3;
const DRIVE: &str = "day";
const IMAGES: [&str; 2] = ["small.tar", "other.tar"];

/// A drive, and its expected state.
struct Day {
    site: Site,
    journal: Journal,
    /// The writers since the container's layer began.
    writers: Vec<Writer>,
    /// The index of its image.
    image: usize,
    sessions: usize,
    /// How long an undisturbed session took.
    usual: Duration,
    /// The most layers ever seen.
    layers: usize,
    images: usize,
    sums: BTreeMap<Ending, Sum>,
}

/// The results of all sessions with the same ending.
#[derive(Default)]
struct Sum {
    sessions: u32,
    lines: usize,
    slowest: Duration,
}

pub(crate) fn in_minutes(pace: &mut Pace) -> anyhow::Result<()> {
    let mut day = Day::begin()?;
    let mut deck = Vec::new();
    println!("session, ending: lines acknowledged, exit code, seconds; layers and images seen");
    day.session(Ending::Exit(0), pace)?;
    while day.sessions < pace.count(SESSIONS) {
        pace.check()?;
        if deck.is_empty() {
            deck.extend(Ending::DECK);
        }
        let ending = deck.swap_remove(pace.random(deck.len()));
        day.session(ending, pace)?;
    }
    day.end(pace)
}

impl Day {
    fn begin() -> anyhow::Result<Self> {
        Ok(Self {
            site: Site::new(false)?,
            journal: Journal::default(),
            writers: Vec::new(),
            image: 0,
            sessions: 0,
            usual: Duration::from_secs(10),
            layers: 0,
            images: 0,
            sums: BTreeMap::new(),
        })
    }

    /// Runs one session, and checks those before it by it.
    fn session(&mut self, ending: Ending, pace: &mut Pace) -> anyhow::Result<()> {
        self.sessions += 1;
        let is_first = self.sessions == 1;
        let is_other = ending.is_inside() && pace.random(6) == 0 && !is_first;
        if is_other {
            self.image = (self.image + 1) % IMAGES.len();
        }
        let image = (is_first || is_other).then(|| self.site.image(IMAGES[self.image]));
        let session = Session {
            site: &self.site,
            drive: DRIVE,
            tag: format!("s{}", self.sessions),
            ending,
            image: image.transpose()?,
            usual: self.usual,
        };
        let row = format!(
            "{:3}  {:10}{}",
            self.sessions,
            ending.name(),
            if is_other { "  another image" } else { "" }
        );
        let record = session.run(pace).context(row.clone())?;
        let seen = (record.seen.as_ref()).map_or(String::new(), |seen| {
            format!("  {} layers, {} images", seen.layers, seen.images)
        });
        let lines: usize = record
            .writers
            .iter()
            .map(|writer| writer.acknowledged)
            .sum();
        let seconds = record.took.as_secs_f64();
        println!(
            "{row:28}  {lines:3}  {:3}  {seconds:5.1}{seen}",
            record.code
        );
        self.take_over(&record, is_other)
            .with_context(|| format!("{row}\n{}", record.stderr))?;
        let sum = self.sums.entry(ending).or_default();
        sum.sessions += 1;
        sum.lines += lines;
        sum.slowest = sum.slowest.max(record.took);
        if matches!(ending, Ending::Exit(_)) {
            self.usual = record.took;
        }
        Ok(())
    }

    /// Checks that all acknowledged lines are there, and nothing is left over.
    fn take_over(&mut self, record: &SessionRecord, is_other: bool) -> anyhow::Result<()> {
        if is_other {
            self.journal.lose_layer();
        }
        if let Some(found) = &record.found {
            self.journal.check_all(&self.writers, found, is_other)?;
        }
        let mut replaced = 0;
        if is_other {
            let gone = self.writers.drain(..);
            replaced = gone.map(|writer| writer.acknowledged).sum();
        }
        self.writers.extend(record.writers.iter().cloned());
        if let Some(seen) = &record.seen {
            self.layers = self.layers.max(seen.layers);
            self.images = self.images.max(seen.images);
            ensure!(seen.layers <= LAYERS, "{seen:?}");
            ensure!(
                !is_other || seen.replaced >= replaced,
                "LOST with the old container: {replaced} lines, {seen:?}"
            );
        }
        if record.is_saved {
            let left = self.site.left()?;
            ensure!(left.is_empty(), "left: {}", left.join("\n"));
        }
        if record.is_undone {
            // A session that gave up early names what an earlier one left.
            for line in self.site.billed()? {
                let id = line.split('"').nth(1).unwrap_or(&line);
                // A root disk is named with its instance.
                let is_reported = line.contains("InUse") || record.stderr.contains(id);
                ensure!(is_reported, "left unreported: {line}");
            }
        }
        Ok(())
    }

    /// Runs one more undisturbed session, and prunes the snapshots.
    fn end(mut self, pace: &mut Pace) -> anyhow::Result<()> {
        self.session(Ending::Exit(0), pace)?;
        let before = self.site.count_snapshots(DRIVE, false)?;
        let kept = KEPT.to_string();
        let tidied = self.site.xdrive(&["gc", "--keep-last", &kept])?;
        ensure!(tidied.code == 0, "gc: {tidied:?}");
        let after = self.site.count_snapshots(DRIVE, false)?;
        ensure!(after == KEPT.min(before), "{after} snapshots: {tidied:?}");
        // The remaining snapshots still hold everything.
        self.session(Ending::Exit(0), pace)?;
        println!("ending: sessions, lines acknowledged, seconds of the slowest");
        for (ending, sum) in &self.sums {
            println!(
                "{:10}  {:3}  {:4}  {:5.1}",
                ending.name(),
                sum.sessions,
                sum.lines,
                sum.slowest.as_secs_f64()
            );
        }
        println!(
            "{} sessions, {} lines; {} layers and {} images at most; {before} snapshots, {after} \
             after gc",
            self.sessions,
            self.journal.len(),
            self.layers,
            self.images
        );
        Ok(())
    }
}
