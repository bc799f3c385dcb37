//! The command: parse, run, exit code.

use std::process::ExitCode;

use clap::Parser;
use xdrive::cli::Cli;

fn main() -> ExitCode {
    let cli = Cli::parse();
    match xdrive::run::run(cli) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            // A closed stderr is no reason to panic: the exit code still says it.
            let _ = std::io::Write::write_all(
                &mut std::io::stderr(),
                format!("{failure}\n").as_bytes(),
            );
            ExitCode::from(failure.exit.code())
        }
    }
}
