//! The programs that the plane runs, and the check that all are installed.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead as _, BufReader, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, anyhow};

use super::PlaneError;

/// The programs that run on this computer, the boot script's included, each with its Debian
/// package. The shell and coreutils are not listed: every system has them.
const PROGRAMS: [(&str, &str); 11] = [
    ("ip", "iproute2"),
    ("kill", "procps"),
    ("losetup", "mount"),
    ("mount", "mount"),
    ("umount", "mount"),
    ("nft", "nftables"),
    ("nsenter", "util-linux"),
    ("pivot_root", "util-linux"),
    ("setpriv", "util-linux"),
    ("setsid", "util-linux"),
    ("unshare", "util-linux"),
];
/// The program that makes the XFS for volumes, if the state directory's file system has no
/// reflinks.
pub(super) const MKFS: (&str, &str) = ("mkfs.xfs", "xfsprogs");
/// The program that cuts power; nothing else needs it.
pub(super) const CUT: (&str, &str) = ("xfs_io", "xfsprogs");

/// The folders of system programs; root's own `PATH` may be a user's (`su` keeps it).
pub(crate) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The command `name`, found in the system's folders, with English messages.
pub(super) fn program(name: &str) -> Command {
    let mut command = Command::new(name);
    command.env("PATH", PATH).env("LC_ALL", "C");
    command
}

/// [`program`], killed if the thread that runs it ends: a killed xdrive's program must not go on
/// while another cleans up. Only for programs that are awaited.
pub(super) fn bound(name: &str) -> Result<Command, PlaneError> {
    let path = find(name).ok_or_else(|| missing(&[name]))?;
    let mut command = program("setpriv");
    command.args(["--pdeathsig", "KILL"]).arg(path);
    Ok(command)
}

/// Starts xdrive, `own`, anew with these words below `local`, as no child of this process, which may end before; its
/// standard error goes to `log`. Returns its first line, which it writes once it is at work or cannot be.
pub(super) fn start_apart(
    own: &Path,
    words: &[&OsStr],
    stdin: Stdio,
    log: &Path,
) -> Result<String, PlaneError> {
    let log = File::options()
        .create(true)
        .append(true)
        .open(log)
        .context("opening the supervisor's log")?;
    let mut child = program("setsid")
        .arg("--fork")
        .arg(own)
        .arg("local")
        .args(words)
        .current_dir("/")
        .stdin(stdin)
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .map_err(|error| cannot_start("setsid", error))?;
    let stdout = child.stdout.take().context("no stdout")?;
    let mut line = String::new();
    BufReader::new(stdout)
        .read_line(&mut line)
        .context("reading from what was started")?;
    // `setsid` itself ended when it had forked.
    child.wait().context("waiting for setsid")?;
    Ok(line)
}

/// The programs that the plane runs on any computer, each with its Debian package.
pub(crate) fn programs() -> impl Iterator<Item = &'static (&'static str, &'static str)> {
    PROGRAMS.iter().chain([&MKFS])
}

fn find(name: &str) -> Option<PathBuf> {
    PATH.split(':')
        .map(|folder| Path::new(folder).join(name))
        .find(|path| path.is_file())
}

/// Checks that all programs of the plane, and `also`, are installed; [`PlaneError::Missing`] names
/// those that are not.
pub(super) fn check(also: Option<&str>) -> Result<(), PlaneError> {
    let names = PROGRAMS.iter().map(|(name, _)| *name).chain(also);
    let absent: Vec<&str> = names.filter(|name| find(name).is_none()).collect();
    if absent.is_empty() {
        Ok(())
    } else {
        Err(missing(&absent))
    }
}

/// Checks that the program `name` is installed; [`PlaneError::Missing`] if not.
pub(super) fn need(name: &str) -> Result<(), PlaneError> {
    find(name).map(|_| ()).ok_or_else(|| missing(&[name]))
}

/// Runs `name` with `arguments` to its end; returns its stdout.
pub(super) fn run<A: AsRef<OsStr>>(
    name: &str,
    arguments: impl IntoIterator<Item = A>,
) -> Result<String, PlaneError> {
    feed(name, arguments, "")
}

/// [`run`] with `input` on stdin. If it fails, its stderr is the error.
pub(super) fn feed<A: AsRef<OsStr>>(
    name: &str,
    arguments: impl IntoIterator<Item = A>,
    input: &str,
) -> Result<String, PlaneError> {
    let mut child = bound(name)?
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| cannot_start("setpriv", error))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that ends without reading has its reason on stderr.
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

/// The error for a program that did not start.
pub(super) fn cannot_start(name: &str, error: std::io::Error) -> PlaneError {
    if error.kind() == ErrorKind::NotFound {
        missing(&[name])
    } else {
        anyhow::Error::new(error)
            .context(format!("starting {name}"))
            .into()
    }
}

fn missing(names: &[&str]) -> PlaneError {
    let described: Vec<String> = names
        .iter()
        .map(|name| {
            let known = PROGRAMS
                .iter()
                .chain([&MKFS, &CUT])
                .find(|known| known.0 == *name);
            known.map_or_else(
                || (*name).to_owned(),
                |(name, package)| format!("{name} (package {package})"),
            )
        })
        .collect();
    PlaneError::Missing(format!("not installed: {}", described.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_not_there_is_named_with_what_installs_it() {
        let error = run("no-such-program", [""; 0]).unwrap_err();
        assert!(matches!(error, PlaneError::Missing(_)));
        assert_eq!(error.to_string(), "not installed: no-such-program");
    }

    #[test]
    fn a_program_that_fails_says_why() {
        let error = run("mkdir", ["/proc/nothing"]).unwrap_err();
        assert!(error.to_string().starts_with("mkdir: "), "{error}");
        assert_eq!(feed("cat", [""; 0], "words").unwrap(), "words");
    }
}
