//! `xdrive ls NAME:PATH`: what is in a folder on a drive.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;

use anyhow::anyhow;
use jiff::Timestamp;
use serde::Serialize;

use super::{Context, block_on, print};
use crate::config::{Reach, SUFFIX};
use crate::failure::{Exit, Failure};
use crate::ids::{DriveAt, DriveIn};
use crate::report::{self, one_line};
use crate::transfer::place::Place;
use crate::visit::{self, Attributes, Entry, Kind, Look};

/// A file, as `ls --json` prints it (`src/cli/schemas/files.json`).
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Row {
    /// Name in the folder. Bytes that are no UTF-8 are replaced.
    name: String,
    /// Kind of the file; `other` is a device, a pipe or a socket.
    #[cfg_attr(test, schemars(extend("enum" = ["file", "folder", "link", "other"])))]
    kind: &'static str,
    /// Size in bytes.
    size: u64,
    /// Who may read, write and execute it, in octal digits.
    #[cfg_attr(test, schemars(regex(pattern = "^[0-7]{3}$")))]
    mode: String,
    /// When it was changed last, RFC 3339.
    #[cfg_attr(test, schemars(extend("format" = "date-time")))]
    changed: String,
    /// Target, if it is a link.
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
}

/// Whether this names files on a drive, and not a drive.
pub(super) fn is_place(given: &OsStr) -> bool {
    given.as_encoded_bytes().contains(&b':')
}

/// The container of a drive that all places are in, and their paths. `usage` is how the command is called.
pub(super) fn parsed(
    places: &[OsString],
    usage: &str,
) -> Result<(DriveIn<DriveAt>, Vec<Vec<u8>>), Failure> {
    let wrong = |error: anyhow::Error| Failure::new(Exit::Usage, error).hint(usage);
    let mut one = None;
    let mut paths = Vec::new();
    for place in places {
        match Place::parse(place, SUFFIX).map_err(|error| wrong(error.into()))? {
            Place::There(drive, path) => {
                if *one.get_or_insert_with(|| drive.clone()) != drive {
                    return Err(wrong(anyhow!(
                        "the files have to be on one drive, in one of its containers"
                    )));
                }
                paths.push(path);
            }
            Place::Here(path) => {
                let path = path.display();
                return Err(wrong(anyhow!("{path} is no place on a drive")));
            }
        }
    }
    let drive = one.ok_or_else(|| wrong(anyhow!("no file was named")))?;
    Ok((drive, paths))
}

/// Lists what is at `place`. Returns the exit code.
pub(super) fn list(
    place: &OsStr,
    (shared, reach, json): (bool, Reach, bool),
    context: &Context,
) -> Result<u8, Failure> {
    let paths = context.paths()?;
    let xdrive = context.which(&paths)?.command(&paths);
    let (drive, folders) = parsed(&[place.to_owned()], &format!("{xdrive} ls NAME:PATH"))?;
    let (place, generation) = drive.split();
    let look = Look {
        generation,
        paths: folders,
    };
    let found = block_on(async {
        let drive = context.drive(&paths, place, shared).await?;
        visit::list_files(drive, || super::visitor(&paths, reach), look).await
    })?;
    if json {
        let rows: Vec<Row> = found.iter().map(row).collect();
        return Ok(report::json(&rows).map(|()| 0)?);
    }
    print(&text(&found))
}

fn changed(attributes: &Attributes) -> Option<Timestamp> {
    Timestamp::from_nanosecond(attributes.changed.into()).ok()
}

/// The word for what it is.
pub(super) fn kind(attributes: &Attributes) -> &'static str {
    match attributes.kind() {
        Kind::File => "file",
        Kind::Folder => "folder",
        Kind::Link => "link",
        Kind::Other => "other",
    }
}

fn row(entry: &Entry) -> Row {
    let attributes = &entry.attributes;
    Row {
        name: String::from_utf8_lossy(&entry.name).into_owned(),
        kind: kind(attributes),
        size: attributes.size,
        mode: format!("{:03o}", attributes.permissions()),
        changed: changed(attributes).map_or_else(String::new, |it| it.to_string()),
        target: (attributes.kind() == Kind::Link)
            .then(|| String::from_utf8_lossy(&entry.target).into_owned()),
    }
}

/// A line for each: permissions, size in bytes, time of change in UTC, name.
fn text(found: &[Entry]) -> String {
    let widest = found.iter().map(|entry| entry.attributes.size).max();
    let width = widest.unwrap_or_default().to_string().len();
    let mut text = String::new();
    for entry in found {
        let attributes = &entry.attributes;
        let when = changed(attributes)
            .map_or_else(String::new, |it| it.strftime("%Y-%m-%d %H:%M").to_string());
        let name = printable(&entry.name);
        let (kind, end) = match attributes.kind() {
            Kind::File => ('-', String::new()),
            Kind::Folder => ('d', "/".to_owned()),
            Kind::Link => ('l', format!(" -> {}", printable(&entry.target))),
            Kind::Other => ('?', String::new()),
        };
        let mode: String = (0..9)
            .rev()
            .map(|bit| match attributes.mode >> bit & 1 {
                0 => '-',
                _ => ['x', 'w', 'r'][bit % 3],
            })
            .collect();
        let size = attributes.size;
        let _ = writeln!(text, "{kind}{mode} {size:>width$} {when} {name}{end}");
    }
    text
}

/// A name for a terminal, which takes no control characters from a drive.
pub(super) fn printable(name: &[u8]) -> String {
    one_line(&String::from_utf8_lossy(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_the_committed_schema() {
        let (title, description) = (
            "xdrive list NAME:PATH --json",
            "What is in a folder on a drive, by name; or a file that was named.",
        );
        crate::report::schema::check::<Vec<Row>>("files", title, description);
    }

    fn entry(name: &[u8], mode: u32, size: u64) -> Entry {
        Entry {
            name: name.to_vec(),
            attributes: Attributes {
                mode,
                size,
                changed: 1_700_000_000_000_000_000,
            },
            target: b"a\x1b".to_vec(),
        }
    }

    #[test]
    fn a_line_has_permissions_size_time_and_name() {
        let found = [
            entry(b"a\n", 0o100_640, 1234),
            entry(b"b", 0o040_755, 0),
            entry(b"c", 0o120_777, 1),
        ];
        assert_eq!(
            text(&found),
            "-rw-r----- 1234 2023-11-14 22:13 a?\n\
             drwxr-xr-x    0 2023-11-14 22:13 b/\n\
             lrwxrwxrwx    1 2023-11-14 22:13 c -> a?\n"
        );
        let rows: Vec<Row> = found.iter().map(row).collect();
        assert_eq!((rows[0].kind, &*rows[0].mode), ("file", "640"));
        assert_eq!(rows[1].changed, "2023-11-14T22:13:20Z");
        assert_eq!(rows[2].target.as_deref(), Some("a\u{1b}"));
    }

    #[test]
    fn files_are_on_one_drive() {
        let parsed = |places: &[&str]| {
            let places: Vec<OsString> = places.iter().map(OsString::from).collect();
            parsed(&places, "the hint")
        };
        let (drive, paths) = parsed(&["demo@3:a", "demo@3:/b"]).unwrap();
        assert_eq!(drive.to_string(), "demo@3");
        assert_eq!(paths, [b"a".to_vec(), b"/b".to_vec()]);
        let (drive, _) = parsed(&["demo@3/tools:a", "demo@3/tools:b"]).unwrap();
        assert_eq!(drive.to_string(), "demo@3/tools");
        for (places, error) in [
            (&["demo:a", "other:b"][..], "on one drive"),
            (&["demo:a", "demo@3:a"], "on one drive"),
            (&["demo:a", "demo/tools:a"], "in one of its containers"),
            (&["demo:a", "./b"], "./b is no place on a drive"),
            (&["demo@x:a"], "a generation is a number"),
        ] {
            let failure = parsed(places).unwrap_err();
            assert_eq!(failure.exit, Exit::Usage);
            let message = failure.to_string();
            assert!(
                message.contains(error) && message.contains("the hint"),
                "{message}"
            );
        }
    }
}
