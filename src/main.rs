//! The command: parse, run, exit code.

use std::process::ExitCode;

use clap::Parser;
use tracing_subscriber::EnvFilter;
use xdrive::cli::Cli;

fn main() -> ExitCode {
    let cli = Cli::parse();
    log();
    match cli.run() {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            // With a closed standard error the exit code alone reports the failure.
            let _ = std::io::Write::write_all(
                &mut std::io::stderr(),
                format!("{failure}\n").as_bytes(),
            );
            ExitCode::from(failure.exit.code())
        }
    }
}

/// Logs to standard error: warnings, or what `XDRIVE_LOG` filters (the syntax is that of
/// `tracing_subscriber::EnvFilter`, such as `xdrive=debug`).
fn log() {
    let filter = EnvFilter::try_from_env("XDRIVE_LOG").unwrap_or_else(|_| "xdrive=warn".into());
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // These go to standard error too; with that closed, printing them would panic.
        .log_internal_errors(false)
        .init();
}
