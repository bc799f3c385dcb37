//! `xdrive diff`: what differs between two generations of a drive.

use std::ffi::OsString;
use std::fmt::Write as _;

use anyhow::anyhow;
use serde::Serialize;

use super::files::{kind, printable};
use super::flags::Reach;
use super::{Context, block_on, print};
use crate::failure::{Exit, Failure};
use crate::ids::{DriveAt, DriveIn, Generation};
use crate::report;
use crate::transfer::size;
use crate::visit::{self, Attributes, Comparison, Difference, Kind};

/// `xdrive diff`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The earlier generation.
    #[arg(value_name = "NAME@N[/CONTAINER]")]
    pub before: DriveIn<DriveAt>,

    /// The later one, of the same drive and container; without @M what the drive has now.
    #[arg(value_name = "NAME[@M][/CONTAINER]")]
    pub after: Option<DriveIn<DriveAt>>,

    /// A folder or file: below /work, unless it begins with / or ~ [default: /work].
    ///
    /// With / all that is in the container is compared.
    #[arg(value_name = "PATH")]
    pub path: Option<OsString>,

    /// One JSON document instead of text.
    #[arg(long)]
    pub json: bool,

    /// Compare although another caller has or had the drive.
    ///
    /// Callers are IAM users and roles.
    #[arg(long)]
    pub shared: bool,

    /// How hosts are reached.
    #[command(flatten)]
    pub reach: Reach,
}

/// A difference, as `diff --json` prints it (`src/cli/schemas/diff.json`).
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Row {
    /// Path in the container, below /work unless it begins with /.
    path: String,
    /// Change from the earlier generation to the later one.
    #[cfg_attr(test, schemars(extend("enum" = ["added", "changed", "gone"])))]
    change: &'static str,
    /// Kind of the file now, or of the one that is gone.
    #[cfg_attr(test, schemars(extend("enum" = ["file", "folder", "link", "other"])))]
    kind: &'static str,
    /// Size in bytes; none if it is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    /// Size before, in bytes; none if it was added.
    #[serde(skip_serializing_if = "Option::is_none")]
    was: Option<u64>,
}

/// Shows what differs. Returns the exit code.
pub(crate) fn run(args: Args, context: &Context) -> Result<u8, Failure> {
    let paths = context.paths()?;
    let xdrive = context.which(&paths)?.command(&paths);
    let comparison = comparison(&args).map_err(|error| {
        let hint = format!("{xdrive} diff demo@11 demo@12; {xdrive} log demo lists them");
        Failure::new(Exit::Usage, error).hint(hint)
    })?;
    let reach = super::reach(args.reach, &paths)?;
    let place = args.before.split().0;
    let found = block_on(async {
        let drive = context.drive(&paths, place, args.shared).await?;
        visit::differences(drive, || super::visitor(&paths, reach), comparison).await
    })?;
    if args.json {
        let rows: Vec<Row> = found.iter().map(row).collect();
        return Ok(report::json(&rows).map(|()| 0)?);
    }
    print(&text(&found))
}

fn comparison(args: &Args) -> anyhow::Result<Comparison> {
    let Some(before) = args.before.drive.generation else {
        return Err(anyhow!(
            "the first of the two is a generation: {}@N",
            args.before.drive
        ));
    };
    if let Some(after) = &args.after
        && (&after.drive.name, &after.container)
            != (&args.before.drive.name, &args.before.container)
    {
        return Err(anyhow!(
            "the two have to be of one drive, and of one container of it"
        ));
    }
    let after: Option<Generation> = args.after.as_ref().and_then(|it| it.drive.generation);
    let path = args.path.as_ref().map(|it| it.as_encoded_bytes().to_vec());
    Ok(Comparison {
        before,
        after,
        path: path.unwrap_or_default(),
    })
}

fn change(difference: &Difference) -> &'static str {
    match (&difference.before, &difference.after) {
        (None, _) => "added",
        (Some(_), Some(_)) => "changed",
        (Some(_), None) => "gone",
    }
}

fn row(difference: &Difference) -> Row {
    let it = difference.after.or(difference.before);
    Row {
        path: String::from_utf8_lossy(&difference.path).into_owned(),
        change: change(difference),
        kind: it.map_or("other", |it| kind(&it)),
        size: difference.after.map(|it| it.size),
        was: difference.before.map(|it| it.size),
    }
}

/// A line for each, as git's: `A` was added, `M` changed, `D` is gone; and sizes of files.
fn text(found: &[Difference]) -> String {
    let mut text = String::new();
    for difference in found {
        let (letter, it) = match change(difference) {
            "added" => ('A', difference.after),
            "gone" => ('D', difference.before),
            _ => ('M', difference.after),
        };
        let end = match it.map(|it| it.kind()) {
            Some(Kind::Folder) => "/",
            _ => "",
        };
        let _ = write!(text, "{letter}  {}{end}", printable(&difference.path));
        let of_file = |it: Option<Attributes>| it.filter(|it| it.kind() == Kind::File);
        match (of_file(difference.before), of_file(difference.after)) {
            (Some(before), Some(after)) if before.size != after.size => {
                let _ = write!(text, "  {}, was {}", size(after.size), size(before.size));
            }
            (_, Some(file)) | (Some(file), None) => {
                let _ = write!(text, "  {}", size(file.size));
            }
            (None, None) => {}
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_the_committed_schema() {
        let (title, description) = (
            "xdrive diff --json",
            "What differs between two generations of a drive, by path.",
        );
        crate::report::schema::check::<Vec<Row>>("diff", title, description);
    }

    fn file(size: u64) -> Attributes {
        Attributes {
            mode: 0o100_644,
            size,
            changed: 0,
        }
    }

    fn difference(path: &str, before: Option<Attributes>, after: Option<Attributes>) -> Difference {
        Difference {
            path: path.as_bytes().to_vec(),
            before,
            after,
        }
    }

    #[test]
    fn a_line_says_what_happened_to_a_path() {
        let folder = Some(Attributes {
            mode: 0o040_755,
            size: 4096,
            changed: 0,
        });
        let found = [
            difference("a", None, Some(file(5))),
            difference("b", Some(file(5)), Some(file(2048))),
            difference("c", Some(file(5)), None),
            difference("d", None, folder),
            difference("e\n", Some(file(5)), Some(file(5))),
            difference("f", folder, Some(file(5))),
        ];
        assert_eq!(
            text(&found),
            "A  a  5 bytes\nM  b  2.0 KiB, was 5 bytes\nD  c  5 bytes\nA  d/\nM  e?  5 bytes\n\
             M  f  5 bytes\n"
        );
        let rows: Vec<Row> = found.iter().map(row).collect();
        assert_eq!(
            (rows[1].change, rows[1].size, rows[1].was),
            ("changed", Some(2048), Some(5))
        );
        assert_eq!(
            (rows[2].change, rows[2].size, rows[2].kind),
            ("gone", None, "file")
        );
    }

    #[test]
    fn the_two_are_of_one_drive_and_the_first_is_a_generation() {
        let comparison = |before: &str, after: Option<&str>| {
            comparison(&Args {
                before: before.parse().unwrap(),
                after: after.map(|it| it.parse().unwrap()),
                path: None,
                json: false,
                shared: false,
                reach: Reach::default(),
            })
        };
        let both = comparison("demo@3", Some("demo@4")).unwrap();
        assert_eq!(
            (both.before, both.after),
            (Generation(3), Some(Generation(4)))
        );
        assert_eq!(comparison("demo@3", None).unwrap().after, None);
        assert!(comparison("demo@3/tools", Some("demo/tools")).is_ok());
        let other = "the two have to be of one drive, and of one container of it";
        for (before, after, error) in [
            (
                "demo",
                Some("demo@4"),
                "the first of the two is a generation: demo@N",
            ),
            ("demo@3", Some("other@4"), other),
            ("demo@3", Some("demo@4/tools"), other),
        ] {
            let Err(why) = comparison(before, after) else {
                panic!("it was taken");
            };
            assert_eq!(why.to_string(), error);
        }
    }
}
