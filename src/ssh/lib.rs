//! SSH: connections to hosts, what runs over them, and the keys.
//!
//! The only user of russh, and it knows nothing of what runs on a host: the programs are `host`'s.
//! One [`Ssh`] connection runs scripts and shows whether the host is alive; a shell and the
//! forwards have connections of their own ([`dedicated`]), because a reader that stops would hold
//! up everything else on its connection.
//!
//! Neither a shell nor a command ends with its connection: [`terminal`] and [`command`] have how
//! each is taken up again over the next one.
//!
//! Imports run one way: {error, received ← gate, proxy} ← peer ← channel ← connection ← start ←
//! dedicated ← shell.

pub mod agent;
pub mod channel;
pub mod command;
pub mod connection;
pub mod dedicated;
mod error;
pub mod escape;
mod first_line;
pub mod forward;
pub mod gate;
pub mod key;
mod line;
mod listen;
mod modes;
mod peer;
pub mod pipe;
mod proxy;
mod received;
mod relay;
pub mod remote;
mod route;
pub mod shell;
pub mod start;
pub mod streams;
pub mod terminal;
mod traffic;
mod unread;

pub use command::RemoteCommand;
pub use connection::{Output, REACH, Ssh, Target};
pub use dedicated::DedicatedConnection;
pub use error::SshError;
pub use key::{HostKey, PublicHostKey, UserKey};
pub use proxy::{InvalidProxyCommand, Proxy, ProxyCommand, ProxyEnd, ProxyFailure};
pub use received::Received;
pub use shell::{Shell, ShellExit};
pub use terminal::Terminal;
