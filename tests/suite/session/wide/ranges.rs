//! Laptops and VPCs in Docker's default range.

use std::fs;
use std::net::Ipv4Addr;
use std::process::Command;

use crate::session::site::{Running, Site};
use crate::session::tree::inside;

/// An address in 172.17.0.0/16 that this computer has while this lives.
struct Laptop(Ipv4Addr);

impl Laptop {
    fn new() -> Self {
        let [_, high, low, _] = std::process::id().to_be_bytes();
        let laptop = Self(Ipv4Addr::new(172, 17, 100 + high % 100, 1 + low % 250));
        laptop.address("add");
        laptop
    }

    fn address(&self, what: &str) {
        let address = format!("{}/32", self.0);
        let done = Command::new("ip")
            .args(["address", what, &address, "dev", "lo"])
            .status();
        assert!(done.unwrap().success());
    }
}

impl Drop for Laptop {
    fn drop(&mut self) {
        self.address("delete");
    }
}

/// A session that waits for a request to end.
fn working(site: &Site, more: &[&str]) -> Running {
    let image = site.image();
    let script = "cat /work/note 2> /dev/null; echo kept > /work/note; echo there; \
                  until [ -e /work/end ]; do sleep 0.05; done; rm /work/end";
    let begin = ["connect", "demo", "--image", &image];
    let mut running = site.start(&[&begin, more, &["--", "sh", "-c", script]].concat());
    running.prints("there\n");
    running
}

/// Checks that the container answers at its address on the bridge; the bridge's network.
fn bridge(site: &Site) -> String {
    let address = "docker inspect -f '{{.NetworkSettings.Networks.bridge.IPAddress}}' xdrive-demo";
    let printed = inside(
        site,
        &format!("timeout 5 bash -c \"exec 3<> /dev/tcp/$({address})/9\" 2>&1 || true"),
    );
    assert!(printed.contains("refused"), "{printed}");
    inside(
        site,
        "ip -4 -o address show dev docker0 | grep -o 'inet [^ ]*'",
    )
}

fn end(site: &Site, running: Running) -> String {
    inside(site, "touch /v1/work/end");
    let ended = running.end();
    ended.is(0);
    ended.stdout
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_laptop_in_dockers_own_range_keeps_its_session_and_the_drive_moves_on() {
    let site = Site::with_settings("enforce-groups = false\n");
    let laptop = Laptop::new();
    let script = site.path("from.pl");
    // Joins standard input and output to HOST PORT, from the laptop's address.
    fs::write(
        &script,
        format!(
            "use IO::Socket::INET; use IO::Select;\n\
             my $way = IO::Socket::INET->new(PeerAddr => $ARGV[0], PeerPort => $ARGV[1], \
             LocalAddr => '{}', Timeout => 3) or die $@;\n\
             my $ready = IO::Select->new($way, \\*STDIN);\n\
             while (1) {{ for my $from ($ready->can_read) {{\n\
             my $to = $from == $way ? \\*STDOUT : $way;\n\
             sysread($from, my $text, 65536) or exit;\n\
             for (my $at = 0; $at < length $text; ) {{\n\
             $at += syswrite($to, $text, length($text) - $at, $at) // exit; }} }} }}\n",
            laptop.0
        ),
    )
    .unwrap();
    let proxy = format!("perl {} %h %p", script.display());
    let running = working(&site, &["--proxy-command", &proxy]);
    assert_eq!(bridge(&site), "inet 172.18.0.1/16\n");
    assert_eq!(end(&site, running), "there\n");
    site.is_saved("demo", 1);
    drop(laptop);

    // On another host Docker has its default range again, and avoids the VPC's.
    let running = working(&site, &[]);
    assert_eq!(bridge(&site), "inet 172.17.0.1/16\n");
    assert_eq!(end(&site, running), "kept\nthere\n");
    site.set("secondary-cidrs = [\"172.17.0.0/16\", \"172.18.0.0/20\"]\n");
    let running = working(&site, &[]);
    assert_eq!(bridge(&site), "inet 172.19.0.1/16\n");
    assert_eq!(end(&site, running), "kept\nthere\n");
    site.is_saved("demo", 3);
}
