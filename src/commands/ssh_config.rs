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
    let users = fs::read(&paths.users_ssh_config).unwrap_or_default();
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
///
/// The first value of an option counts, so that this sets all by which a `Host *` of the user's further
/// down would lead elsewhere, let the host's key or this computer's be refused, put something in the
/// way of scp, rsync and git, or hold a connection, and with it the host, after its end. Only options
/// that every OpenSSH with `Include` (7.3) knows: another one would end ssh for all hosts.
fn config(command: &str, paths: &Paths) -> String {
    // A percent sign begins a token, where there are tokens.
    let tokens = |text: &str| text.replace('%', "%%");
    let path = |path: &Path| quoted(&tokens(&path.to_string_lossy()));
    let known = paths.known_hosts.join("HOST");
    format!(
        "# xdrive ssh-config --write writes this anew. What ~/.ssh/config sets for these hosts
# before it includes this stays in force.
Host *{SUFFIX} \"!*'*\"
    HostName %h
    Port 22
    User root
    ProxyCommand {} '%n'
    ProxyUseFdpass no
    CanonicalizeHostname no
    ConnectTimeout 0
    ControlMaster no
    ControlPath none
    IdentityFile {}
    IdentitiesOnly yes
    PreferredAuthentications publickey
    PubkeyAuthentication yes
    PubkeyAcceptedKeyTypes +ssh-ed25519
    UserKnownHostsFile {}
    GlobalKnownHostsFile /dev/null
    HostKeyAlgorithms ssh-ed25519,ecdsa-sha2-nistp256
    CheckHostIP no
    VerifyHostKeyDNS no
    StrictHostKeyChecking yes
    UpdateHostKeys no
    RequestTTY auto
    RemoteCommand none
    Tunnel no
",
        tokens(command),
        path(&paths.key),
        path(&known).replace("HOST", "%n"),
    )
}

/// An argument as ssh reads it, from OpenSSH 8.7 on. (Before that a backslash was a letter like any,
/// and there was no way to write a quote.)
fn quoted(text: &str) -> String {
    let text = text.replace('\\', r"\\").replace('"', "\\\"");
    format!("\"{text}\"")
}

/// Writes it, and includes it in the user's own configuration; whether it was not included before.
fn write(text: &str, paths: &Paths) -> anyhow::Result<bool> {
    let (own, users) = (&paths.ssh_config, &paths.users_ssh_config);
    let failed = |path: &Path| format!("cannot write {}", path.display());
    replace(own, text.as_bytes()).with_context(|| failed(own))?;
    let there = match fs::read(users) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        Err(error) => {
            let path = users.display();
            return Err(anyhow::Error::new(error).context(format!("cannot read {path}")));
        }
    };
    if is_included(&there, paths) {
        return Ok(false);
    }
    // Behind the first Host it would be for that host alone.
    let text = [include(paths).as_bytes(), b"\n\n", &there].concat();
    replace(users, &text).with_context(|| failed(users))?;
    Ok(true)
}

/// The line that includes it.
fn include(paths: &Paths) -> String {
    // Its argument is a pattern for names of files.
    let mut path = String::new();
    for letter in paths.ssh_config.to_string_lossy().chars() {
        if matches!(letter, '*' | '?' | '[' | '\\') {
            path.push('\\');
        }
        path.push(letter);
    }
    format!("Include {}", quoted(&path))
}

/// Whether the user's configuration includes it for all hosts: before its first `Host` or `Match`.
fn is_included(users: &[u8], paths: &Paths) -> bool {
    let include = include(paths);
    let lines = users.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let is_global = |line: &&[u8]| {
        let ends = |byte: &u8| matches!(byte, b' ' | b'\t' | b'=' | b'"');
        let word = line.split(ends).next().unwrap_or_default();
        !word.eq_ignore_ascii_case(b"host") && !word.eq_ignore_ascii_case(b"match")
    };
    let mut global = lines.take_while(is_global);
    global.any(|line| line == include.as_bytes())
}

/// The most links that are followed, as in the kernel.
const LINKS: usize = 40;

/// Where the file at `path` is, or would be made: a link to it stays one, also one to nothing.
fn behind_links(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        let Ok(target) = fs::read_link(&path) else {
            break;
        };
        let folder = path.parent().map_or_else(PathBuf::new, Path::to_owned);
        path = folder.join(target);
    }
    path
}

/// Replaces a file as a whole, with its permissions; a link to it stays one.
fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let path = behind_links(path);
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
    file.write_all(text)?;
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
            criu: home.join("criu"),
            names: home.join("names"),
            ssh_config: home.join("xdrive/ssh_config"),
            known_hosts: home.join("known"),
            users_ssh_config: home.join(".ssh/config"),
        }
    }

    #[test]
    fn percent_signs_of_paths_are_escaped_and_tokens_of_ssh_are_not() {
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

    /// The options that ssh has for `demo.xdrive` by a configuration.
    fn asked(file: &Path) -> Result<String, String> {
        let mut ssh = std::process::Command::new("ssh");
        let output = ssh.args(["-G", "-F"]).arg(file).arg("demo.xdrive").output();
        let output = output.unwrap();
        if output.status.success() {
            Ok(String::from_utf8(output.stdout).unwrap())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        }
    }

    #[test]
    fn nothing_that_users_set_for_all_hosts_leads_elsewhere() {
        let home = tempfile::tempdir().unwrap();
        let paths = paths(home.path());
        let command = "/bin/xdrive --local proxy";
        write(&config(command, &paths), &paths).unwrap();
        let users = &paths.users_ssh_config;
        let included = fs::read_to_string(users).unwrap();
        let ours = asked(users).unwrap();
        assert!(ours.contains("\nhostname demo.xdrive\n"), "{ours}");
        for others in [
            "HostName %h.corp.example",
            "Port 2222",
            "User me",
            "ProxyJump bastion",
            "ProxyCommand nc %h %p",
            "ProxyUseFdpass yes",
            "CanonicalizeHostname always\nCanonicalDomains corp.example",
            "ConnectTimeout 1",
            "ControlMaster auto\nControlPath ~/.ssh/%C",
            "IdentitiesOnly no",
            "PreferredAuthentications password",
            "PubkeyAuthentication no",
            "PubkeyAcceptedAlgorithms rsa-sha2-512",
            "HostKeyAlgorithms rsa-sha2-512",
            "UserKnownHostsFile ~/.ssh/known_hosts",
            "GlobalKnownHostsFile /etc/ssh/known",
            "CheckHostIP yes",
            "VerifyHostKeyDNS yes",
            "StrictHostKeyChecking no",
            "UpdateHostKeys yes",
            "RequestTTY force",
            "RemoteCommand tmux",
            "Tunnel yes",
        ] {
            for block in ["", "Host *\n", "Match all\n", "Host *.xdrive\n"] {
                fs::write(users, format!("{included}\n{block}{others}\n")).unwrap();
                let theirs = asked(users).unwrap();
                // Canonical domains are listed, and not used.
                let theirs =
                    theirs.replace("canonicaldomains corp.example\n", "canonicaldomains none\n");
                let ours = ours.replace("canonicaldomains\n", "canonicaldomains none\n");
                assert_eq!(theirs, ours, "{block}{others}");
            }
        }
        // But what stands before it is the user's word.
        fs::write(
            users,
            format!("Host demo.xdrive\n  ControlMaster auto\nHost *\n{included}"),
        )
        .unwrap();
        assert!(asked(users).unwrap().contains("\ncontrolmaster auto\n"));
    }

    #[test]
    fn the_users_file_is_kept_byte_for_byte_and_included_as_ssh_reads_it() {
        for name in ["home", "a \"b\" \\c", "[x] *? 100%", "it's"] {
            let folder = tempfile::tempdir().unwrap();
            let home = folder.path().join(name);
            let paths = paths(&home);
            let users = &paths.users_ssh_config;
            let target = home.join("dot files/config");
            let own = include(&paths);
            for (is_link, before) in [
                (true, Vec::new()),
                (false, b"# gr\xfcn\nHost x\r\n  User me".to_vec()),
                (false, format!("host x\n  {own}\n").into_bytes()),
                (false, format!("Match=all\n{own}\n").into_bytes()),
            ] {
                let _ = fs::remove_dir_all(&home);
                fs::create_dir_all(home.join(".ssh")).unwrap();
                if is_link {
                    symlink("../dot files/config", users).unwrap();
                } else {
                    fs::write(users, &before).unwrap();
                }
                assert!(write(&config("xdrive proxy", &paths), &paths).unwrap());
                assert!(!write(&config("xdrive proxy", &paths), &paths).unwrap());
                assert_eq!((users.is_symlink(), target.exists()), (is_link, is_link));
                let after = fs::read(users).unwrap();
                assert_eq!(after, [own.as_bytes(), b"\n\n", &before].concat(), "{name}");
                let read = asked(users).unwrap();
                assert!(
                    read.contains("\nproxycommand xdrive proxy '%n'\n"),
                    "{name}: {read}"
                );
                let key = format!("\nidentityfile {}\n", paths.key.display());
                assert!(read.replace("%%", "%").contains(&key), "{name}: {read}");
            }
        }
    }
}
