//! The Elastic IP address of a drive's hosts.
//!
//! A host loses the public address that EC2 gave it when it gets another one (EC2 user guide, *Elastic IP
//! addresses*), and with it every connection that was made there. So it gets its own once, as soon as it runs and
//! before the first login, from the session that has launched it.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use crate::drive::tags;
use crate::ec2::{Ec2, ElasticIp, Error, Instance, InstanceState};
use crate::ids::{DriveName, InstanceId, SessionId};
use crate::report::Report;

/// The address, and what it takes to give it to a host.
pub(crate) struct Elastic {
    ip: ElasticIp,
    drive: DriveName,
    /// The session whose hosts get it; none if whichever host the session enters does.
    only_of: Option<SessionId>,
    ec2: Ec2,
    report: Report,
    /// The hosts that have got it, or go on with their own: each is asked for once.
    settled: BTreeSet<InstanceId>,
}

/// The host cannot have it yet.
pub(super) struct NotRunning;

impl Elastic {
    /// The address for hosts of this drive: those that the session has launched, or with `only_of` none also the one
    /// that it joins.
    pub(crate) fn new(
        ip: ElasticIp,
        drive: DriveName,
        only_of: Option<SessionId>,
        ec2: Ec2,
        report: Report,
    ) -> Self {
        Self {
            ip,
            drive,
            only_of,
            ec2,
            report,
            settled: BTreeSet::new(),
        }
    }

    /// Gives it to this host, if that is to have it and was not asked for before. Returns the address at which the
    /// host is since; none if it is where the lists have it.
    pub(super) async fn settle(&mut self, host: &Instance) -> Result<Option<IpAddr>, NotRunning> {
        let ip: Ipv4Addr = self.ip.ip;
        if host.address == Some(ip.into()) {
            self.settled.insert(host.id.clone());
            return Ok(None);
        }
        if self.settled.contains(&host.id) {
            return Ok(self.present(host).await);
        }
        let is_meant = match &self.only_of {
            Some(session) => tags::session(&host.tags) == *session,
            None => true,
        };
        if !is_meant || host.state != InstanceState::Running {
            return Ok(None);
        }
        let about = format!("{} has", host.id.drive_label(&self.drive));
        let why = match self.associate(&host.id).await {
            Ok(true) => {
                self.settled.insert(host.id.clone());
                let line = format!("{about} the address {}", self.ip);
                self.report.print(&line);
                return Ok(Some(ip.into()));
            }
            // Not every part of EC2 has it running yet.
            Err(error) if error.is_not_running() => return Err(NotRunning),
            Ok(false) => "something else has it (--no-address takes it from the drive)".to_owned(),
            Err(error) => error.to_string(),
        };
        self.settled.insert(host.id.clone());
        let warning = format!("{about} its own address, and not {}: {why}", self.ip);
        self.report.warn(&warning);
        Ok(self.present(host).await)
    }

    /// Where the host is by now, if it is elsewhere than it was listed.
    async fn present(&self, host: &Instance) -> Option<IpAddr> {
        let there = self.ec2.instance(&host.id).await.ok()??;
        there.address.filter(|at| Some(*at) != host.address)
    }

    /// The host, at the address that it has got since it was listed.
    pub(super) async fn locate(&self, host: &mut Instance) {
        if self.settled.contains(&host.id)
            && let Some(address) = self.present(host).await
        {
            host.address = Some(address);
        }
    }

    /// Whether the host has the address now: it is taken from nothing but another host of this
    /// drive, or an instance that is over.
    async fn associate(&self, host: &InstanceId) -> Result<bool, Error> {
        let id = &self.ip.id;
        if self.ec2.associate(id, host, false).await? {
            return Ok(true);
        }
        let now = self.ec2.elastic_ip(id).await?;
        let is_ours = match &now.holder {
            Some(holder) if holder == host => return Ok(true),
            Some(holder) => {
                let there = self.ec2.instance(holder).await?;
                there.is_none_or(|it| {
                    it.state.is_over() || tags::drive(&it.tags).as_ref() == Some(&self.drive)
                })
            }
            // Then it is the host that has another one.
            None => !now.is_held,
        };
        if is_ours {
            return self.ec2.associate(id, host, true).await;
        }
        Ok(false)
    }
}
