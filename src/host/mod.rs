//! The host: SSH to it, the scripts that run on it, the shell and the forwards.
//!
//! The only user of russh. One [`Ssh`] connection runs scripts and tells whether the host is
//! alive; a shell and the forwards have connections of their own (see [`line`](mod@line)), because a
//! reader that stops would hold up everything else that shares its connection.

pub mod boot;
mod channel;
mod closed;
mod contact;
pub mod container;
mod early;
pub mod escape;
pub mod facts;
pub mod forward;
mod hold;
pub mod key;
pub mod line;
mod modes;
mod peer;
mod proxy;
pub mod pull;
pub mod quote;
pub mod room;
pub mod scripts;
pub mod shell;
pub mod ssh;
pub mod streams;
pub mod terminal;

pub use early::Early;
pub use key::{HostKey, UserKey};
pub use line::Line;
pub use proxy::{InvalidProxyCommand, Proxy, ProxyCommand, ProxyEnd, ProxyFailure};
pub use shell::{Exit, Shell};
pub use ssh::{Output, REACH, Ssh, SshError, Target};
pub use terminal::Terminal;
