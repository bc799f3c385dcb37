//! Every call of a session failing, on the way of an account: a profile, HTTP, and an EC2 that is
//! moto, or the one in a folder with lists that are old.
//!
//! The long sweep (`tests/sweep/faults.rs`) does this in paused time and without a network; the ways
//! to fail are its own. Here each *case* is one way to fail of one call in a session, from one past
//! of the drive. The session may end as it likes, but what is billed afterwards it has named; one
//! more session must then save the drive with every note that was acknowledged, and leave nothing
//! but snapshots; and never does a drive have two instances when it is ready.
//!
//! Without `XDRIVE_LONG` a bounded number of cases is taken, others every time; `XDRIVE_SWEEP_SEED`
//! repeats a choice.

mod world;

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::process::Command;
use std::time::Instant;

use std::os::fd::OwnedFd;

use super::server::{Moto, again, inside, is_inside};
use harness::faults::proxy::{Asked, Fate};
use harness::pace::Pace;
use harness::simulation::wire::{Fault, WAYS};
use world::{Ended, World};

/// How many cases are taken when nobody asks for all of them.
const BOUND: usize = 24;

/// How many cases one EC2 is good for, before its lists are full of what is over.
const CASES: usize = 12;

/// The URL of the moto that the inside of a test is about; that of a folder has none.
const MOTO: &str = "XDRIVE_TEST_MOTO";

/// How many of the looks of one kind fail, one at a time: the others come to the same.
const LOOKS: usize = 3;

#[test]
#[ignore = "needs python3 with moto"]
fn every_call_may_fail_against_moto() {
    test(
        "moto::faults::every_call_may_fail_against_moto",
        true,
        every_call,
    );
}

#[test]
fn every_call_may_fail_over_http_in_the_folder() {
    let name = "moto::faults::every_call_may_fail_over_http_in_the_folder";
    test(name, false, every_call);
}

#[test]
#[ignore = "needs python3 with moto"]
fn a_drive_lives_through_storms_against_moto() {
    let name = "moto::faults::a_drive_lives_through_storms_against_moto";
    test(name, true, storms);
}

#[test]
fn a_drive_lives_through_storms_in_the_folder() {
    test(
        "moto::faults::a_drive_lives_through_storms_in_the_folder",
        false,
        storms,
    );
}

/// Runs the test called `name` again in a process of its own, whose way to any EC2 leads through a
/// [`Between`](harness::faults::proxy::Between).
fn test(name: &str, on_moto: bool, body: impl AsyncFnOnce(&mut World)) {
    if !is_inside() {
        let moto = on_moto.then(Moto::start_bare);
        let home = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        for name in ["XDRIVE_LONG", "XDRIVE_SWEEP_SEED"] {
            if std::env::var_os(name).is_none() {
                command.env_remove(name);
            }
        }
        command
            .env("HOME", home.path())
            .env("AWS_CONFIG_FILE", home.path().join("config"))
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .env(
                "HTTP_PROXY",
                format!("http://{}", listener.local_addr().unwrap()),
            )
            .stdin(OwnedFd::from(listener));
        for inherited in [
            "AWS_PROFILE",
            "AWS_ENDPOINT_URL",
            "AWS_ACCESS_KEY_ID",
            "NO_PROXY",
        ] {
            command.env_remove(inherited);
        }
        if let Some(moto) = &moto {
            command.env(MOTO, moto.url());
        }
        println!("{}", again(name, command));
        return;
    }
    let moto = std::env::var(MOTO).ok();
    inside(async {
        let mut world = World::new(moto);
        body(&mut world).await;
    });
}

/// How the drive came to be as it is.
#[derive(Debug, Clone, Copy)]
enum Past {
    /// There is none.
    New,
    /// It was saved.
    Saved,
}

/// What one way to fail came to, over all calls.
#[derive(Default)]
struct Row {
    cases: usize,
    saved: usize,
    bare: usize,
    named: usize,
    broken: usize,
}

async fn every_call(world: &mut World) {
    let mut cases = Vec::new();
    for past in [Past::New, Past::Saved] {
        world.come_to(past).await;
        let calls = undisturbed(world).await;
        let mut seen = BTreeMap::<String, usize>::new();
        for action in calls {
            let number = seen.entry(action.clone()).or_default();
            *number += 1;
            let asked = Asked::named(&action);
            for (way, (_, fault)) in WAYS.iter().enumerate() {
                let meets = !asked.only_looks() || fault.happens_to_looks() && *number <= LOOKS;
                if meets {
                    cases.push((past, action.clone(), *number, way));
                }
            }
        }
    }
    let mut pace = Pace::new(BOUND, 1).unwrap();
    let all = cases.len();
    let mut rows: [Row; WAYS.len()] = std::array::from_fn(|_| Row::default());
    let mut problems = Vec::new();
    for (past, action, number, way) in in_turn(pace.choose(cases)) {
        if pace.check().is_err() {
            break;
        }
        let (name, fault) = WAYS[way];
        world.come_to(past).await;
        let (ended, broken) = one(world, &action, number, fault).await;
        rows[way].add(&ended, &broken);
        if !broken.is_empty() {
            world.forget();
        }
        problems.extend(broken.into_iter().map(|problem| {
            format!("{past:?}, {action} {number} is {name}: {problem}; it ended as {ended:?}")
        }));
    }
    print(&rows, all);
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// A new drive's case leaves a saved drive, which is what other cases begin with: some of those
/// follow it each time.
fn in_turn(cases: Vec<(Past, String, usize, usize)>) -> Vec<(Past, String, usize, usize)> {
    let is_new = |case: &(Past, String, usize, usize)| matches!(case.0, Past::New);
    let (new, saved): (Vec<_>, Vec<_>) = cases.into_iter().partition(is_new);
    let each = saved.len().div_ceil(new.len().max(1));
    let mut saved = saved.into_iter();
    let mut all = Vec::new();
    for case in new {
        all.push(case);
        all.extend(saved.by_ref().take(each));
    }
    all
}

/// The calls of a session that nothing happens to.
async fn undisturbed(world: &mut World) -> Vec<String> {
    world.line.decide(|_| Fate::Passed);
    let ended = world.session().await;
    let calls = world.line.calls();
    assert!(matches!(ended, Ended::Saved), "{ended:?}");
    assert_eq!(world.problems().await, [""; 0]);
    calls
}

/// One case: how the session ended, and what was broken by it or after it.
async fn one(world: &mut World, action: &str, number: usize, fault: Fault) -> (Ended, Vec<String>) {
    let action = action.to_owned();
    world.line.decide(move |asked| {
        if asked.action == action && asked.number == number {
            fate(asked, fault)
        } else {
            Fate::Passed
        }
    });
    let ended = world.session().await;
    let mut broken = world.unsaid(&ended).await;
    world.line.decide(|_| Fate::Passed);
    let next = world.session().await;
    if !matches!(next, Ended::Saved) {
        broken.push(format!("the next run did not save: {next:?}"));
    }
    broken.extend(world.problems().await);
    (ended, broken)
}

/// What happens to a call on the wire.
fn fate(asked: &Asked, fault: Fault) -> Fate {
    match fault {
        Fault::Unsent => Fate::Unsent,
        Fault::Unanswered => Fate::Unanswered,
        Fault::Twice => Fate::Twice,
        // Of what shall go, "not found" is said only when it has gone: here the call is lost first.
        Fault::Refused(_, code) if code.ends_with(".NotFound") && asked.destroys() => {
            Fate::Unanswered
        }
        Fault::Refused(status, code) => Fate::Refused(status, code, "on purpose"),
        Fault::KilledBefore | Fault::KilledAfter => panic!("nobody is killed here"),
    }
}

impl Row {
    fn add(&mut self, ended: &Ended, broken: &[String]) {
        self.cases += 1;
        let count = match ended {
            _ if !broken.is_empty() => &mut self.broken,
            Ended::Saved => &mut self.saved,
            Ended::Failed { left: false, .. } => &mut self.bare,
            Ended::Failed { left: true, .. } => &mut self.named,
        };
        *count += 1;
    }
}

fn print(rows: &[Row], all: usize) {
    println!(
        "a call is                 cases  saved at once  failed, bare  left and named  broken"
    );
    for ((name, _), row) in WAYS.iter().zip(rows) {
        println!(
            "{name:24}  {:5}  {:13}  {:12}  {:14}  {:6}",
            row.cases, row.saved, row.bare, row.named, row.broken
        );
    }
    let done: usize = rows.iter().map(|row| row.cases).sum();
    println!("{done} of {all} cases, each saved by the next run");
}

/// Every other second and a half EC2 turns everything away.
async fn storms(world: &mut World) {
    const SPELL: u128 = 1500;
    for past in [Past::New, Past::Saved] {
        world.come_to(past).await;
        let began = Instant::now();
        world.line.decide(move |_| {
            if (began.elapsed().as_millis() / SPELL).is_multiple_of(2) {
                Fate::Refused(503, "RequestLimitExceeded", "Request limit exceeded.")
            } else {
                Fate::Passed
            }
        });
        let ended = world.session().await;
        assert!(matches!(ended, Ended::Saved), "{past:?}: {ended:?}");
        assert_eq!(world.unsaid(&ended).await, [""; 0]);
        world.line.decide(|_| Fate::Passed);
        assert_eq!(world.problems().await, [""; 0]);
    }
}
