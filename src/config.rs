//! The options of a session: flags first, then the configuration file. And the paths of xdrive's
//! files.
//!
//! The drive's own tags, then the cloud's defaults decide what both leave open. Nothing that
//! is kept on this computer is needed to find or finish a drive: the configuration is the user's, a
//! lost key is made again, the names of drives are kept for completions only, their hosts'
//! keys for `ssh` only ([`known_hosts`]), and the EC2 in a folder stands for AWS.

mod agent;
pub mod cloud;
mod docker;
pub mod environment;
mod file;
mod forward;
mod git;
mod iam;
mod known_hosts;
pub mod launch;
mod notify;
mod once;
mod options;
mod over;
mod paths;
mod places;
pub mod quantity;
mod reach;
mod results;
mod sections;
mod settings;
mod tags;
mod variables;

pub use crate::host::places::{Mount, Places};
pub use agent::agent;
pub use docker::{DockerLogins, FoundLogin};
pub use file::is_local;
pub use forward::{Forwarding, InvalidForwarding};
pub use git::GitUser;
pub use iam::{InstanceProfile, role};
pub use known_hosts::{KnownHosts, SUFFIX};
pub use notify::NotifyUrl;
pub use once::Once;
pub use options::Options;
pub use paths::Paths;
pub use reach::Reach;
pub use results::S3Prefix;
pub use settings::Config;
pub use tags::check_count as check_tags;
pub use variables::{LONGEST_WORD, Variables};
