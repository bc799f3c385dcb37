//! `xdrive ssh-config`: what makes OpenSSH's client, and whatever calls it, reach drives.

use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::{Context, print};
use crate::config::{Paths, SUFFIX};
use crate::failure::{Exit, Failure};
use crate::quote::quote;
use crate::report::Report;

/// `xdrive ssh-config`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Write it, and have ~/.ssh/config include it.
    ///
    /// To `~/.config/xdrive/ssh_config`; one line is put at the top of ~/.ssh/config, once. Without
    /// this it is printed, for ssh -F.
    #[arg(long)]
    pub write: bool,
}

/// Prints or writes it. Returns the exit code.
pub(crate) fn run(args: &Args, context: &Context) -> Result<u8, Failure> {
    let paths = context.paths()?;
    let text = text(context, &paths)?;
    if !args.write {
        return print(&text);
    }
    write_and_report(&text, &paths)?;
    Report::stderr().print(&format!(
        "a drive that is up is a host now: ssh NAME{SUFFIX}; xdrive help tools"
    ));
    Ok(0)
}

/// Writes it unless that was done.
pub(super) fn ensure(context: &Context, paths: &Paths) -> Result<(), Failure> {
    let text = text(context, paths)?;
    let is_written = fs::read_to_string(&paths.ssh_config).is_ok_and(|there| there == text);
    let users = fs::read_to_string(&paths.users_ssh_config).unwrap_or_default();
    if is_written && is_included(&users, paths) {
        return Ok(());
    }
    write_and_report(&text, paths)
}

fn write_and_report(text: &str, paths: &Paths) -> Result<(), Failure> {
    let written = write(text, paths).map_err(|error| Failure::new(Exit::Config, error))?;
    let report = Report::stderr();
    report.print(&format!("wrote {}", paths.ssh_config.display()));
    if written {
        let users = paths.users_ssh_config.display();
        report.print(&format!("included it at the top of {users}"));
    }
    Ok(())
}

/// The configuration of this xdrive, on the EC2 that it works on.
fn text(context: &Context, paths: &Paths) -> Result<String, Failure> {
    let program = std::env::current_exe().context("xdrive's own path is not known")?;
    let command = context.which(paths)?.command(paths);
    let arguments = command.strip_prefix("xdrive").unwrap_or(&command);
    // Also for programs that have another PATH, such as those started from a desktop.
    let command = format!("{}{arguments} proxy", quote(&program.to_string_lossy()));
    Ok(config(&command, paths))
}

/// The configuration (`ssh_config(5)`); `command` is the proxy command without its host. That is
/// quoted, and has no quote: before OpenSSH 9.6 any host's name went to the shell as it was.
fn config(command: &str, paths: &Paths) -> String {
    // A percent sign begins a token, where there are tokens.
    let tokens = |text: &str| text.replace('%', "%%");
    let path = |path: &Path| format!("\"{}\"", tokens(&path.to_string_lossy()));
    let known = paths.known_hosts.join("HOST");
    format!(
        "# xdrive ssh-config --write writes this anew. What ~/.ssh/config sets for these hosts
# before it includes this stays in force.
Host *{SUFFIX} \"!*'*\"
    User root
    ProxyCommand {} '%n'
    IdentityFile {}
    IdentitiesOnly yes
    UserKnownHostsFile {}
    GlobalKnownHostsFile /dev/null
    StrictHostKeyChecking yes
    UpdateHostKeys no
",
        tokens(command),
        path(&paths.key),
        path(&known).replace("HOST", "%n"),
    )
}

/// Writes it, and includes it in the user's own configuration; whether it was not included before.
fn write(text: &str, paths: &Paths) -> anyhow::Result<bool> {
    let (own, users) = (&paths.ssh_config, &paths.users_ssh_config);
    let failed = |path: &Path| format!("cannot write {}", path.display());
    replace(own, text).with_context(|| failed(own))?;
    let there = match fs::read_to_string(users) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        Err(error) => {
            let path = users.display();
            return Err(anyhow::Error::new(error).context(format!("cannot read {path}")));
        }
    };
    if is_included(&there, paths) {
        return Ok(false);
    }
    let include = include(paths);
    // Behind the first Host it would be for that host alone.
    replace(users, &format!("{include}\n\n{there}")).with_context(|| failed(users))?;
    Ok(true)
}

/// The line that includes it.
fn include(paths: &Paths) -> String {
    format!("Include \"{}\"", paths.ssh_config.display())
}

fn is_included(users: &str, paths: &Paths) -> bool {
    let include = include(paths);
    users.lines().any(|line| line.trim() == include)
}

/// Replaces a file as a whole, with its permissions; a link to it stays one.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let folder = path.parent().map_or_else(PathBuf::new, Path::to_owned);
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&folder)?;
    let permissions = match fs::metadata(&path) {
        Ok(metadata) => metadata.permissions(),
        Err(_) => Permissions::from_mode(0o600),
    };
    let mut file = tempfile::NamedTempFile::new_in(&folder)?;
    file.write_all(text.as_bytes())?;
    fs::set_permissions(file.path(), permissions)?;
    file.persist(&path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn paths(home: &Path) -> Paths {
        Paths {
            config: home.join("config.toml"),
            key: home.join("100% of it/id"),
            local_dir: home.join("local"),
            local_dir_named: false,
            local_cache: home.join("cache"),
            names: home.join("names"),
            ssh_config: home.join("xdrive/ssh_config"),
            known_hosts: home.join("known"),
            users_ssh_config: home.join(".ssh/config"),
        }
    }

    #[test]
    fn what_ssh_would_expand_is_escaped_and_its_own_tokens_are_not() {
        let text = config(
            "'/a%b/x drive' --local proxy",
            &paths(Path::new("/home/me")),
        );
        assert!(
            text.contains("\n    ProxyCommand '/a%%b/x drive' --local proxy '%n'\n"),
            "{text}"
        );
        assert!(
            text.contains("\n    IdentityFile \"/home/me/100%% of it/id\"\n"),
            "{text}"
        );
        assert!(
            text.contains("\n    UserKnownHostsFile \"/home/me/known/%n\"\n"),
            "{text}"
        );
    }

    #[test]
    fn it_is_included_once_and_the_users_file_is_theirs() {
        let home = tempfile::tempdir().unwrap();
        let paths = paths(home.path());
        let users = home.path().join("dotfiles");
        fs::write(&users, "Host old\n  User me\n").unwrap();
        fs::set_permissions(&users, Permissions::from_mode(0o640)).unwrap();
        fs::create_dir(home.path().join(".ssh")).unwrap();
        symlink(&users, &paths.users_ssh_config).unwrap();
        assert!(write("one", &paths).unwrap());
        assert!(!write("two", &paths).unwrap());
        assert_eq!(fs::read_to_string(&paths.ssh_config).unwrap(), "two");
        let own = paths.ssh_config.display();
        assert_eq!(
            fs::read_to_string(&users).unwrap(),
            format!("Include \"{own}\"\n\nHost old\n  User me\n")
        );
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&users), mode(&paths.ssh_config)), (0o640, 0o600));
        assert!(paths.users_ssh_config.is_symlink());
    }
}
