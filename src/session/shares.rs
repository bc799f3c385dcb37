//! The shares of a drive's containers: found before a launch, and reached while the host boots.

use std::sync::{Mutex, PoisonError};

use anyhow::anyhow;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::request::Request;
use crate::cloud::Cloud;
use crate::drive::tags::{self, Settings};
use crate::ec2::{Ec2, FileSystem, Instance, ShareState, Tags};
use crate::failure::{Exit, Failure};
use crate::host::shares::{Reached, Share, Shared};
use crate::launch::shares::{self, targets};
use crate::opener::DriveFacts;
use crate::report::Report;

/// The most characters of a tag's value (EC2 user guide, *Tag restrictions*).
const TAG: usize = 256;

/// The shares that a session's containers are to have.
#[derive(Debug, Default)]
pub(super) struct Shares {
    /// All of them; none where neither the request nor the drive says which.
    wanted: Option<Vec<(Shared, FileSystem)>>,
    /// Why they could not be found for a drive that is up: no matter to whoever starts no container.
    missing: Mutex<Option<Failure>>,
    /// The tags of what is made for them.
    tags: Tags,
    /// The mount targets that are being made for hosts that boot. Whoever enters a host waits for them.
    ahead: JoinSet<()>,
}

impl Shares {
    /// Finds the shares of a request for this drive: one that is not there ends a session before anything is
    /// launched. From then on mount targets are made for each instance that is `launched`.
    pub(super) async fn find(
        request: &Request,
        drive: &DriveFacts,
        caller: &str,
        cloud: &Cloud,
        launched: mpsc::UnboundedReceiver<String>,
    ) -> Result<Self, Failure> {
        let found = match find_all(request, &drive.settings, caller, cloud).await {
            Err(failure) if drive.host.is_some() => {
                return Ok(Self {
                    missing: Mutex::new(Some(failure)),
                    ..Self::default()
                });
            }
            found => found?,
        };
        let Some(found) = found else {
            return Ok(Self::default());
        };
        let mut shares = Self {
            wanted: Some(found),
            missing: Mutex::default(),
            tags: tags::group(caller),
            ahead: JoinSet::new(),
        };
        shares.tags.extend(cloud.tags.clone());
        shares.follow(cloud.ec2.clone(), launched);
        Ok(shares)
    }

    /// Makes the mount targets for what is `launched`. [`Shares::reach`] does what is still to do, and says
    /// what could not be done.
    fn follow(&mut self, ec2: Ec2, mut launched: mpsc::UnboundedReceiver<String>) {
        let wanted = self.wanted.clone().unwrap_or_default();
        let tags = self.tags.clone();
        if wanted.is_empty() {
            return;
        }
        self.ahead.spawn(async move {
            while let Some(id) = launched.recv().await {
                let Ok(id) = id.parse() else { continue };
                let Ok(Some(host)) = ec2.instance(&id).await else {
                    continue;
                };
                for (shared, of) in &wanted {
                    let name = shared.share().as_str();
                    drop(targets::reach(&ec2, name, of, &host, &tags).await);
                }
            }
        });
    }

    /// The shares in words, each with its file system and its place in the containers.
    pub(super) fn words(&self) -> Vec<String> {
        let wanted = self.wanted.iter().flatten();
        wanted.map(|(shared, of)| words(shared, of)).collect()
    }

    /// The shares with their addresses, for containers on this host; none leaves those that they have.
    pub(super) async fn reach(
        &self,
        host: &Instance,
        cloud: &Cloud,
        report: &Report,
    ) -> Result<Option<Vec<Reached>>, Failure> {
        let missing = self.missing.lock();
        if let Some(failure) = missing.unwrap_or_else(PoisonError::into_inner).take() {
            return Err(failure);
        }
        let Some(wanted) = &self.wanted else {
            return Ok(None);
        };
        let mut reached = Vec::new();
        for (shared, of) in wanted {
            let name = shared.share();
            let zone = &host.zone;
            let step = report.step(format!("wait for the mount target of {name} in {zone}"));
            let address = targets::reach(&cloud.ec2, name.as_str(), of, host, &self.tags).await?;
            step.done(&format!("reached {}", words(shared, of)));
            reached.push(Reached {
                shared: shared.clone(),
                address,
            });
        }
        Ok(Some(reached))
    }
}

fn words(shared: &Shared, of: &FileSystem) -> String {
    let mode = if shared.is_read_only() {
        ", read-only"
    } else {
        ""
    };
    format!(
        "{} ({}), {}{mode}",
        shared.share(),
        of.id,
        shared.container()
    )
}

/// The file systems of the shares that are asked for, else of the drive's own; none where it has none.
async fn find_all(
    request: &Request,
    settings: &Settings,
    caller: &str,
    cloud: &Cloud,
) -> Result<Option<Vec<(Shared, FileSystem)>>, Failure> {
    let Some(wanted) = wanted(request, settings)? else {
        return Ok(None);
    };
    let is_typed = request.options.shares.is_some();
    check_length(&wanted)?;
    let places = request.places().check(&wanted);
    places.map_err(|why| Failure::new(Exit::Usage, anyhow!(why)))?;
    let mut found = Vec::new();
    for shared in wanted {
        let of = file_system(shared.share(), caller, cloud).await;
        let of = of.map_err(|failure| {
            if is_typed {
                return failure;
            }
            let hint = "--no-shares goes on without the drive's shares, and --share names others";
            failure.hint(hint)
        })?;
        found.push((shared, of));
    }
    Ok(Some(found))
}

/// Refuses shares that do not fit in a tag of the drive.
fn check_length(shares: &[Shared]) -> Result<(), Failure> {
    let length: usize = shares.iter().map(|it| it.to_string().len() + 1).sum();
    if length <= TAG {
        return Ok(());
    }
    let error = anyhow!("the names and places of these shares have more than {TAG} characters");
    Err(Failure::new(Exit::Usage, error).hint("take shorter paths, or fewer shares"))
}

/// The shares that are asked for, else the drive's own.
fn wanted(request: &Request, settings: &Settings) -> Result<Option<Vec<Shared>>, Failure> {
    if let Some(asked) = &request.options.shares {
        return Ok(Some(asked.clone()));
    }
    settings.shares().map_err(|error| {
        let error = anyhow!("{}: {error}", request.drive);
        Failure::new(Exit::Config, error)
            .hint("--share names them anew, and --no-shares takes them away")
    })
}

/// The file system that a share is: of this caller's, or by its id of anybody's.
async fn file_system(share: &Share, caller: &str, cloud: &Cloud) -> Result<FileSystem, Failure> {
    let of = match share {
        Share::Name(name) => {
            let found = shares::demand(cloud, name).await?;
            let hint = format!("{} in its place takes it all the same", found.of.id);
            shares::check_owner(&found, caller, &hint)?;
            found.of
        }
        Share::Id(id) => cloud.ec2.file_system(id).await?.ok_or_else(|| {
            let error = anyhow!("there is no file system {id} in {}", cloud.ec2.region());
            Failure::new(Exit::Unavailable, error)
        })?,
    };
    match of.state {
        ShareState::Available | ShareState::Updating => Ok(of),
        state => {
            let error = anyhow!("the share {share} ({}) is {state}", of.id);
            Err(Failure::new(Exit::TryAgain, error).hint("the same command again, in a minute"))
        }
    }
}
