//! Ports of a drive's host that others may reach.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::session::json::document;
use crate::session::simulated::in_the_cloud;
use crate::session::site::Site;
use crate::session::tree::inside;

/// Waits for the end that the test asks for.
const WAIT: &str = "echo there; until [ -e /work/end ]; do sleep 0.05; done; rm /work/end";

/// The ports on which something listens.
const PORTS: [u16; 3] = [8443, 8444, 8445];

/// The ports of [`PORTS`] that this computer reaches, once something listens at each.
fn reached(site: &Site) -> Vec<u16> {
    let listen = PORTS.map(|port| {
        format!("python3 -m http.server {port} >/dev/null 2>&1 & echo $! >>/run/servers;")
    });
    let awaits = PORTS
        .map(|port| format!("until ss -Hltn sport = :{port} | grep -q .; do sleep 0.05; done;"));
    inside(
        site,
        &format!("cd /run; {}{}", listen.concat(), awaits.concat()),
    );
    let address = in_the_cloud(site, async |ec2| {
        let (instances, ..) = ec2.everything().await.unwrap();
        let live = instances.iter().find_map(|it| it.address);
        live.unwrap()
    });
    let reaches = |port: &u16| {
        let at = SocketAddr::new(address, *port);
        TcpStream::connect_timeout(&at, Duration::from_secs(1)).is_ok()
    };
    let found = PORTS.into_iter().filter(reaches).collect();
    inside(site, "kill $(cat /run/servers); rm /run/servers");
    found
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn the_ports_of_a_drive_are_open_on_each_of_its_hosts_until_they_are_closed() {
    let site = Site::new();
    let image = site.image();
    let session = |flags: &[&str], is_open: &[u16]| {
        let words = ["connect", "demo", "--image", &image];
        let command = ["--", "sh", "-c", WAIT];
        let mut running = site.start(&[&words[..], flags, &command].concat());
        running.prints("there\n");
        assert_eq!(reached(&site), is_open, "{flags:?}");
        inside(&site, "touch /v1/work/end");
        running.end()
    };
    let others = "8444:198.51.100.0/24";
    session(&["--ingress", "8443", "--ingress", others], &[8443])
        .is(0)
        .reports("port 8443 is open to everybody (--no-ingress closes it)")
        .reports("port 8444 is open to 198.51.100.0/24");
    // Of two groups of a host the drive's own has the rules.
    let groups = site.groups();
    assert_eq!(groups.len(), 2, "{groups:?}");
    // The drive has them, on another host.
    session(&[], &[8443])
        .is(0)
        .reports("port 8443 is open to everybody");
    let computer = "8445:10.99.0.1";
    session(&["--ingress", computer], &[8445]).is(0);
    let ended = session(&["--no-ingress"], &[]);
    assert!(!ended.is(0).stderr.contains("is open"), "{}", ended.stderr);
    assert!(!session(&[], &[]).is(0).stderr.contains("is open"));
    site.run(&["gc"]).is(0);
    assert_eq!(site.groups(), []);
    site.is_saved("demo", 5);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn ports_that_are_closed_while_the_host_is_up_are_closed_there() {
    let site = Site::new();
    let image = site.image();
    let run = [
        "run",
        "demo",
        "-d",
        "--image",
        &image,
        "--ingress",
        "8443",
        "--",
    ];
    site.run(&[&run[..], &["sh", "-c", WAIT]].concat()).is(0);
    assert_eq!(reached(&site), [8443]);
    let guest = site.run(&["connect", "demo", "--no-ingress", "--", "true"]);
    guest.is(0).reports("joined the session");
    assert!(reached(&site).is_empty());
    site.run(&["stop", "demo"]).is(0);
    let dry_run = site.run(&["connect", "demo", "--dry-run"]);
    assert!(!dry_run.is(0).stdout.contains("is open"), "{dry_run:?}");
    site.has_no_leaks();
}

#[test]
fn a_port_that_cannot_be_opened_is_refused_before_anything_is_made() {
    let site = Site::with_settings("plane = \"paper\"\n");
    for port in ["22", "2377:10.0.0.0/8", "0", "443-445", "443:here"] {
        let words = ["connect", "demo", "--ingress", port, "--", "true"];
        site.run(&words).is(2).reports("--ingress");
    }
    let range = "1000:2001:db8:1111:2222::/64";
    let many: Vec<&str> = (0..10).flat_map(|_| ["--ingress", range]).collect();
    let long = [&["connect", "demo"], &many[..], &["--", "true"]].concat();
    site.run(&long).is(2).reports("more than 256 characters");
    let both = ["connect", "demo", "--ingress", "443", "--no-ingress"];
    site.run(&both).is(2);
    let dry_run = [
        "connect",
        "demo",
        "--image",
        "x",
        "--ingress",
        "443",
        "--dry-run",
    ];
    site.run(&dry_run)
        .is(0)
        .prints("port 443 is open to everybody");
    let json = document("dry-run", &site.run(&[&dry_run[..], &["--json"]].concat()));
    assert_eq!(json["ingress"][0], "443", "{json}");
    assert_eq!(site.groups(), []);
}
