//! The functions of `folder.rs` in builds without the EC2 in a folder: all fail.

use std::future::Future;
use std::path::Path;
use std::time::Duration;

use anyhow::anyhow;
use jiff::Timestamp;

use super::Cloud;
use crate::config::Paths;
use crate::failure::{Exit, Failure};
use crate::ids::InstanceId;

fn none() -> Failure {
    let (why, hint) = if cfg!(target_os = "linux") {
        (
            "this xdrive was built without the EC2 in a folder",
            "`cargo build` with its default features has it",
        )
    } else {
        (
            "--local makes its instances out of Linux namespaces, and this is not Linux",
            "an account, or a virtual machine with Linux",
        )
    };
    Failure::new(Exit::Unavailable, anyhow!(why)).hint(hint)
}

pub(super) fn cloud(_paths: &Paths) -> Result<Cloud, Failure> {
    Err(none())
}

/// There is none.
pub fn check(_paths: &Paths) -> Result<(), Failure> {
    Err(none())
}

/// There is none.
#[expect(clippy::unused_async, reason = "as where there is one")]
pub async fn serve(
    _paths: &Paths,
    _port: u16,
    _ready: impl FnOnce(&str) -> std::io::Result<()>,
    _end: impl Future<Output = ()>,
) -> Result<(), Failure> {
    Err(none())
}

/// There is none.
pub fn environment(_paths: &Paths) -> Result<String, Failure> {
    Err(none())
}

/// There is none.
pub fn interrupt(
    _paths: &Paths,
    _instance: &InstanceId,
    _notice: Duration,
) -> Result<Timestamp, Failure> {
    Err(none())
}

/// There is none.
pub fn rebalance(_paths: &Paths, _instance: &InstanceId) -> Result<Timestamp, Failure> {
    Err(none())
}

/// There is none.
pub fn supervise(_dir: &Path, _cache: &Path, _instance: &str) -> Result<(), Failure> {
    Err(none())
}

/// There is none.
pub fn serve_volume(_dir: &Path, _volume: &str) -> Result<(), Failure> {
    Err(none())
}

/// Succeeds: no part is missing that could be built; [`cloud`] has the reason.
pub fn is_set_up(_paths: &Paths) -> Result<bool, Failure> {
    Ok(true)
}

/// There is none.
pub fn check_setup(_paths: &Paths) -> Result<(), Failure> {
    Err(none())
}

/// There is none.
#[expect(clippy::unused_async, reason = "as where there is one")]
pub async fn set_up<T>(
    _paths: &Paths,
    _on_progress: impl FnMut(&'static str, &str),
    _stop: impl Future<Output = T>,
) -> Result<Option<T>, Failure> {
    Err(none())
}
