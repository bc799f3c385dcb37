//! Lives whose calls fail, one in each: the calls of an undisturbed life are counted, and it is
//! repeated with every one of them failing.

use xdrive::drive::Outcome;

use super::wire::{Calls, Fault, WAYS};
use super::{Ask, RunReport, Staleness, Trouble, World};

/// The drive's past when a run begins.
#[derive(Debug, Clone, Copy)]
pub enum Past {
    /// There is no drive.
    New,
    /// The drive was saved.
    Saved,
    /// The drive's xdrive was killed in the shell; the instance runs on.
    Alive,
    /// The drive's xdrive was killed in the shell, and then its instance vanished: a volume
    /// survived.
    Crashed,
}

/// A run from one past that can be repeated.
pub struct Life {
    pub past: World,
    ask: Ask,
    /// The run that nobody disturbed.
    pub undisturbed: RunReport,
}

/// How a session ended.
#[derive(Debug)]
pub enum Ended {
    Saved,
    /// Not saved; its output, and whether it named anything but snapshots.
    Failed {
        reported: String,
        left: bool,
    },
}

/// The results of the ways to fail, over all calls.
#[derive(Default)]
pub struct Tally {
    /// How many cases of each way ended saved, bare, with what is left named, and broken.
    rows: [[usize; 4]; WAYS.len()],
    broken: Vec<String>,
}

impl Past {
    pub const ALL: [Self; 4] = [Self::New, Self::Saved, Self::Alive, Self::Crashed];
}

impl RunReport {
    pub fn is_saved(&self) -> bool {
        matches!(self.outcome, Some(Outcome::Saved { .. }))
    }

    /// How many such calls the run made.
    pub fn count(&self, calls: Calls) -> usize {
        match calls {
            Calls::Changes => self.changes,
            Calls::Looks => self.looks,
        }
    }
}

impl World {
    /// A world whose drive has this past.
    pub async fn with_past(past: Past, stale: Staleness) -> Self {
        let world = Self::new(stale);
        match past {
            Past::New => {}
            Past::Saved => {
                world.saves(Ask::Session(1)).await;
            }
            Past::Alive | Past::Crashed => {
                let report = world.run(Ask::KilledInShell(1), Trouble::default()).await;
                assert!(report.outcome.is_none(), "{report:#?}");
            }
        }
        if let Past::Crashed = past {
            world.cut_power().await;
        }
        world
    }

    /// Runs one process that nobody disturbs; it must save.
    pub async fn saves(&self, ask: Ask) -> RunReport {
        let report = self.run(ask, Trouble::default()).await;
        assert!(report.is_saved(), "{report:#?}");
        report
    }

    /// Runs `next` after a run that was in trouble; returns its report, and what is wrong with
    /// either or with what they leave.
    pub async fn made_good(&self, first: &RunReport, next: Ask) -> (RunReport, Vec<String>) {
        let unreported = self.unreported(first).await;
        let next = self.run(next, Trouble::default()).await;
        let mut problems = self.problems().await;
        problems.extend(unreported);
        if !next.is_saved() {
            problems.push("the next run did not save".to_owned());
        }
        (next, problems)
    }
}

impl Life {
    /// Runs `ask` undisturbed in a copy of `past`; nothing may be wrong afterwards.
    pub async fn new(past: World, ask: Ask) -> Self {
        let world = past.copy();
        let undisturbed = world.run(ask.clone(), Trouble::default()).await;
        let problems = world.problems().await;
        assert!(problems.is_empty(), "{problems:#?}\n{undisturbed:#?}");
        Self {
            past,
            ask,
            undisturbed,
        }
    }

    /// Each of these calls failing, one at a time.
    pub fn each_failing(&self, calls: Calls, fault: Fault) -> impl Iterator<Item = Trouble> {
        (1..=self.undisturbed.count(calls)).map(move |number| Trouble {
            fault: Some((calls, number, fault)),
            ..Trouble::default()
        })
    }

    /// Repeats the run in a copy of the past, in this trouble.
    pub async fn again(&self, trouble: &Trouble) -> (World, RunReport) {
        let world = self.past.copy();
        let report = world.run(self.ask.clone(), trouble.clone()).await;
        (world, report)
    }
}

impl Ended {
    pub fn new(outcome: &Outcome) -> Self {
        if matches!(outcome, Outcome::Saved { .. }) {
            return Self::Saved;
        }
        let reported = format!("{outcome:?}");
        Self::Failed {
            left: reported.contains("Instance(") || reported.contains("Volume("),
            reported,
        }
    }
}

/// The ways in which such a call fails, as indices of [`WAYS`].
pub fn ways_of(calls: Calls) -> impl Iterator<Item = usize> {
    let all = WAYS.iter().enumerate();
    all.filter(move |(_, (_, fault))| calls == Calls::Changes || fault.happens_to_looks())
        .map(|(way, _)| way)
}

impl Tally {
    /// Counts a case of [`WAYS`]`[way]`, whose broken promises those are.
    pub fn add(&mut self, way: usize, ended: &Ended, broken: impl IntoIterator<Item = String>) {
        let before = self.broken.len();
        self.broken.extend(broken);
        let column = match ended {
            _ if self.broken.len() > before => 3,
            Ended::Saved => 0,
            Ended::Failed { left, .. } => 1 + usize::from(*left),
        };
        self.rows[way][column] += 1;
    }

    /// Prints the table, of so many possible cases; returns the broken promises.
    pub fn print(self, all: usize) -> Vec<String> {
        println!(
            "a call is                 cases  saved at once  failed, bare  left and named  broken"
        );
        for ((name, _), row) in WAYS.iter().zip(&self.rows) {
            let (cases, [saved, bare, named, broken]) = (row.iter().sum::<usize>(), row);
            println!("{name:24}  {cases:5}  {saved:13}  {bare:12}  {named:14}  {broken:6}");
        }
        let done: usize = self.rows.iter().flatten().sum();
        println!("{done} of {all} cases, each but the broken ones saved by the next run");
        self.broken
    }
}
