//! The variables of the environment that xdrive reads, beside those of every AWS tool.
//!
//! They are read by these names alone, and the help lists them from here.

use std::ffi::OsString;
use std::path::PathBuf;

/// Chooses the EC2 in a folder.
pub const LOCAL: &str = "XDRIVE_LOCAL";
/// Where the EC2 in a folder keeps its state.
pub const LOCAL_DIR: &str = "XDRIVE_LOCAL_DIR";
/// Where xdrive keeps what can be made again.
pub const CACHE: &str = "XDRIVE_CACHE";
/// The events to log.
pub const LOG: &str = "XDRIVE_LOG";
/// Where the caller's SSH agent listens.
pub const AGENT: &str = "SSH_AUTH_SOCK";
/// The folder of the settings of docker's client.
pub const DOCKER_CONFIG: &str = "DOCKER_CONFIG";
/// The registry logins in the format of docker's config.json, which outrank the file.
pub const DOCKER_AUTH_CONFIG: &str = "DOCKER_AUTH_CONFIG";
/// The address of `--notify`, which so is no argument of this process.
pub const NOTIFY: &str = "XDRIVE_NOTIFY";
/// The id of the run that this process is part of, as the host sets it.
pub const RUN: &str = "XDRIVE_RUN";
/// The program that shows long help.
pub const PAGER: &str = "PAGER";

/// Each variable, and what it does.
pub const ALL: [(&str, &str); 10] = [
    (LOCAL, "1 chooses the EC2 in a folder, 0 an account"),
    (LOCAL_DIR, "where the EC2 in a folder keeps its state"),
    (CACHE, "what can be made again [~/.cache/xdrive]"),
    (LOG, "what is logged, such as xdrive::ec2=debug"),
    (AGENT, "where the SSH agent is that -A forwards"),
    (
        DOCKER_CONFIG,
        "where Docker's logins at registries are [~/.docker]",
    ),
    (DOCKER_AUTH_CONFIG, "such logins, which outrank those there"),
    (NOTIFY, "who is notified of runs (--notify)"),
    (RUN, "the run in which this is, which tend leaves alone"),
    (PAGER, "shows topics and long help [less]"),
];

/// The value of a variable; one that is set and empty is not set.
#[must_use]
pub fn value(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// The value of a variable that is a path.
#[must_use]
pub fn path(name: &str) -> Option<PathBuf> {
    value(name).map(PathBuf::from)
}
