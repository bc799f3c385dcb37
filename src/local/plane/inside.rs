//! The addresses that answer inside an instance, each in its network namespace and nowhere else: no other
//! instance, and not the host, can reach them. Its containers can.

use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::AsFd as _;
use std::path::Path;

use anyhow::{Context as _, anyhow};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::PlaneError;
use super::program::run;

/// The metadata service's.
pub(super) const METADATA: Ipv4Addr = Ipv4Addr::new(169, 254, 169, 254);

/// That of the API, where an instance on AWS would reach it by way of the internet.
pub(super) const API: Ipv4Addr = Ipv4Addr::new(169, 254, 169, 250);

/// The API inside instances and their containers.
pub const API_URL: &str = "http://169.254.169.250";

const PORT: u16 = 80;

/// Gives the network namespace `name` the API's address.
pub(super) fn add_api(name: &str) -> Result<(), PlaneError> {
    let address = format!("{API}/32");
    run(
        "ip",
        ["-netns", name, "address", "add", &address, "dev", "lo"],
    )?;
    Ok(())
}

/// Listens on `address` in the network namespace `name`. Only a thread of its own goes there; the socket
/// stays in the namespace it was made in.
pub(super) fn listen(name: &str, address: Ipv4Addr) -> anyhow::Result<tokio::net::TcpListener> {
    let namespace = Path::new("/run/netns").join(name);
    let there = move || -> anyhow::Result<TcpListener> {
        let file = std::fs::File::open(&namespace)?;
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
        let listener = TcpListener::bind((address, PORT))?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    };
    std::thread::spawn(there)
        .join()
        .map_err(|_| anyhow!("the thread that binds {address} panicked"))?
        .and_then(|listener| Ok(tokio::net::TcpListener::from_std(listener)?))
        .with_context(|| format!("binding {address} in {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_is_that_of_the_address() {
        assert_eq!(API_URL, format!("http://{API}"));
    }
}
