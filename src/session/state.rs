//! The state of a running session, how it begins, and how it runs towards a goal.

use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;

use anyhow::{Context as _, anyhow};
use tokio::sync::{mpsc, watch};

use super::lookup::{self, Listing};
use super::progress::ProgressPrinter;
use super::request::Request;
use crate::access::SshHosts;
use crate::access::ingress::Ingress;
use crate::access::lease::{LeaseContext, News};
use crate::clock::BootTime;
use crate::cloud::Cloud;
use crate::config::{GitUser, check_tags};
use crate::drive::event::Event;
use crate::drive::reconcile::Placement;
use crate::drive::tags::Settings;
use crate::drive::{Goal, Outcome, Reconciler, Wanted, pools};
use crate::ec2::Speed;
use crate::failure::{Exit, Failure};
use crate::host::container::{self, CommandId};
use crate::report::Report;
use crate::signals::{End, Job, Signal, Signals};
use crate::ssh::UserKey;
use crate::ssh::shell::Unconfirmed;
use crate::terminal;

/// A running session.
pub(super) struct Session {
    pub(super) request: Request,
    pub(super) cloud: Cloud,
    pub(super) report: Report,
    pub(super) signals: Signals,
    pub(super) reconciler: Reconciler<SshHosts>,
    /// The caller's ARN, as the `xdrive:owner` tag has it.
    pub(super) owner: String,
    /// Whether the user agreed to wait for a session that this laptop cannot join.
    pub(super) waits_for_others: bool,
    /// The requested speed of the drive's volume; the options' alone until the drive's settings are
    /// read.
    pub(super) speed: Rc<Cell<Speed>>,
    /// The drive's own settings, as they were read from its tags; none until the drive was checked.
    pub(super) recorded: Settings,
    /// The terms of a launch; none until the drive was checked, and for `stop`.
    pub(super) terms: Option<pools::Terms>,
    /// Jupyter's port on this computer, once it is open.
    pub(super) port: Option<u16>,
    /// The command that it is for, once that has an id; none for a shell.
    pub(super) command: Option<CommandId>,
    /// The input read from standard input and not yet confirmed by the host.
    pub(super) unconfirmed: Unconfirmed,
    /// When the first try of a run was started.
    pub(super) first_try: Option<BootTime>,
    /// Whether that has begun on the present instance, as far as it is known.
    pub(super) has_begun: bool,
    /// The announcements of hosts, and the results of renewing their leases.
    pub(super) news: mpsc::UnboundedReceiver<News>,
    /// Whether any step of the plan was finished.
    pub(super) acted: Rc<Cell<bool>>,
}

/// The parts of a session that begin its stay in a container; its signals stay outside.
pub(super) struct Parts<'a> {
    pub(super) request: &'a Request,
    pub(super) reconciler: &'a mut Reconciler<SshHosts>,
    pub(super) report: &'a Report,
}

/// Begins a session, and lists its drive at the same time: the caller's identity comes from STS,
/// the list from EC2, and neither waits for the other's connection.
pub(super) async fn begin(
    request: Request,
    cloud: Cloud,
    key: UserKey,
) -> Result<(Session, Result<Listing, Failure>), Failure> {
    let (ec2, drive) = (cloud.ec2.clone(), request.drive.clone());
    let (session, listing) = tokio::join!(
        Session::begin(request, cloud, key),
        Listing::of(&ec2, &drive)
    );
    Ok((session?, listing))
}

impl Session {
    /// Begins a session: reads the caller's identity, installs the signal handlers, prepares the
    /// reconciler.
    pub(super) async fn begin(
        request: Request,
        cloud: Cloud,
        key: UserKey,
    ) -> Result<Self, Failure> {
        let options = &request.options;
        let report = Report::stderr();
        let identity = lookup::identity(&cloud, &report).await?;
        // Up to here nothing was made that a signal could leave behind.
        let signals = if request.options.config.dry_run {
            Signals::none()
        } else {
            Signals::install().context("cannot listen to signals")?
        };
        let speed = Rc::new(Cell::new(options.launch.speed));
        let drive = request.drive.clone();
        let mut progress = ProgressPrinter::new(drive, report.clone(), Rc::clone(&speed));
        progress.discards = request.options.config.discard;
        let acted = Rc::new(Cell::new(false));
        let acting = Rc::clone(&acted);
        let subnet = match &options.launch.subnet {
            Some(id) => Some(lookup::subnet(id, &cloud).await?),
            None => None,
        };
        let mut own = cloud.tags.clone();
        own.extend(options.tags.clone());
        check_tags(own.len()).map_err(|why| Failure::new(Exit::Usage, anyhow!(why)))?;
        let wanted = Wanted {
            // Chosen before a launch: see `settle_terms`.
            offers: Vec::new(),
            size: options.size_of_new().unwrap_or(cloud.size),
            lease: request.lease(),
            settings: Settings::new(
                options.image.as_deref(),
                options.launch.requirements.as_ref(),
                options.launch.size,
            )
            .with_speed(options.launch.speed)
            .with_own(&own)
            .scratch(options.scratch),
            new_settings: Settings::new(options.new_image.as_deref(), None, options.new_size),
            note: request.options.config.note.clone(),
            placement: Placement {
                zone: subnet.as_ref().map(|subnet| subnet.zone.clone()),
                subnet: options.launch.subnet.clone(),
                instance_profile: options.launch.instance_profile.clone(),
            },
        };
        let (sender, news) = mpsc::unbounded_channel();
        let context = LeaseContext {
            ec2: cloud.ec2.clone(),
            clock: cloud.clock.clone(),
            news: sender,
        };
        let owner = identity.owner.clone();
        let ingress = Ingress::new(
            (cloud.ec2.clone(), cloud.clock.clone(), report.clone()),
            &owner,
            &key,
            subnet,
            options.reach.clone(),
        );
        let reconciler = Reconciler::new(
            request.drive.clone(),
            identity,
            cloud.ec2.clone(),
            SshHosts::new(key, ingress, context),
            cloud.clock.clone(),
            cloud.timing.clone(),
            wanted,
            move |event| {
                if let Event::Finished { .. } = event {
                    acting.set(true);
                }
                progress.print(event);
            },
        );
        Ok(Self {
            request,
            cloud,
            report,
            signals,
            reconciler,
            owner,
            waits_for_others: false,
            speed,
            recorded: Settings::default(),
            terms: None,
            port: None,
            command: None,
            unconfirmed: Unconfirmed::default(),
            first_try: None,
            has_begun: false,
            news,
            acted,
        })
    }

    /// Has all that is made from now on carry the tags of the account's own that the drive has, beside
    /// those that are typed or configured.
    pub(super) fn carry(&mut self, settings: &Settings) {
        let own = self.reconciler.carry(settings);
        self.reconciler.hosts().ingress().carry(own);
    }

    /// Runs towards `goal`, and never drops the run: signals are counted, and the run decides where
    /// it may stop. Returns the outcome, and the first signal that asked for the end.
    pub(super) async fn run(&mut self, goal: Goal) -> (Outcome, Option<End>) {
        let (interrupts, mut interrupted) = watch::channel(0);
        // A closed terminal or a SIGTERM asks for the save, which is under way already; only a
        // person at the keyboard may stop waiting for it.
        let saving = !goal.is_mounted() && !goal.goes_on_later();
        let mut asked = None;
        let mut ticking = pin!(self.report.keep_ticking());
        let mut work = pin!(self.reconciler.run(goal, &mut interrupted));
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

    /// Informs `access` that a host is live, so that its first connection also claims it, and opens
    /// a shell in the main container as it is, if that is asked for.
    pub(super) fn prepare_for_live_host(&mut self) {
        let request = &self.request;
        let lease = request.lease();
        let session = self.reconciler.session().clone();
        // Another image or other mounts would end a shell in the container as it is, and variables are
        // brought first.
        let options = &request.options;
        let is_shell = request.is_shell()
            && request.named.is_none()
            && options.image.is_none()
            && options.places.are_kept()
            && options.variables.is_empty()
            && options.agent.is_none()
            && request.credentials.is_none();
        let git = options.git.as_ref().map(GitUser::config);
        let drive = &request.drive;
        let variables = terminal::variables();
        let shell = is_shell.then(|| container::shell_of(drive, &variables, git.as_deref()));
        let hosts = self.reconciler.hosts();
        hosts.will_arrive((&session, &self.owner), lease, drive, shell);
    }
}
