//! The leader of a drive's workers, and those that are up.

use std::net::IpAddr;

use anyhow::anyhow;

use super::visitor::{Visit, Visitor};
use crate::attached::{Live, reach_live};
use crate::drive::tags::WantedWorkers;
use crate::ec2::Instance;
use crate::failure::{Exit, Failure};
use crate::host::container::CommandId;
use crate::host::facts::ScriptError;
use crate::host::scripts::{JoinToken, Joining};
use crate::host::tries::TriedCommand;
use crate::ids::Generation;
use crate::opener::{Drive, no_order, or_interrupted};

/// A drive that is up, to whose network workers come.
pub(crate) struct Leader {
    visit: Visit,
    live: Live,
    /// The address of its host in its VPC.
    address: IpAddr,
    /// The drive's generation there.
    pub(crate) generation: Generation,
}

impl Leader {
    /// Connects to the host of `drive`, which has to be up.
    pub(crate) async fn reach(drive: Drive, visitor: Visitor) -> Result<Self, Failure> {
        let (name, xdrive) = (drive.name.clone(), drive.cloud.command.clone());
        let Some(instance) = drive.facts.host.clone() else {
            let error = anyhow!("{name} is not up: its workers would find no leader");
            let hint = format!(
                "{xdrive} run {name} -d -- CMD… or {xdrive} connect {name} brings it up first"
            );
            return Err(Failure::new(Exit::Unavailable, error).hint(hint));
        };
        let address = instance
            .private
            .filter(IpAddr::is_ipv4)
            .ok_or_else(|| anyhow!("{} has no private address", instance.id.drive_label(&name)))?;
        let generation = drive.facts.newest_part().map(|(generation, _)| generation);
        let mut visit = Visit::new(drive, visitor, false)?;
        let hosts = visit.reconciler.hosts();
        let live = reach_live(&mut visit.drive, hosts, Some(instance)).await?;
        Ok(Self {
            visit,
            live,
            address,
            generation: generation.unwrap_or(Generation::EMPTY),
        })
    }

    /// The host.
    pub(crate) fn instance(&self) -> &Instance {
        &self.live.instance
    }

    /// Keeps the order of what workers run on the drive, and notes that they are wanted.
    pub(crate) async fn keep(
        &self,
        order: &TriedCommand,
        wanted: &WantedWorkers,
    ) -> Result<(), Failure> {
        let kept = self.live.host.keep_order(&wanted.order, order).await;
        kept.map_err(anyhow::Error::new)?;
        self.mark(wanted).await
    }

    /// The workers that are wanted now.
    pub(crate) async fn wanted(&self) -> Result<Option<WantedWorkers>, Failure> {
        let drive = &self.visit.drive;
        Ok(drive.wanted_workers(&self.live.instance).await?)
    }

    /// Notes that none are wanted.
    pub(crate) async fn mark_none(&self) -> Result<(), Failure> {
        Ok(self.visit.drive.mark_no_workers().await?)
    }

    /// Notes which workers are wanted.
    pub(crate) async fn mark(&self, wanted: &WantedWorkers) -> Result<(), Failure> {
        let drive = &self.visit.drive;
        drive.mark_workers(&self.live.instance, wanted).await
    }

    /// The order of what workers run that the drive has.
    pub(crate) async fn order(&self, id: &CommandId) -> Result<TriedCommand, Failure> {
        let tries = self.live.host.tries(id).await;
        let order = tries.map_err(anyhow::Error::new)?.order;
        order.ok_or_else(|| no_order(id))
    }

    /// Makes its host the leader of a network that workers reach, unless it is.
    pub(crate) async fn lead(&mut self) -> Result<Network, Failure> {
        let drive = &mut self.visit.drive;
        let step = drive
            .report
            .step(format!("make the network of {}", drive.name));
        let leading = self.live.host.lead_workers(self.address);
        let token = or_interrupted(&mut drive.signals, &drive.report, leading).await?;
        let token = token.map_err(anyhow::Error::new)?;
        step.done(&format!("{} leads a network", drive.name));
        Ok(Network {
            leader: self.address,
            token,
        })
    }

    /// Makes the token useless.
    pub(crate) async fn seal(&self) -> Result<(), Failure> {
        let sealed = self.live.host.seal_network().await;
        Ok(sealed.map_err(anyhow::Error::new)?)
    }
}

/// The network that a worker comes to.
pub(crate) struct Network {
    /// The leader's address in its VPC.
    pub(crate) leader: IpAddr,
    /// The token by which others come.
    pub(crate) token: JoinToken,
}

/// Has the host of this worker, which is up, in the network as `alias`, unless it is. Returns why it cannot
/// come, if its host says so.
pub(crate) async fn come_again(
    drive: Drive,
    visitor: Visitor,
    network: &Network,
    alias: &str,
) -> Result<Option<String>, Failure> {
    let mut visit = Visit::new(drive, visitor, false)?;
    let (drive, hosts) = (&mut visit.drive, visit.reconciler.hosts());
    let instance = drive.facts.host.clone();
    let own = instance.as_ref().and_then(|instance| instance.private);
    let live = reach_live(drive, hosts, instance).await?;
    let own = own.ok_or_else(|| anyhow!("{} has no private address", drive.name))?;
    let joining = live.host.join_network(Joining {
        own,
        leader: network.leader,
        alias,
        token: &network.token,
    });
    match or_interrupted(&mut drive.signals, &drive.report, joining).await? {
        Ok(()) => Ok(None),
        Err(error @ ScriptError::Failed { .. }) => Ok(Some(error.to_string())),
        Err(error) => Err(anyhow::Error::new(error).into()),
    }
}
