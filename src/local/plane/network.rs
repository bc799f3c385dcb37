//! An instance's network: one address, and one veth pair that ends in the [router](super::router).
//!
//! Addresses come from 10.99.0.0/16 and are unique over all state directories of the computer: the
//! routers' routes are the record of used addresses, read and written under one lock.

use std::net::Ipv4Addr;
use std::path::Path;

use anyhow::anyhow;

use super::PlaneError;
use super::firewall;
use super::host_lock::HostLock;
use super::program::{feed, run};
use super::router::{GATEWAY, RANGE, Router};

/// The start of instances' link addresses: locally administered (IEEE 802c), then the address.
const MAC: &str = "02:0a";

/// The first and the last Elastic IP address: of those that no instance gets. An address is unique in its state
/// directory.
pub(crate) const ELASTIC: (Ipv4Addr, Ipv4Addr) =
    (Ipv4Addr::new(10, 99, 0, 16), Ipv4Addr::new(10, 99, 0, 254));

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
    let mut used = Vec::new();
    for router in Router::all()? {
        used.extend(router.addresses()?);
    }
    let address =
        free_address(&used, name).ok_or_else(|| anyhow!("every address of {RANGE} is taken"))?;
    let [_, _, third, fourth] = address.octets();
    let mac = format!("{MAC}:0a:63:{third:02x}:{fourth:02x}");
    if let Err(error) = make(name, address, &mac) {
        remove(name)?;
        return Err(error);
    }
    Ok(Network { address, mac })
}

/// Makes namespace, pair and routes.
fn make(name: &str, address: Ipv4Addr, mac: &str) -> Result<(), PlaneError> {
    let router = Router::here()?;
    run("ip", ["netns", "add", name])?;
    router.configure(&format!(
        "link add {name} type veth peer name eth0 address {mac} netns {name}\n\
         address add {GATEWAY}/32 dev {name}\n\
         link set {name} up\n\
         route add {address}/32 dev {name} src {GATEWAY}\n"
    ))?;
    let inside = format!(
        "link set lo up\n\
         address add 169.254.169.254/32 dev lo\n\
         address add {address}/32 dev eth0\n\
         link set eth0 up\n\
         route add {GATEWAY} dev eth0 scope link\n\
         route add default via {GATEWAY} dev eth0\n"
    );
    feed("ip", ["-netns", name, "-batch", "-"], &inside).map(drop)
}

/// Removes what [`up`] made, and the router after its last instance; nothing there is success.
pub(super) fn down(name: &str) -> Result<(), PlaneError> {
    let _lock = HostLock::Network.lock()?;
    remove(name)
}

/// [`down`], with the lock held.
fn remove(name: &str) -> Result<(), PlaneError> {
    // Whichever router it has: this process may be in another network namespace.
    for router in Router::all()? {
        if router.has(name) {
            firewall::forget(&router, name)?;
            router.configure(&format!("link delete {name}\n"))?;
        }
    }
    if Path::new("/run/netns").join(name).exists() {
        run("ip", ["netns", "delete", name])?;
    }
    for router in Router::all()? {
        if router.is_unused() {
            router.remove()?;
        }
    }
    Ok(())
}

/// A free address. The search begins at a place that depends on the name, so that the next instance
/// does not get the address of one that just ended, which others may still call.
fn free_address(used: &[Ipv4Addr], name: &str) -> Option<Ipv4Addr> {
    let digits = name.strip_prefix("xd-").unwrap_or(name);
    let start = u32::from_str_radix(digits, 16).unwrap_or(0);
    (0..0xff00)
        // 10.99.1.0 to 10.99.255.255: the first 256 are the host's and the router's.
        .map(|step| (start.wrapping_add(step)) % 0xff00 + 0x100)
        .map(|low| Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 99, 0, 0)) | low))
        .find(|address| !matches!(address.octets()[3], 0 | 255) && !used.contains(address))
}

#[cfg(test)]
mod tests {
    use super::*;

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
