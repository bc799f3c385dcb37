//! The Elastic IP address of a drive's hosts.
//!
//! A host loses the public address that EC2 gave it when it gets another one (EC2 user guide, *Elastic IP
//! addresses*), and with it every connection that was made there. So it gets its own as soon as it runs, before
//! the first login.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use tokio::time::timeout;

use crate::drive::tags;
use crate::ec2::{Ec2, ElasticIp, Error, Instance, InstanceState};
use crate::ids::{DriveName, InstanceId};
use crate::report::Report;

/// How long EC2 may take for it: three calls in turn, of which each is tried again where that helps.
const PATIENCE: Duration = Duration::from_secs(20);

/// The address, and what it takes to give it to a host.
pub(crate) struct Elastic {
    ip: ElasticIp,
    drive: DriveName,
    ec2: Ec2,
    report: Report,
    /// The host that has got it.
    at: Option<InstanceId>,
    /// Whether a host goes on with its own: that was said.
    is_out_of_reach: bool,
}

impl Elastic {
    /// The address for hosts of this drive.
    pub(crate) fn new(ip: ElasticIp, drive: DriveName, ec2: Ec2, report: Report) -> Self {
        Self {
            ip,
            drive,
            ec2,
            report,
            at: None,
            is_out_of_reach: false,
        }
    }

    /// Has the host that got it be there.
    pub(super) fn locate(&self, host: &mut Instance) {
        if self.at.as_ref() == Some(&host.id) {
            host.address = Some(self.ip.ip.into());
        }
    }

    /// Gives it to this host, if that runs and has another one. Returns the address at which the host is since;
    /// none if it is where the lists have it.
    pub(super) async fn settle(&mut self, host: &Instance) -> Option<IpAddr> {
        let ip: Ipv4Addr = self.ip.ip;
        if host.address == Some(ip.into()) {
            return None;
        }
        if self.at.as_ref() == Some(&host.id) {
            return Some(ip.into());
        }
        if self.is_out_of_reach || host.state != InstanceState::Running {
            return None;
        }
        let about = format!("{} has", host.id.drive_label(&self.drive));
        let why = match timeout(PATIENCE, self.associate(&host.id)).await {
            Ok(Ok(true)) => {
                self.at = Some(host.id.clone());
                let line = format!("{about} the address {}", self.ip);
                self.report.print(&line);
                return Some(ip.into());
            }
            // Not every part of EC2 has it running yet.
            Ok(Err(error)) if error.is_not_running() => return None,
            Ok(Ok(false)) => {
                "something else has it (--no-address takes it from the drive)".to_owned()
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => "EC2 did not answer in time".to_owned(),
        };
        self.is_out_of_reach = true;
        let warning = format!("{about} its own address, and not {}: {why}", self.ip);
        self.report.warn(&warning);
        None
    }

    /// Whether the host has the address now: it is taken from nothing but an earlier host of this drive.
    async fn associate(&self, host: &InstanceId) -> Result<bool, Error> {
        let id = &self.ip.id;
        if self.ec2.associate(id, host, false).await? {
            return Ok(true);
        }
        let Some(holder) = self.ec2.elastic_ip(id).await?.holder else {
            return Ok(false);
        };
        let there = self.ec2.instance(&holder).await?;
        let is_own = |it: &Instance| tags::drive(&it.tags).as_ref() == Some(&self.drive);
        if there
            .as_ref()
            .is_some_and(|it| it.state.is_live() && !is_own(it))
        {
            return Ok(false);
        }
        self.ec2.associate(id, host, true).await
    }
}
