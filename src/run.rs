//! From what was typed to what runs.

use crate::cli::{Cli, Command, Local};
use crate::failure::Failure;
use crate::local;

/// Runs one command; the answer is the exit code.
pub fn run(cli: Cli) -> Result<u8, Failure> {
    match cli.command {
        Command::Local(Local::Supervise {
            dir,
            cache,
            instance,
        }) => {
            local::plane::supervise(&dir, &cache, &instance)?;
            Ok(0)
        }
        _ => Err(Failure::from(anyhow::anyhow!("not landed yet"))),
    }
}
