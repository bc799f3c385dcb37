//! The commands: a file each, which has the command's arguments above its function.

pub mod adopt;
pub mod attach;
pub mod cat;
pub mod code;
pub mod connect;
pub mod containers;
pub mod copy;
pub mod cost;
pub mod cp;
pub mod delete;
pub mod diff;
pub mod doctor;
mod files;
pub mod flags;
pub mod fork;
pub mod freeze;
pub mod gc;
pub mod list;
pub mod local;
pub mod log;
pub mod logs;
mod names;
pub mod note;
mod plot;
pub mod policy;
pub mod ports;
pub mod prices;
pub mod proxy;
pub mod ps;
pub mod recipe;
pub mod rename;
pub mod resize;
pub mod run;
pub mod selftest;
pub mod share;
pub mod ssh_config;
pub mod stop;
pub mod sync;
pub mod tend;
pub mod workers;

use std::future::Future;
use std::hint::black_box;
use std::path::PathBuf;
use std::time::Duration;

use tokio::runtime::Builder;

use crate::cloud::{Cloud, Which};
use crate::config::{self, Config, Paths, Reach};
use crate::ec2::Account;
use crate::failure::{Exit, Failure};
use crate::ids::{DriveIn, DriveName};
use crate::opener::{Drive, Opening};
use crate::report::{self, Text};
use crate::session::Ineffective;
use crate::ssh::UserKey;
use crate::visit::Visitor;

pub(crate) use names::Names;

/// The part of the global flags that every command gets.
#[derive(Debug)]
pub struct Context {
    /// The EC2 that flags name, if they do.
    pub named: Option<Which>,
    /// The account of `--profile` and `--region`, which a policy is for even with `--local`.
    pub account: Account,
    /// `--local-dir`, if it was given.
    pub local_dir: Option<PathBuf>,
    /// Whether every question is answered with yes.
    pub yes: bool,
    /// How often `--verbose` was given.
    pub verbose: u8,
    /// The flags that change nothing about a drive that is up.
    pub ineffective: Ineffective,
}

impl Context {
    /// The context that the flags describe: `is_local` if the EC2 in a folder was asked for, else
    /// the `account`, if they name one.
    #[must_use]
    pub fn new(is_local: bool, account: Account, local_dir: Option<PathBuf>) -> Self {
        let is_named = account.profile.is_some() || account.region.is_some();
        let named = if is_local {
            Some(Which::Local)
        } else {
            is_named.then(|| Which::Account(account.clone()))
        };
        Self {
            named,
            account,
            local_dir,
            yes: false,
            verbose: 0,
            ineffective: Ineffective::default(),
        }
    }

    /// The user's files.
    pub fn paths(&self) -> Result<Paths, Failure> {
        Paths::find(self.local_dir.clone())
    }

    /// The EC2 that the command works on: that of the flags, else of the environment, else of the
    /// configuration, else the account's.
    pub fn which(&self, paths: &Paths) -> Result<Which, Failure> {
        match &self.named {
            Some(which) => Ok(which.clone()),
            None if config::is_local(paths)? => Ok(Which::Local),
            None => Ok(Which::Account(self.account.clone())),
        }
    }

    async fn open(&self, paths: &Paths) -> Result<Cloud, Failure> {
        Cloud::open(&self.which(paths)?, paths).await
    }

    /// Opens the drive of a verb. Another caller's is refused unless it may be `shared`.
    async fn drive(
        &self,
        paths: &Paths,
        place: DriveIn<DriveName>,
        shared: bool,
    ) -> Result<Drive, Failure> {
        let cloud = self.open(paths).await?;
        Drive::open(self.opening(place, shared), cloud).await
    }

    fn opening(&self, place: DriveIn<DriveName>, shared: bool) -> Opening {
        Opening {
            shared,
            yes: self.yes,
            ..Opening::new(place)
        }
    }
}

/// How hosts are reached: by flags, or else by the configuration.
fn reach(typed: flags::Reach, paths: &Paths) -> Result<Reach, Failure> {
    Ok(Reach::from(typed).or(Config::read(paths)?.reach()))
}

/// The visitor to hosts, by this route, with the user's key.
fn visitor(paths: &Paths, reach: Reach) -> Result<Visitor, Failure> {
    let key = key(paths)?;
    Ok(Visitor { key, reach })
}

/// A drive as a place: its main container is meant.
fn whole(drive: DriveName) -> DriveIn<DriveName> {
    DriveIn {
        drive,
        container: None,
    }
}

fn key(paths: &Paths) -> Result<UserKey, Failure> {
    UserKey::open_or_create(&paths.key).map_err(|error| {
        let hint = error.hint();
        Failure::new(Exit::Config, error).maybe_hint(hint)
    })
}

/// Runs `work` on one thread, which is enough: everything waits for the network or for child
/// processes.
fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    keep_freed_memory();
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(Exit::Failed, error))?;
    let answer = runtime.block_on(work);
    // A write that its reader does not take (`cat … | less`) holds up no end.
    runtime.shutdown_timeout(Duration::from_secs(2));
    answer
}

/// Has what a forward's packets took used again for the next ones. glibc gives the end of its heap back as
/// soon as 128 KiB of it are free, and what comes after needs new pages: a quarter of a forward's time.
/// Once a block of this size that was mapped was freed, twice as much stays (mallopt(3),
/// `M_MMAP_THRESHOLD`). It is never written to, so that it takes no memory.
fn keep_freed_memory() {
    const MAPPED: usize = 16 << 20;
    drop(black_box(Vec::<u8>::with_capacity(MAPPED)));
}

/// Prints to standard output. Returns the exit code 0.
pub(crate) fn print(text: &str) -> Result<u8, Failure> {
    report::data(&Text::block(text)).map_err(anyhow::Error::from)?;
    Ok(0)
}
