//! `connect --dry-run`: prints the drive's state, and what would be launched at what price; changes
//! nothing.
//!
//! Looks, plans and chooses by the same code as a real connect. Printed to standard output.

use std::fmt::Write as _;

use super::preflight::DriveFacts;
use super::{Session, outcome, progress};
use crate::drive::plan::{Next, Step};
use crate::drive::pools::{self};
use crate::drive::stuck::{Head, volume_cents};
use crate::drive::tags;
use crate::drive::{Goal, Outcome};
use crate::ec2::{SnapshotState, Zone};
use crate::failure::Failure;
use crate::launch::failure::refused;
use crate::launch::offers::{self, dollars};
use crate::report;

impl Session {
    /// Prints what connecting would do. Returns the exit code.
    pub(super) async fn preview(&mut self, found: &DriveFacts) -> Result<u8, Failure> {
        let goal = Goal::Ready {
            from: self.request.from.clone(),
        };
        self.reconciler.hosts().only_look();
        let next = match self.request.from {
            // A head may be missing until the lists are settled.
            Some(_) => self
                .reconciler
                .preview(&goal, None)
                .await
                .map(|(next, _)| next),
            None => self.reconciler.peek(&goal).await,
        };
        let mut text = String::new();
        let zone = match next.map_err(outcome::run_failure)? {
            Next::Stuck(stuck) => return self.report_outcome(Outcome::Stuck(stuck)).map(|()| 0),
            Next::Busy(id) => {
                let _ = writeln!(
                    text,
                    "{} is in use on {id}: joins it there",
                    self.request.drive
                );
                return print(&text);
            }
            Next::Wait(what, _) => {
                let _ = writeln!(text, "first: {}", progress::waiting(&what));
                None
            }
            Next::Do(steps) => {
                let launch = steps.iter().find_map(|step| match step {
                    Step::Launch { zone } => Some(zone.clone()),
                    _ => None,
                });
                match launch {
                    Some(zone) => zone,
                    None if found.live.is_some() => {
                        let _ = writeln!(
                            text,
                            "{} is up: nothing is launched; next:",
                            self.request.drive
                        );
                        for step in steps {
                            let _ = writeln!(text, "  {step}");
                        }
                        return print(&text);
                    }
                    None => {
                        for step in steps {
                            let _ = writeln!(text, "first: {step}");
                        }
                        zone_of(self.request.from.as_ref(), found)
                    }
                }
            }
            Next::Done(_) => None,
        };
        text.push_str(&self.origin(found, zone.as_ref()));
        let terms = self.terms_of(found)?;
        let chosen = pools::look(&self.cloud.ec2, &terms)
            .await
            .map_err(|error| {
                refused(
                    error,
                    &format!("{} connect {}", self.cloud.command, self.request.drive),
                )
            })?;
        let there = self.reconciler.placement().zone.clone();
        if let (Some(pinned), Some(there)) = (&zone, &there)
            && pinned != there
        {
            let _ = writeln!(text, "the subnet is in {there}: nothing is launched");
            return print(&text);
        }
        let subnets = self.reconciler.hosts().ingress().network().await;
        let zone = zone.as_ref().or(there.as_ref());
        let subnets = subnets.map_err(|error| outcome::run_failure(error.into()))?;
        let mut zones = chosen.offers.iter().map(|offer| offer.pool.zone.as_ref());
        // As at a launch: one zone whose instances can be reached is enough.
        let reached = |place: Option<&Zone>| subnets.place(zone.or(place));
        if !zones.clone().any(|place| reached(place).is_ok()) {
            let places = zones.try_for_each(|place| reached(place).map(drop));
            places.map_err(|error| outcome::run_failure(error.into()))?;
        }
        if let Some(asked) = subnets.asked() {
            let _ = writeln!(text, "{asked}");
        }
        let size = self.request.options.size.unwrap_or(self.cloud.size);
        // `check_request` has refused one that cannot be parsed.
        let own = found.settings.speed().unwrap_or_default();
        let speed = self.request.options.speed.or(own);
        text.push_str(&offers::list(&chosen, zone, size, speed));
        print(&text)
    }

    /// The source of the drive's volume, in a line.
    fn origin(&self, found: &DriveFacts, pinned: Option<&Zone>) -> String {
        let (request, cloud) = (&self.request, &self.cloud);
        let drive = &self.request.drive;
        let wanted = request.options.size.unwrap_or(0);
        let is_chosen = |head: Head| request.from.as_ref().is_none_or(|from| *from == head);
        if let Some(zone) = pinned {
            let there = found
                .volumes
                .iter()
                .filter(|volume| volume.zone == *zone)
                .filter(|volume| is_chosen(Head::Volume(volume.id.clone())));
            let newest = tags::newest(there, |volume| &volume.tags);
            return newest.map_or_else(String::new, |(generation, volume)| {
                format!(
                    "{drive} is {}, generation {generation}, {} GiB, waiting in {zone}: no other \
                     zone is of use (--leave-zone leaves it where there is no capacity)\n",
                    volume.id, volume.size
                )
            });
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
            return format!(
                "{drive} is restored from {}, generation {generation}, {} GiB{pending}\n",
                snapshot.id,
                snapshot.size.max(wanted)
            );
        }
        let size = request.options.size.unwrap_or(cloud.size);
        format!(
            "{drive} is new: an empty volume of {size} GiB, about {} a month while it is a volume\n",
            dollars(volume_cents(size) + request.options.speed.cents())
        )
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

fn print(text: &str) -> Result<u8, Failure> {
    report::data(text).map_err(anyhow::Error::from)?;
    Ok(0)
}
