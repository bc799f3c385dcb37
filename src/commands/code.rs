//! `xdrive code`: VS Code, in a drive's container.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, anyhow};

use super::{Context, proxy, ssh_config};
use crate::config::SUFFIX;
use crate::failure::{Exit, Failure};
use crate::ids::{DriveIn, DriveName};
use crate::visit;

/// The program that opens VS Code (its documentation, *Command Line Interface*).
const PROGRAM: &str = "code";

/// `xdrive code`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The drive.
    #[arg(value_name = "NAME[/CONTAINER]", value_parser = proxy::place)]
    pub drive: DriveIn<DriveName>,

    /// The folder or file to open.
    #[arg(value_name = "PATH", default_value = "/work")]
    pub path: OsString,
}

/// Opens it. Returns the exit code.
pub(crate) fn run(args: Args, context: &Context) -> Result<u8, Failure> {
    let paths = context.paths()?;
    let host = format!("{}{SUFFIX}", args.drive.word());
    let program = find_program().ok_or_else(|| {
        let error = anyhow!("there is no program {PROGRAM} in PATH, which opens VS Code");
        Failure::new(Exit::Unavailable, error).hint(format!(
            "in VS Code \"Shell Command: Install '{PROGRAM}' command in PATH\" makes it; or \
             \"Remote-SSH: Connect to Host\" there, with {host}"
        ))
    })?;
    super::block_on(async {
        let drive = context.drive(&paths, args.drive, false).await?;
        visit::demand_host(&drive, PROGRAM)
    })?;
    ssh_config::ensure(context, &paths)?;
    let opened = Command::new(program)
        .arg("--remote")
        .arg(format!("ssh-remote+{host}"))
        .arg(&args.path)
        .status()
        .with_context(|| format!("{PROGRAM} cannot be started"))?;
    Ok(opened
        .code()
        .and_then(|code| u8::try_from(code).ok())
        .unwrap_or(1))
}

/// Where the program is.
fn find_program() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    let programs = std::env::split_paths(&folders).map(|folder| folder.join(PROGRAM));
    { programs }.find(|program| program.is_file())
}
