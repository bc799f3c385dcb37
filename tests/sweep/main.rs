//! The long sweeps: sessions on real local instances, killed at every point, cut off at any moment.
//!
//! ```text
//! driver (main) ─ kill, cut, lease ─┬─ site   a home, a state directory, what must not be left in it
//!                            ├─ month  a drive session after session ─ journal: what was acknowledged
//!                            └─ client this program again, as the xdrive that is killed
//!                                └─ points  counts what it says of its calls and steps
//! ```
//!
//! A test program of its own, because it is two programs: as `client` it is xdrive itself, told to
//! kill itself at one point of its own trace; as `local supervise` it looks after an instance, as
//! the xdrive that launched it would. Otherwise it drives these, and prints a table.
//!
//! With `XDRIVE_LONG` in the environment every point is taken, else as many as fit in a minute for
//! each sweep, others every time; `XDRIVE_SWEEP_SEED` repeats a choice. Arguments are those of
//! `cargo test`: the sweeps count as ignored unless `--include-ignored` or `--ignored` is among
//! them, because they need root.

#![expect(
    clippy::unwrap_used,
    reason = "what is shared with the test suite fails where it stands"
)]

mod client;
mod cut;
mod journal;
mod kill;
mod lease;
mod month;
mod pace;
mod points;
mod running;
mod site;

#[path = "../suite/harness/image.rs"]
mod image;
#[path = "../suite/harness/leaks.rs"]
mod leaks;

use std::process::ExitCode;
use std::time::Instant;

use pace::Pace;

/// What runs under a name that can be filtered by.
type Sweep = fn(&mut Pace) -> anyhow::Result<()>;

const SWEEPS: [(&str, Sweep); 4] = [
    ("xdrive_and_its_ec2_killed_at_every_point", kill::with_ec2),
    ("xdrive_alone_killed_at_every_point", kill::alone),
    ("the_power_cut_at_seeded_moments", cut::at_seeded_moments),
    ("hosts_that_lose_their_laptop", lease::without_a_laptop),
];

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).peekable();
    match arguments.peek().map(String::as_str) {
        Some("client") => return client::run(arguments.skip(1)),
        Some("local") => return client::supervise(),
        _ => {}
    }
    drive(&Choice::read(arguments))
}

/// What `cargo test` was asked for.
#[derive(Default)]
struct Choice {
    filters: Vec<String>,
    skipped: Vec<String>,
    exact: bool,
    ignored: bool,
    list: bool,
}

impl Choice {
    fn read(mut arguments: impl Iterator<Item = String>) -> Self {
        let mut choice = Self::default();
        while let Some(word) = arguments.next() {
            match word.as_str() {
                "--include-ignored" | "--ignored" => choice.ignored = true,
                "--list" => choice.list = true,
                "--exact" => choice.exact = true,
                "--skip" => choice.skipped.extend(arguments.next()),
                "--test-threads" | "--format" | "--color" | "--logfile" | "-Z" => {
                    arguments.next();
                }
                _ if word.starts_with('-') => {}
                _ => choice.filters.push(word),
            }
        }
        choice
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

fn drive(choice: &Choice) -> ExitCode {
    let chosen: Vec<_> = SWEEPS
        .iter()
        .filter(|(name, _)| choice.takes(name))
        .collect();
    if choice.list {
        for (name, _) in chosen {
            println!("{name}: test");
        }
        return ExitCode::SUCCESS;
    }
    if !chosen.is_empty() && (!choice.ignored || !rustix::process::geteuid().is_root()) {
        for (name, _) in &chosen {
            println!("test {name} ... ignored: needs root (namespaces, loop devices)");
        }
        return ExitCode::SUCCESS;
    }
    let mut failed = 0;
    for (name, sweep) in chosen {
        println!("test {name} ...");
        let began = Instant::now();
        let outcome = Pace::new().and_then(|mut pace| sweep(&mut pace));
        let took = began.elapsed().as_secs();
        match outcome {
            Ok(()) => println!("test {name} ... ok, {took} s\n"),
            Err(error) => {
                failed += 1;
                println!("test {name} ... FAILED, {took} s\n{error:?}\n");
            }
        }
    }
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
