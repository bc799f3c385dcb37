//! Running the programs that the plane is made of: `ip`, `losetup`, `mount`, `mkfs.xfs`.

use std::io::{ErrorKind, Write as _};
use std::process::{Command, Stdio};

use anyhow::{Context as _, anyhow};

use super::PlaneError;

/// Where system programs are, whatever root's own `PATH` says (`su` keeps a user's).
pub(super) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The command `name`, found in the system's own folders, speaking English.
pub(super) fn program(name: &str) -> Command {
    let mut command = Command::new(name);
    command.env("PATH", PATH).env("LC_ALL", "C");
    command
}

/// Runs `name` with `arguments` to its end; what it printed on stdout.
pub(super) fn run<A: AsRef<std::ffi::OsStr>>(
    name: &str,
    arguments: impl IntoIterator<Item = A>,
) -> Result<String, PlaneError> {
    feed(program(name).args(arguments), "")
}

/// Runs `command` with `input` on stdin; what it printed on stdout. What it printed on stderr is
/// the error if it fails.
pub(super) fn feed(command: &mut Command, input: &str) -> Result<String, PlaneError> {
    let name = command.get_program().to_string_lossy().into_owned();
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| cannot_start(&name, error))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that ends without reading says why on stderr.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child
        .wait_with_output()
        .with_context(|| format!("waiting for {name}"))?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        return Err(anyhow!("{name}: {} ({})", words.trim(), output.status).into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Why a program did not even start.
pub(super) fn cannot_start(name: &str, error: std::io::Error) -> PlaneError {
    if error.kind() == ErrorKind::NotFound {
        PlaneError::Missing(format!(
            "the program {name} is not installed (shell/try.sh installs what is needed)"
        ))
    } else {
        anyhow::Error::new(error)
            .context(format!("starting {name}"))
            .into()
    }
}
