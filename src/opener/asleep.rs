//! The files of a drive wherever they are: on the host that has it, or in a snapshot while it is
//! asleep.

use anyhow::anyhow;
use tokio::time::sleep;

use super::drive::Drive;
use super::ending::Ending;
use super::prompt::{or_interrupted, unless_ended};
use crate::asleep::Asleep;
use crate::drive::tags::SnapshotKind;
use crate::ec2::Instance;
use crate::failure::{Exit, Failure};
use crate::host::on_record::OnRecord;
use crate::ids::{ContainerName, Generation, MAIN, SnapshotId};
use crate::transfer::{Servers, Stop, size};

/// Where a drive's files are.
pub(crate) enum Files {
    /// On this host, in the drive's container.
    Up(Box<Instance>),
    /// In a snapshot.
    Asleep(Sleeping),
}

/// A generation of a drive in a snapshot.
pub(crate) struct Sleeping {
    pub(crate) generation: Generation,
    pub(crate) snapshot: SnapshotId,
}

impl Drive {
    /// Where the drive's files are: its host, unless a `generation` is named, or it is not up.
    ///
    /// A host that is listed may have ended: then the lists may also lack what it saved, and are read
    /// again once they have all of that.
    pub(crate) async fn find_files(
        &mut self,
        generation: Option<Generation>,
    ) -> Result<Files, Failure> {
        while let (Some(host), None) = (&self.facts.host, generation) {
            let read = self.cloud.ec2.instance(&host.id).await?;
            if read.is_none_or(|host| host.state.is_live()) {
                return Ok(Files::Up(Box::new(host.clone())));
            }
            let settle = self.cloud.timing.settle;
            let gone = format!("{} has ended", host.id.drive_label(&self.name));
            let step = format!("{gone}: wait until EC2's lists are settled");
            let step = self.report.step(step);
            or_interrupted(&mut self.signals, &self.report, sleep(settle)).await?;
            step.done(&gone);
            self.look_again().await?;
        }
        self.find_saved(generation).map(Files::Asleep)
    }

    /// The snapshot of that generation, or of the newest.
    pub(crate) fn find_saved(&self, generation: Option<Generation>) -> Result<Sleeping, Failure> {
        let (facts, drive, command) = (&self.facts, &self.name, &self.cloud.command);
        if facts.is_empty() {
            return Err(Failure::no_drive(drive, command));
        }
        let Some((tags, snapshot)) = facts.newest_readable(generation) else {
            let which = match generation {
                Some(generation) => format!("{drive} has no snapshot of generation {generation}"),
                None => format!("{drive} has no snapshot yet that can be read"),
            };
            let hint = match generation {
                None if facts.volumes_left().next().is_some() => {
                    format!("{command} stop {drive} saves what its volume has")
                }
                _ => format!("{command} list {drive} -v shows its snapshots"),
            };
            return Err(Failure::new(Exit::Unavailable, anyhow!(which)).hint(hint));
        };
        if generation.is_none()
            && let Some(foreign) = facts.doubt(snapshot)
        {
            let newest = snapshot.id.drive_label(drive);
            let error = anyhow!(
                "{newest}, of generation {}, may be none that xdrive made of this drive: {foreign}",
                tags.generation
            );
            let hint = format!(
                "{drive}@{} names it all the same; {command} log {drive} shows the others",
                tags.generation
            );
            return Err(Failure::new(Exit::Stuck, error).hint(hint));
        }
        if generation.is_none() {
            let newest = facts.newest_part().map(|(generation, _)| generation);
            if let Some(newest) = newest.filter(|newest| *newest > tags.generation) {
                self.report.print(&format!(
                    "generation {newest} of {drive} is not saved yet; this is generation {}",
                    tags.generation
                ));
            }
        }
        if tags.kind == SnapshotKind::Checkpoint {
            self.report.print(&format!(
                "this is a checkpoint of generation {}, taken while {drive} was in use",
                tags.generation
            ));
        }
        Ok(Sleeping {
            generation: tags.generation,
            snapshot: snapshot.id.clone(),
        })
    }

    /// The failure of a reading that was lost, for this reason.
    pub(crate) fn lost_asleep(&self, asleep: &Asleep, why: &str) -> Failure {
        if let Some(error) = asleep.failed() {
            return Failure::from(error.clone());
        }
        let drive = &self.name;
        let error = anyhow!("{drive}'s file system cannot be read: {why}");
        let hint = format!(
            "{} connect {drive} mounts it on an instance, which checks and repairs it first",
            self.cloud.command
        );
        Failure::new(Exit::Failed, error).hint(hint)
    }

    /// Does `work` with the files of a drive that is asleep, until it is done or a signal asks for
    /// the end.
    pub(crate) async fn read_asleep(
        &mut self,
        sleeping: &Sleeping,
        work: impl AsyncFnOnce(Servers) -> Result<(), Stop>,
    ) -> Ending {
        let (ec2, place) = (self.cloud.ec2.clone(), self.place());
        let asleep = Asleep::new(ec2, &sleeping.snapshot, &place);
        self.read(sleeping, &asleep, work).await
    }

    /// As [`Drive::read_asleep`], with files that are open.
    pub(crate) async fn read(
        &mut self,
        sleeping: &Sleeping,
        asleep: &Asleep,
        work: impl AsyncFnOnce(Servers) -> Result<(), Stop>,
    ) -> Ending {
        if let Err(failure) = self.demand_container(asleep).await {
            return Ending::Failed(failure);
        }
        let work = work(Servers::new(asleep.servers()));
        let ending = match unless_ended(&mut self.signals, &self.report, work).await {
            Ok(Ok(())) => Ending::Exit(0),
            Ok(Err(Stop::Lost(why))) => Ending::Failed(self.lost_asleep(asleep, &why)),
            Ok(Err(Stop::Refused(error))) => Ending::Failed(Failure::new(Exit::Failed, error)),
            Err(end) => Ending::Asked(end),
        };
        self.note_reading(sleeping, asleep);
        ending
    }

    /// The containers on record on a drive that is asleep.
    pub(crate) async fn on_record_asleep(
        &mut self,
        asleep: &Asleep,
    ) -> Result<Vec<OnRecord>, Failure> {
        let reading = asleep.containers();
        let found = or_interrupted(&mut self.signals, &self.report, reading).await?;
        found.map_err(|error| self.lost_asleep(asleep, &error.to_string()))
    }

    /// Fails unless the container that is meant is on the drive that is asleep.
    pub(crate) async fn demand_container(&mut self, asleep: &Asleep) -> Result<(), Failure> {
        let Some(name) = self.container.clone() else {
            return Ok(());
        };
        let found = self.on_record_asleep(asleep).await?;
        if is_among(&name, &found) {
            return Ok(());
        }
        Err(self.not_among(&name, &found))
    }

    /// The failure of a container of this name that is not among those that the drive has.
    pub(crate) fn not_among(&self, name: &ContainerName, found: &[OnRecord]) -> Failure {
        let drive = &self.name;
        let label = |it: &OnRecord| match &it.name {
            Some(name) => name.to_string(),
            None => MAIN.to_owned(),
        };
        let names: Vec<String> = found.iter().map(label).collect();
        let has = match names.len() {
            0 => "none".to_owned(),
            _ => names.join(", "),
        };
        let error = anyhow!("{drive} has no container {name}; it has {has}");
        let command = &self.cloud.command;
        let hint = format!("{command} connect {drive}/{name} --image IMAGE makes it");
        Failure::new(Exit::Unavailable, error).hint(hint)
    }

    /// Says what was read, and what that cost.
    pub(crate) fn note_reading(&self, sleeping: &Sleeping, asleep: &Asleep) {
        let reading = asleep.reading();
        let snapshot = sleeping.snapshot.drive_label(&self.name);
        self.report.note(&format!(
            "{snapshot}, generation {}: {} calls, {}, {:.3} cents{}",
            sleeping.generation,
            reading.blocks + reading.lists,
            size(reading.bytes()),
            reading.dollars() * 100.0,
            transfer_words(self.cloud.ec2.is_aws(), vendor().as_deref())
        ));
    }
}

/// Whether a container of this name is on record.
pub(crate) fn is_among(name: &ContainerName, on_record: &[OnRecord]) -> bool {
    on_record.iter().any(|it| it.name.as_ref() == Some(name))
}

/// The maker of this computer, as its firmware says; Linux alone shows that.
fn vendor() -> Option<String> {
    std::fs::read_to_string("/sys/class/dmi/id/sys_vendor").ok()
}

/// Whether what comes here leaves AWS, as it does not for EC2's own instances in the same region.
pub(super) fn leaves_aws() -> bool {
    !is_of_aws(vendor().as_deref())
}

/// Whether this is the `vendor` of EC2's instances (EC2 user guide, *Identify EC2 instances*).
fn is_of_aws(vendor: Option<&str>) -> bool {
    vendor.is_some_and(|vendor| vendor.trim() == "Amazon EC2")
}

/// The other cost of the reading, as the end of a sentence: AWS bills what leaves it for the
/// internet, but not what goes to EC2 in the same region (EBS user guide, *Pricing for EBS direct
/// APIs*; EC2 On-Demand pricing, *Data transfer*). `vendor` is the maker of this computer.
fn transfer_words(is_aws: bool, vendor: Option<&str>) -> &'static str {
    if is_aws && !is_of_aws(vendor) {
        ", plus transfer out (about $0.09 a GB beyond 100 GB a month)"
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_transfer_out_of_aws_is_named_with_its_price() {
        let costs = |is_aws, vendor| !transfer_words(is_aws, vendor).is_empty();
        assert!(costs(true, None) && costs(true, Some("LENOVO\n")));
        assert!(!costs(true, Some("Amazon EC2\n")));
        assert!(!costs(false, None));
    }
}
