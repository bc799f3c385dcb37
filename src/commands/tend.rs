//! `xdrive tend`: goes on with runs whose host was lost (`run --restart`), with no session of theirs left.
//!
//! A pass looks at the tags of all drives. Where a run is wanted and its host is gone, the drive is saved
//! and its record read, unless EC2 says that it took the host: then the drive comes up again at once.
//! Nothing is kept here. Several may tend the same drives, and each may end at any moment: the loop
//! decides by what exists, as for every session, and the drive by which tries have begun.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use anyhow::Context as _;
use jiff::Timestamp;
use tokio::task::{JoinHandle, LocalSet};
use tokio::time::{Instant, sleep};

use super::flags::Reach;
use super::{Context, key};
use crate::cloud::Cloud;
use crate::config::launch::{Fallback, LaunchOptions};
use crate::config::quantity::LONGEST_RUN;
use crate::config::{Config, Options, Paths, Places};
use crate::drive::tags::{self, RunState, SnapshotKind, WantedRun};
use crate::drive::tend::{Ended, Next, is_saved_first, next};
use crate::ec2::{Ownership, Tags};
use crate::failure::{Exit, Failure};
use crate::ids::DriveName;
use crate::opener::{Drive, Opening, unless_ended};
use crate::report::Report;
use crate::session::{self, Again, Named, Request, Task};
use crate::signals::{End, Signals};
use crate::visit::{self, Visitor};

/// The pause between two passes.
const PASS: Duration = Duration::from_secs(30);

/// The pause before a drive that did not come up is tried again, and the longest: it doubles.
const PAUSE: Duration = Duration::from_mins(1);
const LONGEST: Duration = Duration::from_mins(15);

/// The exit code of a run whose time was over before it ended, as that of a command (timeout(1)).
const OVERDUE: u8 = 124;

/// `xdrive tend`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only this drive [default: all of this caller's].
    #[arg(value_name = "NAME")]
    pub drive: Option<DriveName>,

    /// Look once, begin what is due, and end.
    ///
    /// For cron, and jobs of CI: it ends with 75 if a run still waits.
    #[arg(long)]
    pub once: bool,

    /// How hosts are reached.
    #[command(flatten)]
    pub reach: Reach,
}

/// Tends the runs until a signal asks for the end. Returns the exit code.
pub(crate) fn run(args: Args, context: &Context) -> Result<u8, Failure> {
    let paths = context.paths()?;
    let reach = super::reach(args.reach.clone(), &paths)?;
    super::block_on(async {
        let tender = Tender {
            cloud: context.open(&paths).await?,
            visitor: super::visitor(&paths, reach)?,
            report: Report::stderr(),
            paths,
            args,
        };
        // A session's parts stay on one thread.
        let local = LocalSet::new();
        local.run_until(tender.tend(&local)).await
    })
}

/// Who tends, and by which route.
struct Tender {
    cloud: Cloud,
    visitor: Visitor,
    report: Report,
    paths: Paths,
    args: Args,
}

/// A drive whose run waits.
struct Wait {
    /// When it is tried again.
    at: Instant,
    /// How long the pause was before that.
    pause: Duration,
}

/// The drives at work, and those that wait.
#[derive(Default)]
struct Tended {
    at_work: BTreeMap<DriveName, JoinHandle<Result<(), Failure>>>,
    waits: BTreeMap<DriveName, Wait>,
    /// Whether a signal has asked for the end: nothing is begun any more.
    is_ending: Rc<Cell<bool>>,
}

impl Tender {
    async fn tend(&self, local: &LocalSet) -> Result<u8, Failure> {
        let mut signals = Signals::install().context("cannot listen to signals")?;
        let mut tended = Tended::default();
        loop {
            match unless_ended(&mut signals, &self.report, self.wanted()).await {
                Ok(Ok(drives)) => self.begin(drives, &mut tended, local),
                Ok(Err(failure)) if self.args.once => return Err(failure),
                Ok(Err(failure)) => self.report.print(&format!("{:#}", failure.error)),
                Err(end) => return Ok(self.end(end, &mut tended).await),
            }
            let pause = async {
                if self.args.once {
                    self.collect(&mut tended, true).await;
                } else {
                    sleep(PASS).await;
                    self.collect(&mut tended, false).await;
                }
            };
            if let Err(end) = unless_ended(&mut signals, &self.report, pause).await {
                return Ok(self.end(end, &mut tended).await);
            }
            if self.args.once {
                let waits = !tended.waits.is_empty();
                return Ok(if waits { Exit::TryAgain.code() } else { 0 });
            }
        }
    }

    /// Waits for what is at work, which the same signal ends. Returns the exit code.
    async fn end(&self, end: End, tended: &mut Tended) -> u8 {
        tended.is_ending.set(true);
        self.collect(tended, true).await;
        Exit::from(end).code()
    }

    /// The caller's drives that have a run which is wanted.
    async fn wanted(&self) -> Result<Vec<DriveName>, Failure> {
        let ec2 = &self.cloud.ec2;
        let owner = ec2.owner().await?;
        let (_, volumes, snapshots) = ec2.everything().await?;
        let mut parts: BTreeMap<DriveName, Vec<&Tags>> = BTreeMap::new();
        let all = volumes.iter().map(|it| &it.tags);
        for tags in all.chain(snapshots.iter().map(|it| &it.tags)) {
            if let Some(name) = tags::drive(tags) {
                parts.entry(name).or_default().push(tags);
            }
        }
        let is_meant = |name: &DriveName| self.args.drive.as_ref().is_none_or(|it| it == name);
        let wanted = parts.into_iter().filter(|(name, parts)| {
            let newest = tags::newest(parts.iter(), |tags| tags);
            newest.is_some_and(|(_, newest)| {
                // What has no owner is nobody's to launch for unasked.
                let is_own = Ownership::from_tag(tags::owner(newest), &owner) == Ownership::Own;
                let run = WantedRun::of_parts(newest, parts.iter().copied());
                is_meant(name) && is_own && run.is_some_and(|run| run.state == RunState::Wanted)
            })
        });
        Ok(wanted.map(|(name, _)| name).collect())
    }

    /// Begins work on those of `drives` that are not at work, nor to wait.
    fn begin(&self, drives: Vec<DriveName>, tended: &mut Tended, local: &LocalSet) {
        tended.waits.retain(|name, _| drives.contains(name));
        for name in drives {
            let is_early = tended
                .waits
                .get(&name)
                .is_some_and(|wait| wait.at > Instant::now());
            if is_early || tended.at_work.contains_key(&name) {
                continue;
            }
            let (cloud, visitor) = (self.cloud.clone(), self.visitor.clone());
            let paths = self.paths.clone();
            let is_ending = Rc::clone(&tended.is_ending);
            let work = tend_drive(name.clone(), cloud, visitor, paths, is_ending);
            tended.at_work.insert(name, local.spawn_local(work));
        }
    }

    /// Collects what has ended; or waits for `all` to end.
    async fn collect(&self, tended: &mut Tended, all: bool) {
        let over = |(_, work): &(&DriveName, &JoinHandle<_>)| all || work.is_finished();
        let over = tended.at_work.iter().filter(over);
        let over: Vec<DriveName> = over.map(|(name, _)| name.clone()).collect();
        for name in over {
            let Some(work) = tended.at_work.get_mut(&name) else {
                continue;
            };
            // A signal may end this wait, and another one goes on with it.
            let done = work.await;
            tended.at_work.remove(&name);
            let failure = match done {
                Ok(Ok(())) => {
                    tended.waits.remove(&name);
                    continue;
                }
                Ok(Err(failure)) => failure,
                Err(error) => Failure::new(Exit::Failed, error),
            };
            let before = tended.waits.get(&name).map(|wait| wait.pause);
            let pause = before.map_or(PAUSE, |pause| (pause * 2).min(LONGEST));
            self.report.print(&format!(
                "the run of {name} waits, for {} min at least: {:#}",
                pause.as_secs() / 60,
                failure.error
            ));
            let at = Instant::now() + pause;
            tended.waits.insert(name, Wait { at, pause });
        }
    }
}

/// Goes on with the wanted run of a drive, unless its host is there. Where that fails the drive's tags say
/// since when it waits, and why.
async fn tend_drive(
    name: DriveName,
    cloud: Cloud,
    visitor: Visitor,
    paths: Paths,
    is_ending: Rc<Cell<bool>>,
) -> Result<(), Failure> {
    let drive = Drive::open(Opening::new(super::whole(name)), cloud.clone()).await?;
    let now = cloud.clock.now();
    let Some(mut run) = drive.wanted_run() else {
        return Ok(());
    };
    // Whoever may tag may have written it.
    run.until = run
        .until
        .min(now.saturating_add(LONGEST_RUN).unwrap_or(now));
    let done = if drive.facts.host.is_some() {
        Ok(())
    } else {
        go_on(&drive, &run, &cloud, visitor, &paths, &is_ending).await
    };
    let waits: Option<(Timestamp, String)> = match (&done, &run.waits) {
        (Err(failure), since) => {
            let since = since.as_ref().map_or(now, |(since, _)| *since);
            Some((since, failure.error.to_string()))
        }
        (Ok(()), Some(_)) => None,
        (Ok(()), None) => return done,
    };
    let waits = waits.as_ref().map(|(since, why)| (*since, why.as_str()));
    // It is for people alone, and the next pass writes it again.
    let _ = drive.mark_waiting(&run.id, waits).await;
    done
}

/// Ends the run if it is over, else brings its drive up and begins the next try.
async fn go_on(
    drive: &Drive,
    run: &WantedRun,
    cloud: &Cloud,
    visitor: Visitor,
    paths: &Paths,
    is_ending: &Cell<bool>,
) -> Result<(), Failure> {
    let name = &drive.name;
    let why_ended = match &drive.facts.last {
        Some(last) => cloud.ec2.why_ended(&last.id).await?,
        None => None,
    };
    let is_late = cloud.clock.now() >= run.until;
    let has_volume = drive.facts.volumes_left().next().is_some();
    if is_saved_first(why_ended.as_deref(), has_volume, is_late) {
        let saving = visit::finish_drive(name.clone(), cloud, visitor.clone(), None, false);
        let saved = saving.await?;
        if let Some(failure) = saved.failure {
            return Err(failure);
        }
        let opening = Opening::new(super::whole(name.clone()));
        let opened = Drive::open(opening, cloud.clone()).await?;
        if saved.asked.is_some() || opened.facts.host.is_some() {
            return Ok(());
        }
        let newest = opened.facts.newest_readable(None);
        let was_closed = newest.is_some_and(|(tags, _)| tags.kind == SnapshotKind::Clean);
        let listed = visit::list_runs(opened, || Ok(visitor.clone()), true).await?;
        let record = listed.runs.iter().find(|it| it.id == run.id.as_str());
        let last = drive.facts.last.as_ref().zip(why_ended.as_deref());
        let last = last.map(|(last, why)| Ended {
            launched: last.launched,
            why,
            was_closed,
        });
        let next = match next(record, last) {
            Next::Bring if is_late => Next::Over(RunState::Failed, Some(OVERDUE)),
            next => next,
        };
        if let Next::Over(state, exit) = next {
            drive.mark_over(&run.id, state, exit).await;
            let code = exit.map_or_else(String::new, |code| format!(" (exit code {code})"));
            let (id, state) = (run.id.as_str(), state.as_str());
            drive
                .report
                .print(&format!("{name}: the run {id} is {state}{code}"));
            return Ok(());
        }
    }
    if is_ending.get() {
        return Ok(());
    }
    let (name, id) = (name.clone(), run.id.as_str());
    drive
        .report
        .print(&format!("{name}: the run {id} goes on on another instance"));
    let request = request(name, run, visitor, paths)?;
    session::connect(request, cloud.clone(), key(paths)?).await?;
    Ok(())
}

/// The session that begins the next try of a run.
fn request(
    name: DriveName,
    run: &WantedRun,
    visitor: Visitor,
    paths: &Paths,
) -> Result<Request, Failure> {
    let launch: LaunchOptions = run.launch.parse().map_err(|error| {
        let error = anyhow::Error::new(error).context("the launch options in its tags");
        Failure::new(Exit::Config, error)
    })?;
    let mut options = Options::choose(Config::default(), Config::read(paths)?)
        .map_err(|error| Failure::new(Exit::Config, anyhow::anyhow!(error)))?;
    options.launch = LaunchOptions {
        // Before anything dearer, for which nobody is asked.
        leave_zone: true,
        fallback: launch.fallback.or(Some(Fallback::None)),
        ..launch
    };
    // The container stays as it is.
    options.places = Places::default();
    options.reach = visitor.reach;
    options.config.no_join = true;
    options.config.no_jupyter = true;
    options.config.agent = false;
    options.config.aws = false;
    options.config.forwards.clear();
    options.config.remote_forwards.clear();
    let again = Again {
        run: run.id.clone(),
        until: run.until,
    };
    Ok(Request {
        named: run.container.clone().map(Named::as_it_is),
        task: Task::Again(again),
        ..Request::new(name, options)
    })
}
