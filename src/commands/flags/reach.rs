//! The flags that say how hosts are reached from this computer.

use clap::Args;

use crate::config;
use crate::ec2::Cidr;
use crate::ssh::ProxyCommand;

/// The section of these flags in the help.
pub const REACH: &str = "How hosts are reached";

/// How hosts are reached.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = REACH)]
pub struct Reach {
    /// Let these addresses log in, such as 203.0.113.0/24.
    ///
    /// In place of this computer's own address; it may be given several times.
    #[arg(long, value_name = "CIDR", hide_short_help = true)]
    cidr: Vec<Cidr>,

    /// Connect through this command, as by ssh's `ProxyCommand`.
    ///
    /// Through its input and output, to the private address: %h is the address, %p the port, %i the
    /// instance's id, %% a percent sign. Then only the addresses of --cidr are let in.
    #[arg(long, value_name = "COMMAND", hide_short_help = true)]
    proxy_command: Option<ProxyCommand>,
}

impl From<Reach> for config::Reach {
    fn from(typed: Reach) -> Self {
        Self {
            cidrs: typed.cidr,
            address_service: None,
            proxy: typed.proxy_command,
        }
    }
}
