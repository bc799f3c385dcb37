//! The handle of a drive that a command has opened: its name, its cloud, and its parts.
//!
//! A drive belongs to the owner in the tags of its newest part. Callers of one account see each
//! other's drives; the check here keeps them from using, or ending, another's by a mistyped name. It
//! protects against mistakes; IAM decides rights.

use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;

use anyhow::{Context as _, anyhow};
use tokio::sync::{mpsc, watch};

use super::facts::{self, DriveFacts};
use super::lookup::{self, Listing, may_retry, report_retry};
use super::progress::ProgressPrinter;
use super::prompt::{ask, or_interrupted};
use crate::access::SshHosts;
use crate::access::ingress::Ingress;
use crate::access::lease::{LEASE, LeaseContext, News};
use crate::asleep::Reading;
use crate::cloud::Cloud;
use crate::config::{Reach, check_tags};
use crate::drive::event::Event;
use crate::drive::reconcile::Placement;
use crate::drive::stuck::Head;
use crate::drive::tags::{self, Identity, Settings};
use crate::drive::{Goal, Hosts, Outcome, Reconciler, Wanted};
use crate::ec2::{Instance, Ownership, Subnet, Tags};
use crate::failure::{Exit, Failure};
use crate::ids::{ContainerName, DriveIn, DriveName};
use crate::report::Report;
use crate::signals::{End, Job, Signal, Signals};
use crate::ssh::UserKey;

/// The remedy for another's drive.
const SHARED: &str = "--shared uses it all the same";

/// The drive that a command opens, and how.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct Opening {
    /// The drive, and the container of it that is meant.
    pub(crate) place: DriveIn<DriveName>,
    /// Whether the drive may be another caller's.
    pub(crate) shared: bool,
    /// The head to use where the lineage has forked.
    pub(crate) from: Option<Head>,
    /// Whether every question is answered with yes, and not asked.
    pub(crate) yes: bool,
    /// Whether results and failures are JSON.
    pub(crate) json: bool,
    /// Whether nothing is changed: then signals are not received.
    pub(crate) dry_run: bool,
    /// Whether the process works on others at the same time, so that lines begin with the name.
    pub(crate) is_one_of_many: bool,
}

impl Opening {
    /// The opening of the drive or container at `place`, without flags.
    pub(crate) fn new(place: DriveIn<DriveName>) -> Self {
        Self {
            place,
            shared: false,
            from: None,
            yes: false,
            json: false,
            dry_run: false,
            is_one_of_many: false,
        }
    }
}

/// A drive that a command has opened.
pub(crate) struct Drive {
    pub(crate) name: DriveName,
    /// The container that is meant; none for the main one.
    pub(crate) container: Option<ContainerName>,
    pub(crate) cloud: Cloud,
    pub(crate) report: Report,
    pub(crate) signals: Signals,
    /// The run of xdrive, and for whom it runs.
    pub(crate) identity: Identity,
    /// The parts of the drive that EC2 listed; empty for one that was not looked at.
    pub(crate) facts: DriveFacts,
    pub(crate) json: bool,
    /// Whether any step of the plan was finished.
    pub(super) acted: Rc<Cell<bool>>,
    /// The calls that reading it asleep took on the way to its session.
    pub(crate) read: Cell<Reading>,
    shared: bool,
    from: Option<Head>,
    yes: bool,
}

impl Drive {
    /// Opens a drive of `cloud`: lists its parts, and refuses one that is another caller's. The
    /// caller's identity comes from STS, the lists from EC2, and neither waits for the other's
    /// connection.
    pub(crate) async fn open(opening: Opening, cloud: Cloud) -> Result<Self, Failure> {
        let (ec2, name) = (cloud.ec2.clone(), opening.place.drive.clone());
        let (drive, listing) =
            tokio::join!(Self::begin(opening, cloud), Listing::read(&ec2, &name));
        let mut drive = drive?;
        drive.look(listing).await?;
        Ok(drive)
    }

    /// Opens a drive without a look at its parts, for what the loop alone decides.
    pub(crate) async fn begin(opening: Opening, cloud: Cloud) -> Result<Self, Failure> {
        let report = if opening.is_one_of_many {
            Report::labelled(opening.place.drive.as_str())
        } else {
            Report::stderr()
        };
        let identity = lookup::identity(&cloud, &report).await?;
        // Up to here nothing was made that a signal could leave behind.
        let signals = if opening.dry_run {
            Signals::none()
        } else {
            Signals::install().context("cannot listen to signals")?
        };
        Ok(Self {
            name: opening.place.drive,
            container: opening.place.container,
            cloud,
            report,
            signals,
            identity,
            facts: DriveFacts::default(),
            json: opening.json,
            acted: Rc::new(Cell::new(false)),
            read: Cell::default(),
            shared: opening.shared,
            from: opening.from,
            yes: opening.yes,
        })
    }

    /// The drive and the container that are meant, as they are typed.
    pub(crate) fn place(&self) -> DriveIn<DriveName> {
        DriveIn {
            drive: self.name.clone(),
            container: self.container.clone(),
        }
    }

    /// Lists the drive's parts again.
    pub(crate) async fn look_again(&mut self) -> Result<(), Failure> {
        let listing = Listing::read(&self.cloud.ec2, &self.name).await;
        self.look(listing).await
    }

    /// Takes the facts from this `listing`. One that EC2 throttles is retried, by the limits of the
    /// loop. A signal ends the pause before a retry, and with it the command.
    async fn look(&mut self, mut listing: Result<Listing, Failure>) -> Result<(), Failure> {
        let mut failures = 0;
        loop {
            let checked = listing.and_then(|listing| self.check(&listing).map(|()| listing));
            let failure = match checked {
                Ok(listing) => {
                    self.facts = DriveFacts::read(listing, self.from.as_ref());
                    return Ok(());
                }
                Err(failure) if may_retry(&failure, &mut failures, &self.cloud.timing) => failure,
                Err(failure) => return Err(failure),
            };
            report_retry(&self.report, &failure);
            let pause = tokio::time::sleep(self.cloud.timing.pause(failures));
            or_interrupted(&mut self.signals, &self.report, pause).await?;
            listing = Listing::read(&self.cloud.ec2, &self.name).await;
        }
    }

    /// Refuses a drive that is another caller's, unless it may be.
    fn check(&self, listing: &Listing) -> Result<(), Failure> {
        let live = facts::live(listing);
        if let Some(live) = live {
            let parts = listing.volumes.iter().map(|volume| &volume.tags);
            let parts = parts.chain(listing.snapshots.iter().map(|snapshot| &snapshot.tags));
            self.refuse_nobodys(live, parts)?;
        }
        let newest = || facts::newest(&listing.volumes, &listing.snapshots);
        match live.map(|instance| &instance.tags).or_else(newest) {
            Some(tags) => self.check_owner(tags::owner(tags), live.is_some()),
            None => Ok(()),
        }
    }

    /// Refuses an instance without an owner that says it is of a drive which has one: xdrive launches
    /// none like that.
    fn refuse_nobodys<'a>(
        &self,
        live: &Instance,
        mut parts: impl Iterator<Item = &'a Tags>,
    ) -> Result<(), Failure> {
        let is_nobodys = !tags::has_owner(&live.tags) && parts.any(tags::has_owner);
        if !is_nobodys || self.shared {
            return Ok(());
        }
        let error = anyhow!(
            "{} has no owner, and the drive has one",
            live.id.drive_label(&self.name)
        );
        Err(Failure::new(Exit::Denied, error).hint(SHARED))
    }

    /// Refuses a drive whose `owner` is another caller, unless it may be shared. A drive without an
    /// owner is anybody's. An owner that is the caller's role without a session name (in older tags)
    /// may be a colleague: the drive is the caller's unless it `is_used`, and has the caller's name
    /// from then on.
    pub(crate) fn check_owner(&self, owner: &str, is_used: bool) -> Result<(), Failure> {
        if self.shared || owner.is_empty() {
            return Ok(());
        }
        let (drive, caller) = (&self.name, &self.identity.caller);
        match Ownership::from_tag(owner, caller) {
            Ownership::Own => Ok(()),
            Ownership::OfRole if !is_used => {
                self.report.print(&format!(
                    "{drive} is {owner}'s, a role without a person's name: taken for yours"
                ));
                Ok(())
            }
            Ownership::OfRole => Err(Failure::new(
                Exit::Denied,
                anyhow!("{drive} is in use by {owner}, a role without a person's name"),
            )
            .hint(SHARED)),
            Ownership::Other => Err(Failure::new(
                Exit::Denied,
                anyhow!("{drive} is {owner}'s, and you are {caller}"),
            )
            .hint(SHARED)),
        }
    }

    /// Asks a yes/no question, with a `default` for an empty line; a yes if the user answered all with
    /// it.
    pub(crate) async fn ask(&mut self, question: &str, default: bool) -> bool {
        if self.yes {
            self.report.print(&format!("{question} yes"));
            return true;
        }
        ask(&mut self.signals, &self.report, question, default).await
    }

    /// Whether every question is answered with yes.
    pub(crate) fn answers_yes(&self) -> bool {
        self.yes
    }

    /// The tags of the account's own for what is made: those of the cloud's configuration, and
    /// `typed` ones over them. Refuses more than EC2 takes.
    pub(crate) fn own_tags(&self, typed: &Tags) -> Result<Tags, Failure> {
        let mut own = self.cloud.tags.clone();
        own.extend(typed.clone());
        check_tags(own.len()).map_err(|why| Failure::new(Exit::Usage, anyhow!(why)))?;
        Ok(own)
    }

    /// The orders for a command that launches nothing: the account's own tags on what it saves or
    /// copies.
    pub(crate) fn wanted(&self) -> Result<Wanted, Failure> {
        Ok(Wanted {
            offers: Vec::new(),
            size: self.cloud.size,
            lease: LEASE,
            settings: Settings::default().with_own(&self.own_tags(&Tags::new())?),
            new_settings: Settings::default(),
            note: None,
            placement: Placement::default(),
        })
    }

    /// A printer of what the loop does with this drive.
    pub(crate) fn progress(&self) -> ProgressPrinter {
        let (name, report, ec2) = (&self.name, &self.report, &self.cloud.ec2);
        ProgressPrinter::new(name.clone(), report.clone(), Rc::default(), ec2.clone())
    }

    /// The drive's hosts over SSH, for this caller's `key`; launches go to `subnet`, if one is named.
    /// Returns them with the announcements of hosts, and the results of renewing their leases.
    pub(crate) fn hosts(
        &self,
        key: UserKey,
        subnet: Option<Subnet>,
        reach: Reach,
    ) -> (SshHosts, mpsc::UnboundedReceiver<News>) {
        let (sender, news) = mpsc::unbounded_channel();
        let (ec2, clock) = (&self.cloud.ec2, &self.cloud.clock);
        let context = LeaseContext {
            ec2: ec2.clone(),
            clock: clock.clone(),
            news: sender,
            idle: None,
        };
        let ingress = Ingress::new(
            ec2.clone(),
            clock.clone(),
            self.report.clone(),
            &self.identity.owner,
            &key,
            subnet,
            reach,
        );
        (SshHosts::new(key, ingress, context), news)
    }

    /// The loop over this drive, with these hosts. Makes no call.
    pub(crate) fn reconciler<H: Hosts>(
        &self,
        hosts: H,
        wanted: Wanted,
        mut progress: ProgressPrinter,
    ) -> Reconciler<H> {
        let acted = Rc::clone(&self.acted);
        Reconciler::new(
            self.name.clone(),
            self.identity.clone(),
            self.cloud.ec2.clone(),
            hosts,
            self.cloud.clock.clone(),
            self.cloud.timing.clone(),
            wanted,
            move |event| {
                if let Event::Finished { .. } = event {
                    acted.set(true);
                }
                progress.print(event);
            },
        )
    }

    /// Runs towards `goal`, and never drops the run: signals are counted, and the run decides where
    /// it may stop. Returns the outcome, and the first signal that asked for the end.
    pub(crate) async fn run<H: Hosts>(
        &mut self,
        reconciler: &mut Reconciler<H>,
        goal: Goal,
    ) -> (Outcome, Option<End>) {
        let ec2 = self.cloud.ec2.clone();
        // Asked for now: what is made and left later is priced, and nothing waits for it.
        tokio::spawn(async move { ec2.storage_prices().await });
        let (interrupts, mut interrupted) = watch::channel(0);
        // A closed terminal or a SIGTERM asks for the save, which is under way already; only a
        // person at the keyboard may stop waiting for it.
        let saving = !goal.is_mounted() && !goal.goes_on_later();
        let mut asked = None;
        let mut ticking = pin!(self.report.keep_ticking());
        let mut work = pin!(reconciler.run(goal, &mut interrupted));
        loop {
            tokio::select! {
                outcome = &mut work => return (outcome, asked),
                () = &mut ticking => {}
                signal = self.signals.next() => match signal {
                    Signal::End(end) => {
                        let interrupts_work = match end {
                            End::Interrupt { .. } => true,
                            // A closed terminal may send both: neither asks to leave things behind.
                            End::Terminate | End::Hangup => !saving && asked.is_none(),
                        };
                        asked.get_or_insert(end);
                        if interrupts_work {
                            interrupts.send_modify(|count| *count += 1);
                        }
                    }
                    // The shell shows that it stopped xdrive; the cloud cannot be stopped.
                    Signal::Job(Job::Suspend) => self.report.suspend(),
                    Signal::Job(Job::Continue) | Signal::Resize => {}
                },
            }
        }
    }
}
