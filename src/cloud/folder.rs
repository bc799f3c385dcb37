//! The EC2 in a folder, for everything that names it: commands, and a [`Cloud`] like any other.
//!
//! Nothing else knows the emulator. Where it is left out (another system than Linux, or a build
//! without the feature `local`), `no_folder.rs` has the same functions.

use std::future::Future;
use std::path::Path;
use std::time::Duration;

use anyhow::anyhow;
use jiff::Timestamp;

use super::{Cloud, Place};
use crate::clock::Clock;
use crate::config::Paths;
use crate::drive::Timing;
use crate::ec2::{Direct, Ec2, HttpClient, InstanceId};
use crate::failure::{Exit, Failure};
use crate::local::plane::{self, PlaneError, RealPlane};
use crate::local::wire::{self, InProcess};
use crate::local::{Local, OpenOptions, PlaneKind, Settings};

/// The calls of the EC2 in a folder, in this process.
#[must_use]
pub fn ec2(local: &Local) -> Ec2 {
    let http = HttpClient::new(InProcess::new(local.clone()));
    ec2_through(local, http)
}

/// The same with every request going through `http`: a test's way to lose answers.
#[must_use]
pub fn ec2_through(local: &Local, http: HttpClient) -> Ec2 {
    let key = local.credentials();
    Ec2::direct(Direct {
        http,
        region: local.region().to_owned(),
        access_key_id: key.access_key_id.clone(),
        secret_access_key: key.secret_access_key.clone(),
        clock: local.clock().clone(),
    })
}

/// The one that `paths` name.
pub(super) fn cloud(paths: &Paths) -> Result<Cloud, Failure> {
    let folder = open(paths)?;
    let timing = Timing::local(folder.delays().settle());
    let machine = paths.local_cache.join("machine");
    let is_real = is_real(paths)?;
    Ok(Cloud {
        place: if is_real { Place::Folder } else { Place::Paper },
        machine: is_real.then_some(machine),
        ..Cloud::of(ec2(&folder), timing, folder.clock(), paths)
    })
}

/// Whether this computer can run one.
pub fn check(paths: &Paths) -> Result<(), Failure> {
    open(paths).map(drop)
}

/// Answers as an endpoint on a port of loopback, any if it is 0, until `end` comes. `ready` is told
/// its URL.
pub async fn serve(
    paths: &Paths,
    port: u16,
    ready: impl FnOnce(&str) -> std::io::Result<()>,
    end: impl Future<Output = ()>,
) -> Result<(), Failure> {
    let server = wire::Server::bind(open(paths)?, port).await;
    let server = server.map_err(|error| Failure::new(Exit::Unavailable, error))?;
    ready(&server.url()).map_err(anyhow::Error::from)?;
    server.run(end).await;
    Ok(())
}

/// The environment of a tool that is to use the endpoint that is served, as lines for a shell.
pub fn environment(paths: &Paths) -> Result<String, Failure> {
    wire::environment(&open(paths)?).map_err(|error| {
        let hint = error.hint();
        let failure = Failure::new(Exit::Unavailable, error);
        match hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    })
}

/// Takes a spot instance back, with a notice of so long; the answer is when it ends.
pub fn interrupt(
    paths: &Paths,
    instance: &InstanceId,
    notice: Duration,
) -> Result<Timestamp, Failure> {
    let at = open(paths)?.interrupt(instance.as_str(), notice);
    at.map_err(refused)
}

/// Recommends to leave a spot instance; the answer is since when.
pub fn rebalance(paths: &Paths, instance: &InstanceId) -> Result<Timestamp, Failure> {
    let at = open(paths)?.recommend_rebalance(instance.as_str());
    at.map_err(refused)
}

/// Is the machine of one instance, until it ends.
pub fn supervise(dir: &Path, cache: &Path, instance: &str) -> Result<(), Failure> {
    Ok(plane::supervise(dir, cache, instance)?)
}

/// What the EC2 in a folder does not do.
fn refused(error: wire::ApiError) -> Failure {
    let is_unknown = error.code.starts_with("InvalidInstanceID");
    let exit = if is_unknown {
        Exit::Usage
    } else {
        Exit::Failed
    };
    Failure::new(exit, error)
}

/// Opens it, after making sure that this computer can run one (paper runs anywhere).
fn open(paths: &Paths) -> Result<Local, Failure> {
    if is_real(paths)? && !rustix::process::geteuid().is_root() {
        return Err(Failure::new(
            Exit::Denied,
            anyhow!("--local makes namespaces, mounts and loop devices, which needs root"),
        )
        .hint("run it with sudo, or as root"));
    }
    let program =
        std::env::current_exe().map_err(|error| Failure::new(Exit::Unavailable, error))?;
    let plane = RealPlane {
        dir: paths.local_dir.clone(),
        program,
        cache: paths.local_cache.clone(),
    };
    OpenOptions::from_settings(plane, Clock::system())
        .and_then(Local::open)
        .map_err(|error| unusable(&paths.local_dir, error))
}

fn is_real(paths: &Paths) -> Result<bool, Failure> {
    let settings =
        Settings::read(&paths.local_dir).map_err(|error| unusable(&paths.local_dir, error))?;
    Ok(settings.plane.unwrap_or_default() == PlaneKind::Real)
}

fn unusable(dir: &Path, error: anyhow::Error) -> Failure {
    if let Some(PlaneError::Missing(_)) = error.downcast_ref() {
        return Failure::new(Exit::Unavailable, error);
    }
    Failure::new(Exit::Config, error).hint(format!(
        "the EC2 in a folder keeps its state in {}; --local-dir names another one",
        dir.display()
    ))
}
