//! SSH: connections to hosts, what runs over them, and the keys.
//!
//! The only user of russh, and it knows nothing of what runs on a host: the programs are `host`'s.
//! One [`Ssh`] connection runs scripts and tells whether the host is alive; a shell and the forwards
//! have connections of their own (see [`line`](mod@line)), because a reader that stops would hold up
//! everything else that shares its connection.

pub(crate) mod channel;
pub mod connection;
pub mod dedicated;
pub mod escape;
pub mod forward;
pub mod key;
mod modes;
mod peer;
mod proxy;
pub mod shell;
pub mod streams;
pub mod terminal;

pub use connection::{Output, REACH, Ssh, SshError, Target};
pub use dedicated::Line;
pub use key::{HostKey, UserKey};
pub use proxy::{InvalidProxyCommand, Proxy, ProxyCommand, ProxyEnd, ProxyFailure};
pub use shell::{Exit, Shell};
pub use terminal::Terminal;
