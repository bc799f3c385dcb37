//! The flags that say what is launched, for a command that begins several.

use clap::{ArgMatches, Args, Command, FromArgMatches};

use super::reach::add_flags;
use crate::config::{Config, Once};

/// The ids of the flags of [`Config`] that such a command has: what is launched, what comes along, and how
/// hosts are reached.
const IDS: [&str; 25] = [
    "types",
    "gpu",
    "cpus",
    "memory",
    "free",
    "spot",
    "on_demand",
    "fallback",
    "max_price",
    "prefer",
    "reservation",
    "ami",
    "subnet",
    "instance_profile",
    "throughput",
    "iops",
    "warm",
    "slices",
    "env",
    "env_file",
    "notice",
    "dry_run",
    "json",
    "cidr",
    "proxy_command",
];

/// The flags of [`Config`] that say what is launched.
#[derive(Debug, Clone, Default)]
pub struct Launch {
    /// The settings that were typed; all else is as if nothing was.
    pub config: Config,
}

impl Args for Launch {
    fn augment_args(command: Command) -> Command {
        add_flags(command, &IDS)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Launch {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        fn one<T: Clone + Send + Sync + 'static>(matches: &ArgMatches, id: &str) -> Option<T> {
            matches.get_one(id).cloned()
        }
        fn all<T: Clone + Send + Sync + 'static>(matches: &ArgMatches, id: &str) -> Vec<T> {
            matches
                .get_many(id)
                .into_iter()
                .flatten()
                .cloned()
                .collect()
        }
        let config = Config {
            types: all(matches, "types"),
            gpu: one(matches, "gpu"),
            cpus: one(matches, "cpus"),
            memory: one(matches, "memory"),
            free: matches.get_flag("free"),
            spot: matches.get_flag("spot"),
            on_demand: matches.get_flag("on_demand"),
            fallback: one(matches, "fallback"),
            max_price: one(matches, "max_price"),
            prefer: one(matches, "prefer"),
            ami: one(matches, "ami"),
            subnet: one(matches, "subnet"),
            instance_profile: one(matches, "instance_profile"),
            throughput: one(matches, "throughput"),
            iops: one(matches, "iops"),
            warm: one(matches, "warm"),
            slices: one(matches, "slices"),
            env: all(matches, "env"),
            env_file: all(matches, "env_file"),
            notice: one(matches, "notice"),
            dry_run: matches.get_flag("dry_run"),
            cidr: all(matches, "cidr"),
            proxy_command: one(matches, "proxy_command"),
            once: Once {
                json: matches.get_flag("json"),
                reservation: one(matches, "reservation"),
                ..Once::default()
            },
            ..Config::default()
        };
        Ok(Self { config })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_is_read_as_connect_reads_it() {
        for line in [
            "--type m5.large,m5.xlarge --spot --fallback none --max-price 0.5 --prefer lasting --ami ami-1",
            "--gpu 1 --cpus 2 --memory 64G --on-demand --subnet subnet-1 --instance-profile data",
            "--free --throughput 250 --iops 4000 --warm 300 -e A=1 -e B --env-file x",
            "--reservation cr-0123456789abcdef0 --type m5.large",
            "--notice 45 --slices 3 --dry-run --json --cidr 203.0.113.7/32 --proxy-command nc",
        ] {
            let words = || ["x"].into_iter().chain(line.split(' '));
            let whole = Config::augment_args(Command::new("x")).get_matches_from(words());
            let part = Launch::augment_args(Command::new("x")).get_matches_from(words());
            assert_eq!(
                Launch::from_arg_matches(&part).unwrap().config,
                Config::from_arg_matches(&whole).unwrap(),
                "{line}"
            );
        }
    }
}
