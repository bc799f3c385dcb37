//! The flags that say what comes along into the container.

use std::path::PathBuf;

use clap::Args;

/// The section of these flags in the help, and of others of a session.
pub const SESSION: &str = "The session";

/// What comes along into the container, besides ports.
#[derive(Debug, Clone, Default, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of its own, and any of them goes with any other"
)]
pub struct Along {
    /// Bring a variable along, such as `HF_TOKEN` or `MODE=fast`.
    ///
    /// NAME alone takes its value here. The shell, the command and what Jupyter starts have it; no
    /// disk, image, tag, log or process's arguments do. It may be given several times.
    #[arg(
        short = 'e',
        long,
        value_name = "NAME[=VALUE]",
        hide_short_help = true,
        help_heading = SESSION
    )]
    pub env: Vec<String>,

    /// Bring the variables of this file along, as docker's flag does.
    ///
    /// A line each, NAME=VALUE or NAME; -e outranks it.
    #[arg(long, value_name = "FILE", hide_short_help = true, help_heading = SESSION)]
    pub env_file: Vec<PathBuf>,

    /// Forward the SSH agent of this computer, as ssh's -A.
    ///
    /// For git and ssh in the container: its keys stay here. It answers as long as this session
    /// lasts, also after a lost connection. Root of the instance and of the container can use it.
    #[arg(short = 'A', long, hide_short_help = true, help_heading = SESSION)]
    pub agent: bool,

    /// Let programs there use this computer's AWS credentials.
    ///
    /// AWS tools find them as in a container of ECS, as long as this session lasts. Long-term keys
    /// stay here and are exchanged for an hour's at a time; temporary ones are passed on. Nothing
    /// is on the drive.
    #[arg(long, hide_short_help = true, help_heading = SESSION)]
    pub aws: bool,

    /// Do not take Git's user.name and user.email along.
    ///
    /// Without this flag they hold in the container unless it has its own.
    #[arg(long, hide_short_help = true, help_heading = SESSION)]
    pub no_git: bool,

    /// Pull without the logins that `docker login` has left here.
    ///
    /// Without this flag the one at the image's registry, and no other, is sent to the instance for
    /// the pull. It is on no disk there, but root of the instance can read it meanwhile.
    #[arg(long, hide_short_help = true, help_heading = SESSION)]
    pub no_registry_login: bool,
}
