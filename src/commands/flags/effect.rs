//! When a flag of `connect` and `run` changes something. One that changes nothing about a drive that is
//! up is named: its user expects something of it.

use clap::ArgMatches;
use clap::parser::ValueSource;

use super::Ineffective;

/// When a flag changes something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// Whether the drive is up or not; or what it does then is reported where that is known.
    Always,
    /// Where an instance is launched, or a volume made.
    Launch,
    /// Where this session starts the container.
    Container,
}

/// The commands that this is about.
const COMMANDS: [&str; 2] = ["connect", "run"];

/// The effect of an argument, by clap's id; none for what is no argument of these commands.
fn effect(id: &str) -> Option<Effect> {
    Some(match id {
        "gpu" | "cpus" | "memory" | "free" | "spot" | "on_demand" | "fallback" | "max_price"
        | "prefer" | "reservation" | "ami" | "leave_zone" | "size" | "throughput" | "iops"
        | "warm" | "subnet" | "instance_profile" => Effect::Launch,
        "image" | "mounts" | "no_mounts" | "shares" | "no_shares" | "docker" | "no_docker"
        | "slices" => Effect::Container,
        // Also what is reported elsewhere: the drive's own architecture is compared, the type of its
        // instance named, and a guest's --from and --discard are refused. Tags are for what is made,
        // which a save of a drive that is up does, too.
        "tags" | "types" | "budget" | "arch" | "from" | "discard" | "drive" | "keep" | "idle"
        | "resume" | "freeze" | "dry_run" | "json" | "shared" | "jupyter_port" | "no_jupyter"
        | "open" | "forwards" | "remote_forwards" | "env" | "env_file" | "agent" | "aws"
        | "no_git" | "no_registry_login" | "exact_ports" | "checkpoint" | "notice" | "no_join"
        | "cidr" | "proxy_command" | "terminal" | "note" | "no_terminal" | "command" | "detach"
        | "max" | "ingress" | "no_ingress" | "address" | "no_address" | "again" | "restart"
        | "tries" | "retry" | "retry_on" | "results" | "results_every" | "notify" => Effect::Always,
        _ => return None,
    })
}

/// The flags on this command line that change nothing about a drive that is up.
#[must_use]
pub fn ineffective(matches: &ArgMatches) -> Ineffective {
    let mut ineffective = Ineffective::default();
    let mut found = ("", matches);
    while let Some(subcommand) = found.1.subcommand() {
        found = subcommand;
    }
    let (command, matches) = found;
    if !COMMANDS.contains(&command) {
        return ineffective;
    }
    // In the order in which they were typed.
    for id in matches.ids().map(clap::Id::as_str) {
        if matches.value_source(id) != Some(ValueSource::CommandLine) {
            continue;
        }
        match effect(id) {
            Some(Effect::Launch) => ineffective.launch.push(flag(id)),
            Some(Effect::Container) => ineffective.container.push(flag(id)),
            Some(Effect::Always) | None => {}
        }
    }
    ineffective
}

/// The flag with this id, as it is typed.
fn flag(id: &str) -> String {
    let name = match id {
        "mounts" => "mount",
        "shares" => "share",
        other => other,
    };
    format!("--{}", name.replace('_', "-"))
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, Command};

    use super::*;
    use crate::commands::{connect, run};

    fn definitions() -> [Command; 2] {
        [
            connect::Args::augment_args(Command::new("connect")),
            run::Args::augment_args(Command::new("run")),
        ]
    }

    #[test]
    fn every_flag_has_an_effect_and_those_that_may_have_none_their_names() {
        for command in definitions() {
            for argument in command.get_arguments() {
                let id = argument.get_id().as_str();
                let effect = effect(id);
                assert!(effect.is_some(), "{id} of {}: when?", command.get_name());
                if effect != Some(Effect::Always) {
                    let long = argument.get_long().map(|long| format!("--{long}"));
                    assert_eq!(long, Some(flag(id)));
                }
            }
        }
    }

    #[test]
    fn only_flags_that_were_typed_are_named_as_ineffective() {
        let top = || Command::new("xdrive").subcommands(definitions());
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let ineffective = |line: &str| {
            let matches = top().try_get_matches_from(words(line)).unwrap();
            let Ineffective { launch, container } = super::ineffective(&matches);
            (launch, container)
        };
        let (launch, container) = ineffective(
            "xdrive connect demo --on-demand --size 9 --mount a:/b --image x --keep 1h -- --gpu 1",
        );
        assert_eq!(launch, ["--on-demand", "--size"]);
        assert_eq!(container, ["--mount", "--image"]);
        let (launch, container) =
            ineffective("xdrive run demo -d --type m5.large --max 1h -- true");
        assert_eq!([launch, container], [[""; 0]; 2]);
    }
}
