//! The long sweeps: sessions on real local instances, killed at every point, cut off at any moment;
//! and on paper, with every call failing in every way.
//!
//! ```text
//! driver (main) ─ kill, cut, lease, notice ─┬─ jobs   points side by side, each worker on a site of its own
//!               │                           ├─ site   a home, a state directory, what must not be left in it
//!               │                           ├─ month  a drive session after session ─ journal: what was acknowledged
//!               │                           └─ client this program again, as the xdrive that is killed
//!               │                               └─ points  counts what it says of its calls and steps
//!               └ day: a hundred sessions on one drive ─ ending: all the ways at once
//! ```
//!
//! A test program of its own, because it is two programs: as `client` it is xdrive itself, told to
//! kill itself at one point of its own trace; as `local supervise` it looks after an instance, as
//! the xdrive that launched it would. Otherwise it drives these, and prints a table.
//!
//! With `XDRIVE_LONG` in the environment every point is taken, else as many as fit in half a minute
//! or a whole one for each sweep, others every time; `XDRIVE_SWEEP_SEED` repeats a choice. Arguments
//! are those of `cargo test`: what needs root counts as ignored unless `--include-ignored` or
//! `--ignored` is among them, and `--test-threads` or `RUST_TEST_THREADS` is how many points are
//! taken at once, twice as many as there are processors if nobody says. A session is mostly waiting:
//! more points than processors keep those busy.

#![expect(
    clippy::unwrap_used,
    reason = "a lock is poisoned only by a sweep that has failed"
)]

mod client;
mod cut;
mod day;
mod ending;
mod faults;
mod host;
mod jobs;
mod journal;
mod kill;
mod lease;
mod month;
mod notice;
mod points;
mod running;
mod site;

use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use harness::pace::Pace;

/// How long a sweep may go on choosing points when nobody asks for all of them: several at once,
/// and one after the other.
const BOUNDED: Duration = Duration::from_secs(30);
const BOUNDED_CHAIN: Duration = Duration::from_mins(1);

/// A sweep and the name it can be filtered by.
struct Sweep {
    name: &'static str,
    run: fn(&mut Pace) -> anyhow::Result<()>,
    /// Whether it makes namespaces and loop devices.
    needs_root: bool,
    bound: Duration,
}

const SWEEPS: [Sweep; 7] = [
    Sweep {
        name: "xdrive_and_its_ec2_killed_at_every_point",
        run: kill::with_ec2,
        needs_root: true,
        bound: BOUNDED,
    },
    Sweep {
        name: "xdrive_alone_killed_at_every_point",
        run: kill::alone,
        needs_root: true,
        bound: BOUNDED,
    },
    Sweep {
        name: "the_power_cut_at_seeded_moments",
        run: cut::at_seeded_moments,
        needs_root: true,
        bound: BOUNDED,
    },
    Sweep {
        name: "hosts_that_lose_their_laptop",
        run: lease::without_a_laptop,
        needs_root: true,
        bound: BOUNDED,
    },
    Sweep {
        name: "every_call_failing_in_every_way",
        run: faults::every_call,
        needs_root: false,
        bound: BOUNDED,
    },
    Sweep {
        name: "every_notice_is_over_in_time",
        run: notice::in_time,
        needs_root: true,
        bound: BOUNDED,
    },
    Sweep {
        name: "a_day_in_minutes",
        run: day::in_minutes,
        needs_root: true,
        bound: BOUNDED_CHAIN,
    },
];

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).peekable();
    match arguments.peek().map(String::as_str) {
        Some("client") => return client::run(arguments.skip(1)),
        Some("local") => return client::supervise(),
        _ => {}
    }
    let outcome = Choice::read(arguments).and_then(|choice| drive(&choice));
    outcome.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

/// What `cargo test` was asked for.
#[derive(Default)]
struct Choice {
    filters: Vec<String>,
    skipped: Vec<String>,
    exact: bool,
    ignored: bool,
    list: bool,
    /// How many points are to be taken at once, if that was said.
    jobs: Option<usize>,
}

impl Choice {
    fn read(mut arguments: impl Iterator<Item = String>) -> anyhow::Result<Self> {
        let jobs = std::env::var("RUST_TEST_THREADS").ok();
        let mut choice = Self {
            jobs: jobs.map(|said| parse_jobs(&said)).transpose()?,
            ..Self::default()
        };
        while let Some(word) = arguments.next() {
            if let Some(said) = word.strip_prefix("--test-threads=") {
                choice.jobs = Some(parse_jobs(said)?);
                continue;
            }
            match word.as_str() {
                "--test-threads" => {
                    let said = arguments.next().context("--test-threads: how many?")?;
                    choice.jobs = Some(parse_jobs(&said)?);
                }
                "--include-ignored" | "--ignored" => choice.ignored = true,
                "--list" => choice.list = true,
                "--exact" => choice.exact = true,
                "--skip" => choice.skipped.extend(arguments.next()),
                "--format" | "--color" | "--logfile" | "-Z" => {
                    arguments.next();
                }
                _ if word.starts_with('-') => {}
                _ => choice.filters.push(word),
            }
        }
        Ok(choice)
    }

    fn takes(&self, name: &str) -> bool {
        let meets = |word: &String| {
            if self.exact {
                name == word
            } else {
                name.contains(word.as_str())
            }
        };
        (self.filters.is_empty() || self.filters.iter().any(meets))
            && !self.skipped.iter().any(meets)
    }
}

fn parse_jobs(said: &str) -> anyhow::Result<usize> {
    let jobs = said.parse().ok().filter(|jobs| *jobs > 0);
    jobs.with_context(|| format!("{said:?} is no number of points to take at once"))
}

fn drive(choice: &Choice) -> anyhow::Result<ExitCode> {
    let jobs = match choice.jobs {
        Some(jobs) => jobs,
        None => 2 * thread::available_parallelism()?.get(),
    };
    let is_root = rustix::process::geteuid().is_root();
    let mut failed = 0;
    for Sweep {
        name,
        run,
        needs_root,
        bound,
    } in SWEEPS
    {
        if !choice.takes(name) {
            continue;
        }
        if choice.list {
            println!("{name}: test");
            continue;
        }
        if needs_root && !(choice.ignored && is_root) {
            println!("test {name} ... ignored: needs root (namespaces, loop devices)");
            continue;
        }
        println!("test {name} ...");
        let began = Instant::now();
        let outcome = Pace::new(bound, jobs).and_then(|mut pace| run(&mut pace));
        let took = began.elapsed().as_secs();
        match outcome {
            Ok(()) => println!("test {name} ... ok, {took} s\n"),
            Err(error) => {
                failed += 1;
                println!("test {name} ... FAILED, {took} s\n{error:?}\n");
            }
        }
    }
    Ok(if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
