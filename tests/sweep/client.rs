//! The sweep's own program as xdrive: the same session that the `xdrive` binary runs, with a trace
//! that can kill it.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser as _;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use xdrive::cli::{Cli, Command, DriveCommand};
use xdrive::clock::Clock;
use xdrive::cloud::{Cloud, Which};
use xdrive::config::Paths;
use xdrive::drive::Timing;
use xdrive::ec2::{Account, Ec2};
use xdrive::failure::{Exit, Failure};
use xdrive::local::Delays;
use xdrive::session;
use xdrive::ssh::UserKey;

use crate::points::{Kill, Points};

/// The variable with the trace's file.
pub(crate) const TRACE: &str = "XDRIVE_SWEEP_TRACE";
/// The variable with the point of the kill, and how many microseconds after it.
pub(crate) const KILL: &str = "XDRIVE_SWEEP_KILL";
pub(crate) const AFTER: &str = "XDRIVE_SWEEP_AFTER";

/// Runs `xdrive --local ARGUMENTS…`, on the EC2 of `AWS_ENDPOINT_URL` if that is set.
pub(crate) fn run(arguments: impl Iterator<Item = String>) -> ExitCode {
    let words = ["xdrive", "--local"].map(str::to_owned);
    let cli = Cli::parse_from(words.into_iter().chain(arguments));
    let outcome = trace()
        .map_err(|error| Failure::new(Exit::Config, error))
        .and_then(|()| session(cli));
    exit_code(outcome)
}

/// Supervises an instance that this program has launched.
pub(crate) fn supervise() -> ExitCode {
    exit_code(Cli::parse().run())
}

fn exit_code(outcome: Result<u8, Failure>) -> ExitCode {
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::from(failure.exit.code())
        }
    }
}

fn trace() -> anyhow::Result<()> {
    let Some(file) = std::env::var_os(TRACE) else {
        return Ok(());
    };
    let micros = std::env::var(AFTER).map_or(Ok(0), |value| value.parse())?;
    let kill = std::env::var(KILL).ok().map(|point| Kill {
        point,
        after: Duration::from_micros(micros),
    });
    let points = Points::new(&PathBuf::from(file), kill)?;
    tracing_subscriber::registry().with(points).try_init()?;
    Ok(())
}

fn session(cli: Cli) -> Result<u8, Failure> {
    let Command::Drive(DriveCommand::Connect(typed)) = cli.command else {
        return cli.run();
    };
    let paths = Paths::find(cli.local_dir)?;
    let request = xdrive::commands::connect::request(*typed, &paths)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(anyhow::Error::from)?;
    runtime.block_on(async {
        let cloud = if std::env::var_os("AWS_ENDPOINT_URL").is_some() {
            let timing = Timing::local(Delays::new(xdrive::local::Preset::Fast).settle());
            let clock = Clock::system();
            let ec2 = Ec2::of_account(&Account::default(), clock.clone()).await;
            Cloud::new(ec2.map_err(anyhow::Error::from)?, timing, &clock, &paths)
        } else {
            Cloud::open(&Which::Local, &paths).await?
        };
        let key = UserKey::open_or_create(&paths.key)
            .map_err(|error| Failure::new(Exit::Config, error))?;
        session::connect(request, cloud, key).await
    })
}
