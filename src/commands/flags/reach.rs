//! The flags that say how hosts are reached from this computer.

use clap::{ArgMatches, Args, Command, FromArgMatches};

use crate::config::{self, Config};
use crate::ec2::Cidr;
use crate::ssh::ProxyCommand;

/// The ids of the flags of [`Config`] that every command has which reaches hosts.
const IDS: [&str; 2] = ["cidr", "proxy_command"];

/// The flags of [`Config`] that say how hosts are reached.
#[derive(Debug, Clone, Default)]
pub struct Reach {
    cidr: Vec<Cidr>,
    proxy_command: Option<ProxyCommand>,
}

/// Adds those flags of [`Config`] that have these ids.
pub(super) fn add_flags(command: Command, ids: &[&str]) -> Command {
    let all = Config::augment_args(Command::new("all"));
    let own = all.get_arguments();
    let own = own.filter(|it| ids.contains(&it.get_id().as_str()));
    command.args(own.cloned().collect::<Vec<_>>())
}

impl Args for Reach {
    fn augment_args(command: Command) -> Command {
        add_flags(command, &IDS)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Reach {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let [cidr, proxy_command] = IDS;
        let cidr = matches.get_many(cidr).into_iter().flatten();
        Ok(Self {
            cidr: cidr.copied().collect(),
            proxy_command: matches.get_one(proxy_command).cloned(),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl From<Reach> for Config {
    fn from(typed: Reach) -> Self {
        Self {
            cidr: typed.cidr,
            proxy_command: typed.proxy_command,
            ..Self::default()
        }
    }
}

impl From<Reach> for config::Reach {
    fn from(typed: Reach) -> Self {
        Config::from(typed).reach()
    }
}
