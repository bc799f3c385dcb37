//! The EC2 in a folder: a [`Cloud`] like any other, and the functions of `xdrive local`.
//!
//! The only user of the emulator. In builds without it (another system than Linux, or no feature
//! `local`), `no_folder.rs` has the same functions.

use std::future::Future;
use std::path::Path;
use std::time::Duration;

use anyhow::anyhow;
use jiff::Timestamp;

use super::{Cloud, Place};
use crate::clock::Clock;
use crate::config::Paths;
use crate::drive::Timing;
use crate::ec2::{Direct, Ec2, HttpClient};
use crate::failure::{Exit, Failure};
use crate::ids::InstanceId;
use crate::local::plane::{self, PlaneError, RealPlane};
use crate::local::setup::{self, Part, SetupError, Unmet};
use crate::local::wire::{self, InProcess};
use crate::local::{self, Local, OpenOptions, PlaneKind, Settings};

/// A client of `local`, which answers in this process.
#[must_use]
pub fn ec2(local: &Local) -> Ec2 {
    let http = HttpClient::new(InProcess::new(local.clone()));
    ec2_through(local, http)
}

/// A client of `local` over `http`, by which tests inject faults.
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

/// The cloud of the folder in `paths`.
pub(super) fn cloud(paths: &Paths) -> Result<Cloud, Failure> {
    let folder = open(paths)?;
    let timing = Timing::local(folder.delays().settle());
    let machine = paths.local_cache.join("machine");
    let is_real = is_real(paths)?;
    let inside = is_real.then_some(("AWS_ENDPOINT_URL", plane::API_URL));
    Ok(Cloud {
        inside: inside.into_iter().collect(),
        place: if is_real { Place::Folder } else { Place::Paper },
        machine: is_real.then_some(machine),
        ..Cloud::new(ec2(&folder), timing, folder.clock(), paths)
    })
}

/// Fails if this computer cannot run it.
pub fn check(paths: &Paths) -> Result<(), Failure> {
    open(paths).map(drop)
}

/// Serves the API on a loopback port, a free one if it is 0, until `end`. Calls `ready` with the
/// URL.
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

/// The environment of a tool that uses the served endpoint, as lines for a shell.
pub fn environment(paths: &Paths) -> Result<String, Failure> {
    wire::environment(&open(paths)?).map_err(|error| {
        let hint = error.hint();
        Failure::new(Exit::Unavailable, error).maybe_hint(hint)
    })
}

/// Interrupts a spot instance after `notice`. Returns when it ends.
pub fn interrupt(
    paths: &Paths,
    instance: &InstanceId,
    notice: Duration,
) -> Result<Timestamp, Failure> {
    let at = open(paths)?.interrupt(instance.as_str(), notice);
    at.map_err(refused)
}

/// Recommends to leave a spot instance. Returns the time of the recommendation.
pub fn rebalance(paths: &Paths, instance: &InstanceId) -> Result<Timestamp, Failure> {
    let at = open(paths)?.recommend_rebalance(instance.as_str());
    at.map_err(refused)
}

/// Runs the supervisor of an instance, until that ends.
pub fn supervise(dir: &Path, cache: &Path, instance: &str) -> Result<(), Failure> {
    Ok(local::supervise(dir, cache, instance)?)
}

/// Serves a volume whose blocks come late, until its device is detached.
pub fn serve_volume(dir: &Path, volume: &str) -> Result<(), Failure> {
    Ok(local::serve_volume(dir, volume)?)
}

/// Whether the machine tree and the image of new drives were built, if they are needed.
pub fn is_set_up(paths: &Paths) -> Result<bool, Failure> {
    Ok(!is_real(paths)? || setup::is_done(&paths.local_cache))
}

/// Refuses a computer that cannot be set up; the failure has all that it lacks.
pub fn check_setup(paths: &Paths) -> Result<(), Failure> {
    setup::check(&paths.local_cache).map_err(|unmet| {
        let only_root = unmet.root && unmet.reasons.is_empty() && unmet.missing.is_empty();
        let exit = if only_root {
            Exit::Denied
        } else {
            Exit::Unavailable
        };
        let hint = what_helps(&unmet);
        Failure::new(exit, unmet).hint(hint)
    })
}

/// Builds the machine tree and the image of new drives, as far as they are not there. To be called
/// after [`check_setup`]. Calls `on_progress` with the name of what is built and the words for a
/// step when that begins. If `stop` is over first, ends what it had begun, and returns the value of
/// `stop`.
pub async fn set_up<T>(
    paths: &Paths,
    mut on_progress: impl FnMut(&'static str, &str),
    stop: impl Future<Output = T>,
) -> Result<Option<T>, Failure> {
    let mut on_step = |part: Part, words: &str| on_progress(part.name(), words);
    let built = setup::build(&paths.local_cache, &mut on_step, stop).await;
    built.map_err(|error| {
        let hint = match &error {
            SetupError::Script { hint, .. } => hint.clone(),
            SetupError::Other(_) => None,
        };
        Failure::new(Exit::Unavailable, error).maybe_hint(hint)
    })
}

/// The remedy for a computer that cannot be set up: the commands, as far as there are such.
fn what_helps(unmet: &Unmet) -> String {
    if !unmet.reasons.is_empty() {
        return "Debian or Ubuntu can, on x86_64 or arm64, in a virtual machine too; XDRIVE_CACHE \
                names another folder for what is built"
            .to_owned();
    }
    let sudo = if unmet.root { "sudo " } else { "" };
    let install = match unmet.packages().as_slice() {
        [] => String::new(),
        packages => format!("{sudo}apt-get install {} && ", packages.join(" ")),
    };
    format!("{install}{sudo}xdrive local setup")
}

/// An error of the API as a failure.
fn refused(error: wire::ApiError) -> Failure {
    let is_unknown = error.code.starts_with("InvalidInstanceID");
    let exit = if is_unknown {
        Exit::Usage
    } else {
        Exit::Failed
    };
    Failure::new(exit, error)
}

/// Opens it. Fails if this computer cannot run it (paper instances run anywhere).
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
    let plane = RealPlane::new(paths.local_dir.clone(), program, paths.local_cache.clone());
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
        return Failure::new(Exit::Unavailable, error)
            .hint("xdrive local setup says what else is not, and how to install it");
    }
    Failure::new(Exit::Config, error).hint(format!(
        "the EC2 in a folder keeps its state in {}; --local-dir names another one",
        dir.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remedy_is_a_command_that_can_be_typed_where_there_is_one() {
        let unmet = Unmet {
            root: true,
            missing: vec![("flock", "util-linux"), ("debootstrap", "debootstrap")],
            ..Unmet::default()
        };
        assert_eq!(
            what_helps(&unmet),
            "sudo apt-get install debootstrap util-linux && sudo xdrive local setup"
        );
        let unmet = Unmet {
            root: true,
            ..Unmet::default()
        };
        assert_eq!(what_helps(&unmet), "sudo xdrive local setup");
        let unmet = Unmet {
            reasons: vec!["there are no images for riscv64".to_owned()],
            ..Unmet::default()
        };
        assert!(what_helps(&unmet).starts_with("Debian or Ubuntu"));
    }
}
