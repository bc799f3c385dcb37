//! Workers that are begun, all at once.

use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use jiff::Timestamp;
use tokio::task::{JoinHandle, spawn_local};

use super::super::{Context, connect, whole};
use super::args::Args;
use super::end::end;
use crate::cloud::Cloud;
use crate::config::launch::{Fallback, LaunchOptions};
use crate::config::quantity::LONGEST_RUN;
use crate::config::{Config, Options, Paths, Places, Reach};
use crate::drive::tags::WantedWorkers;
use crate::ec2::HostAddress;
use crate::failure::{Exit, Failure};
use crate::ids::{DriveAt, DriveIn, DriveName};
use crate::launch::workers;
use crate::opener::{Drive, Opening};
use crate::report::Report;
use crate::saves::{self, Found};
use crate::session::{self, Request, Task, Unjoined, Worker};
use crate::visit::{self, Leader, Network, Visitor};

/// How long a worker's command may take by default.
const MAX: Duration = Duration::from_hours(24);

/// The workers that there are to be, and their sessions.
pub(super) struct Workers {
    /// The session of each, but for its drive and what it is as a worker; that drive is its leader's here.
    pub(super) request: Request,
    /// The number of them.
    count: u16,
    /// How long each may take.
    limit: Duration,
    /// The workers as the leader's tags have them, if these are those.
    known: Option<WantedWorkers>,
    /// Whether they are begun because the tags say so, and not because somebody does.
    is_tended: bool,
}

/// The numbers of the workers.
pub(super) struct Numbers {
    /// The numbers of workers that are up.
    pub(super) up: Vec<u16>,
    /// The numbers of workers that are to be begun.
    pub(super) missing: Vec<u16>,
}

/// The parts that all workers begin with.
struct Shared {
    workers: Workers,
    cloud: Cloud,
    report: Report,
    visitor: Visitor,
    found: Found,
    network: Network,
}

/// Makes the options those of a worker, which is left at once, and whose container is as the drive has it.
fn for_worker(options: &mut Options) {
    options.places = Places::default();
    options.image = None;
    options.agent = None;
    options.launch.checkpoint = None;
    options.launch.freezes = None;
    options.freezing = None;
    options.ingress = Some(Vec::new());
    options.address = Some(HostAddress::Any);
    let config = &mut options.config;
    config.once.discard = true;
    config.once.no_join = true;
    config.no_jupyter = true;
    config.agent = false;
    config.aws = false;
    config.keep = None;
    config.idle = None;
    config.once.json = false;
    config.dry_run = false;
    config.forwards.clear();
    config.remote_forwards.clear();
}

impl Workers {
    /// So many workers with what was typed.
    pub(super) fn new(
        typed: Args,
        count: u16,
        paths: &Paths,
        context: &Context,
    ) -> Result<Self, Failure> {
        let limit = typed.max.unwrap_or(MAX);
        let drive = DriveAt {
            name: typed.drive,
            generation: None,
        };
        let typed = connect::Args {
            drive: DriveIn {
                drive,
                container: None,
            },
            config: typed.launch.config,
            command: typed.command,
        };
        let mut request = connect::request(typed, paths)?;
        if !request.command.is_empty() {
            request.check(&context.which(paths)?.command(paths))?;
        }
        for_worker(&mut request.options);
        request.yes = context.yes;
        if !context.yes {
            // Nobody is asked once for each.
            request
                .options
                .launch
                .fallback
                .get_or_insert(Fallback::None);
        }
        request.task = run_for(limit);
        Ok(Self {
            request,
            count,
            limit,
            known: None,
            is_tended: false,
        })
    }

    /// The workers that the tags of `leader` want, once more.
    pub(super) fn again(
        leader: DriveName,
        known: WantedWorkers,
        now: Timestamp,
        reach: Reach,
        paths: &Paths,
    ) -> Result<Self, Failure> {
        let launch: LaunchOptions = known.launch.parse().map_err(|error| {
            let error = anyhow::Error::new(error).context("the launch options in its tags");
            Failure::new(Exit::Config, error)
        })?;
        let options = Options::choose(Config::default(), Config::read(paths)?);
        let mut options = options.map_err(|error| Failure::new(Exit::Config, anyhow!(error)))?;
        options.launch = LaunchOptions {
            // Before anything dearer, for which nobody is asked.
            fallback: launch.fallback.or(Some(Fallback::None)),
            ..launch
        };
        options.reach = reach;
        for_worker(&mut options);
        let limit = Duration::try_from(known.until.duration_since(now)).unwrap_or_default();
        // Whoever may tag may have written it.
        let limit = limit.min(LONGEST_RUN);
        Ok(Self {
            request: Request {
                task: run_for(limit),
                criu: paths.criu.clone(),
                ..Request::new(leader, options)
            },
            count: known.count,
            limit,
            known: Some(known),
            is_tended: true,
        })
    }

    /// These workers; where no command was typed, as many of those that the tags of `leader` want, if it wants
    /// any.
    pub(super) async fn like_before(self, leader: &Drive, paths: &Paths) -> Result<Self, Failure> {
        let Some(host) = &leader.facts.host else {
            return Ok(self);
        };
        let now = leader.cloud.clock.now();
        let wanted = leader.wanted_workers(host).await?;
        let Some(wanted) = wanted.filter(|wanted| wanted.until > now) else {
            return Ok(self);
        };
        let known = WantedWorkers {
            count: self.count,
            ..wanted
        };
        let reach = self.request.options.reach.clone();
        let again = Self::again(leader.name.clone(), known, now, reach, paths)?;
        Ok(Self {
            is_tended: false,
            ..again
        })
    }

    /// Whether it is known what they run.
    pub(super) fn has_command(&self) -> bool {
        !self.request.command.is_empty() || self.known.is_some()
    }

    /// Has the workers of these `numbers` in the network of `drive`, which is up: those that are up come to
    /// it, unless they are there, or are begun again as those that are missing are begun. Returns the exit code.
    pub(super) async fn begin(
        mut self,
        numbers: Numbers,
        drive: Drive,
        visitor: Visitor,
    ) -> Result<u8, Failure> {
        let (name, cloud, report) = (
            drive.name.clone(),
            drive.cloud.clone(),
            drive.report.clone(),
        );
        let (owner, found) = (cloud.ec2.owner().await?, saves::find(&drive, None)?);
        let mut leader = Leader::reach(drive, visitor.clone()).await?;
        if !self.settle(&leader).await? {
            return Ok(0);
        }
        workers::connect_hosts(&cloud.ec2, leader.instance(), &owner).await?;
        let network = leader.lead().await?;
        let count = self.count;
        let shared = Rc::new(Shared {
            workers: self,
            cloud,
            report: report.clone(),
            visitor,
            found,
            network,
        });
        let (mut there, mut worst, mut last) = (0, None, None);
        for worker in shared.work_on(numbers) {
            let (number, done, took) = worker.await.map_err(anyhow::Error::from)?;
            match done {
                Ok(0) => {
                    there += 1;
                    if let Some(took) = took {
                        let seconds = took.as_secs();
                        report.note(&format!("w{number} has joined after {seconds} s"));
                    }
                }
                Ok(code) => last = Some(code),
                Err(failure) => {
                    report.print(&format!("w{number}: {}", failure.text()));
                    worst = Some(failure.exit.or_worse(worst));
                }
            }
        }
        leader.seal().await?;
        if last.is_none() {
            shared
                .workers
                .mark(&leader, shared.cloud.clock.now())
                .await?;
        }
        let xdrive = &shared.cloud.command;
        report.print(&format!(
            "{there} of {count} are there; {xdrive} workers {name}  lists them, {xdrive} workers {name} 0  \
             ends them"
        ));
        match (worst, last) {
            (Some(_), _) if there > 0 => Ok(Exit::TryAgain.code()),
            (Some(exit), _) => Ok(exit.code()),
            (None, Some(code)) => Ok(code),
            (None, None) => Ok(0),
        }
    }

    /// Finds what they run, and has nobody else begin them meanwhile. Whether they are still wanted: who ends
    /// them while a tender comes to this says so in the tags first.
    async fn settle(&mut self, leader: &Leader) -> Result<bool, Failure> {
        if let Some(known) = &self.known {
            let order = leader.order(&known.order).await?;
            self.request.options.launch.notice = Some(order.notice());
            self.request.command = order.words;
            if self.is_tended {
                let wanted = leader.wanted().await?;
                return Ok(wanted.as_ref() == Some(known));
            }
        }
        leader.mark_none().await?;
        Ok(true)
    }

    /// Has the leader's drive and tags say which workers are wanted, and what they run.
    async fn mark(&self, leader: &Leader, now: Timestamp) -> Result<(), Failure> {
        let (request, host) = (&self.request, leader.instance().id.clone());
        if let Some(known) = &self.known {
            let wanted = WantedWorkers {
                leader: host,
                generation: leader.generation,
                ..known.clone()
            };
            return leader.mark(&wanted).await;
        }
        if request.command.is_empty() || !request.options.variables.is_empty() {
            // What this computer brings along is not on the drive.
            return Ok(());
        }
        let until = now.saturating_add(self.limit).unwrap_or(Timestamp::MAX);
        let launch = request.options.launch.to_string();
        let place = (leader.generation, host);
        let wanted = WantedWorkers::new(self.count, until, place, launch);
        let wanted = wanted.map_err(anyhow::Error::from)?;
        leader.keep(&request.order(), &wanted).await
    }
}

/// A run that is left at once.
fn run_for(limit: Duration) -> Task {
    Task::Run {
        limit,
        is_detached: true,
        tries: None,
    }
}

/// The result of work on the worker of a number: an exit code, and how long it took if it was begun.
type Done = (u16, Result<u8, Failure>, Option<Duration>);

impl Shared {
    /// Begins the work on all, at once.
    fn work_on(self: &Rc<Self>, numbers: Numbers) -> Vec<JoinHandle<Done>> {
        let since = Instant::now();
        let up = numbers.up.into_iter().map(|number| {
            let shared = Rc::clone(self);
            spawn_local(async move { (number, shared.come_again(number).await, None) })
        });
        let missing = numbers.missing.into_iter().map(|number| {
            let shared = Rc::clone(self);
            spawn_local(async move {
                let done = shared.begin_twice(number).await;
                (number, done, Some(since.elapsed()))
            })
        });
        up.chain(missing).collect()
    }

    fn opening(&self, name: DriveName) -> Opening {
        Opening {
            is_one_of_many: true,
            shared: self.cloud.acts_for_another(),
            yes: self.workers.request.yes,
            ..Opening::new(whole(name))
        }
    }

    /// Begins the worker of this number, on another host too if dockerd on the first hears of nobody in the
    /// network. Returns the exit code.
    async fn begin_twice(&self, number: u16) -> Result<u8, Failure> {
        let failure = match self.begin(number).await {
            Ok(code) => return Ok(code),
            Err(failure) => failure,
        };
        let unjoined = failure.error.downcast_ref::<Unjoined>();
        if !unjoined.is_some_and(|it| it.is_its_host) || !failure.left.is_empty() {
            return Err(failure);
        }
        self.report
            .print(&format!("w{number} begins again: {}", failure.text()));
        self.begin(number).await
    }

    /// Begins the worker of this number. Returns the exit code of the session that does, which leaves it.
    async fn begin(&self, number: u16) -> Result<u8, Failure> {
        let Workers { request, count, .. } = &self.workers;
        let leader = &request.drive;
        let name = leader.worker(number);
        let (opening, cloud) = (self.opening(name.clone()), self.cloud.clone());
        if !self.found.begin_worker(opening, cloud.clone()).await? {
            end(name.clone(), &self.cloud, self.visitor.clone()).await?;
            let opening = self.opening(name.clone());
            self.found.begin_worker(opening, cloud.clone()).await?;
        }
        let worker = Worker {
            of: leader.clone(),
            leader: self.network.leader,
            token: self.network.token.clone(),
            number,
            count: *count,
        };
        let request = Request {
            drive: name,
            worker: Some(worker),
            ..request.clone()
        };
        session::connect(request, cloud, self.visitor.key.clone()).await
    }

    /// Has the worker of this number, which is up, in the network. One that cannot come is ended, and begun
    /// again.
    async fn come_again(&self, number: u16) -> Result<u8, Failure> {
        let name = self.workers.request.drive.worker(number);
        let drive = Drive::open(self.opening(name.clone()), self.cloud.clone()).await?;
        let report = drive.report.clone();
        let alias = Worker::name_of(number);
        let visitor = self.visitor.clone();
        match visit::come_again(drive, visitor, &self.network, &alias).await? {
            None => Ok(0),
            Some(why) => {
                report.print(&format!("begins again: {why}"));
                end(name, &self.cloud, self.visitor.clone()).await?;
                self.begin_twice(number).await
            }
        }
    }
}
