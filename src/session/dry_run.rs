//! `connect --dry-run`: prints the drive's state, and what would be launched at what price; changes
//! nothing.
//!
//! Looks, plans and chooses by the same code as a real connect. Printed to standard output.

use anyhow::anyhow;
use serde::Serialize;

use super::request::Request;
use super::start::{Asked, first_image};
use super::state::Session;
use super::{address, ingress};
use crate::access::SshHosts;
use crate::cloud::Cloud;
use crate::drive::plan::{Next, Step, Waiting};
use crate::drive::pools;
use crate::drive::stuck::Head;
use crate::drive::tags::{self, Settings};
use crate::drive::{Goal, Outcome, Reconciler};
use crate::ec2::{GibiBytes, OpenPort, SnapshotState, StoragePrices, Zone};
use crate::failure::{Exit, Failure};
use crate::host::registry::registry;
use crate::ids::DriveName;
use crate::launch::cost::dollars;
use crate::launch::failure::refused;
use crate::launch::image::{self, ImageSource};
use crate::launch::offers::Offers;
use crate::opener::{Drive, DriveFacts, demand_fork, describe_step, run_failure, waiting};
use crate::report::{self, Text};

/// What connecting would do, as `connect --dry-run --json` prints it (`src/cli/schemas/dry-run.json`).
#[derive(Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Preview {
    /// Name of the drive.
    drive: String,
    /// `launch` an instance; `join` the session that has the drive; `use` the instance that is up; or
    /// `none` if nothing that is wanted can be launched there.
    #[cfg_attr(test, schemars(extend("enum" = ["launch", "join", "use", "none"])))]
    action: &'static str,
    /// Instance that is joined.
    #[serde(skip_serializing_if = "Option::is_none")]
    instance: Option<String>,
    /// Steps before a launch, or on the instance that is up; in words.
    steps: Vec<String>,
    /// Source of the drive.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<Origin>,
    /// Source of the container, where that is known: what is sent for it from this computer, and with
    /// whose login it is pulled; in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    container: Option<String>,
    /// Shares that its containers would have, each with its file system and its path; in words.
    shares: Vec<String>,
    /// Ports of the host that others may reach, each with a range unless everybody may.
    ingress: Vec<String>,
    /// Id of the Elastic IP address of its hosts.
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    /// Offers, where something is launched.
    #[serde(flatten)]
    offers: Option<Offers>,
    #[serde(skip)]
    text: String,
}

/// Source of a drive.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Origin {
    /// Kind of the source.
    #[cfg_attr(test, schemars(extend("enum" = ["volume", "snapshot", "empty"])))]
    kind: &'static str,
    /// Id of the volume or snapshot.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    /// Generation.
    #[serde(skip_serializing_if = "Option::is_none")]
    generation: Option<u64>,
    /// Size of the drive.
    #[cfg_attr(test, schemars(range(min = 1)))]
    gib: GibiBytes,
    /// Zone that a waiting volume pins the drive to.
    #[serde(skip_serializing_if = "Option::is_none")]
    zone: Option<String>,
}

impl Preview {
    fn new(drive: &DriveName) -> Self {
        Self {
            drive: drive.to_string(),
            action: "launch",
            ..Self::default()
        }
    }

    /// Adds a line of text.
    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// Adds what is done before a launch: in words for people, and as `--json` has it.
    fn first(&mut self, words: &str, step: String) {
        self.line(&format!("first: {words}"));
        self.steps.push(step);
    }

    /// Adds what would be launched.
    async fn add_offers(
        &mut self,
        request: &Request,
        found: &DriveFacts,
        zone: Option<Zone>,
        cloud: &Cloud,
        reconciler: &mut Reconciler<SshHosts>,
    ) -> Result<(), Failure> {
        let terms = request.terms(found, cloud)?;
        let chosen = pools::look(&cloud.ec2, &terms).await.map_err(|error| {
            refused(
                error,
                &format!("{} connect {}", cloud.command, request.drive),
            )
        })?;
        let there = reconciler.placement().zone.clone();
        if let (Some(pinned), Some(there)) = (&zone, &there)
            && pinned != there
        {
            self.line(&format!("the subnet is in {there}: nothing is launched"));
            self.action = "none";
            return Ok(());
        }
        let zone = zone.as_ref().or(there.as_ref());
        let elsewhere = zone.and_then(|zone| pools::reserved_elsewhere(&chosen.offers, zone));
        if let (Some(words), Some(zone)) = (elsewhere, zone) {
            self.line(&format!("{words}, and not in {zone}: nothing is launched"));
            self.action = "none";
            return Ok(());
        }
        let subnets = reconciler.hosts().ingress().network().await;
        let subnets = subnets.map_err(|error| run_failure(error.into()))?;
        let mut zones = chosen.offers.iter().map(|offer| offer.pool.zone.as_ref());
        // As at a launch: one zone whose instances can be reached is enough.
        let reached = |place: Option<&Zone>| subnets.place(zone.or(place));
        if !zones.clone().any(|place| reached(place).is_ok()) {
            let places = zones.try_for_each(|place| reached(place).map(drop));
            places.map_err(|error| run_failure(error.into()))?;
        }
        if let Some(asked) = subnets.asked() {
            self.line(&asked);
        }
        if let Some(warning) = subnets.warning() {
            self.line(warning);
        }
        let disks = request.foresee_disks(found, cloud).await;
        let mut offers = Offers::new(&chosen, zone, disks);
        self.text += &request.foresee_budget(&mut offers);
        self.text += &offers.text();
        if offers.tried.is_empty() {
            self.action = "none";
        }
        self.offers = Some(offers);
        Ok(())
    }

    /// Adds what the container would be made from, where the flags, the configuration or the drive's tags
    /// say it: what would be sent from here.
    fn add_container(
        &mut self,
        request: &Request,
        found: &DriveFacts,
        cloud: &Cloud,
    ) -> Result<(), Failure> {
        let (named, options) = (request.named.as_ref(), &request.options);
        let asked = match named {
            Some(named) => named.image.as_deref().map(Asked::Here),
            None => options.image.as_deref().map(Asked::Here),
        };
        let (asked, unless) = match asked {
            Some(asked) => (asked, ", unless it was made from that"),
            None if named.is_some() => return Ok(()),
            None if request.begins_anew(found) => (Asked::Here(&cloud.image), ""),
            None => match first_image(request, &found.settings, &cloud.image) {
                Ok(asked @ Asked::Tag(_)) => (asked, ", if it has none yet"),
                // Whether it has none yet is known once it is mounted.
                Ok(Asked::Here(_)) | Err(_) => return Ok(()),
            },
        };
        let with_login = |reference: &str| match &options.logins {
            Some(_) => format!(
                "with this computer's login at {}, if there is one",
                registry(reference)
            ),
            None => "without a login".to_owned(),
        };
        let what = match asked {
            Asked::Tag(reference) => format!(
                "{reference}, which a tag of the drive names: pulled by the instance, without a login"
            ),
            Asked::Here(given) => match ImageSource::parse(given) {
                ImageSource::Archive(path) => {
                    format!("{}, sent from here", image::source_of(&path)?)
                }
                ImageSource::Folder(path) => format!(
                    "the folder of {}, sent from here and built there",
                    path.display()
                ),
                ImageSource::Reference(reference) => {
                    let login = with_login(&reference);
                    format!("{reference}, pulled by the instance, {login}")
                }
            },
        };
        self.line(&format!("the container is made from {what}{unless}"));
        self.container = Some(what);
        Ok(())
    }

    /// Adds the shares that its containers would have.
    fn add_shares(&mut self, shares: Vec<String>) {
        for share in &shares {
            self.line(&format!("its containers have the share {share}"));
        }
        self.shares = shares;
    }

    /// Adds the ports of the host that others may reach, and its address.
    fn add_ingress(&mut self, request: &Request, found: &DriveFacts) -> Result<(), Failure> {
        let wanted = ingress::wanted(request, &found.settings);
        let wanted = wanted.map_err(|error| Failure::new(Exit::Config, error))?;
        for port in &wanted {
            self.line(&port.words());
        }
        self.ingress = wanted.iter().map(OpenPort::to_string).collect();
        self.address = address::wanted(request, &found.settings)
            .map_err(|error| Failure::new(Exit::Config, error))?
            .map(String::from);
        if let Some(address) = &self.address {
            self.line(&format!("its host gets the Elastic IP address {address}"));
        }
        Ok(())
    }

    /// Adds what the drive would be made from, in a line; a new drive has `new` GiB by default, at these prices.
    fn add_origin(
        &mut self,
        request: &Request,
        found: &DriveFacts,
        pinned: Option<&Zone>,
        (new, prices): (GibiBytes, StoragePrices),
    ) {
        let drive = &request.drive;
        let wanted = request.options.launch.size.unwrap_or(0);
        let is_chosen = |head: Head| {
            request
                .options
                .config
                .once
                .from
                .as_ref()
                .is_none_or(|from| *from == head)
        };
        if let Some(zone) = pinned {
            let there = found
                .volumes
                .iter()
                .filter(|volume| volume.zone == *zone)
                .filter(|volume| is_chosen(Head::Volume(volume.id.clone())));
            if let Some((generation, volume)) = tags::newest(there, |volume| &volume.tags) {
                self.line(&format!(
                    "{}, generation {generation}, {} GiB, waits in {zone}: no other zone is of use \
                     (--leave-zone leaves it where there is no capacity)",
                    volume.id.drive_label(drive),
                    volume.size
                ));
                self.from = Some(Origin {
                    kind: "volume",
                    id: Some(volume.id.to_string()),
                    generation: Some(generation.0),
                    gib: volume.size,
                    zone: Some(zone.to_string()),
                });
            }
            return;
        }
        let usable = found
            .snapshots
            .iter()
            .filter(|snapshot| snapshot.state != SnapshotState::Error)
            .filter(|snapshot| is_chosen(Head::Snapshot(snapshot.id.clone())));
        if let Some((generation, snapshot)) = tags::newest(usable, |snapshot| &snapshot.tags) {
            let pending = match snapshot.state {
                SnapshotState::Pending => ", once that is completed",
                SnapshotState::Completed | SnapshotState::Error => "",
            };
            let gib = snapshot.size.max(wanted);
            let is_own = snapshot.tags.get(tags::DRIVE) == Some(&drive.to_string());
            let from = match &request.fork_of {
                Some(of) if !is_own => {
                    let original = snapshot.id.drive_label(&of.name);
                    format!("is new: a fork of {of}, from {original}")
                }
                _ => format!("is restored from {}", snapshot.id.short_label()),
            };
            self.line(&format!(
                "{drive} {from}, generation {generation}, {gib} GiB{pending}"
            ));
            self.from = Some(Origin {
                kind: "snapshot",
                id: Some(snapshot.id.to_string()),
                generation: Some(generation.0),
                gib,
                zone: None,
            });
            return;
        }
        let gib = request.options.launch.size.unwrap_or(new);
        self.line(&format!(
            "{drive} is new: an empty volume of {gib} GiB, about {} a month while it is a volume",
            dollars(prices.volume(gib, request.options.launch.speed))
        ));
        self.from = Some(Origin {
            kind: "empty",
            id: None,
            generation: None,
            gib,
            zone: None,
        });
    }

    /// Prints it. Returns the exit code.
    fn print(&self, json: bool) -> Result<u8, Failure> {
        if json {
            report::json(self)?;
        } else {
            report::data(&Text::block(&self.text)).map_err(anyhow::Error::from)?;
        }
        Ok(0)
    }
}

impl Request {
    /// Puts what the drive of `NAME@N` would be a fork of in the place of one that is not there yet.
    pub(super) async fn foresee_fork(
        &self,
        found: &mut DriveFacts,
        opened: &Drive,
    ) -> Result<(), Failure> {
        let Some(of) = self.fork_of.clone() else {
            return Ok(());
        };
        let (drive, command) = (&self.drive, &opened.cloud.command);
        let cloud = &opened.cloud;
        demand_fork(drive, &found.volumes, &found.snapshots, &of, cloud).await?;
        opened
            .report
            .print(&format!("this would work on {drive}, a fork of {of}"));
        let is_there = found.host.is_some()
            || found.volumes_left().next().is_some()
            || !found.snapshots.is_empty();
        if is_there {
            return Ok(());
        }
        found.snapshots = cloud.ec2.snapshots(&of.name).await?;
        let original = found.newest_readable(of.generation);
        let Some(original) = original.map(|(_, original)| original.clone()) else {
            let error = anyhow!("there is no snapshot of {of}");
            let hint = format!("{command} list {} -v shows what there is", of.name);
            return Err(Failure::new(Exit::Unavailable, error).hint(hint));
        };
        found.settings = Settings::read(&original.tags);
        found.largest = Some(original.size);
        found.snapshots = vec![original];
        Ok(())
    }
}

impl Session {
    /// Prints what connecting would do. Returns the exit code.
    pub(super) async fn preview(&mut self, found: &DriveFacts) -> Result<u8, Failure> {
        let goal = Goal::Ready {
            from: self.request.options.config.once.from.clone(),
        };
        let json = self.request.options.config.once.json;
        let drive = self.request.drive.clone();
        let mut preview = Preview::new(&drive);
        self.find_shares(found).await?;
        self.find_address(found).await?;
        self.reconciler.hosts().only_look();
        let next = match self.request.options.config.once.from {
            // A head may be missing until the lists are settled.
            Some(_) => self
                .reconciler
                .preview(&goal, None)
                .await
                .map(|(next, _)| next),
            None => match self.reconciler.peek(&goal).await {
                // What a connect would be stuck on is certain only then, too.
                Ok(Next::Wait(Waiting::Settle, _)) => self
                    .reconciler
                    .preview(&goal, None)
                    .await
                    .map(|(next, _)| next),
                next => next,
            },
        };
        let zone = match next.map_err(run_failure)? {
            Next::Stuck(stuck) => {
                return self
                    .drive
                    .report_outcome(&mut self.reconciler, Outcome::Stuck(stuck))
                    .map(|()| 0);
            }
            Next::Busy(id) => {
                preview.line(&format!(
                    "{drive} is in use on {}: joins it there",
                    id.short_label()
                ));
                preview.action = "join";
                preview.instance = Some(id.to_string());
                return preview.print(json);
            }
            Next::Wait(what, _) => {
                let wait = waiting(&what);
                preview.first(&wait, wait.clone());
                None
            }
            Next::Do(steps) => {
                let launch = steps.iter().find_map(|step| match step {
                    Step::Launch { zone, .. } => Some(zone.clone()),
                    _ => None,
                });
                match launch {
                    Some(zone) => zone,
                    None if found.host.is_some() => {
                        preview.line(&format!("{drive} is up: nothing is launched; next:"));
                        preview.action = "use";
                        preview.add_container(&self.request, found, &self.drive.cloud)?;
                        preview.add_shares(self.shares.words());
                        preview.add_ingress(&self.request, found)?;
                        for step in steps {
                            preview.line(&format!("  {}", describe_step(&step, &drive)));
                            preview.steps.push(step.to_string());
                        }
                        return preview.print(json);
                    }
                    None => {
                        for step in steps {
                            preview.first(&describe_step(&step, &drive), step.to_string());
                        }
                        zone_of(self.request.options.config.once.from.as_ref(), found)
                    }
                }
            }
            Next::Done(_) => None,
        };
        let (request, cloud) = (&self.request, &self.drive.cloud);
        let new = (cloud.size, cloud.ec2.storage_prices().await);
        preview.add_origin(request, found, zone.as_ref(), new);
        preview.add_container(&self.request, found, &self.drive.cloud)?;
        preview.add_shares(self.shares.words());
        preview.add_ingress(request, found)?;
        let reconciler = &mut self.reconciler;
        preview
            .add_offers(request, found, zone, cloud, reconciler)
            .await?;
        preview.print(json)
    }
}

/// The zone of the volume that was chosen, if one was.
fn zone_of(from: Option<&Head>, found: &DriveFacts) -> Option<Zone> {
    let Some(Head::Volume(id)) = from else {
        return None;
    };
    let chosen = found.volumes.iter().find(|volume| volume.id == *id);
    chosen.map(|volume| volume.zone.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_the_committed_schema() {
        let (title, description) = (
            "xdrive connect --dry-run --json",
            "What connecting would do.",
        );
        crate::report::schema::check::<Preview>("dry-run", title, description);
    }
}
