//! `xdrive tend`: goes on with runs whose host was lost (`run --restart`), with no session of theirs left.
//!
//! A pass looks at the tags of all drives. Where a run is wanted and its host is gone, the drive is saved
//! and its record read, unless EC2 says that it took the host: then the drive comes up again at once.
//! Nothing is kept here. Several may tend the same drives, and each may end at any moment: the loop
//! decides by what exists, as for every session, and the drive by which tries have begun.

mod away;
mod drive;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::rc::Rc;
use std::time::Duration;

use anyhow::Context as _;
use jiff::{SignedDuration, Timestamp};
use tokio::task::{JoinHandle, LocalSet};
use tokio::time::{Instant, sleep};

use self::away::Tending;
use self::drive::TendedDrive;
use super::Context;
use super::flags::Reach;
use crate::cloud::Cloud;
use crate::config::{NotifyUrl, Paths, environment, quantity};
use crate::drive::tags::WantedRun;
use crate::drive::tend;
use crate::ec2::Ownership;
use crate::failure::{Exit, Failure};
use crate::ids::DriveName;
use crate::opener::unless_ended;
use crate::report::{Report, one_line};
use crate::signals::{End, Signals};
use crate::visit::Visitor;

/// How long ago a run may have been tended that somebody is said to tend: longer than the longest pause.
const TENDED: SignedDuration = SignedDuration::from_mins(30);

/// The pause between two passes.
const PASS: Duration = Duration::from_secs(30);

/// The pause before a drive that did not come up is tried again, and the longest: it doubles.
const PAUSE: Duration = Duration::from_mins(1);
const LONGEST: Duration = Duration::from_mins(15);

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

    /// Also the drives of this caller, such as `arn:aws:iam::111122223333:user/ada`; may be given again.
    ///
    /// They stay that caller's, and what is launched for them.
    #[arg(long, value_name = "ARN")]
    pub owner: Vec<String>,

    /// The drives of all callers.
    #[arg(long, conflicts_with = "owner")]
    pub shared: bool,

    /// Post a word to this address when a run has waited for half an hour, or fails while it waits.
    ///
    /// `XDRIVE_NOTIFY` names it, too. The address of a run's own `--notify` is its hosts' alone.
    #[arg(long, value_name = "URL")]
    pub notify: Option<NotifyUrl>,

    /// End once no run has been wanted for this long [default with --away: 10m].
    #[arg(long, value_name = "TIME", conflicts_with = "once", value_parser = quantity::idle, hide_short_help = true)]
    pub until_idle: Option<Duration>,

    /// Where it tends.
    #[command(flatten)]
    pub away: away::Args,

    /// How hosts are reached.
    #[command(flatten)]
    pub reach: Reach,
}

/// Tends the runs until a signal asks for the end. Returns the exit code.
pub(crate) fn run(args: Args, context: &Context) -> Result<u8, Failure> {
    let args = Args {
        notify: NotifyUrl::choose(args.notify)?,
        ..args
    };
    let paths = context.paths()?;
    let reach = super::reach(args.reach.clone(), &paths)?;
    if args.away.away {
        if args.notify.is_some() {
            Report::stderr().warn("--notify does not come along: the tender notifies nobody");
        }
        let tending = Tending {
            owners: args.owner,
            shared: args.shared,
            until_idle: args.until_idle,
            reach,
        };
        let once = |drive| {
            let once = Args {
                drive: Some(drive),
                once: true,
                owner: Vec::new(),
                shared: false,
                until_idle: None,
                notify: None,
                away: away::Args::default(),
                reach: args.reach,
            };
            run(once, context)
        };
        return away::begin(&args.away, &tending, once, context);
    }
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

/// Since when and why the next try of a run waits, and who tends it, in words; `command` is how xdrive is
/// called.
pub(super) fn waiting(run: &WantedRun, now: Timestamp, command: &str) -> String {
    let why = match &run.waits {
        Some((since, why)) => format!("waits since {since:.0}: {}", one_line(why)),
        None => "waits for its next try".to_owned(),
    };
    match tended(run, now) {
        Some(tended) => format!("{why}; {tended}"),
        None => format!("{why}; nobody tends it: {command} tend"),
    }
}

/// When somebody tended a run, in words; none if that is long ago.
pub(super) fn tended(run: &WantedRun, now: Timestamp) -> Option<String> {
    let ago = now.duration_since(run.tended?);
    match ago.as_mins() {
        _ if ago >= TENDED => None,
        0 => Some("tended just now".to_owned()),
        minutes => Some(format!("tended {minutes} min ago")),
    }
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
    /// Since when no run is wanted, as far as is known.
    idle: Option<Instant>,
}

impl Tended {
    /// Notes how many runs are wanted now; returns how long there has been none.
    fn idle_time(&mut self, wanted: usize) -> Duration {
        if wanted > 0 || !self.at_work.is_empty() {
            self.idle = None;
            return Duration::ZERO;
        }
        self.idle.get_or_insert_with(Instant::now).elapsed()
    }
}

impl Tender {
    async fn tend(&self, local: &LocalSet) -> Result<u8, Failure> {
        let mut signals = Signals::install().context("cannot listen to signals")?;
        let mut tended = Tended::default();
        loop {
            match unless_ended(&mut signals, &self.report, self.wanted()).await {
                Ok(Ok(drives)) => {
                    let idle = tended.idle_time(drives.len());
                    if self.args.until_idle.is_some_and(|limit| idle >= limit) {
                        return Ok(0);
                    }
                    self.begin(drives, &mut tended, local);
                }
                Ok(Err(failure)) if self.args.once => return Err(failure),
                Ok(Err(failure)) => {
                    tended.idle = None;
                    self.report.print(&format!("{:#}", failure.error));
                }
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

    /// The drives to tend that have a run which is wanted, or are to have workers, each with the cloud of its
    /// owner.
    async fn wanted(&self) -> Result<Vec<(DriveName, Cloud)>, Failure> {
        let ec2 = &self.cloud.ec2;
        let caller = ec2.owner().await?;
        let (_, volumes, snapshots) = ec2.everything().await?;
        // The run that this tender itself is.
        let own = environment::value(environment::RUN);
        let is_meant = |name: &DriveName| self.args.drive.as_ref().is_none_or(|it| it == name);
        let is_other = |run: &WantedRun| own.as_deref() != Some(OsStr::new(run.id.as_str()));
        let all = tend::wanted(&volumes, &snapshots).into_iter();
        let wanted = all.filter(|(name, wanted)| is_meant(name) && is_other(&wanted.run));
        let wanted = wanted.map(|(name, wanted)| (name, wanted.owner));
        let leaders = tend::leaders(&volumes, self.cloud.clock.now()).into_iter();
        let leaders = leaders.filter(|(name, _)| is_meant(name));
        let all: BTreeMap<DriveName, &str> = wanted.chain(leaders).collect();
        let tended = all.into_iter().filter_map(|(name, owner)| {
            let cloud = self.cloud_of(owner, &caller)?;
            Some((name, cloud))
        });
        Ok(tended.collect())
    }

    /// The cloud in which a drive of this `owner` is tended; none if it is not. What has no owner is
    /// nobody's to launch for unasked.
    fn cloud_of(&self, owner: &str, caller: &str) -> Option<Cloud> {
        if Ownership::from_tag(owner, caller) == Ownership::Own {
            return Some(self.cloud.clone());
        }
        let is_named = self.args.owner.iter().any(|named| named == owner);
        let is_tended = is_named || (self.args.shared && !owner.is_empty());
        is_tended.then(|| self.cloud.acting_for(owner))
    }

    /// Begins work on those of `drives` that are not at work, nor to wait.
    fn begin(&self, drives: Vec<(DriveName, Cloud)>, tended: &mut Tended, local: &LocalSet) {
        let names: Vec<&DriveName> = drives.iter().map(|(name, _)| name).collect();
        tended.waits.retain(|name, _| names.contains(&name));
        for (name, cloud) in drives {
            let is_early = tended
                .waits
                .get(&name)
                .is_some_and(|wait| wait.at > Instant::now());
            if is_early || tended.at_work.contains_key(&name) {
                continue;
            }
            let drive = TendedDrive {
                name: name.clone(),
                cloud,
                visitor: self.visitor.clone(),
                paths: self.paths.clone(),
                address: self.args.notify.clone(),
                is_ending: Rc::clone(&tended.is_ending),
            };
            tended.at_work.insert(name, local.spawn_local(drive.tend()));
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
                "{name} waits, for {} min at least: {:#}",
                pause.as_secs() / 60,
                failure.error
            ));
            let at = Instant::now() + pause;
            tended.waits.insert(name, Wait { at, pause });
        }
    }
}
