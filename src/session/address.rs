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
        const HINT: &str = "--address names another one, and --no-address goes on without";
        let wanted = wanted(&self.request, &drive.settings);
        let wanted = wanted.map_err(|error| {
            let error = anyhow!("{}: {error}", self.request.drive);
            Failure::new(Exit::Config, error).hint(HINT)
        })?;
        let hosts = self.reconciler.hosts();
        let Some(id) = wanted else {
            hosts.give(None);
            return Ok(());
        };
        let ec2 = self.drive.cloud.ec2.clone();
        let failure = match ec2.elastic_ip(&id).await {
            Ok(elastic) => {
                let (name, report) = (self.request.drive.clone(), self.drive.report.clone());
                let elastic = Elastic::new(elastic, name, ec2, report);
                self.reconciler.hosts().give(Some(elastic));
                return Ok(());
            }
            Err(error) if error.kind == Kind::NotFound => {
                let error = anyhow!("there is no Elastic IP address {id} in {}", ec2.region());
                Failure::new(Exit::Unavailable, error).hint(HINT)
            }
            Err(error) if error.kind == Kind::Denied => {
                let command = &self.drive.cloud.command;
                let hint = format!("`{command} policy --address` prints the rights for it");
                Failure::from(error).hint(hint)
            }
            Err(error) => Failure::from(error),
        };
        if drive.host.is_some() && self.request.options.address.is_none() {
            let why = format!("the drive's address cannot be found: {failure}");
            self.drive.report.warn(&why);
            return Ok(());
        }
        Err(failure)
    }
}
