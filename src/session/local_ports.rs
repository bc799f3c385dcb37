//! The ports of this computer that a session takes: Jupyter's, and whether those that may not be
//! replaced are free.

use std::net::{SocketAddr, TcpListener};

use anyhow::anyhow;

use crate::config::Options;
use crate::failure::{Exit, Failure};
use crate::ssh::forward::Interface;

/// The hint where a port is busy.
pub(super) const EXACT: &str = "without --exact-ports another port is taken where one is busy";

/// Jupyter's default port on this computer.
const JUPYTER: u16 = 8888;

/// Where Jupyter is to be on this computer.
#[derive(Debug, Clone, Copy)]
pub(super) struct JupyterPlace {
    pub(super) port: u16,
    /// Whether its address is opened in the browser.
    pub(super) opens: bool,
    /// Whether it is frozen where its host is taken.
    pub(super) freezes: bool,
}

/// Jupyter's port on this computer; none if it is neither started nor forwarded.
pub(super) fn jupyter_port(options: &Options) -> Option<u16> {
    (!options.config.no_jupyter).then(|| options.config.jupyter_port.map_or(JUPYTER, |it| it.0))
}

/// Where Jupyter is to be, likewise.
pub(super) fn jupyter_place(options: &Options) -> Option<JupyterPlace> {
    jupyter_port(options).map(|port| JupyterPlace {
        port,
        opens: options.config.open,
        freezes: options.launch.may_freeze(),
    })
}

/// Refuses a port of this computer that is busy and has to be that one.
pub(super) fn check_ports(options: &Options) -> Result<(), Failure> {
    if !options.config.exact_ports {
        return Ok(());
    }
    let forwards = options
        .config
        .forwards
        .iter()
        .map(|it| (it.interface, it.port));
    let jupyter = jupyter_port(options).map(|port| (Interface::Loopback, port));
    // Held until all are looked at: two that want the same port are found, too.
    let mut held = Vec::new();
    for (interface, port) in forwards.chain(jupyter) {
        let addresses: &[&str] = match interface {
            Interface::Loopback => &["127.0.0.1", "::1"],
            Interface::All => &["0.0.0.0"],
            Interface::One(_) => &[],
        };
        let addresses = addresses.iter().filter_map(|it| it.parse().ok());
        let one = match interface {
            Interface::One(address) => Some(address),
            _ => None,
        };
        for address in addresses.chain(one) {
            match TcpListener::bind(SocketAddr::new(address, port)) {
                Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
                    return Err(busy(port));
                }
                // A port that cannot be had for another reason is that forward's own error.
                Err(_) => {}
                Ok(listener) => held.push(listener),
            }
        }
    }
    Ok(())
}

/// The failure of a port of this computer that is busy.
pub(super) fn busy(port: u16) -> Failure {
    let error = anyhow!("port {port} of this computer is busy");
    Failure::new(Exit::Unavailable, error).hint(EXACT)
}
