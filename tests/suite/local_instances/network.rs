//! The router before instances, in a network namespace of the test's own.

use std::fs::{self, File};
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::machines::{succeed, until};
use crate::session::site::Site;
use harness::leaks::routers;

/// A network namespace, removed when dropped.
struct Namespace(String);

impl Namespace {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let namespace = Self(format!("xt-{}-{number}", std::process::id()));
        succeed(Command::new("ip").args(["netns", "add", &namespace.0]));
        namespace
    }

    /// Runs `work` in it, on a thread, with the name of the router that is made there.
    fn inside(&self, work: impl FnOnce(&str) + Send) {
        let file = File::open(format!("/run/netns/{}", self.0)).unwrap();
        let router = format!("xd-vpc-{}", file.metadata().unwrap().ino());
        let inside = || {
            let kind = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(file.as_fd(), kind).unwrap();
            work(&router);
        };
        std::thread::scope(|threads| threads.spawn(inside).join().unwrap());
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let removed = Command::new("ip")
            .args(["netns", "delete", &self.0])
            .status();
        assert!(std::thread::panicking() || removed.unwrap().success());
    }
}

/// The settings and firewall of this thread's network, but for what is xdrive's own.
fn settings() -> String {
    let read = |path: &str| fs::read_to_string(format!("/proc/sys/net/ipv4/{path}")).unwrap();
    let rules = Command::new("nft")
        .args(["list", "ruleset"])
        .output()
        .unwrap();
    let ip_forward = read("ip_forward");
    let filters = read("conf/all/rp_filter");
    format!(
        "{ip_forward} {filters} {}",
        String::from_utf8_lossy(&rules.stdout)
    )
}

#[test]
#[ignore = "needs root (namespaces) and the machine tree"]
fn the_router_comes_with_the_first_instance_and_goes_with_the_last() {
    Namespace::new().inside(|router| {
        let is_there = || routers().any(|name| name == router);
        let routes = || {
            let shown = Command::new("ip").args(["-4", "route"]).output().unwrap();
            String::from_utf8(shown.stdout).unwrap()
        };
        let before = settings();
        let site = Site::machines();
        let machines = [site.machine(""), site.machine("")];
        let [first, second] = machines.each_ref().map(|it| site.plane.launch(it).unwrap());
        assert!(is_there());
        assert!(
            routes().contains("10.99.0.0/16 via 10.99.0.2"),
            "{}",
            routes()
        );
        assert_eq!(settings(), before);
        let second = site.reach(machines[1].instance.clone(), second);
        site.plane
            .power_off(&machines[0].instance, Duration::ZERO)
            .unwrap();
        until("the first one's end", || !site.plane.is_up(&first));
        second.run("true");
        // The last one is killed: who clears up after it removes the router too.
        succeed(Command::new("kill").args(["-KILL", &second.up.supervisor.to_string()]));
        until("the second one's end", || !site.plane.is_up(&second.up));
        site.plane.clear(&second.id).unwrap();
        assert!(!is_there());
        assert_eq!(routes(), "");
        assert_eq!(settings(), before);
    });
}

#[test]
#[ignore = "needs root (namespaces) and the machine tree"]
fn a_router_whose_making_was_killed_is_completed_by_the_next_launch() {
    Namespace::new().inside(|router| {
        let site = Site::machines();
        let name = format!("/run/netns/{router}");
        // Under the lock: who ends an instance removes routers without one.
        let leave = |what: &str| {
            let mut locked = Command::new("flock");
            locked.args(["/run/lock/xdrive-local-network", "sh", "-ec", what]);
            succeed(&mut locked);
        };
        // As `ip netns add` leaves the name when it is killed…
        leave(&format!("mkdir -p /run/netns; : >{name}"));
        site.launch();
        site.plane.sweep(&[], &[], &[]).unwrap();
        assert!(!fs::exists(&name).unwrap());
        // … and xdrive the router.
        leave(&format!(
            "ip netns add {router}; ip link add xd-vpc type veth peer name host netns {router}"
        ));
        site.launch();
        site.plane.sweep(&[], &[], &[]).unwrap();
        assert!(!fs::exists(&name).unwrap());
    });
}
