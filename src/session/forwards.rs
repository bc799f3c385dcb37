//! The forwarded ports of a session, besides Jupyter's: of this computer into the container, and the
//! other way round.
//!
//! They are opened once the container runs, outlive lost connections by themselves, and end with the
//! session.

use std::fmt::Write as _;
use std::net::{SocketAddr, TcpListener};

use anyhow::anyhow;

use super::Session;
use super::container::{Inside, jupyter_port};
use crate::config::{Forwarding, Options};
use crate::ec2::Instance;
use crate::failure::{Exit, Failure};
use crate::host::container::Came;
use crate::ssh::Ssh;
use crate::ssh::forward::{Destination, Forward, ForwardError, Interface, Wanted, Within};
use crate::ssh::remote::{RemoteForward, RemoteWanted};

/// The hint where a port is busy.
const EXACT: &str = "without --exact-ports another port is taken where one is busy";

/// Open forwards. Dropping them closes their ports.
#[derive(Default)]
pub(super) struct Forwards {
    local: Vec<(Forward, Forwarding)>,
    remote: Vec<(RemoteForward, Forwarding)>,
}

/// Refuses a port of this computer that is busy and has to be that one.
pub(super) fn check_ports(options: &Options) -> Result<(), Failure> {
    if !options.exact_ports {
        return Ok(());
    }
    let forwards = options.forwards.iter().map(|it| (it.interface, it.port));
    let jupyter = jupyter_port(options).map(|port| (Interface::Loopback, port));
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
                Err(_) | Ok(_) => {}
            }
        }
    }
    Ok(())
}

fn busy(port: u16) -> Failure {
    let error = anyhow!("port {port} of this computer is busy");
    Failure::new(Exit::Unavailable, error).hint(EXACT)
}

impl Forwards {
    /// The open forwards, a line each.
    pub(super) fn lines(&self) -> String {
        let mut lines = String::new();
        for (forward, it) in &self.local {
            let (at, to) = (it.interface, destination(it));
            let _ = writeln!(
                lines,
                "{at}:{} leads to {to} in the container",
                forward.port()
            );
        }
        for (forward, it) in &self.remote {
            let to = destination(it);
            let _ = writeln!(
                lines,
                "port {} in the container leads to {to} here",
                forward.port()
            );
        }
        lines.truncate(lines.trim_end().len());
        lines
    }
}

/// The end of a forward.
fn destination(forward: &Forwarding) -> String {
    if forward.is_to_loopback() {
        format!("port {}", forward.host_port)
    } else {
        format!("{}:{}", forward.host, forward.host_port)
    }
}

impl Session {
    /// Opens the forwards that are asked for, and prints them. A port that was replaced stays that
    /// one if the session goes on elsewhere.
    pub(super) async fn open_forwards(
        &mut self,
        instance: &Instance,
        inside: &Inside,
    ) -> Result<Forwards, Failure> {
        let (options, json) = (&self.request.options, self.request.json);
        let session = self.reconciler.session().clone();
        let mut forwards = Forwards::default();
        let Some((ssh, _)) = self.reconciler.hosts().link(&instance.id) else {
            // The shell finds that out, too, and reports it.
            return Ok(forwards);
        };
        let mut replaced = Vec::new();
        for (index, wanted) in options.forwards.iter().enumerate() {
            let server = server(inside, &format!("{session}-L{index}"));
            let forward = open(ssh, wanted, inside, server, options.exact_ports);
            let forward = match forward {
                Ok(forward) => forward,
                Err(error) => {
                    self.report
                        .print(&skipped(inside, failure(error, "-L", wanted), json)?);
                    continue;
                }
            };
            if forward.port() != wanted.port {
                let (port, other) = (wanted.port, forward.port());
                self.report.print(&format!(
                    "port {port} is busy: -L {wanted} gets port {other}"
                ));
                replaced.push((index, other));
            }
            forwards.local.push((forward, wanted.clone()));
        }
        for (index, wanted) in options.remote_forwards.iter().enumerate() {
            let server = server(inside, &format!("{session}-R{index}"));
            let forward = open_remote(ssh, wanted, server, options.exact_ports).await;
            let forward = match forward {
                Ok(forward) => forward,
                Err(error) => {
                    self.report
                        .print(&skipped(inside, failure(error, "-R", wanted), json)?);
                    continue;
                }
            };
            if forward.port() != wanted.port {
                let (port, other) = (wanted.port, forward.port());
                self.report.print(&format!(
                    "port {port} in the container is busy: -R {wanted} gets port {other}"
                ));
            }
            forwards.remote.push((forward, wanted.clone()));
        }
        let lines = forwards.lines();
        if !lines.is_empty() {
            self.report.note(&lines);
        }
        for (index, port) in replaced {
            self.request.options.forwards[index].port = port;
        }
        Ok(forwards)
    }
}

/// What is printed for a forward that cannot be opened, where the container ran before this session:
/// to end that would end what runs in it. Elsewhere it is the session's failure.
fn skipped(inside: &Inside, failure: Failure, json: bool) -> Result<String, Failure> {
    match inside.container.came {
        Came::Running => Ok(failure.shown(json, failure.exit.code())),
        Came::Started | Came::Created | Came::Recreated(_) => Err(failure),
    }
}

/// The command of the server in the container for the forward of this name.
fn server(inside: &Inside, name: &str) -> String {
    inside.host.ssh_server(&inside.container, Some(name))
}

fn open(
    ssh: &Ssh,
    wanted: &Forwarding,
    inside: &Inside,
    server: String,
    is_exact: bool,
) -> Result<Forward, ForwardError> {
    let at = Wanted {
        interface: wanted.interface,
        port: wanted.port,
        is_exact,
    };
    let is_direct = wanted.is_to_loopback();
    let to = Destination {
        address: is_direct.then(|| SocketAddr::new(inside.container.address, wanted.host_port)),
        within: Some(Within {
            server,
            host: wanted.host.clone(),
            port: wanted.host_port,
        }),
    };
    Forward::to(ssh, at, to)
}

async fn open_remote(
    ssh: &Ssh,
    wanted: &Forwarding,
    server: String,
    is_exact: bool,
) -> Result<RemoteForward, ForwardError> {
    let wanted = RemoteWanted {
        server,
        bind: wanted.bind(),
        port: wanted.port,
        is_exact,
        to: (wanted.host.clone(), wanted.host_port),
    };
    RemoteForward::open(ssh, wanted).await
}

fn failure(error: ForwardError, flag: &str, wanted: &Forwarding) -> Failure {
    match (error, flag) {
        (ForwardError::Busy(port), "-L") => busy(port),
        (ForwardError::Busy(port), _) => {
            let error = anyhow!("port {port} in the container is busy");
            Failure::new(Exit::Unavailable, error).hint(EXACT)
        }
        (error, _) => {
            let error =
                anyhow::Error::new(error).context(format!("no forward for {flag} {wanted}"));
            Failure::new(Exit::Unavailable, error)
        }
    }
}
