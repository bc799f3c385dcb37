//! The Elastic IP address of a drive's hosts.

use std::io::Read as _;
use std::net::TcpStream;
use std::time::Duration;

use super::json::document;
use super::served::ServedSite;
use super::simulated::in_the_cloud;
use super::site::{SESSION, Site};
use super::tree::inside;
use crate::local_api::{call, text};

/// Waits for the end that the test asks for.
const WAIT: &str = "echo there; until [ -e /work/end ]; do sleep 0.05; done; rm /work/end";

/// A new address of the account: its id, and itself.
pub(super) fn allocated(site: &Site) -> (String, String) {
    let made = call(&site.local(), "AllocateAddress", &[]).unwrap();
    (text(&made, "allocationId"), text(&made, "publicIp"))
}

/// The public address of the newest instance that runs.
fn public(site: &Site) -> Option<String> {
    in_the_cloud(site, async |ec2| {
        let (instances, ..) = ec2.everything().await.unwrap();
        let live = instances.into_iter().filter(|it| it.state.is_live());
        let newest = live.max_by_key(|it| it.launched).unwrap();
        newest.address.map(|it| it.to_string())
    })
}

/// Whether an SSH server greets at this address.
fn greets(address: &str) -> bool {
    let at = format!("{address}:22").parse().unwrap();
    let Ok(mut stream) = TcpStream::connect_timeout(&at, Duration::from_secs(1)) else {
        return false;
    };
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let mut greeting = [0; 4];
    stream.read_exact(&mut greeting).is_ok() && greeting == *b"SSH-"
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn each_host_of_a_drive_has_its_address_until_it_is_taken_away() {
    let site = Site::new();
    let image = site.image();
    let (id, ip) = allocated(&site);
    let session = |flags: &[&str], has_it: bool| {
        let words = ["connect", "demo", "--image", &image];
        let command = ["--", "sh", "-c", WAIT];
        let mut running = site.start(&[&words[..], flags, &command].concat());
        running.prints("there\n");
        assert_eq!(public(&site).as_ref() == Some(&ip), has_it, "{flags:?}");
        assert_eq!(greets(&ip), has_it, "{flags:?}");
        inside(&site, "touch /v1/work/end");
        running.end()
    };
    let has = format!("has the address {ip} ({id})");
    session(&["--address", &id], true).is(0).reports(&has);
    assert!(!greets(&ip));
    // The drive has it, on another host; its fork has not.
    session(&[], true).is(0).reports(&has);
    let dry_run = ["connect", "demo", "--dry-run", "--json"];
    let plan = document("dry-run", &site.run(&dry_run));
    assert_eq!(plan["address"], *id, "{plan}");
    site.run(&["fork", "demo", "other"]).is(0);
    let words = ["connect", "other", "--dry-run", "--json"];
    let plan = document("dry-run", &site.run(&words));
    assert!(plan["address"].is_null(), "{plan}");
    session(&["--no-address"], false).is(0);
    assert!(!session(&[], false).is(0).stderr.contains(&ip));
    site.is_saved("demo", 4);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn an_address_comes_along_when_the_host_is_taken_and_to_a_host_that_is_up() {
    let site = Site::new();
    let image = site.image();
    let (id, ip) = allocated(&site);
    let words = ["connect", "demo", "--image", &image, "--resume"];
    let mut pty = site.in_terminal(&words);
    pty.see_within(SESSION, "bash-");
    let flags = ["--address", &id, "--ingress", "8443"];
    let guest = [&["connect", "demo"], &flags[..], &["--", "true"]].concat();
    site.run(&guest)
        .is(0)
        .reports(&format!("has the address {ip}"));
    assert_eq!(public(&site).as_ref(), Some(&ip));
    let first = site.interrupt("demo", 120);
    // What the guest has set is the drive's, also for a session that began before.
    pty.see_within(SESSION, "demo goes on on another instance");
    pty.see_within(SESSION, "port 8443 is open to everybody");
    pty.type_in("echo on$((1+1))\r");
    pty.see_within(SESSION, "on2");
    assert_ne!(site.instance("demo"), first);
    assert_eq!(public(&site).as_ref(), Some(&ip));
    assert!(greets(&ip));
    pty.type_in("exit\r");
    assert_eq!(pty.wait_within(SESSION), 0, "{}", pty.contents());
    site.is_saved("demo", 2);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn an_address_that_something_else_has_stays_there() {
    let site = Site::new();
    let image = site.image();
    let (id, ip) = allocated(&site);
    let run = [
        "run",
        "mail",
        "-d",
        "--image",
        &image,
        "--address",
        &id,
        "--",
        "sleep",
        "600",
    ];
    site.run(&run).is(0);
    let other = [
        "connect",
        "demo",
        "--image",
        &image,
        "--address",
        &id,
        "--",
        "true",
    ];
    let ended = site.run(&other);
    ended
        .is(0)
        .reports("its own address, and not")
        .reports("something else has it (--no-address takes it from the drive)");
    assert_eq!(public(&site), Some(ip));
    site.run(&["stop", "mail"]).is(0);
    site.has_no_leaks();
}

#[test]
fn an_address_that_is_not_there_is_refused_before_anything_is_made() {
    let served = ServedSite::paper("");
    let site = &served.site;
    for wrong in ["203.0.113.7", "eipalloc-", "eipalloc-0abc;x", "none"] {
        let words = ["connect", "demo", "--address", wrong, "--", "true"];
        site.run(&words).is(2).reports("--address");
    }
    let none = "eipalloc-0123456789abcdef0";
    let words = ["connect", "demo", "--image", "x", "--address", none];
    site.run(&[&words[..], &["--", "true"]].concat())
        .is(69)
        .reports(&format!("there is no Elastic IP address {none} in "))
        .reports("--no-address goes on without");
    site.run(&[&words[..], &["--no-address"]].concat()).is(2);
    assert_eq!(site.run(&["list"]).is(0).stdout, "no drives\n");
    let (id, _) = allocated(site);
    let words = [
        "connect",
        "demo",
        "--image",
        "x",
        "--address",
        &id,
        "--dry-run",
    ];
    site.run(&words)
        .is(0)
        .prints(&format!("its host gets the Elastic IP address {id}"));
}

#[test]
fn the_printed_policy_allows_addresses_only_where_that_is_asked_for() {
    let site = Site::with_settings("plane = \"paper\"\n");
    let plain = site.run(&["policy"]).is(0).stdout.clone();
    assert!(!plain.contains("Address\""), "{plain}");
    let (id, _) = allocated(&site);
    let with = site.run(&["policy", "--address"]).is(0).stdout.clone();
    let words = [
        "connect",
        "demo",
        "--image",
        "x",
        "--address",
        &id,
        "--dry-run",
    ];
    let set = |policy: &str| site.set(&format!("plane = \"paper\"\npolicy = '''{policy}'''\n"));
    set(&plain);
    site.run(&words)
        .is(77)
        .reports("policy --address` prints the rights for it");
    set(&with);
    site.run(&words).is(0);
}
