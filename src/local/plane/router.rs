//! The router: a network namespace between this computer and its instances.
//!
//! ```text
//! this computer        the router `xd-vpc-…`         an instance's namespace `xd-…`
//! 10.99.0.1 xd-vpc ─── host 10.99.0.2 xd-… ───────── eth0 10.99.1.1
//! ```
//!
//! It forwards between instances, and filters ([`super::firewall`]), by settings and rules of its
//! own: a computer with Docker drops what it would have to forward, and its settings and firewall
//! are nobody else's to change. The computer's own end does not forward, so that no packet of an
//! instance leaves it. A route for the whole range makes an address without an instance unreachable,
//! and keeps packets for it from leaving by the default route.
//!
//! A router is made with the first instance and removed with the last, under [`HostLock::Network`].
//! Each network namespace that launches instances has its own, as tests of distant laptops do.
//!
//! [`HostLock::Network`]: super::host_lock::HostLock::Network

use std::fs;
use std::io::ErrorKind;
use std::net::Ipv4Addr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::PlaneError;
use super::program::{feed, run};

/// The addresses of this computer, its routers and instances.
pub(super) const RANGE: &str = "10.99.0.0/16";
/// The host, as instances see it.
pub(super) const HOST: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 1);
/// The router, as both see it: the instances' gateway.
pub(super) const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 2);
/// The router's end of its link to the computer.
pub(super) const TO_HOST: &str = "host";
/// The computer's end.
const TO_ROUTER: &str = "xd-vpc";
/// Where ip(8) keeps the names of network namespaces.
const NAMES: &str = "/run/netns";

/// A router that is there.
#[derive(Debug)]
pub(super) struct Router {
    name: String,
    /// The names of its links.
    links: Vec<String>,
}

impl Router {
    /// All routers of this computer. Removes names without a namespace: `ip netns add` was killed.
    pub(super) fn all() -> Result<Vec<Self>, PlaneError> {
        let entries = match fs::read_dir(NAMES) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.context("reading the names of network namespaces")?,
        };
        let mut routers = Vec::new();
        for entry in entries {
            let entry = entry.context("reading the names of network namespaces")?;
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            if !name.starts_with(TO_ROUTER) {
                continue;
            }
            if is_namespace(&entry.path())? {
                routers.push(Self::open(name)?);
            } else {
                let path = entry.path();
                fs::remove_file(&path).with_context(|| format!("removing {}", path.display()))?;
            }
        }
        Ok(routers)
    }

    /// The router of this process's network namespace; made, or completed, if it is not whole.
    pub(super) fn here() -> Result<Self, PlaneError> {
        let namespace =
            fs::metadata("/proc/self/ns/net").context("reading the network namespace")?;
        let name = format!("{TO_ROUTER}-{}", namespace.ino());
        if !Path::new(NAMES).join(&name).exists() {
            run("ip", ["netns", "add", &name])?;
        }
        let router = Self::open(name)?;
        // The last step of its making.
        let route = run("ip", ["-4", "route", "show", RANGE])?;
        if !route.contains(&format!("dev {TO_ROUTER}")) {
            router.connect()?;
        }
        Ok(router)
    }

    fn open(name: String) -> Result<Self, PlaneError> {
        let shown = run("ip", ["-netns", &name, "-oneline", "link", "show"])?;
        Ok(Self {
            links: links(&shown),
            name,
        })
    }

    /// Connects it with this computer. Every step may be repeated.
    fn connect(&self) -> Result<(), PlaneError> {
        if !self.has(TO_HOST) {
            let name = &self.name;
            let pair = format!("link add {TO_ROUTER} type veth peer name {TO_HOST} netns {name}\n");
            feed("ip", ["-batch", "-"], &pair)?;
        }
        // Its own setting, of its own link: the computer's stay as they are.
        let forwarding = format!("/proc/sys/net/ipv4/conf/{TO_ROUTER}/forwarding");
        fs::write(&forwarding, "0").with_context(|| format!("writing {forwarding}"))?;
        self.configure(&format!(
            "link set lo up\n\
             address replace {GATEWAY}/32 dev {TO_HOST}\n\
             link set {TO_HOST} up\n\
             route replace {HOST}/32 dev {TO_HOST} scope link src {GATEWAY}\n\
             route replace default via {HOST} dev {TO_HOST}\n\
             route replace unreachable {RANGE} metric 4000\n"
        ))?;
        self.feed("tee", &["/proc/sys/net/ipv4/ip_forward"], "1")?;
        let outside = format!(
            "address replace {HOST}/32 dev {TO_ROUTER}\n\
             link set {TO_ROUTER} up\n\
             route replace {GATEWAY}/32 dev {TO_ROUTER} scope link src {HOST}\n\
             route replace {RANGE} via {GATEWAY} dev {TO_ROUTER} src {HOST}\n"
        );
        feed("ip", ["-batch", "-"], &outside).map(drop)
    }

    /// Whether it has the link `name`.
    pub(super) fn has(&self, name: &str) -> bool {
        self.links.iter().any(|link| link == name)
    }

    /// Whether no instance is behind it.
    pub(super) fn is_unused(&self) -> bool {
        !self.links.iter().any(|link| link.starts_with("xd-"))
    }

    /// The addresses that it has a route to an instance for.
    pub(super) fn addresses(&self) -> Result<Vec<Ipv4Addr>, PlaneError> {
        let routes = run("ip", ["-netns", &self.name, "-4", "route", "show"])?;
        Ok(addresses(&routes))
    }

    /// Runs the lines of ip(8) commands in it.
    pub(super) fn configure(&self, lines: &str) -> Result<(), PlaneError> {
        feed("ip", ["-netns", &self.name, "-batch", "-"], lines).map(drop)
    }

    /// Runs `program` in it, with `input` on stdin.
    pub(super) fn feed(
        &self,
        program: &str,
        arguments: &[&str],
        input: &str,
    ) -> Result<(), PlaneError> {
        let namespace = PathBuf::from(NAMES).join(&self.name);
        let net = format!("--net={}", namespace.display());
        let words = [&[net.as_str(), program], arguments].concat();
        feed("nsenter", words, input).map(drop)
    }

    /// Removes it, with the computer's link and routes to it.
    pub(super) fn remove(&self) -> Result<(), PlaneError> {
        // The kernel removes a namespace's links some time after its name.
        if self.has(TO_HOST) {
            self.configure(&format!("link delete {TO_HOST}\n"))?;
        }
        run("ip", ["netns", "delete", &self.name]).map(drop)
    }
}

/// Whether a file of [`NAMES`] is a network namespace: it is mounted there.
fn is_namespace(path: &Path) -> Result<bool, PlaneError> {
    let device = |path: &Path| {
        let found = fs::metadata(path).with_context(|| format!("reading {}", path.display()));
        found.map(|file| file.dev())
    };
    Ok(device(path)? != device(Path::new(NAMES))?)
}

/// The names in the output of `ip -oneline link show`: `3: xd-00000001@if2: <…`.
fn links(shown: &str) -> Vec<String> {
    let names = shown.lines().filter_map(|line| {
        let name = line.split(": ").nth(1)?;
        Some(name.split('@').next().unwrap_or(name).to_owned())
    });
    names.collect()
}

/// The addresses in the output of `ip route show` that lead to an instance.
fn addresses(routes: &str) -> Vec<Ipv4Addr> {
    let instances = routes.lines().filter(|line| line.contains(" dev xd-"));
    instances
        .filter_map(|line| line.split(' ').next()?.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_say_which_addresses_are_taken() {
        let routes = "default via 10.99.0.1 dev host \n\
            unreachable 10.99.0.0/16 metric 4000 \n\
            10.99.0.1 dev host scope link src 10.99.0.2 \n\
            10.99.4.7 dev xd-00000001 scope link src 10.99.0.2 \n";
        assert_eq!(addresses(routes), [Ipv4Addr::new(10, 99, 4, 7)]);
    }

    #[test]
    fn links_are_known_by_their_names() {
        let shown = "1: lo: <LOOPBACK,UP,LOWER_UP> mtu 65536 qdisc noqueue state UNKNOWN\n\
            2: host@if7: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 qdisc noqueue state UP\n\
            3: xd-00000001@if2: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500\n";
        assert_eq!(links(shown), ["lo", "host", "xd-00000001"]);
        let router = |links: &[&str]| Router {
            name: "xd-vpc-1".to_owned(),
            links: links.iter().map(|link| (*link).to_owned()).collect(),
        };
        assert!(router(&["lo", "host"]).is_unused());
        assert!(!router(&["lo", "xd-00000001"]).is_unused());
    }
}
