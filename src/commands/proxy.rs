//! `xdrive proxy`: the `ProxyCommand` of an SSH client that is to be in a drive's container.

use std::io::IsTerminal as _;

use anyhow::anyhow;

use super::Context;
use super::flags::Reach;
use crate::config::{KnownHosts, SUFFIX};
use crate::failure::{Exit, Failure};
use crate::ids::{DriveIn, DriveName, InvalidDriveIn, InvalidName};
use crate::report;
use crate::visit;

/// `xdrive proxy`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The drive or a container of it, or what ssh calls them: NAME.xdrive, NAME..CONTAINER.xdrive.
    #[arg(value_name = "NAME[/CONTAINER]", value_parser = place)]
    pub drive: DriveIn<DriveName>,

    /// Connect although another caller has or had it.
    ///
    /// Callers are IAM users and roles.
    #[arg(long)]
    pub shared: bool,

    /// How hosts are reached.
    #[command(flatten)]
    pub reach: Reach,
}

/// The drive or container of that name, or of that name for ssh.
pub(super) fn place(name: &str) -> Result<DriveIn<DriveName>, InvalidDriveIn<InvalidName>> {
    DriveIn::parse_word(name.strip_suffix(SUFFIX).unwrap_or(name))
}

/// Connects. Returns the exit code.
pub(crate) fn run(args: Args, context: &Context) -> Result<u8, Failure> {
    let paths = context.paths()?;
    if std::io::stdin().is_terminal() {
        let error =
            anyhow!("xdrive proxy carries the bytes of an SSH client, and this is a terminal");
        return Err(Failure::new(Exit::Usage, error).hint(format!(
            "{} ssh-config --write, and then ssh {}{SUFFIX}",
            context.which(&paths)?.command(&paths),
            args.drive.word()
        )));
    }
    // What it prints is amid the client's own words.
    report::set_quiet(true);
    let reach = super::reach(args.reach, &paths)?;
    let known = KnownHosts::new(&paths);
    super::block_on(async {
        let drive = context.drive(&paths, args.drive, args.shared).await?;
        visit::proxy(drive, super::visitor(&paths, reach)?, known).await
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drive_has_its_own_name_and_the_one_for_ssh() {
        for (given, name) in [
            ("demo", "demo"),
            ("demo.xdrive", "demo"),
            ("a.b.xdrive", "a.b"),
            ("x.xdrive.xdrive", "x.xdrive"),
            ("demo/tools", "demo/tools"),
            ("demo..tools.xdrive", "demo/tools"),
        ] {
            assert_eq!(place(given).unwrap().to_string(), name);
        }
        assert!(place(".xdrive").is_err());
    }
}
