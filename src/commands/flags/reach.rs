//! The flags that say how hosts are reached from this computer.

use clap::Args;

use crate::config;
use crate::ec2::Cidr;
use crate::ssh::ProxyCommand;

/// How hosts are reached.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "How hosts are reached")]
pub struct Reach {
    /// Let these addresses log in, such as 203.0.113.7 or 203.0.113.0/24, in place of the one that
    /// this computer comes from; it may be given several times.
    #[arg(long, value_name = "CIDR")]
    cidr: Vec<Cidr>,

    /// Connect through this command's input and output, as ssh's `ProxyCommand` does, to the
    /// private address: %h is the address, %p the port, %i the instance's id, %% a percent sign.
    /// Nobody is let in then whom --cidr does not name.
    #[arg(long, value_name = "COMMAND")]
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
