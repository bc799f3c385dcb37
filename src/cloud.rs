//! Which EC2 a command works on, and as whom.
//!
//! Today that is the EC2 in a folder behind `--local`. What differs between clouds beyond the
//! endpoint (how long lists lag, what is launched by default, the default image) stands here, so
//! that `connect`, `list` and `stop` need not know which one it is.

use std::path::{Path, PathBuf};

use anyhow::anyhow;

use crate::clock::Clock;
use crate::config::Paths;
use crate::drive::tags::Identity;
use crate::drive::{Limits, SessionId};
use crate::ec2::{Ec2, Endpoint};
use crate::failure::{Exit, Failure};
use crate::local::plane::{PlaneError, RealPlane};
use crate::local::{Local, OpenOptions, PlaneKind, Settings};

/// The public parameter of the machine image that instances run; EC2 resolves it at launch (AWS
/// Systems Manager user guide, *Native parameter support for AMI IDs*).
pub const MACHINE: &str =
    "resolve:ssm:/aws/service/ecs/optimized-ami/amazon-linux-2023/recommended/image_id";

/// What is launched when nobody says otherwise.
pub const INSTANCE_TYPE: &str = "t3.medium";

/// A new drive's size in GiB when nobody says otherwise.
pub const SIZE: u32 = 8;

/// An EC2 to work on.
#[derive(Debug, Clone)]
pub struct Cloud {
    /// The calls.
    pub ec2: Ec2,
    /// How xdrive is called for it: what a hint's commands begin with.
    pub command: String,
    /// Its time.
    pub clock: Clock,
    /// How long things take and lists lag there.
    pub limits: Limits,
    /// Where the EC2 in a folder has its machine image, if its instances are real.
    machine: Option<PathBuf>,
    /// The image archive that new drives are made from when nobody says otherwise.
    pub image: PathBuf,
}

impl Cloud {
    /// Opens the EC2 that `--local` asks for.
    pub async fn open(local: bool, paths: &Paths) -> Result<Self, Failure> {
        if !local {
            return Err(Failure::new(
                Exit::Usage,
                anyhow!("this version of xdrive cannot launch on AWS yet"),
            )
            .hint("use the EC2 in a folder on this computer: xdrive --local …"));
        }
        let folder = open_local(paths)?;
        let real = is_real(paths)?;
        let limits = Limits::local(folder.delays().settle());
        let clock = folder.clock().clone();
        let mut cloud = Self::at(Endpoint::Local(folder), limits, clock, paths).await?;
        cloud.command = paths.command(local);
        cloud.machine = real.then(|| paths.local_cache.join("machine"));
        Ok(cloud)
    }

    /// Opens the EC2 at `endpoint`, whose waiting times are `limits` by its `clock`.
    pub async fn at(
        endpoint: Endpoint,
        limits: Limits,
        clock: Clock,
        paths: &Paths,
    ) -> Result<Self, Failure> {
        let ec2 = Ec2::connect(endpoint)
            .await
            .map_err(|error| Failure::new(Exit::Failed, error))?;
        Ok(Self {
            ec2,
            command: paths.command(false),
            machine: None,
            clock,
            limits,
            image: paths.local_cache.join("jupyter.tar"),
        })
    }

    /// Makes sure that there is something to launch, where that can be told beforehand.
    pub fn check_machine(&self) -> Result<(), Failure> {
        match &self.machine {
            Some(machine) if !machine.exists() => Err(Failure::new(
                Exit::Unavailable,
                anyhow!("there is no machine image in {}", machine.display()),
            )
            .hint("shell/try.sh builds it, once")),
            _ => Ok(()),
        }
    }

    /// A new session of this caller.
    pub async fn identity(&self) -> Result<Identity, Failure> {
        let session = SessionId::random().map_err(|error| Failure::new(Exit::Failed, error))?;
        let owner = self
            .ec2
            .owner()
            .await
            .map_err(|error| Failure::new(Exit::Failed, error))?;
        Ok(Identity { session, owner })
    }
}

/// The EC2 in a folder, after making sure that this computer can run one (paper runs anywhere).
pub fn open_local(paths: &Paths) -> Result<Local, Failure> {
    let real = is_real(paths)?;
    if real && !cfg!(target_os = "linux") {
        return Err(Failure::new(
            Exit::Unavailable,
            anyhow!("--local makes its instances out of Linux namespaces, and this is not Linux"),
        ));
    }
    if real && !rustix::process::geteuid().is_root() {
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
