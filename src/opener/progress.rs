//! The reconciler's events, printed: a line for a step under way, and one for a finished step.
//!
//! Every line names a resource before its id, `demo's volume (vol-…)`. A step's line is short enough
//! for a terminal of 80 columns with its time and a short name; a wait's says what it waits for.

use std::cell::Cell;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::console;
use crate::drive::Source;
use crate::drive::event::Event;
use crate::drive::plan::{Step, Waiting};
use crate::drive::pools::Offer;
use crate::drive::tags::SnapshotKind;
use crate::ec2::{Ec2, GibiBytes, Speed, StatusChecks};
use crate::ids::{DriveName, InstanceId, SnapshotId, VolumeId};
use crate::launch::cost::{Disks, burst_cost_note, dollars};
use crate::report::{self, Report};

/// Prints the reconciler's events to a report.
pub(crate) struct ProgressPrinter {
    drive: DriveName,
    report: Report,
    steps: HashMap<Step, report::Step>,
    waits: HashMap<Waiting, report::Step>,
    /// The offer of the instance that was launched last.
    launched: Option<(String, Box<Offer>)>,
    /// The offer that was printed last.
    announced: Option<Box<Offer>>,
    /// The speed of the drive's volume; empty until it is settled.
    speed: Rc<Cell<Speed>>,
    ec2: Ec2,
    /// Whether the session saves nothing.
    pub(crate) discards: bool,
    /// Where the id of an instance goes as soon as it is launched.
    pub(crate) launching: Option<mpsc::UnboundedSender<String>>,
}

impl ProgressPrinter {
    pub(crate) fn new(drive: DriveName, report: Report, speed: Rc<Cell<Speed>>, ec2: Ec2) -> Self {
        Self {
            drive,
            report,
            steps: HashMap::new(),
            waits: HashMap::new(),
            launched: None,
            announced: None,
            speed,
            ec2,
            discards: false,
            launching: None,
        }
    }

    #[expect(clippy::too_many_lines, reason = "one match, an arm an event")]
    pub(crate) fn print(&mut self, event: Event) {
        let drive = &self.drive;
        match event {
            Event::Started(step) => {
                if let Step::Snapshot {
                    kind: SnapshotKind::Crashed,
                    ..
                } = step
                {
                    self.report
                        .print("the drive was not closed by its last host: saving what was synced");
                }
                let running = self.report.step(describe_step(&step, drive));
                self.steps.insert(step, running);
            }
            Event::Finished { step, made, .. } => {
                let line = done(&step, made.as_deref(), drive);
                if let (Some(running), Some(mut line)) = (self.steps.remove(&step), line) {
                    if let (Step::Launch { .. }, Some((id, offer))) = (&step, self.launched.take())
                        && made == Some(id)
                    {
                        let pool = &offer.pool;
                        line = format!("{line}, {} {}", pool.instance_type, pool.market);
                    }
                    running.done(&line);
                }
            }
            Event::Launching { offer, size } => self.print_offer(offer, size),
            Event::Launched { made, offer } => {
                if let Some(launching) = &self.launching {
                    // Nobody may follow it.
                    let _ = launching.send(made.clone());
                }
                self.launched = Some((made, offer));
            }
            Event::Failed { step, error, again } => {
                self.steps.remove(&step);
                // An error that ends the run is reported at its end.
                if again {
                    let step = describe_step(&step, drive);
                    self.report
                        .print(&format!("could not {step}, trying again: {error}"));
                }
            }
            Event::LookFailed(error) => self.report.print(&format!(
                "could not look at the drive, trying again: {error}"
            )),
            Event::Waiting(what) => {
                let running = self.report.step(waiting(&what));
                self.waits.insert(what, running);
            }
            Event::Waited { what, came, .. } => {
                if let (Some(running), Some(line)) =
                    (self.waits.remove(&what), describe_wait_end(&what, drive))
                    && came
                {
                    running.done(&line);
                }
            }
            Event::NoCapacity {
                pool,
                error,
                reached,
            } => {
                let mut words = format!("no {pool} to be had: {error}");
                if let Some(reached) = reached {
                    let _ = write!(words, "\n  {reached}");
                    if let Some(command) = reached.command() {
                        let _ = write!(words, "\n  {command}  asks for more");
                    }
                }
                self.report.print(&words);
            }
            Event::NotEligible { instance_type } => self.report.print(&format!(
                "this account is on AWS's Free plan, which launches only types that the free tier \
                 has: {instance_type} is none of them"
            )),
            Event::RootAsItIs { image } => self.report.print(&root_as_it_is(&image)),
            Event::LeftOut(left_out) => self.report.print(&left_out.to_string()),
            Event::NewDrive { size, cost } => self.report.note(&format!(
                "a new drive: empty, {size} GiB, about {} a month while it is a volume",
                dollars(cost)
            )),
            Event::EndedByItself { instance, reason } => {
                let why = reason.as_deref().unwrap_or("EC2 does not say why");
                let instance = instance.drive_label(drive);
                self.report
                    .print(&format!("{instance} ended by itself: {why}"));
            }
            Event::Silent {
                instance,
                since,
                why,
            } => self.report.print(&format!(
                "{} has been running for {} s and cannot be logged in to: {why}\n  if it stays so, \
                 something on the way may keep port 22 shut: a network ACL, a firewall, a VPN",
                instance.drive_label(drive),
                since.as_secs()
            )),
            Event::Checks {
                instance,
                checks,
                limit,
            } => self.print_checks(&instance, checks, limit),
            Event::Unchecked { instance, why } => self.report.print(&format!(
                "could not read EC2's status checks of {}, going by time alone: {why}",
                instance.drive_label(drive)
            )),
            Event::Console { instance, text } => {
                let (instance, end) = (instance.drive_label(drive), console::end(&text));
                self.report.print(&if end.is_empty() {
                    format!("{instance} wrote nothing to its console")
                } else {
                    format!("the end of the console of {instance}:\n{end}")
                });
            }
            Event::Unverified { snapshot, why } => self.report.print(&format!(
                "could not look into {}, going on without: {why}",
                snapshot.drive_label(drive)
            )),
            Event::OriginGone(volume) => self.report.print(&format!(
                "{} is kept: it was to be thrown away, but the snapshot that it was made from is \
                 gone, and nothing else may have that state\n  aws ec2 delete-volume --volume-id \
                 {volume}  deletes it",
                volume.drive_label(drive)
            )),
            // The shell's screen is on the terminal.
            Event::Checkpoint { .. } | Event::CheckpointSkipped(_) if crate::terminal::is_raw() => {
            }
            Event::Checkpoint { snapshot, .. } => {
                self.report.note(&format!(
                    "took a checkpoint: {}",
                    snapshot.drive_label(drive)
                ));
            }
            Event::CheckpointSkipped(why) => {
                self.report.print(&format!("no checkpoint: {why}"));
            }
            Event::CannotStop if self.discards => self.report.print(
                "cannot stop here: the instance still runs, and is billed until it is terminated",
            ),
            Event::CannotStop => self.report.print(
                "cannot stop here: the drive is not saved yet, and stopping could lose data",
            ),
            Event::Ending => self
                .report
                .print("interrupted: ending what was begun; the drive is kept"),
        }
    }
}

impl ProgressPrinter {
    /// Prints EC2's status checks, and shows them in the step that waits for the host.
    fn print_checks(&mut self, instance: &InstanceId, checks: StatusChecks, limit: Duration) {
        for (what, running) in &self.waits {
            if let Waiting::Host(id) | Waiting::OtherStarting(id) = what
                && id == instance
            {
                running.now(format!("{}; EC2's checks: {checks}", waiting(what)));
            }
        }
        let (instance, words) = (instance.drive_label(&self.drive), checked(checks, limit));
        self.report
            .print(&format!("EC2's status checks of {instance}: {words}"));
    }

    /// The disks of an instance and of a drive of `size`.
    fn disks(&self, size: GibiBytes) -> Disks {
        Disks {
            size,
            speed: self.speed.get(),
            prices: self.ec2.known_storage_prices(),
        }
    }

    /// Prints an offer before its launch; its additional costs once for each type and market.
    fn print_offer(&mut self, offer: Box<Offer>, size: GibiBytes) {
        let what = |offer: &Offer| (offer.kind.name.clone(), offer.pool.market);
        let is_known = self.announced.as_ref().map(|known| what(known)) == Some(what(&offer));
        let (kind, pool) = (&offer.kind, &offer.pool);
        let place = pool.zone.as_ref().map(|zone| format!(" in {zone}"));
        self.report.note(&format!(
            "launching {}, {}, {}{}, {}",
            kind.name,
            kind.arch,
            pool.market_words(),
            place.unwrap_or_default(),
            offer.price_words(),
        ));
        if !is_known {
            self.report
                .note(&format!("  {}", self.disks(size).beside_words()));
            if let Some(surplus) = burst_cost_note(kind) {
                self.report.note(&format!("  {surplus}"));
            }
        }
        self.announced = Some(offer);
    }
}

/// EC2's status checks of a host that does not answer, and what follows from them.
fn checked(checks: StatusChecks, limit: Duration) -> String {
    let more = if checks.are_initializing() {
        format!(
            "\n  it boots still, which large and metal types take long for: it has {} min from its \
             launch",
            limit.as_secs() / 60
        )
    } else if checks.are_impaired() {
        "\n  it has not booted as it should".to_owned()
    } else {
        String::new()
    };
    format!("{checks}{more}")
}

/// The warning of an image whose root device is not known.
fn root_as_it_is(image: &str) -> String {
    format!(
        "{image} has another root device than Amazon Linux: its root disk is not encrypted (the \
         drive is); --ami ami-… names an image that can be looked up"
    )
}

/// A step under way, or to come. The instance of an attachment is left out: a line with two ids is
/// too long for a terminal.
pub(crate) fn describe_step(step: &Step, drive: &DriveName) -> String {
    match step {
        Step::Launch { .. }
        | Step::CreateVolume {
            from: Source::Empty,
            ..
        } => step.to_string(),
        Step::CreateVolume {
            zone,
            from: Source::Snapshot(id, _) | Source::Throwaway(id, _),
        } => format!("restore {} in {zone}", id.drive_label(drive)),
        Step::Claim(instance) => format!("log in to {}", instance.drive_label(drive)),
        Step::Raise { volume, to } => {
            format!("announce generation {to} on {}", volume.drive_label(drive))
        }
        Step::Attach { volume, .. } | Step::AttachThrowaway { volume, .. } => {
            format!("attach {}", volume.drive_label(drive))
        }
        Step::Mount { order, .. } => format!("mount {}", order.volume.drive_label(drive)),
        Step::MarkFormatted { volume, .. } => {
            format!("record that {} is formatted", volume.drive_label(drive))
        }
        Step::MarkUuid { volume, .. } => {
            format!("record the file system of {}", volume.drive_label(drive))
        }
        Step::Verify { snapshot, .. } => format!("verify {}", snapshot.drive_label(drive)),
        Step::KeepOnTermination { instance, device } => {
            format!(
                "keep {device} of {} when it ends",
                instance.drive_label(drive)
            )
        }
        Step::Close { instance, .. } => format!("close {drive} on {}", instance.short_label()),
        Step::Snapshot { volume, .. } => format!("snapshot {}", volume.drive_label(drive)),
        Step::Detach { volume, .. } => format!("detach {}", volume.drive_label(drive)),
        Step::ShowConsole(instance) => {
            format!("read the console of {}", instance.drive_label(drive))
        }
        Step::Terminate(quiet) => format!("terminate {}", quiet.instance().drive_label(drive)),
        Step::DeleteVolume(spent) => format!("delete {}", spent.volume().drive_label(drive)),
        Step::DeleteSnapshot(failed) => {
            format!("delete {}", unwanted(failed.snapshot(), drive, "failed"))
        }
        Step::Prune(old) => format!("delete {}", unwanted(old.snapshot(), drive, "superseded")),
        Step::Mark { snapshot, leaving } => {
            format!("mark {} as {leaving}", snapshot.drive_label(drive))
        }
        Step::Rename { snapshot, to } => format!("give {} to {to}", snapshot.drive_label(drive)),
        Step::Erase(grounds) => format!("delete {}", grounds.snapshot().drive_label(drive)),
        Step::CopySnapshot(order) => format!("copy {}", order.source.label()),
        Step::Fork { head, .. } => format!("keep {} as a fork", head.drive_label(drive)),
    }
}

/// A snapshot that is deleted, and why.
fn unwanted(id: &SnapshotId, drive: &DriveName, why: &str) -> String {
    id.after(format_args!("{drive}'s {why}"))
}

/// The line of a finished step; none for steps that only write tags.
fn done(step: &Step, made: Option<&str>, drive: &DriveName) -> Option<String> {
    let made = made.unwrap_or_default();
    Some(match step {
        Step::Launch { .. } => {
            let made: InstanceId = made.parse().ok()?;
            format!("launched {}", made.drive_label(drive))
        }
        Step::CreateVolume { from, .. } => {
            let made: VolumeId = made.parse().ok()?;
            let from = match from {
                Source::Empty => ", empty",
                Source::Snapshot(..) => " from its snapshot",
                Source::Throwaway(..) => ", to be thrown away",
            };
            format!("created {}{from}", made.drive_label(drive))
        }
        Step::Claim(instance) => format!("logged in to {}", instance.drive_label(drive)),
        Step::Attach { volume, .. } | Step::AttachThrowaway { volume, .. } => {
            format!("attached {}", volume.drive_label(drive))
        }
        Step::Mount { order, .. } => format!("mounted, generation {}", order.generation),
        Step::Close {
            volume: Some((volume, _)),
            ..
        } => format!("container stopped, {} unmounted", volume.drive_label(drive)),
        Step::Close { volume: None, .. } => "closed the host".to_owned(),
        Step::Snapshot { .. } => {
            let made: SnapshotId = made.parse().ok()?;
            format!("started {}", made.drive_label(drive))
        }
        Step::Detach { volume, .. } => format!("detached {}", volume.drive_label(drive)),
        Step::Terminate(quiet) => format!("terminated {}", quiet.instance().drive_label(drive)),
        Step::DeleteVolume(spent) => format!("deleted {}", spent.volume().drive_label(drive)),
        Step::DeleteSnapshot(failed) => {
            format!("deleted {}", unwanted(failed.snapshot(), drive, "failed"))
        }
        Step::Prune(old) => format!("deleted {}", unwanted(old.snapshot(), drive, "superseded")),
        Step::Erase(grounds) => format!("deleted {}", grounds.snapshot().drive_label(drive)),
        Step::Rename { snapshot, to } => format!("gave {} to {to}", snapshot.drive_label(drive)),
        Step::CopySnapshot(_) => format!("copying to {drive}'s snapshot ({made})"),
        Step::Fork { head, .. } => format!("kept {} as {made}", head.drive_label(drive)),
        Step::Verify { .. } if made.is_empty() => return None,
        Step::Verify { snapshot, .. } => format!("verified {}", snapshot.drive_label(drive)),
        Step::Raise { .. }
        | Step::MarkUuid { .. }
        | Step::MarkFormatted { .. }
        | Step::KeepOnTermination { .. }
        | Step::Mark { .. }
        | Step::ShowConsole(_) => return None,
    })
}

/// The line of a wait.
pub(crate) fn waiting(what: &Waiting) -> String {
    match what {
        Waiting::Settle => "wait until EC2's lists are settled".to_owned(),
        Waiting::Host(id) => format!("wait for the instance to boot ({id})"),
        Waiting::OtherStarting(id) => {
            format!("wait for the instance that another xdrive launched ({id})")
        }
        Waiting::Closing(id) => format!("wait for the instance to close the drive ({id})"),
        Waiting::Volume(id) => format!("wait for the volume to be made ({id})"),
        Waiting::Attaching(id) => format!("wait for the volume to be attached ({id})"),
        Waiting::Release(id) => format!("wait for the volume to be detached ({id})"),
        Waiting::Copy(id) => format!("wait for the snapshot to be completed ({id})"),
        Waiting::Verdict(id) => format!("wait to look into the snapshot ({id})"),
        Waiting::SnapshotGap(id) => {
            format!("wait until the volume may be snapshotted again ({id})")
        }
        Waiting::Taking(id) => {
            format!("let EC2 take {id}, unbilled; Ctrl-C ends it")
        }
        Waiting::Termination(id) => format!("wait for the instance to be terminated ({id})"),
        Waiting::Lease(id, until) => format!(
            "wait for the instance to switch itself off ({id}): it does not answer, and its \
             lease ends at {until:.0}; Ctrl-C leaves it to that"
        ),
    }
}

/// The line after a wait; none if the next step's own line says it.
fn describe_wait_end(what: &Waiting, drive: &DriveName) -> Option<String> {
    match what {
        Waiting::Host(id) => Some(format!("{} is up", id.drive_label(drive))),
        Waiting::Copy(id) => Some(format!("{} is completed", id.drive_label(drive))),
        Waiting::Closing(id) => Some(format!("{} has closed the drive", id.drive_label(drive))),
        Waiting::Taking(id) | Waiting::Termination(id) => {
            Some(format!("{} is terminated", id.drive_label(drive)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
