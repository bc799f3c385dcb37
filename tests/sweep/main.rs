//! The long sweeps: sessions on real local instances, killed at every point, cut off at any moment;
//! and on paper, with every call failing in every way.
//!
//! ```text
//! driver (main) ─ kill, cut, lease, notice ─┬─ jobs   points side by side, each worker on a site of its own
//!               │                           ├─ site   a home, a state directory, what must not be left in it
//!               │                           ├─ month  a drive session after session ─ journal: what was acknowledged
//!               │                           └─ client this program again, as the xdrive that is killed
//!               │                               └─ points  counts what it says of its calls and steps
//!               ├ day: a hundred sessions on one drive ─ ending: all the ways at once
//!               ├ verbs: fork, rename, adopt, delete, note, killed at every point, on paper
//!               ├ tended: passes over a run whose host was lost, killed at every point
//!               ├ lost: one run for an hour, whose line and laptops come and go
//!               ├ package: the Debian package, where there is no Rust ─ release: made once, and again
//!               └ engines: a drive on the Docker of another Debian, and back ─ long: only if asked for
//! ```
//!
//! A separate test program, because it has three roles: as `client` it is xdrive itself, which
//! kills itself at one point of its own trace; as `local supervise` it supervises an instance, as
//! xdrive does. Otherwise it drives these, and prints a table.
//!
//! With `XDRIVE_LONG` in the environment every point is taken, else a bounded number in each sweep,
//! others every time; `XDRIVE_SWEEP_SEED` repeats a choice. Arguments are those of `cargo test`:
//! what needs root is ignored unless `--include-ignored` or `--ignored` is among them. The names of
//! all but the sweeps on paper begin with `wide::`: `shell/test.sh` alone leaves those out.
//! `--test-threads` or `RUST_TEST_THREADS` is how many points are taken at once, by default two for
//! each processor, since a session mostly waits.

#![expect(
    clippy::unwrap_used,
    reason = "a lock is poisoned only by a sweep that has failed"
)]

mod client;
mod cut;
mod day;
mod ending;
mod engines;
mod faults;
mod host;
mod jobs;
mod journal;
mod kill;
mod lease;
mod long;
mod lost;
mod month;
mod notice;
mod package;
mod points;
mod release;
mod running;
mod site;
mod tended;
mod verbs;

use std::process::ExitCode;
use std::thread;

use anyhow::Context as _;
use libtest_mimic::{Arguments, Completion, Failed, Trial};

use harness::pace::Pace;

/// A sweep, and its name for filters; `wide::` is before the name of one on machines.
struct Sweep {
    name: &'static str,
    run: fn(&mut Pace) -> anyhow::Result<()>,
    /// Whether it makes namespaces and loop devices.
    needs_root: bool,
    /// How many cases a bounded sweep takes: those of half a minute on two processors, or of a
    /// minute where they follow each other.
    bound: usize,
}

static SWEEPS: [Sweep; 10] = [
    Sweep {
        name: "wide::xdrive_and_its_ec2_killed_at_every_point",
        run: kill::with_ec2,
        needs_root: true,
        bound: 6,
    },
    Sweep {
        name: "wide::xdrive_alone_killed_at_every_point",
        run: kill::alone,
        needs_root: true,
        bound: 6,
    },
    Sweep {
        name: "wide::the_power_cut_at_seeded_moments",
        run: cut::at_seeded_moments,
        needs_root: true,
        bound: 4,
    },
    Sweep {
        name: "wide::hosts_that_lose_their_laptop",
        run: lease::without_a_laptop,
        needs_root: true,
        bound: 4,
    },
    Sweep {
        name: "wide::a_run_that_loses_its_line_and_its_laptops",
        run: lost::line_and_laptops,
        needs_root: true,
        bound: 4,
    },
    Sweep {
        name: "wide::who_tends_a_run_killed_at_every_point",
        run: tended::killed,
        needs_root: true,
        bound: 4,
    },
    Sweep {
        name: "every_call_failing_in_every_way",
        run: faults::every_call,
        needs_root: false,
        bound: 200,
    },
    Sweep {
        name: "commands_without_a_host_killed_at_every_point",
        run: verbs::killed,
        needs_root: false,
        bound: 200,
    },
    Sweep {
        name: "wide::every_notice_is_over_in_time",
        run: notice::in_time,
        needs_root: true,
        bound: 2,
    },
    Sweep {
        name: "wide::a_day_in_minutes",
        run: day::in_minutes,
        needs_root: true,
        bound: 8,
    },
];

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).peekable();
    match arguments.peek().map(String::as_str) {
        Some("client") => return client::run(arguments.skip(1)),
        Some("local") => return client::supervise(),
        _ => {}
    }
    let mut arguments = Arguments::from_args();
    let jobs = match jobs(&arguments) {
        Ok(jobs) => jobs,
        Err(error) => {
            eprintln!("error: {error:#}");
            return ExitCode::FAILURE;
        }
    };
    // The threads are for a sweep's points; the sweeps run one after the other.
    arguments.test_threads = Some(1);
    let sweeps = SWEEPS.iter().map(|sweep| trial(sweep, jobs));
    let long = [package::trial(), release::trial()];
    let trials = sweeps.chain(long).chain(engines::trials());
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

/// How many points are taken at once.
fn jobs(arguments: &Arguments) -> anyhow::Result<usize> {
    if let Some(jobs) = arguments.test_threads {
        return Ok(jobs);
    }
    let Ok(text) = std::env::var("RUST_TEST_THREADS") else {
        return Ok(2 * thread::available_parallelism()?.get());
    };
    let jobs = text.parse().ok().filter(|jobs| *jobs > 0);
    jobs.with_context(|| format!("RUST_TEST_THREADS is {text:?}, not a number above 0"))
}

fn trial(sweep: &'static Sweep, jobs: usize) -> Trial {
    let run = move || {
        if sweep.needs_root && !rustix::process::geteuid().is_root() {
            let why = "needs root (namespaces, loop devices)";
            return Ok(Completion::ignored_with(why));
        }
        println!();
        Pace::new(sweep.bound, jobs)
            .and_then(|mut pace| (sweep.run)(&mut pace))
            .map(|()| Completion::Completed)
            .map_err(|error| Failed::from(format!("{error:?}")))
    };
    Trial::ignorable_test(sweep.name, run).with_ignored_flag(sweep.needs_root)
}
