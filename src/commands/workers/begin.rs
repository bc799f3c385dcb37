//! Workers that are begun, all at once.

use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use jiff::Timestamp;
use tokio::task::{JoinHandle, spawn_local};

use super::super::{Context, connect, whole};
use super::args::Args;
use crate::cloud::Cloud;
use crate::config::launch::{Fallback, LaunchOptions};
use crate::config::quantity::LONGEST_RUN;
use crate::config::{Config, Options, Paths, Places, Reach};
use crate::drive::tags::WantedWorkers;
use crate::failure::{Exit, Failure};
use crate::ids::{DriveAt, DriveIn, DriveName, Generation};
use crate::launch::workers;
use crate::opener::{Drive, Opening};
use crate::saves::{self, Found};
use crate::session::{self, Request, Task, Worker};
use crate::visit::{self, Disposable, Leader, Network, Visitor};

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
    let config = &mut options.config;
    config.discard = true;
    config.no_join = true;
    config.no_jupyter = true;
    config.agent = false;
    config.aws = false;
    config.keep = None;
    config.json = false;
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
        })
    }

    /// These workers; where no command was typed, with what the tags of `leader` want. Fails if that is nothing, and
    /// some are missing.
    pub(super) fn like_before(
        self,
        leader: &Drive,
        numbers: &Numbers,
        paths: &Paths,
    ) -> Result<Self, Failure> {
        let now = leader.cloud.clock.now();
        let wanted = leader.wanted_workers().filter(|wanted| wanted.until > now);
        let newest = leader.facts.newest_part();
        match (wanted, newest) {
            _ if !self.request.command.is_empty() => Ok(self),
            (Some(wanted), Some((generation, _))) => {
                let known = WantedWorkers {
                    count: self.count,
                    generation,
                    ..wanted
                };
                let reach = self.request.options.reach.clone();
                Self::again(leader.name.clone(), known, now, reach, paths)
            }
            _ if numbers.missing.is_empty() => Ok(self),
            _ => {
                let (name, count, xdrive) = (&leader.name, self.count, &leader.cloud.command);
                let error = anyhow!("there is no command for {count} workers of {name}");
                let hint = format!("{xdrive} workers {name} {count} -- CMD… begins them");
                Err(Failure::new(Exit::Usage, error).hint(hint))
            }
        }
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
        let generation = drive.facts.newest_part().map(|(generation, _)| generation);
        let mut leader = Leader::reach(drive, visitor.clone()).await?;
        let generation = generation.unwrap_or(Generation::EMPTY);
        let now = cloud.clock.now();
        self.settle(&leader, generation, now).await?;
        workers::connect_hosts(&cloud.ec2, leader.instance(), &owner).await?;
        let network = leader.lead().await?;
        let count = self.count;
        let shared = Rc::new(Shared {
            workers: self,
            cloud,
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

    /// Has the leader's drive and tags say which workers are wanted, and what they run; or takes that from
    /// there.
    async fn settle(
        &mut self,
        leader: &Leader,
        generation: Generation,
        now: Timestamp,
    ) -> Result<(), Failure> {
        let (request, host) = (&mut self.request, leader.instance().id.clone());
        if let Some(known) = &self.known {
            let order = leader.order(&known.order).await?;
            request.options.launch.notice = Some(order.notice());
            request.command = order.words;
            let wanted = WantedWorkers {
                leader: host,
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
        let wanted = WantedWorkers::new(self.count, until, (generation, host), launch);
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
                let done = shared.begin(number).await;
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

    /// Begins the worker of this number. Returns the exit code of the session that does, which leaves it.
    async fn begin(&self, number: u16) -> Result<u8, Failure> {
        let Workers { request, count, .. } = &self.workers;
        let leader = &request.drive;
        let name = leader.worker(number);
        let (opening, cloud) = (self.opening(name.clone()), self.cloud.clone());
        self.found.begin_worker(opening, cloud.clone()).await?;
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
        let came = visit::come_again(drive, self.visitor.clone(), &self.network, &alias).await;
        let Err(failure) = came else {
            return Ok(0);
        };
        report.print(&format!("begins again: {:#}", failure.error));
        let (opening, visitor) = (self.opening(name), self.visitor.clone());
        visit::end_scratch(opening, Disposable::Worker, &self.cloud, visitor).await?;
        self.begin(number).await
    }
}
