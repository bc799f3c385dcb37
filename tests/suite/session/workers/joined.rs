//! Workers on machines.

use std::fs;
use std::process::Command;
use std::time::Duration;

use harness::{eventually_within, image_with};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::session::json::document;
use crate::session::simulated::in_the_cloud;
use crate::session::site::{SESSION, Site};

/// A worker's command: it says who it is, and serves that at port 8000.
const SERVE: &str = "echo worker $XDRIVE_WORKER of $XDRIVE_WORKERS at $XDRIVE_LEADER; \
                     cat /work/saved; echo w$XDRIVE_WORKER >/tmp/index.html; \
                     exec busybox httpd -f -p 8000 -h /tmp";

/// The leader's: it asks each for its name until all have answered.
const ASK: &str = "for w in w1 w2; do until busybox wget -q -O - http://$w:8000/index.html; do \
                   sleep 0.2; done; done; getent hosts leader w1 demo-w2 >/dev/null && echo named";

/// A site whose drive is saved, and has programs for a network.
fn site() -> Site {
    let site = Site::new();
    let image = site.path("net.tar");
    let programs = ["busybox", "getent", "grep"];
    fs::write(&image, image_with(&programs)).unwrap();
    let image = image.to_str().unwrap();
    let words = ["connect", "demo", "--no-jupyter", "--image", image, "--"];
    site.run(&[&words[..], &["sh", "-c", "echo saved >/work/saved"]].concat())
        .is(0);
    site
}

fn begin(site: &Site, number: &str) -> crate::session::site::Ended {
    site.run(&[
        "workers", "demo", number, "--max", "1h", "--", "sh", "-c", SERVE,
    ])
}

/// The workers, by name, and each one's instance.
pub(super) fn up(site: &Site) -> Vec<(String, String)> {
    let rows = document("workers", &site.run(&["workers", "demo", "--json"]));
    let rows = rows.as_array().unwrap().iter();
    let word = |row: &Value, key: &str| row[key].as_str().unwrap_or_default().to_owned();
    rows.filter(|row| row["state"] == "up")
        .map(|row| (word(row, "worker"), word(row, "instance")))
        .collect()
}

/// A process of an instance, by the file that has its record.
pub(in crate::session) fn process(site: &Site, instance: &str, file: &str) -> i32 {
    let file = site.dir().join("instances").join(instance).join(file);
    let record: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    record["pid"].as_i64().unwrap().try_into().unwrap()
}

/// The output of a script on an instance.
pub(in crate::session) fn on(site: &Site, instance: &str, script: &str) -> String {
    let mut command = Command::new("nsenter");
    let init = process(site, instance, "init.json").to_string();
    command.args(["-t", &init, "-a", "sh", "-c", script]);
    let ran = command.output().unwrap();
    String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned()
}

/// Prints the traces of a swarm that a host has at its drive.
const TRACES: &str = "find /v1/docker/swarm /v1/xdrive/network -type f 2>/dev/null; \
                      grep -l '\"xdrive\":{' /v1/docker/containers/*/config.v2.json";

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn workers_find_their_leader_are_kept_at_their_number_and_leave_nothing() {
    let site = site();
    let left = site.run(&["run", "demo", "-d", "--", "sleep", "3600"]);
    left.is(0);
    begin(&site, "2")
        .is(0)
        .reports("demo leads a network")
        .reports("w1 has joined after ")
        .reports("2 of 2 are there");
    let first = up(&site);
    assert_eq!(first.len(), 2, "{first:?}");
    // More of them would be as these are, unless it is said what they are to be like.
    let more = |flags: &[&str]| {
        let words = [&["workers", "demo", "3", "--dry-run", "--json"], flags].concat();
        let preview = document("workers-dry-run", &site.run(&words));
        preview["offers"][0]["name"].as_str().unwrap().to_owned()
    };
    assert_eq!(more(&["--type", "m5.large"]), "m5.large");
    assert_eq!(more(&[]), "c6a.large");
    // Both ways, by names, and bytes come across.
    let asked = site.run(&["connect", "demo", "--no-jupyter", "--", "sh", "-c", ASK]);
    assert_eq!(asked.is(0).stdout, "w1\nw2\nnamed\n");
    let logs = site.run(&["logs", "demo.w2"]);
    assert_eq!(logs.is(0).stdout, "worker 2 of 2 at leader\nsaved\n");
    // Nor does a worker take its leader's name for its own.
    let own = "docker exec xdrive-demo.w1 getent hosts demo leader";
    let named = on(&site, &first[0].1, own);
    let addresses: Vec<&str> = named
        .lines()
        .filter_map(|it| it.split(' ').next())
        .collect();
    assert_eq!(addresses.len(), 2, "{named}");
    assert_eq!(addresses[0], addresses[1], "{named}");
    site.run(&["connect", "demo.w1", "--", "true"])
        .is(75)
        .reports("demo.w1 is up as a worker of demo");
    // A token that was sealed is none any more.
    let leader = site.instance("demo");
    let token = "docker swarm join-token --quiet worker";
    let given = on(&site, &leader, token);
    let sealed = on(&site, &leader, "sh /var/lib/xdrive/scripts/*/swarm seal");
    assert_eq!(sealed, "");
    assert_ne!(on(&site, &leader, token), given);

    // One that EC2 took comes back, and the other stays as it is.
    site.run(&["local", "interrupt", &first[0].1, "--in", "0"])
        .is(0);
    eventually_within(SESSION, || "one".to_owned(), || up(&site).len() == 1);
    let tender = site.other_laptop();
    tender
        .run(&["tend", "--once"])
        .is(0)
        .reports("demo: 2 of 2 are there");
    let second = up(&site);
    assert_ne!(second[0].1, first[0].1);
    assert_eq!(second[1], first[1]);
    site.run(&["connect", "demo", "--no-jupyter", "--", "sh", "-c", ASK])
        .is(0)
        .prints("named");

    // A leader that moves leaves nothing of the network on its drive, and has another one.
    assert!(on(&site, &leader, TRACES).contains("docker-state.json"));
    site.run(&["stop", "demo"]).is(0);
    let left = site.run(&["run", "demo", "-d", "--", "sleep", "3600"]);
    left.is(0);
    assert_eq!(on(&site, &site.instance("demo"), TRACES), "");
    // Nobody begins anything for a session that is another one.
    let ended = tender.run(&["tend", "--once"]);
    assert!(!ended.is(0).stderr.contains("of 2"), "{ended:?}");
    site.run(&["workers", "demo", "2"])
        .is(0)
        .reports("2 of 2 are there");
    assert_eq!(up(&site).len(), 2);
    site.run(&["connect", "demo", "--no-jupyter", "--", "sh", "-c", ASK])
        .is(0)
        .prints("w1\nw2\nnamed\n");

    // What a user ends stays ended.
    site.run(&["stop", "demo.w2"])
        .is(0)
        .reports("demo.w2 has ended: a worker of demo, of which nothing is kept");
    tender.run(&["tend", "--once"]).is(0);
    assert_eq!(up(&site).len(), 1);
    site.run(&["workers", "demo", "2"])
        .is(0)
        .reports("2 of 2 are there");

    // Fewer, and none.
    site.run(&["workers", "demo", "1"])
        .is(0)
        .reports("demo.w2 has ended");
    assert_eq!(up(&site).len(), 1);
    site.run(&["workers", "demo", "0"])
        .is(0)
        .reports("demo.w1 has ended");
    site.run(&["stop", "demo"]).is(0);
    for worker in ["demo.w1", "demo.w2"] {
        assert_eq!(site.run(&["list", worker]).code(), 69);
    }
    site.is_saved("demo", 3);
    let rules = in_the_cloud(&site, async |ec2| {
        let owner = ec2.owner().await.unwrap();
        let groups = ec2.groups_of(&owner).await.unwrap();
        groups.iter().map(|group| group.rules.len()).sum::<usize>()
    });
    assert_eq!(rules, 1, "the one for SSH");
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn workers_come_to_a_leader_that_was_taken_and_is_tended() {
    let site = site();
    // With no more rights than `policy` prints.
    let policy = site.run(&["policy"]).is(0).stdout.clone();
    site.allow(&policy, "arn:aws:iam::000000000000:user/local", "");
    let run = ["run", "demo", "-d", "--restart", "--fallback", "none", "--"];
    site.run(&[&run[..], &["sleep", "3600"]].concat()).is(0);
    begin(&site, "2").is(0);
    let before = up(&site);
    site.interrupt("demo", 10);
    let is_gone = || site.kinds("demo").iter().all(|kind| kind != "instance");
    eventually_within(SESSION, || "no instance".to_owned(), is_gone);
    let tender = site.other_laptop();
    tender
        .run(&["tend", "--once"])
        .is(0)
        .reports("goes on on another instance")
        .reports("demo: 2 of 2 are there");
    assert_eq!(up(&site).len(), before.len());
    site.run(&["connect", "demo", "--no-jupyter", "--", "sh", "-c", ASK])
        .is(0)
        .prints("w1\nw2\nnamed\n");
    // Once is enough.
    let again = tender.run(&["tend", "--once"]);
    assert!(!again.is(0).stderr.contains("of 2"), "{again:?}");
    site.run(&["workers", "demo", "0"]).is(0);
    tender.run(&["tend", "--once"]).is(0);
    assert_eq!(up(&site), []);
    site.run(&["stop", "demo"]).is(0);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_worker_ends_with_its_command_and_without_its_leader() {
    let site = site();
    site.run(&["run", "demo", "-d", "--", "sleep", "3600"])
        .is(0);
    site.run(&["workers", "demo", "1", "--", "sh", "-c", "exit 3"])
        .is(0);
    // A minute, in which somebody may come, and the close.
    let off = Duration::from_mins(4);
    eventually_within(off, || "up".to_owned(), || up(&site).is_empty());
    site.run(&["workers", "demo"])
        .is(0)
        .prints("w1  demo.w1  gone");
    site.run(&["logs", "demo.w1"])
        .is(69)
        .reports("nothing of what ran on demo.w1, a worker of demo, is kept");

    begin(&site, "1").is(0);
    let worker = up(&site)[0].1.clone();
    let unit = "systemctl show --value --property=ExecStart xdrive-network";
    let unit = on(&site, &worker, unit);
    let (_, words) = unit
        .split_once(" stay ")
        .unwrap_or_else(|| panic!("{unit}"));
    let address = words.split(' ').next().unwrap();
    assert!(words.starts_with(&format!("{address} 2377 600 ")), "{unit}");
    // A power cut.
    let leader = site.instance("demo");
    assert!(on(&site, &leader, TRACES).contains("docker-state.json"));
    let supervisor = Pid::from_raw(process(&site, &leader, "supervisor.json"));
    kill_process(supervisor.unwrap(), Signal::KILL).unwrap();
    // As it waits, but for three seconds.
    let stay = format!("cd /var/lib/xdrive/scripts/* && python3 swarm.py stay {address} 2377 3 .");
    let said = on(&site, &worker, &stay);
    let why = format!("no leader at {address} for 3 seconds");
    assert!(said.contains(&why), "{said}");
    eventually_within(SESSION, || "up".to_owned(), || up(&site).is_empty());
    site.run(&["workers", "demo", "0"])
        .is(0)
        .reports("demo.w1 has ended");
    // What was left of the network keeps no container from starting.
    let run = ["run", "demo", "-d", "--no-jupyter", "--", "sleep", "3600"];
    site.run(&run).is(0);
    assert_eq!(on(&site, &site.instance("demo"), TRACES), "");
    site.run(&["stop", "demo"]).is(0);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_worker_whose_host_does_not_come_into_the_network_is_begun_on_another_one() {
    let site = site();
    site.run(&["run", "demo", "-d", "--", "sleep", "3600"])
        .is(0);
    let words = [
        "workers", "demo", "1", "--max", "1h", "--", "sh", "-c", SERVE,
    ];
    let mut beginning = site.start(&words);
    beginning.reports("launched demo.w1's instance");
    let first = site.instance("demo.w1");
    // Its first host alone.
    let refuse = "until cd /var/lib/xdrive/scripts/* && [ -e swarm ]; do sleep 0.1; done 2>/dev/null; \
                  printf 'echo no network >&2; exit 94' >refuses; mv refuses swarm";
    let refused = || on(&site, &first, refuse).is_empty();
    eventually_within(SESSION, || first.clone(), refused);
    beginning
        .end()
        .is(0)
        .reports("w1 begins again: error: demo.w1 does not come into the network of demo")
        .reports("no network")
        .reports("1 of 1 are there");
    let second = up(&site);
    assert_eq!(second.len(), 1);
    assert_ne!(second[0].1, first);
    site.run(&["workers", "demo", "0"]).is(0);
    site.run(&["stop", "demo"]).is(0);
}
