//! The state of a running session, how it begins, and how it runs towards a goal.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::request::{Leases, Request, Task};
use super::shares::Shares;
use crate::access::SshHosts;
use crate::access::lease::News;
use crate::clock::BootTime;
use crate::cloud::Cloud;
use crate::config::GitUser;
use crate::drive::reconcile::Placement;
use crate::drive::tags::Settings;
use crate::drive::{Goal, Outcome, Reconciler, Wanted, pools};
use crate::ec2::{Speed, Subnet};
use crate::failure::Failure;
use crate::host::container::{self, CommandId};
use crate::ids::SubnetId;
use crate::opener::{Drive, Ending, Opening, ProgressPrinter, subnet};
use crate::report::Report;
use crate::signals::End;
use crate::ssh::UserKey;
use crate::ssh::shell::Progress;
use crate::terminal;

/// A running session.
pub(super) struct Session {
    pub(super) request: Request,
    /// How long its host is kept without a sign of life from here.
    pub(super) leases: Leases,
    pub(super) drive: Drive,
    pub(super) reconciler: Reconciler<SshHosts>,
    /// Whether the user agreed to wait for a session that this laptop cannot join.
    pub(super) waits_for_others: bool,
    /// The requested speed of the drive's volume; the options' alone until the drive's settings are
    /// read.
    pub(super) speed: Rc<Cell<Speed>>,
    /// The drive's own settings, as they were read from its tags; none until the drive was checked.
    pub(super) recorded: Settings,
    /// The ids of instances as they are launched; none once somebody follows them.
    pub(super) launched: Option<mpsc::UnboundedReceiver<String>>,
    /// The shares of the drive's containers; none until the drive was checked.
    pub(super) shares: Shares,
    /// The terms of a launch; none until the drive was checked, and for `stop`.
    pub(super) terms: Option<pools::Terms>,
    /// Jupyter's port on this computer, once it is open.
    pub(super) port: Option<u16>,
    /// The command that it is for, once that has an id; none for a shell.
    pub(super) command: Option<CommandId>,
    /// How far the command's streams have come.
    pub(super) progress: Progress,
    /// When the first try of a run was started.
    pub(super) first_try: Option<BootTime>,
    /// How long its budget lasts on the present instance; none without one.
    pub(super) budget_left: Option<Duration>,
    /// Whether that has begun on the present instance, as far as it is known.
    pub(super) has_begun: bool,
    /// Whether it was frozen when its host was taken: then its next host has it go on.
    pub(super) is_frozen: Cell<bool>,
    /// Whether it was printed that the GPU is idle.
    pub(super) is_idle_reported: Cell<bool>,
    /// Whether EC2 took an earlier host of this session, which goes on on another.
    pub(super) is_resumed: bool,
    /// The announcements of hosts, and the results of renewing their leases.
    pub(super) news: mpsc::UnboundedReceiver<News>,
}

/// The parts of a session that begin its stay in a container; its signals stay outside.
pub(super) struct Parts<'a> {
    pub(super) request: &'a Request,
    pub(super) reconciler: &'a mut Reconciler<SshHosts>,
    pub(super) report: &'a Report,
}

impl Session {
    /// Begins a session: opens its drive, and prepares the reconciler.
    pub(super) async fn begin(
        request: Request,
        cloud: Cloud,
        key: UserKey,
    ) -> Result<Self, Failure> {
        let leases = request.leases(cloud.clock.now());
        let options = &request.options;
        let opening = Opening {
            shared: request.options.config.once.shared,
            from: request.options.config.once.from.clone(),
            yes: request.yes,
            json: request.options.config.once.json,
            dry_run: request.options.config.dry_run,
            is_one_of_many: matches!(request.task, Task::Again(_)) || request.worker.is_some(),
            ..Opening::new(request.place())
        };
        let (drive, subnet) = tokio::join!(
            Drive::open(opening, cloud.clone()),
            wanted_subnet(options.launch.subnet.as_ref(), &cloud),
        );
        let (drive, subnet) = (drive?, subnet?);
        let speed = Rc::new(Cell::new(options.launch.speed));
        let (name, report) = (drive.name.clone(), drive.report.clone());
        let mut progress =
            ProgressPrinter::new(name, report, Rc::clone(&speed), drive.cloud.ec2.clone());
        progress.discards = request.options.config.once.discard;
        let (launching, launched) = mpsc::unbounded_channel();
        progress.launching = Some(launching);
        let wanted = Wanted {
            // Chosen before a launch: see `settle_terms`.
            offers: Vec::new(),
            size: options.size_of_new().unwrap_or(cloud.size),
            lease: leases.session,
            settings: Settings::new(
                options.image.as_deref(),
                options.launch.requirements.as_ref(),
                options.launch.size,
            )
            .with_speed(options.launch.speed)
            .with_freezing(options.freezing)
            .with_shares(options.shares.as_deref())
            .with_ingress(options.ingress.as_deref())
            .with_address(options.address.as_ref())
            .with_own(&drive.own_tags(&options.tags)?)
            .scratch(options.scratch),
            new_settings: Settings::new(options.new_image.as_deref(), None, options.new_size),
            note: request.options.config.once.note.clone(),
            placement: Placement {
                zone: subnet.as_ref().map(|subnet| subnet.zone.clone()),
                subnet: options.launch.subnet.clone(),
                instance_profile: options.launch.instance_profile.clone(),
            },
        };
        let (mut hosts, news) = drive.hosts(key, subnet, options.reach.clone());
        hosts.set_idle(options.config.idle.map(|it| it.0));
        let reconciler = drive.reconciler(hosts, wanted, progress);
        Ok(Self {
            request,
            leases,
            drive,
            reconciler,
            waits_for_others: false,
            speed,
            recorded: Settings::default(),
            launched: Some(launched),
            shares: Shares::default(),
            terms: None,
            port: None,
            command: None,
            progress: Progress::default(),
            first_try: None,
            budget_left: None,
            has_begun: false,
            is_frozen: Cell::new(false),
            is_idle_reported: Cell::new(false),
            is_resumed: false,
            news,
        })
    }

    /// Runs towards `goal`. Returns the outcome, and the first signal that asked for the end.
    pub(super) async fn run(&mut self, goal: Goal) -> (Outcome, Option<End>) {
        self.drive.run(&mut self.reconciler, goal).await
    }

    /// Reports the outcome of the save. Returns the exit code of the ending; that of a failed save in
    /// place of 0.
    pub(super) fn finish(&mut self, ending: Ending, outcome: Outcome) -> Result<u8, Failure> {
        self.drive.finish(&mut self.reconciler, ending, outcome)
    }

    /// Has all that is made from now on carry the tags of the account's own that the drive has, beside
    /// those that are typed or configured.
    pub(super) fn carry(&mut self, settings: &Settings) {
        let own = self.reconciler.carry(settings);
        self.reconciler.hosts().ingress().carry(own);
    }

    /// Informs `access` that a host is live, so that its first connection also claims it, and opens
    /// a shell in the main container as it is, if that is asked for.
    pub(super) fn prepare_for_live_host(&mut self) {
        let request = &self.request;
        let lease = self.leases.session;
        let session = self.reconciler.session().clone();
        // Another image or other mounts would end a shell in the container as it is, and variables are
        // brought first. Whether one can be frozen is tried before it.
        let options = &request.options;
        let is_shell = request.is_shell()
            && request.named.is_none()
            && options.image.is_none()
            && !options.launch.may_freeze()
            && options.places.are_kept()
            && options.shares.is_none()
            && options.variables.is_empty()
            && options.agent.is_none()
            && request.credentials.is_none();
        let git = options.git.as_ref().map(GitUser::config);
        let drive = &request.drive;
        let variables = terminal::variables();
        let shell = is_shell.then(|| container::shell_of(drive, &variables, git.as_deref()));
        let hosts = self.reconciler.hosts();
        hosts.will_arrive(&session, &self.drive.identity.caller, lease, drive, shell);
    }
}

/// The subnet that is asked for, if one is.
async fn wanted_subnet(id: Option<&SubnetId>, cloud: &Cloud) -> Result<Option<Subnet>, Failure> {
    match id {
        Some(id) => subnet(id, cloud).await.map(Some),
        None => Ok(None),
    }
}
