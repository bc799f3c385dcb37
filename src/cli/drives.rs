//! The commands on drives, each run by its own module.

use super::DriveCommand;
use crate::commands::{
    Context, adopt, attach, cat, code, connect, containers, copy, cost, cp, delete, diff, doctor,
    fork, freeze, gc, list, log, logs, note, ports, prices, proxy, ps, rename, resize, run,
    selftest, share, ssh_config, stop, sync, tend, workers,
};
use crate::failure::Failure;

impl DriveCommand {
    /// Runs the command. Returns the exit code.
    pub(super) fn run(self, context: &Context) -> Result<u8, Failure> {
        match self {
            Self::Connect(args) => connect::run(*args, context),
            Self::List(args) => list::run(&args, context),
            Self::Stop(args) => stop::run(&args, context),
            Self::Freeze(args) => freeze::run(args, context),
            Self::Log(args) => log::run(args, context),
            Self::Cost(args) => cost::run(&args, context),
            Self::Diff(args) => diff::run(args, context),
            Self::Note(args) => note::run(args, context),
            Self::Delete(args) => delete::run(args, context),
            Self::Rename(args) => rename::run(&args, context),
            Self::Resize(args) => resize::run(args, context),
            Self::Fork(args) => fork::run(args, context),
            Self::Copy(args) => copy::run(args, context),
            Self::Adopt(args) => adopt::run(args, context),
            Self::Cat(args) => cat::run(args, context),
            Self::Cp(args) => cp::run(args, context),
            Self::Sync(args) => sync::run(args, context),
            Self::Code(args) => code::run(args, context),
            Self::SshConfig(args) => ssh_config::run(&args, context),
            Self::Proxy(args) => proxy::run(args, context),
            Self::Run(args) => run::run(*args, context),
            Self::Attach(args) => attach::run(args, context),
            Self::Logs(args) => logs::run(args, context),
            Self::Ps(args) => ps::run(&args, context),
            Self::Containers(args) => containers::run(args, context),
            Self::Ports(args) => ports::run(args, context),
            Self::Prices(args) => prices::run(&args, context),
            Self::Gc(args) => gc::run(&args, context),
            Self::Share(args) => share::run(args, context),
            Self::Tend(args) => tend::run(args, context),
            Self::Workers(args) => workers::run(*args, context),
            Self::Doctor(args) => doctor::run(&args, context),
            Self::Selftest(args) => selftest::run(*args, context),
        }
    }
}
