//! `xdrive containers`: the containers of a drive.

use std::fmt::Write as _;

use serde::Serialize;

use super::flags::Reach;
use super::{Context, print};
use crate::failure::Failure;
use crate::ids::{ContainerName, DriveName, InstanceId, MAIN};
use crate::report::{self, one_line};
use crate::visit::{self, ContainerState, Containers, OnRecord};

/// `xdrive containers`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The drive.
    #[arg(value_name = "NAME")]
    pub drive: DriveName,

    /// Remove this container, with all that is in it.
    ///
    /// Its own layer, its images, its volumes; not /work, which is the drive's. It asks first. Never
    /// the main container, none in which a program runs, and none of a drive that is not up.
    #[arg(long, value_name = "CONTAINER", conflicts_with = "json")]
    pub remove: Option<ContainerName>,

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

/// A container, as `containers --json` prints it (`src/cli/schemas/containers.json`).
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Row<'a> {
    /// Name of the drive.
    drive: &'a str,
    /// Id of the drive's instance; null if it is not up.
    instance: Option<&'a str>,
    /// Name of the container; main is the drive's main one.
    container: &'a str,
    /// State of the container: `gone` is one that is made again from its own image the next time,
    /// `asleep` one of a drive that is not up.
    #[cfg_attr(test, schemars(extend("enum" = ["running", "stopped", "gone", "asleep"])))]
    state: &'static str,
    /// Source of the container: a reference, or the name and digest of an archive or folder.
    image: &'a str,
}

/// Lists the containers, or removes one. Returns the exit code.
pub(crate) fn run(args: Args, context: &Context) -> Result<u8, Failure> {
    let paths = context.paths()?;
    let reach = super::reach(args.reach, &paths)?;
    super::block_on(async {
        let place = super::whole(args.drive.clone());
        let opened = context.drive(&paths, place, args.shared).await?;
        let visitor = || super::visitor(&paths, reach);
        if let Some(name) = &args.remove {
            return visit::remove_container(opened, visitor()?, name).await;
        }
        let Containers { instance, found } = visit::list_containers(opened, visitor).await?;
        let drive = args.drive.as_str();
        let instance = instance.as_ref();
        let id = instance.map(InstanceId::as_str);
        let rows = found.iter().map(|it| row(drive, id, it));
        let rows: Vec<Row> = rows.collect();
        if args.json {
            return Ok(report::json(&rows).map(|()| 0)?);
        }
        print(&text(drive, instance, &rows))
    })
}

fn row<'a>(drive: &'a str, instance: Option<&'a str>, it: &'a OnRecord) -> Row<'a> {
    Row {
        drive,
        instance,
        container: it.name.as_ref().map_or(MAIN, ContainerName::as_str),
        state: match it.state {
            ContainerState::Running => "running",
            ContainerState::Stopped => "stopped",
            ContainerState::Gone => "gone",
            ContainerState::Asleep => "asleep",
        },
        image: &it.source,
    }
}

/// The containers, a line each, of a drive that is on an instance or asleep.
fn text(drive: &str, instance: Option<&InstanceId>, rows: &[Row]) -> String {
    let mut text = match instance {
        Some(instance) => format!("{drive} on {}\n", instance.short_label()),
        None => format!("{drive}, asleep\n"),
    };
    if rows.is_empty() {
        text.push_str("  no container was made yet\n");
    }
    let width = rows.iter().map(|row| row.container.len()).max();
    let width = width.unwrap_or_default();
    for row in rows {
        let image = one_line(row.image);
        let _ = writeln!(
            text,
            "  {:<width$}  {:<7}  {image}",
            row.container, row.state
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
            "xdrive containers --json",
            "The containers of a drive, the main one first.",
        );
        crate::report::schema::check::<Vec<Row>>("containers", title, description);
    }

    #[test]
    fn a_container_is_a_line_with_its_state_and_its_image() {
        let instance = "i-1".parse().unwrap();
        let found = [
            OnRecord {
                name: None,
                state: ContainerState::Running,
                source: "jupyter".to_owned(),
            },
            OnRecord {
                name: Some("tools".parse().unwrap()),
                state: ContainerState::Gone,
                source: "busybox:1".to_owned(),
            },
        ];
        let rows: Vec<Row> = found.iter().map(|it| row("demo", None, it)).collect();
        assert_eq!(
            text("demo", Some(&instance), &rows),
            "demo on its instance (i-1)\n  \
             main   running  jupyter\n  \
             tools  gone     busybox:1\n"
        );
        assert_eq!(
            text("demo", None, &[]),
            "demo, asleep\n  no container was made yet\n"
        );
    }

    #[test]
    fn nothing_of_an_images_name_is_obeyed_by_a_terminal() {
        let found = [OnRecord {
            name: None,
            state: ContainerState::Asleep,
            source: "\u{1b}]52;c;x\u{7}busybox\nhint: x".to_owned(),
        }];
        let rows: Vec<Row> = found.iter().map(|it| row("demo", None, it)).collect();
        assert_eq!(
            text("demo", None, &rows),
            "demo, asleep\n  main  asleep   ?]52;c;x?busybox?hint: x\n"
        );
    }
}
