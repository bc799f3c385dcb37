//! The command: its words in, an exit code out.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(xdrive::cli::run(std::env::args_os()))
}
