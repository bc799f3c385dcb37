//! The caller's SSH agent.

use std::ffi::OsString;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use anyhow::Context as _;

use super::environment::AGENT;

/// The socket of the caller's agent (ssh-agent(1)). Fails if no agent listens there. `caller` has the
/// caller's variables.
pub fn agent(caller: &dyn Fn(&str) -> Option<OsString>) -> anyhow::Result<PathBuf> {
    let socket = caller(AGENT).filter(|socket| !socket.is_empty());
    let socket =
        socket.with_context(|| format!("there is no SSH agent here: {AGENT} is not set"))?;
    let socket = std::path::absolute(PathBuf::from(socket))?;
    let shown = socket.display();
    UnixStream::connect(&socket)
        .with_context(|| format!("no SSH agent answers at {shown}, which {AGENT} names"))?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn an_agent_is_there_once_it_listens() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent");
        let caller = |_: &str| Some(path.clone().into_os_string());
        let error = format!("{:#}", agent(&caller).unwrap_err());
        assert!(error.starts_with("no SSH agent answers at /"), "{error}");
        let _listener = UnixListener::bind(&path).unwrap();
        assert_eq!(agent(&caller).unwrap(), path);
        let nothing = |_: &str| Some(OsString::new());
        let error = agent(&nothing).unwrap_err().to_string();
        assert_eq!(
            error,
            "there is no SSH agent here: SSH_AUTH_SOCK is not set"
        );
    }
}
