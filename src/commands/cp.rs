//! `xdrive cp`: files between this computer and drives.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;

use anyhow::anyhow;

use super::Context;
use super::flags::Reach;
use crate::config::SUFFIX;
use crate::failure::{Exit, Failure};
use crate::ids::{DriveAt, DriveIn};
use crate::transfer::place::{InvalidPlaces, Place, order};
use crate::transfer::{Copying, Order};
use crate::visit;

/// How it is called.
pub(crate) const USAGE: &str = "xdrive cp [OPTIONS] SRC… NAME:DST
       xdrive cp [OPTIONS] NAME[@N]:SRC… DST";

/// `xdrive cp`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What to copy, and last where to: paths here, or NAME:PATH.
    ///
    /// Paths on a drive are below /work unless they begin with / or ~. Folders are copied with all
    /// that is in them, and links in them as links. ./a:b is a file here. NAME/CONTAINER:PATH is in
    /// that container, unless a file of this path is here. From a drive that is not up
    /// its newest snapshot is read, from NAME@N:PATH that of generation N; no instance is launched.
    #[arg(value_name = "PLACE", required = true, num_args = 2..)]
    pub places: Vec<OsString>,

    /// Accepted for users of scp: folders are always copied.
    #[arg(short, long, hide = true)]
    pub recursive: bool,

    /// Copy also files with the same size and time there.
    #[arg(long)]
    pub ignore_times: bool,

    /// Copy although another caller has or had the drive.
    ///
    /// Callers are IAM users and roles.
    #[arg(long)]
    pub shared: bool,

    /// How hosts are reached.
    #[command(flatten)]
    pub reach: Reach,
}

/// Copies. Returns the exit code.
pub(crate) fn run(args: Args, context: &Context) -> Result<u8, Failure> {
    let paths = context.paths()?;
    let xdrive = context.which(&paths)?.command(&paths);
    let (from, order) =
        parsed(&args.places).map_err(|error| usage(error, &args.places, &xdrive))?;
    let reach = super::reach(args.reach, &paths)?;
    let (place, generation) = from.split();
    let how = Copying {
        verb: "cp",
        ignores_times: args.ignore_times,
        watches: false,
    };
    super::block_on(async {
        let drive = context.drive(&paths, place, args.shared).await?;
        let visitor = || super::visitor(&paths, reach);
        visit::copy(drive, visitor, generation, order, how).await
    })
}

fn parsed(places: &[OsString]) -> Result<(DriveIn<DriveAt>, Order), InvalidPlaces> {
    let places = places.iter().map(|place| Place::parse(place, SUFFIX));
    let mut places = places.collect::<Result<Vec<Place>, _>>()?;
    let destination = places.pop().ok_or(InvalidPlaces::Empty)?;
    order(&places, &destination)
}

/// The failure of places that make no sense, with what to type.
fn usage(error: InvalidPlaces, places: &[OsString], xdrive: &str) -> Failure {
    let first = places
        .first()
        .map_or(OsStr::new("FILE"), OsString::as_os_str);
    let hint = match &error {
        InvalidPlaces::Name { given, .. } => format!("./{given} is a file on this computer"),
        InvalidPlaces::BothThere => {
            let mut ambiguous = places.iter().filter(|place| has_slash_first(place));
            match (ambiguous.next(), ambiguous.next()) {
                (Some(place), None) => format!("./{} is a path on this computer", place.display()),
                _ => format!("{xdrive} cp {} ., and then from here", first.display()),
            }
        }
        InvalidPlaces::Saved(at) => {
            let (place, _) = at.clone().split();
            format!("without @ it is copied to {place} while that is up: {place}:PATH")
        }
        InvalidPlaces::BothHere | InvalidPlaces::Empty | InvalidPlaces::Mixed => {
            format!("{xdrive} cp FILE… NAME:PATH, or {xdrive} cp NAME:PATH… FOLDER")
        }
    };
    Failure::new(Exit::Usage, anyhow!(error)).hint(hint)
}

/// Whether it is a path here where no container is meant: scp would take it for one.
fn has_slash_first(place: &OsStr) -> bool {
    let first = place.as_bytes().iter().find(|byte| b"/:".contains(byte));
    first == Some(&b'/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_that_make_no_sense_are_refused_with_a_hint() {
        for (words, error, hint) in [
            ("a b", "nothing here names a drive", "cp FILE… NAME:PATH"),
            (
                "a/b:c a:d e",
                "in one container of a drive",
                "cp NAME:PATH… FOLDER",
            ),
            ("a b@3/c:d", "b@3/c is a generation", "copied to b/c while"),
            (
                "a:b c:d",
                "both sides are on drives",
                "xdrive cp a:b ., and",
            ),
            (
                "a:b c/d:e",
                "both sides are on drives",
                "./c/d:e is a path on this computer",
            ),
            (
                "a/b:c d/e:f",
                "both sides are on drives",
                "xdrive cp a/b:c ., and",
            ),
            (
                "a:b c d:e",
                "the sources have to be",
                "cp NAME:PATH… FOLDER",
            ),
            ("a b_*:c", "\"b_*:c\" names no drive", "./b_*:c is a file"),
        ] {
            let places: Vec<OsString> = words.split(' ').map(OsString::from).collect();
            let failure = usage(parsed(&places).unwrap_err(), &places, "xdrive");
            assert_eq!(failure.exit, Exit::Usage);
            let message = failure.to_string();
            assert!(
                message.contains(error) && message.contains(hint),
                "{message}"
            );
        }
    }
}
