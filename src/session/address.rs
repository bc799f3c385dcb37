//! The Elastic IP address that a drive's hosts are to have: found before anything is launched.

use anyhow::anyhow;

use super::request::Request;
use super::state::Session;
use crate::access::Elastic;
use crate::drive::tags::{Settings, Unreadable};
use crate::ec2::{HostAddress, Kind};
use crate::failure::{Exit, Failure};
use crate::ids::AllocationId;
use crate::opener::DriveFacts;

/// The hint where the address is not to be had.
const HINT: &str = "--address names another one, and --no-address goes on without";

/// The address that is asked for, else the drive's own; none if hosts have EC2's.
pub(super) fn wanted(
    request: &Request,
    settings: &Settings,
) -> Result<Option<AllocationId>, Unreadable> {
    let asked = match &request.options.address {
        Some(asked) => Some(asked.clone()),
        None => settings.address()?,
    };
    Ok(match asked {
        Some(HostAddress::Elastic(id)) => Some(id),
        Some(HostAddress::Any) | None => None,
    })
}

impl Session {
    /// Finds the address that the drive's next hosts get: one that is not there ends the session, unless the drive is
    /// up and it was not asked for.
    pub(super) async fn find_address(&mut self, drive: &DriveFacts) -> Result<(), Failure> {
        let wanted = wanted(&self.request, &drive.settings);
        let found = match wanted {
            Ok(None) => {
                self.reconciler.hosts().set_elastic(None);
                return Ok(());
            }
            Ok(Some(id)) => self.elastic(&id).await,
            Err(error) => {
                let error = anyhow!("{}: {error}", self.request.drive);
                Err(Failure::new(Exit::Config, error).hint(HINT))
            }
        };
        let is_typed = self.request.options.address.is_some();
        match found {
            Ok(elastic) => self.reconciler.hosts().set_elastic(Some(elastic)),
            Err(failure) if drive.host.is_some() && !is_typed => {
                let why = format!("the drive's address cannot be found: {failure}");
                self.drive.report.warn(&why);
            }
            Err(failure) => return Err(failure),
        }
        Ok(())
    }

    /// The address of this id, for the session's hosts; where it was typed, also for one that it joins.
    async fn elastic(&self, id: &AllocationId) -> Result<Elastic, Failure> {
        let ec2 = self.drive.cloud.ec2.clone();
        match ec2.elastic_ip(id).await {
            Ok(elastic) => {
                let (name, report) = (self.request.drive.clone(), self.drive.report.clone());
                let is_typed = self.request.options.address.is_some();
                let only_of = (!is_typed).then(|| self.reconciler.session().clone());
                Ok(Elastic::new(elastic, name, only_of, ec2, report))
            }
            Err(error) if error.kind == Kind::NotFound => {
                let error = anyhow!("there is no Elastic IP address {id} in {}", ec2.region());
                Err(Failure::new(Exit::Unavailable, error).hint(HINT))
            }
            Err(error) if error.kind == Kind::Denied => {
                let command = &self.drive.cloud.command;
                let hint = format!("`{command} policy --address` prints the rights for it");
                Err(Failure::from(error).hint(hint))
            }
            Err(error) => Err(Failure::from(error)),
        }
    }
}
