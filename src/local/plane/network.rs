//! An instance's network: one veth pair, one address, nothing beyond this computer.
//!
//! Addresses come from 10.99.0.0/16 and are unique over all state directories of the computer: the
//! host's routes are the record of used addresses, read and written under one lock. The host's end
//! of each pair is 10.99.0.1. It does not forward, so that no packet of an instance leaves the
//! computer or reaches another instance; a blackhole route for the whole range, there as long as
//! any instance is, keeps packets *for* one that is gone from leaving by the default route.

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;

use anyhow::{Context as _, anyhow};

use super::PlaneError;
use super::host_lock::HostLock;
use super::program::{feed, run};

const RANGE: &str = "10.99.0.0/16";
/// The host, as instances see it.
const HOST: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 1);
/// The start of instances' link addresses: locally administered (IEEE 802c), then the address.
const MAC: &str = "02:0a";
/// An instance's place in the network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Network {
    /// The instance's address.
    pub address: Ipv4Addr,
    /// The link address of the instance's interface.
    pub mac: String,
}

/// Makes the network namespace `name` with an interface `eth0`, reachable from the host under an
/// address that no other instance has.
pub(super) fn up(name: &str) -> Result<Network, PlaneError> {
    let _lock = HostLock::Network.lock()?;
    let routes = run("ip", ["-4", "route", "show"])?;
    let address = free_address(&used(&routes), name)
        .ok_or_else(|| anyhow!("every address of {RANGE} is taken"))?;
    let [_, _, third, fourth] = address.octets();
    let mac = format!("{MAC}:0a:63:{third:02x}:{fourth:02x}");

    run("ip", ["netns", "add", name])?;
    let inside = format!(
        "link set lo up\n\
         address add 169.254.169.254/32 dev lo\n\
         address add {address}/32 dev eth0\n\
         link set eth0 up\n\
         route add {HOST} dev eth0 scope link\n\
         route add default via {HOST} dev eth0\n"
    );
    let blackhole = if routes.contains(&format!("blackhole {RANGE}")) {
        String::new()
    } else {
        format!("route add blackhole {RANGE} metric 4000\n")
    };
    let outside = format!(
        "{blackhole}\
         link add {name} type veth peer name eth0 address {mac} netns {name}\n\
         address add {HOST}/32 dev {name}\n"
    );
    let reachable = format!("link set {name} up\nroute add {address}/32 dev {name} src {HOST}\n");
    let made = feed("ip", ["-batch", "-"], &outside)
        .and_then(|_| forbid_forwarding(name))
        .and_then(|()| feed("ip", ["-batch", "-"], &reachable))
        .and_then(|_| feed("ip", ["-netns", name, "-batch", "-"], &inside));
    if let Err(error) = made {
        remove(name)?;
        return Err(error);
    }
    Ok(Network { address, mac })
}

/// Removes what [`up`] made; nothing there is success.
pub(super) fn down(name: &str) -> Result<(), PlaneError> {
    let _lock = HostLock::Network.lock()?;
    remove(name)
}

/// [`down`], with the lock held.
fn remove(name: &str) -> Result<(), PlaneError> {
    if Path::new("/sys/class/net").join(name).exists() {
        run("ip", ["link", "delete", name])?;
    }
    if Path::new("/run/netns").join(name).exists() {
        run("ip", ["netns", "delete", name])?;
    }
    let routes = run("ip", ["-4", "route", "show"])?;
    if used(&routes).is_empty() && routes.contains(&format!("blackhole {RANGE}")) {
        run(
            "ip",
            ["route", "delete", "blackhole", RANGE, "metric", "4000"],
        )?;
    }
    Ok(())
}

fn forbid_forwarding(name: &str) -> Result<(), PlaneError> {
    let path = format!("/proc/sys/net/ipv4/conf/{name}/forwarding");
    Ok(fs::write(&path, "0").with_context(|| format!("writing {path}"))?)
}

/// The addresses that the host has a route to an instance for.
fn used(routes: &str) -> Vec<Ipv4Addr> {
    let instances = routes.lines().filter(|line| line.contains(" dev xd-"));
    instances
        .filter_map(|line| line.split(' ').next()?.parse().ok())
        .collect()
}

/// A free address. The search begins at a place that depends on the name, so that the next instance
/// does not get the address of one that just ended, which others may still call.
fn free_address(used: &[Ipv4Addr], name: &str) -> Option<Ipv4Addr> {
    let digits = name.strip_prefix("xd-").unwrap_or(name);
    let start = u32::from_str_radix(digits, 16).unwrap_or(0);
    (0..0xff00)
        // 10.99.1.0 to 10.99.255.255: the first 256 are the host's.
        .map(|step| (start.wrapping_add(step)) % 0xff00 + 0x100)
        .map(|low| Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 99, 0, 0)) | low))
        .find(|address| !matches!(address.octets()[3], 0 | 255) && !used.contains(address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_say_which_addresses_are_taken() {
        let routes = "default via 192.0.2.1 dev eth0 \n\
            blackhole 10.99.0.0/16 metric 4000 \n\
            10.99.4.7 dev xd-00000001 scope link src 10.99.0.1 \n\
            10.99.9.9 dev eth0 scope link \n";
        assert_eq!(used(routes), [Ipv4Addr::new(10, 99, 4, 7)]);
    }

    #[test]
    fn an_address_is_never_given_twice_nor_the_hosts() {
        let first = free_address(&[], "xd-00000001").unwrap();
        assert_eq!(first, Ipv4Addr::new(10, 99, 1, 1));
        assert_eq!(
            free_address(&[first], "xd-00000001"),
            Some(Ipv4Addr::new(10, 99, 1, 2))
        );
        // The last one of the range wraps around to the first.
        assert_eq!(free_address(&[], "xd-0000feff"), Some(first));
    }
}
