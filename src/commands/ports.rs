//! `xdrive ports`: on which ports something listens in a container of a drive.

use std::fmt::Write as _;

use serde::Serialize;

use super::flags::Reach;
use super::{Context, print};
use crate::failure::Failure;
use crate::ids::{ContainerName, DriveIn, DriveName, InstanceId, MAIN};
use crate::report;
use crate::visit::{self, Listener, Ports};

/// `xdrive ports`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The drive; with /CONTAINER a container of that name, else the main one.
    #[arg(value_name = "NAME[/CONTAINER]")]
    pub drive: DriveIn<DriveName>,

    /// One JSON document instead of text.
    ///
    /// A failure is one line of JSON at the end of standard error.
    #[arg(long)]
    pub json: bool,

    /// Look although the drive is another caller's.
    ///
    /// Callers are IAM users and roles.
    #[arg(long)]
    pub shared: bool,

    /// How hosts are reached.
    #[command(flatten)]
    pub reach: Reach,
}

/// A port, as `ports --json` prints it (`src/cli/schemas/ports.json`).
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Row<'a> {
    /// Name of the drive.
    drive: &'a str,
    /// Id of the drive's instance.
    instance: &'a str,
    /// Name of the container; main is the drive's main one.
    container: &'a str,
    /// Number of the port.
    #[cfg_attr(test, schemars(range(min = 1)))]
    port: u16,
    /// Addresses of the container on which it listens; 0.0.0.0 and :: are all.
    addresses: &'a [String],
    /// Name of the process; empty if it is not known.
    program: &'a str,
    /// `chosen`: a program on a port in the range that the system chooses from (ephemeral ports);
    /// `program`: one on any other; `forward`: the end of a session's forward (-R).
    #[cfg_attr(test, schemars(extend("enum" = ["program", "chosen", "forward"])))]
    kind: &'static str,
}

/// Lists the ports. Returns the exit code.
pub(crate) fn run(args: Args, context: &Context) -> Result<u8, Failure> {
    let paths = context.paths()?;
    let reach = super::reach(args.reach, &paths)?;
    super::block_on(async {
        let drive = context
            .drive(&paths, args.drive.clone(), args.shared)
            .await?;
        let xdrive = drive.cloud.command.clone();
        let visitor = super::visitor(&paths, reach)?;
        let Ports {
            instance,
            listeners: ports,
        } = visit::list_ports(drive, visitor).await?;
        if args.json {
            let rows = ports
                .iter()
                .map(|it| row(&args.drive, instance.as_str(), it));
            return Ok(report::json(&rows.collect::<Vec<_>>()).map(|()| 0)?);
        }
        print(&text(&args.drive, &instance, &ports, &xdrive))
    })
}

fn row<'a>(place: &'a DriveIn<DriveName>, instance: &'a str, it: &'a Listener) -> Row<'a> {
    let container = place.container.as_ref();
    Row {
        drive: place.drive.as_str(),
        instance,
        container: container.map_or(MAIN, ContainerName::as_str),
        port: it.port,
        addresses: &it.addresses,
        program: &it.program,
        kind: kind(it),
    }
}

fn kind(it: &Listener) -> &'static str {
    match (it.is_forward, it.is_chosen) {
        (true, _) => "forward",
        (_, true) => "chosen",
        _ => "program",
    }
}

/// The drive's instance, its ports, and the command that forwards the first one of use.
fn text(
    place: &DriveIn<DriveName>,
    instance: &InstanceId,
    ports: &[Listener],
    xdrive: &str,
) -> String {
    let mut text = format!("{place} on {}\n", instance.short_label());
    if ports.is_empty() {
        text.push_str("  nothing listens in the container\n");
    }
    for it in ports {
        let what = match kind(it) {
            "forward" => "leads out of the container (-R)".to_owned(),
            "chosen" => format!("{}, on an ephemeral port", it.name()),
            _ => it.name().to_owned(),
        };
        let addresses = it.addresses.join(" ");
        let _ = writeln!(text, "  {:>5}  {addresses:<20}  {what}", it.port);
    }
    if let Some(it) = ports.iter().find(|it| it.is_for_people()) {
        let port = it.port;
        let _ = writeln!(
            text,
            "{xdrive} connect {place} -L {port} leads there; in a shell ~C -L {port} does"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_the_committed_schema() {
        let (title, description) = (
            "xdrive ports --json",
            "The ports on which something listens in a container of a drive.",
        );
        crate::report::schema::check::<Vec<Row>>("ports", title, description);
    }

    #[test]
    fn a_port_is_a_line_with_what_has_it() {
        let listener = |port, program: &str| Listener {
            port,
            addresses: vec!["127.0.0.1".to_owned()],
            program: program.to_owned(),
            is_chosen: port > 32768,
            is_forward: program.is_empty(),
        };
        let ports = [
            listener(6006, "python3"),
            listener(7001, ""),
            listener(40000, "node"),
        ];
        let instance = "i-1".parse().unwrap();
        let demo = "demo".parse().unwrap();
        assert_eq!(
            text(&demo, &instance, &ports, "xdrive"),
            "demo on its instance (i-1)\n   \
             6006  127.0.0.1             python3\n   \
             7001  127.0.0.1             leads out of the container (-R)\n  \
             40000  127.0.0.1             node, on an ephemeral port\n\
             xdrive connect demo -L 6006 leads there; in a shell ~C -L 6006 does\n"
        );
        let nothing = "demo on its instance (i-1)\n  nothing listens in the container\n";
        assert_eq!(text(&demo, &instance, &[], "xdrive"), nothing);
        let tools = "demo/tools".parse().unwrap();
        let in_tools = text(&tools, &instance, &ports, "xdrive");
        assert!(
            in_tools.contains("connect demo/tools -L 6006"),
            "{in_tools}"
        );
    }
}
