//! The log.

use anyhow::anyhow;
use tracing_subscriber::EnvFilter;

use crate::config::environment;
use crate::failure::{Exit, Failure};
use crate::report;

/// Logs to standard error: warnings, or what `XDRIVE_LOG` filters (the syntax is that of
/// `tracing_subscriber::EnvFilter`, such as `xdrive=debug`); with `--verbose` what that says.
pub(super) fn begin(verbose: u8) -> Result<(), Failure> {
    let filter = match verbose {
        0 => filter(std::env::var(environment::LOG).ok())?,
        1 => "xdrive=warn,xdrive::host=debug".into(),
        2 => "xdrive=debug".into(),
        _ => "xdrive=trace".into(),
    };
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| report::Log)
        .with_ansi(false)
        // These go to standard error too; with that closed, printing them would panic.
        .log_internal_errors(false)
        .init();
    Ok(())
}

/// Parses the filter of logs; without one, warnings are logged.
fn filter(given: Option<String>) -> Result<EnvFilter, Failure> {
    let Some(given) = given.filter(|given| !given.is_empty()) else {
        return Ok("xdrive=warn".into());
    };
    EnvFilter::builder().parse(&given).map_err(|error| {
        let error = anyhow!("{}={given} is no filter of logs: {error}", environment::LOG);
        Failure::new(Exit::Usage, error).hint("XDRIVE_LOG=xdrive::ec2=debug, or -v")
    })
}
