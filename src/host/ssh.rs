//! One SSH connection to a host whose key is known beforehand.

use std::net::SocketAddr;

/// Where to connect and whom to expect there.
#[derive(Debug, Clone)]
pub struct Target {
    /// Address and port.
    pub address: SocketAddr,
    /// The user to log in as.
    pub user: String,
    /// The host's public key, in OpenSSH's form (`ssh-ed25519 AAAA…`), from the instance's tag.
    pub host_key: String,
}

/// Why a connection or a command failed.
#[derive(Debug, thiserror::Error)]
pub enum SshError {
    /// Nothing listens there (yet), or no packet comes back.
    #[error("cannot reach {0}: {1}")]
    Unreachable(SocketAddr, std::io::Error),
    /// Another key than the recorded one: never talked to.
    #[error("the host at {0} does not have the key recorded for it")]
    WrongHostKey(SocketAddr),
    /// It does not accept our key (yet).
    #[error("the host at {0} does not accept this laptop's key")]
    Denied(SocketAddr),
    /// The connection ended.
    #[error("the connection to {0} was lost: {1}")]
    Lost(SocketAddr, String),
}

/// What a command left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// Exit status; 128 + n if signal n ended it.
    pub status: u32,
    /// Standard output, whole.
    pub stdout: Vec<u8>,
    /// Standard error, whole.
    pub stderr: Vec<u8>,
}

/// An authenticated connection. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Ssh {}

impl Ssh {
    /// Connects once and authenticates with `key` (OpenSSH private key text).
    pub async fn connect(target: &Target, key: &str) -> Result<Self, SshError> {
        let _ = (target, key);
        todo!()
    }

    /// Runs `command` (the login shell's words), `stdin` first, and waits for its end.
    pub async fn run(&self, command: &str, stdin: &[u8]) -> Result<Output, SshError> {
        let _ = (command, stdin);
        todo!()
    }

    /// As [`Ssh::run`], with a standard input of any length, such as an image of gigabytes.
    pub async fn feed(
        &self,
        command: &str,
        stdin: impl tokio::io::AsyncRead + Unpin + Send,
    ) -> Result<Output, SshError> {
        let _ = (command, stdin);
        todo!()
    }
}
