//! Every call of an account's session fails: with a profile, HTTP, and moto, or the EC2 in a folder
//! with stale lists.
//!
//! The long sweep (`tests/sweep/faults.rs`) does this in paused time and without a network; the
//! ways to fail are the same. Here each *case* is one way to fail of one call in a session, from
//! one past of the drive. The session may end in any way, but must name what is billed afterwards;
//! one more session must then save the drive with every acknowledged note, and leave nothing but
//! snapshots; and a ready drive never has two instances.
//!
//! Without `XDRIVE_LONG` a bounded number of cases is taken, others every time; `XDRIVE_SWEEP_SEED`
//! repeats a choice.

mod wide;
mod world;

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::process::Command;

use std::os::fd::OwnedFd;

use super::server::{Moto, again, inside, is_inside};
use harness::faults::proxy::{Asked, Fate};
use harness::pace::Pace;
use harness::simulation::life::{Ended, Tally, ways_of};
use harness::simulation::wire::{Calls, Fault, WAYS};
use world::World;

/// How many cases a bounded run takes.
const BOUND: usize = 12;

/// How many cases one EC2 serves, before its lists are full of ended resources.
const CASES: usize = 12;

/// The variable with moto's URL for the inside of a test; unset for a folder.
const MOTO: &str = "XDRIVE_TEST_MOTO";

/// How many looks of one kind fail, one at a time: the others have the same result.
const LOOKS: usize = 3;

#[test]
#[ignore = "needs python3 with moto"]
fn every_call_may_fail_against_moto() {
    test(
        test_name!(every_call_may_fail_against_moto),
        true,
        every_call,
    );
}

#[test]
fn every_call_may_fail_over_http_in_the_folder() {
    let name = test_name!(every_call_may_fail_over_http_in_the_folder);
    test(name, false, every_call);
}

/// Runs the test called `name` again in another process, which reaches any EC2 through a
/// [`FaultProxy`](harness::faults::proxy::FaultProxy).
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

/// The drive's past.
#[derive(Debug, Clone, Copy)]
enum Past {
    /// There is no drive.
    New,
    /// The drive was saved.
    Saved,
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
            let calls = if Asked::new(&action).only_looks() {
                Calls::Looks
            } else {
                Calls::Changes
            };
            if calls == Calls::Looks && *number > LOOKS {
                continue;
            }
            cases.extend(ways_of(calls).map(|way| (past, action.clone(), *number, way)));
        }
    }
    let mut pace = Pace::new(BOUND, 1).unwrap();
    let all = cases.len();
    let mut tally = Tally::default();
    for (past, action, number, way) in in_turn(pace.choose(cases)) {
        if pace.check().is_err() {
            break;
        }
        let (name, fault) = WAYS[way];
        world.come_to(past).await;
        let (ended, broken) = one(world, &action, number, fault).await;
        if !broken.is_empty() {
            world.forget();
        }
        let broken = broken.into_iter().map(|problem| {
            format!("{past:?}, {action} {number} is {name}: {problem}; it ended as {ended:?}")
        });
        tally.add(way, &ended, broken);
    }
    let broken = tally.print(all);
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// The cases in turn: a new drive's case leaves a saved drive, with which others begin, so some of
/// those follow each.
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

/// The calls of an undisturbed session.
async fn undisturbed(world: &mut World) -> Vec<String> {
    world.proxy.decide(|_| Fate::Passed);
    let ended = world.session().await;
    let calls = world.proxy.calls();
    assert!(matches!(ended, Ended::Saved), "{ended:?}");
    assert_eq!(world.problems().await, [""; 0]);
    calls
}

/// Runs one case: the session's end, and the broken promises.
async fn one(world: &mut World, action: &str, number: usize, fault: Fault) -> (Ended, Vec<String>) {
    let action = action.to_owned();
    world.proxy.decide(move |asked| {
        if asked.action == action && asked.number == number {
            fate(asked, fault)
        } else {
            Fate::Passed
        }
    });
    let ended = world.session().await;
    let mut broken = world.unreported(&ended).await;
    world.proxy.decide(|_| Fate::Passed);
    let next = world.session().await;
    if !matches!(next, Ended::Saved) {
        broken.push(format!("the next run did not save: {next:?}"));
    }
    broken.extend(world.problems().await);
    (ended, broken)
}

/// The fate of a call.
fn fate(asked: &Asked, fault: Fault) -> Fate {
    match fault {
        Fault::Unsent => Fate::Unsent,
        Fault::Unanswered => Fate::Unanswered,
        Fault::Twice => Fate::Twice,
        // "Not found" about a resource to destroy comes only once it is gone: here the call's
        // answer is lost first.
        Fault::Refused(_, code) if code.ends_with(".NotFound") && asked.destroys() => {
            Fate::Unanswered
        }
        Fault::Refused(status, code) => Fate::Refused(status, code, "on purpose"),
        Fault::KilledBefore | Fault::KilledAfter => panic!("nobody is killed here"),
    }
}
