//! The EC2 that a command works on: an account's, or the one in a folder behind `--local`.
//!
//! A [`Cloud`] has everything in which the two differ besides the endpoint: how long lists lag,
//! what a launch needs, the defaults of new drives. No command asks which one it is.

#[cfg(all(feature = "local", target_os = "linux"))]
pub mod folder;
#[cfg(not(all(feature = "local", target_os = "linux")))]
#[path = "cloud/no_folder.rs"]
pub mod folder;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::anyhow;
use serde::Serialize;

use crate::clock::Clock;
use crate::config::{Config, Paths};
use crate::drive::Timing;
use crate::drive::tags::{self, Identity};
use crate::ec2::{self, Account, AccountError, Arch, Chain, Ec2, Partition, SettingError, Tags};
use crate::failure::{Exit, Failure};
use crate::ids::{DriveName, SessionId};
use crate::quote::quote;

/// The default size of a new drive on AWS, in GiB: an image with CUDA takes 6, and a commit of it 6
/// more. Unused space costs little, and snapshots bill used blocks.
const SIZE: u32 = 32;

/// The default size in a folder, where all drives and snapshots share one disk.
pub const LOCAL_SIZE: u32 = 8;

/// The default image of new drives on AWS: Python and `JupyterLab`, for both architectures,
/// published by the Jupyter project.
const IMAGE: &str = "quay.io/jupyter/minimal-notebook";

/// The default architecture of new drives on AWS: most images and nearly all types with GPUs have
/// it.
const ARCH: Arch = Arch::X86_64;

/// The computer's architecture: that of image archives made on it, and of its local instances.
pub const NATIVE: Arch = if cfg!(target_arch = "aarch64") {
    Arch::Arm64
} else {
    Arch::X86_64
};

/// The EC2 that the global flags choose.
#[derive(Debug, Clone)]
pub enum Which {
    /// The one in a folder.
    Local,
    /// An account's.
    Account(Account),
}

/// The kind of an EC2, which decides what can be checked there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// AWS.
    Aws,
    /// A custom endpoint (`AWS_ENDPOINT_URL`).
    Endpoint,
    /// The one in a folder, with machines and disks.
    Folder,
    /// The one in a folder, with states only.
    Paper,
}

/// An EC2 to work on.
#[derive(Debug, Clone)]
pub struct Cloud {
    /// The kind of EC2: AWS, or a folder.
    pub place: Place,
    /// The calls.
    pub ec2: Ec2,
    /// The xdrive command for it: the beginning of every command in a hint.
    pub command: String,
    /// The clock that its times are read from.
    pub clock: Clock,
    /// The waiting times, and how far the lists of this EC2 lag.
    pub timing: Timing,
    /// The machine image of the EC2 in a folder, if its instances are real.
    machine: Option<PathBuf>,
    /// The default architecture of new drives.
    pub arch: Arch,
    /// The default size of new drives, in GiB.
    pub size: u32,
    /// The default image of new drives, as `--image` names it.
    pub image: String,
    /// The variables by which AWS's tools, and an xdrive, find it on one of its instances.
    pub inside: BTreeMap<&'static str, &'static str>,
    /// The configured tags of the account's own, which all that is made gets.
    pub tags: Tags,
    /// The owner of what is made; none for the caller.
    owner: Option<String>,
}

impl Cloud {
    /// Opens the EC2 that the global flags choose.
    pub async fn open(which: &Which, paths: &Paths) -> Result<Self, Failure> {
        let command = which.command(paths);
        let tags = Config::read(paths)?.tags.into_iter().collect();
        match which {
            Which::Local => Ok(Self {
                command,
                tags,
                ..folder::cloud(paths)?
            }),
            Which::Account(account) => {
                let clock = Clock::system();
                let ec2 = Ec2::of_account(account, clock.clone()).await;
                let ec2 = ec2.map_err(|error| unusable_account(&error, account, &command))?;
                Ok(Self {
                    command,
                    tags,
                    arch: ARCH,
                    image: IMAGE.to_owned(),
                    size: SIZE,
                    ..Self::new(ec2, Timing::aws(), &clock, paths)
                })
            }
        }
    }

    /// A cloud of `ec2`, with the waiting times `timing` by `clock`. New drives get the image that
    /// was built on this computer.
    #[must_use]
    pub fn new(ec2: Ec2, timing: Timing, clock: &Clock, paths: &Paths) -> Self {
        let image = paths.local_cache.join("jupyter.tar");
        Self {
            place: if ec2.is_aws() {
                Place::Aws
            } else {
                Place::Endpoint
            },
            ec2,
            command: "xdrive".to_owned(),
            machine: None,
            clock: clock.clone(),
            timing,
            size: LOCAL_SIZE,
            arch: NATIVE,
            image: image.to_string_lossy().into_owned(),
            inside: BTreeMap::new(),
            tags: Tags::new(),
            owner: None,
        }
    }

    /// The same for a caller that acts for this `owner` (an ARN), to whom all belongs that it makes.
    #[must_use]
    pub fn acting_for(&self, owner: &str) -> Self {
        Self {
            owner: Some(owner.to_owned()),
            ..self.clone()
        }
    }

    /// Whether the caller acts for another owner.
    #[must_use]
    pub fn acts_for_another(&self) -> bool {
        self.owner.is_some()
    }

    /// Refuses a local EC2 whose machine image was not built.
    pub fn check_machine(&self) -> Result<(), Failure> {
        match &self.machine {
            Some(machine) if !machine.exists() => Err(Failure::new(
                Exit::Unavailable,
                anyhow!("there is no machine image in {}", machine.display()),
            )
            .hint("xdrive local setup builds it, once")),
            _ => Ok(()),
        }
    }

    /// The names of all drives, by their tags, in order. What cannot be a drive's name is none.
    pub async fn drives(&self) -> Result<Vec<DriveName>, ec2::Error> {
        let (instances, volumes, snapshots) = self.ec2.everything().await?;
        let tags = instances.iter().map(|it| &it.tags);
        let tags = tags.chain(volumes.iter().map(|it| &it.tags));
        let tags = tags.chain(snapshots.iter().map(|it| &it.tags));
        let names: BTreeSet<DriveName> = tags.filter_map(tags::drive).collect();
        Ok(names.into_iter().collect())
    }

    /// A new session of this caller.
    pub async fn identity(&self) -> Result<Identity, Failure> {
        let session = SessionId::random().map_err(|error| Failure::new(Exit::Failed, error))?;
        let own = Identity::new(session, self.ec2.owner().await?);
        Ok(match &self.owner {
            Some(owner) => Identity {
                owner: owner.clone(),
                ..own
            },
            None => own,
        })
    }
}

impl Which {
    /// The beginning of a command for the same EC2, in the same environment.
    #[must_use]
    pub fn command(&self, paths: &Paths) -> String {
        let mut command = "xdrive".to_owned();
        let mut add = |flag: &str, value: Option<&str>| {
            if let Some(value) = value {
                let _ = write!(command, " {flag} {}", quote(value));
            }
        };
        match self {
            Self::Local => {
                let dir = paths.local_dir.to_string_lossy();
                add("--local-dir", paths.local_dir_named.then_some(&*dir));
                command.insert_str("xdrive".len(), " --local");
            }
            Self::Account(account) => {
                add("--profile", account.profile.as_deref());
                add("--region", account.region.as_deref());
            }
        }
        command
    }
}

/// The credentials of an account, for programs in a container; `command` is the xdrive command.
pub async fn credentials(account: &Account, command: &str) -> Result<Chain, Failure> {
    let chain = Chain::of_account(account, Clock::system()).await;
    chain.map_err(|error| unusable_account(&error, account, command))
}

/// The partition that an account's settings name, without a call.
pub fn partition(account: &Account) -> Result<Partition, Failure> {
    let partition = account.partition();
    let partition =
        partition.map_err(|error| unusable_account(&error.into(), account, "xdrive"))?;
    Ok(partition.unwrap_or_default())
}

/// The failure of an account without region or credentials.
fn unusable_account(error: &AccountError, account: &Account, command: &str) -> Failure {
    const WITHOUT: &str = "xdrive --local needs no account";
    let profile = match &account.profile {
        Some(profile) => format!(" --profile {}", quote(profile)),
        None => String::new(),
    };
    let hint = match error {
        AccountError::NoRegion => {
            format!("{command} --region us-east-1 …, AWS_REGION, or `aws configure{profile}`")
        }
        AccountError::NotARegion(_) => {
            "regions are called like us-east-1 (a zone such as us-east-1a has a letter more); \
             --region, AWS_REGION and the profile name one"
                .to_owned()
        }
        AccountError::Setting(SettingError::NoProfile { .. }) => format!(
            "`aws configure list-profiles` names those of ~/.aws, `aws configure{profile}` makes one; \
             {WITHOUT}"
        ),
        AccountError::Setting(SettingError::Wrong { .. }) => {
            format!("mend it, or unset it; {WITHOUT}")
        }
        AccountError::NoCredentials => format!(
            "`aws login{profile}`, `aws sso login{profile}` or `aws configure{profile}` makes some; \
             --profile takes another profile's; {WITHOUT}"
        ),
        AccountError::LoggedOut(_) => format!("`aws login{profile}` renews them; {WITHOUT}"),
        AccountError::SecondFactor { profile, .. } => format!(
            "its mfa_serial asks for a code, which AWS CLI 2 can ask you for and xdrive cannot: \
             `aws configure set credential_process 'aws configure export-credentials --profile \
             {name} --format process' --profile {name}-xdrive`, and then --profile {name}-xdrive",
            name = quote(profile)
        ),
        AccountError::Unusable(why) if why.to_lowercase().contains("sso") => {
            format!("`aws sso login{profile}` renews them; {WITHOUT}")
        }
        AccountError::Unusable(_) => format!(
            "`aws sts get-caller-identity{profile}` finds them in the same places; {WITHOUT}"
        ),
    };
    let exit = match error {
        AccountError::NoRegion | AccountError::NotARegion(_) | AccountError::Setting(_) => {
            Exit::Config
        }
        _ => Exit::Denied,
    };
    Failure::new(exit, error.clone()).hint(hint)
}
