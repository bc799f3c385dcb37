//! Where something is copied from or to, as it is typed: a path here, `NAME:PATH`,
//! `NAME@N:PATH`, or either with `/CONTAINER` before the colon.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use super::order::Order;
use crate::ids::{DriveAt, DriveIn, InvalidDriveAt};

/// A place that was typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// On this computer.
    Here(PathBuf),
    /// In a container of a drive, or of one generation of it. Without a leading `/` it is below
    /// `/work`.
    There(DriveIn<DriveAt>, Vec<u8>),
}

/// The places between which nothing can be copied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidPlaces {
    /// The part before a colon is no drive's name.
    #[error("{given:?} names no drive: {why}")]
    Name {
        /// The whole part.
        given: String,
        /// The error in the name.
        why: InvalidDriveAt,
    },
    /// The destination is a generation, which is over.
    #[error("{0} is a generation that was saved, and nothing can be written to it")]
    Saved(DriveIn<DriveAt>),
    /// All are on this computer.
    #[error("nothing here names a drive: both sides are on this computer")]
    BothHere,
    /// Two sides that are both on drives.
    #[error("both sides are on drives, and one has to be on this computer")]
    BothThere,
    /// The sources are on several sides.
    #[error("the sources have to be all here, or all in one container of a drive")]
    Mixed,
    /// A place without a path.
    #[error("a place cannot be empty")]
    Empty,
}

impl Place {
    /// Parses `NAME[@N][/CONTAINER]:PATH`, or a path here: one without a colon, or with a slash before
    /// the first one, as scp does, unless a container can be meant. `suffix` may follow the name.
    pub(crate) fn parse(given: &OsStr, suffix: &str) -> Result<Self, InvalidPlaces> {
        let is_here = |path: &OsStr| Path::new(path).symlink_metadata().is_ok();
        Self::parse_beside(given, suffix, is_here)
    }

    /// As [`Place::parse`], on a computer with the paths that `is_here` knows.
    fn parse_beside(
        given: &OsStr,
        suffix: &str,
        is_here: impl Fn(&OsStr) -> bool,
    ) -> Result<Self, InvalidPlaces> {
        let bytes = given.as_bytes();
        if bytes.is_empty() {
            return Err(InvalidPlaces::Empty);
        }
        let here = || Ok(Self::Here(PathBuf::from(given)));
        let colon = bytes.iter().position(|byte| *byte == b':');
        let Some(colon) = colon.filter(|at| *at > 0) else {
            return here();
        };
        let name = String::from_utf8_lossy(&bytes[..colon]);
        let path = bytes[colon + 1..].to_vec();
        if name.contains('/') {
            let container = name.parse::<DriveIn<DriveAt>>();
            return match container {
                Ok(drive) if !name.starts_with('.') && !is_here(given) => {
                    Ok(Self::There(drive, path))
                }
                _ => here(),
            };
        }
        let name = name.strip_suffix(suffix).unwrap_or(&name);
        match name.parse::<DriveAt>() {
            Ok(drive) => {
                let container = None;
                Ok(Self::There(DriveIn { drive, container }, path))
            }
            Err(why) => Err(InvalidPlaces::Name {
                given: given.to_string_lossy().into_owned(),
                why,
            }),
        }
    }
}

/// The container of a drive, or of a generation of it, and what is copied between it and this computer.
pub(crate) fn order(
    sources: &[Place],
    destination: &Place,
) -> Result<(DriveIn<DriveAt>, Order), InvalidPlaces> {
    let mut here = Vec::new();
    let mut there = Vec::new();
    for source in sources {
        match source {
            Place::Here(path) => here.push(path.clone()),
            Place::There(drive, path) => there.push((drive, path.clone())),
        }
    }
    match destination {
        Place::There(drive, _) if drive.drive.generation.is_some() => {
            Err(InvalidPlaces::Saved(drive.clone()))
        }
        Place::There(drive, to) if there.is_empty() => Ok((
            drive.clone(),
            Order::Up {
                sources: here,
                to: to.clone(),
            },
        )),
        Place::There(..) if here.is_empty() => Err(InvalidPlaces::BothThere),
        Place::Here(_) if there.is_empty() => Err(InvalidPlaces::BothHere),
        Place::Here(to) if here.is_empty() => {
            let drive = there[0].0.clone();
            if there.iter().any(|(other, _)| **other != drive) {
                return Err(InvalidPlaces::Mixed);
            }
            let sources = there.into_iter().map(|(_, path)| path).collect();
            let to = to.clone();
            Ok((drive, Order::Down { sources, to }))
        }
        _ => Err(InvalidPlaces::Mixed),
    }
}

/// A path of this computer from the bytes of a name.
pub(super) fn path(bytes: &[u8]) -> PathBuf {
    OsString::from_vec(bytes.to_vec()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(given: &[u8]) -> Result<Place, InvalidPlaces> {
        let is_here = |path: &OsStr| path == "is/here:a";
        Place::parse_beside(OsStr::from_bytes(given), ".xdrive", is_here)
    }

    fn there(path: &[u8]) -> Place {
        Place::There("demo".parse().unwrap(), path.to_vec())
    }

    #[test]
    fn a_colon_before_any_slash_ends_a_drives_name() {
        assert_eq!(place(b"demo:a"), Ok(there(b"a")));
        assert_eq!(place(b"demo.xdrive:a"), Ok(there(b"a")));
        assert_eq!(place(b"demo:"), Ok(there(b"")));
        assert_eq!(place(b"demo:a:b\xff"), Ok(there(b"a:b\xff")));
        for here in [&b"a"[..], b"./a:b", b"/a:b", b":a", b"gr\xfcn"] {
            let path = path(here);
            assert_eq!(place(here), Ok(Place::Here(path)));
        }
        assert!(matches!(place(b"a b:c"), Err(InvalidPlaces::Name { .. })));
        assert_eq!(place(b""), Err(InvalidPlaces::Empty));
    }

    #[test]
    fn a_slash_before_the_colon_names_a_container_if_it_can() {
        for (given, drive) in [
            (&b"demo/tools:/a"[..], "demo/tools"),
            (b"demo@3/tools:/a", "demo@3/tools"),
            (b"demo/main:/a", "demo"),
        ] {
            let there = Place::There(drive.parse().unwrap(), b"/a".to_vec());
            assert_eq!(place(given), Ok(there));
        }
        for here in [
            &b"is/here:a"[..],
            b"./tools:a",
            b"../tools:a",
            b"./demo/tools:a",
            b"demo/a/b:c",
            b"demo/Tools:a",
            b"/demo:a",
        ] {
            assert_eq!(place(here), Ok(Place::Here(path(here))));
        }
        // Another container is another place to copy from.
        let sources = [place(b"demo/tools:a").unwrap(), there(b"a")];
        let mixed = order(&sources, &Place::Here("x".into()));
        assert_eq!(mixed, Err(InvalidPlaces::Mixed));
    }

    #[test]
    fn a_generation_is_read_and_never_written() {
        let Ok(Place::There(drive, path)) = place(b"demo@12:a") else {
            panic!("no place on a drive");
        };
        assert_eq!(
            (drive.to_string(), path),
            ("demo@12".to_owned(), b"a".to_vec())
        );
        let saved = Place::There(drive.clone(), Vec::new());
        let here = Place::Here("x".into());
        let (from, _) = order(std::slice::from_ref(&saved), &here).unwrap();
        assert_eq!(from, drive);
        assert_eq!(order(&[here], &saved), Err(InvalidPlaces::Saved(drive)));
        // Another generation is another drive to copy from.
        assert_eq!(
            order(&[saved, there(b"")], &Place::Here("x".into())),
            Err(InvalidPlaces::Mixed)
        );
    }

    #[test]
    fn one_side_is_here_and_the_other_is_one_drive() {
        let here = || Place::Here("x".into());
        let other = Place::There("other".parse().unwrap(), Vec::new());
        let orders = |sources: &[Place], to| order(sources, &to).map(|(_, order)| order);
        assert_eq!(
            orders(&[here()], there(b"y")),
            Ok(Order::Up {
                sources: vec!["x".into()],
                to: b"y".to_vec()
            })
        );
        assert_eq!(
            orders(&[there(b"y"), there(b"z")], here()),
            Ok(Order::Down {
                sources: vec![b"y".to_vec(), b"z".to_vec()],
                to: "x".into()
            })
        );
        assert_eq!(orders(&[here()], here()), Err(InvalidPlaces::BothHere));
        assert_eq!(
            orders(&[there(b"")], there(b"")),
            Err(InvalidPlaces::BothThere)
        );
        for sources in [[here(), there(b"")], [there(b""), other]] {
            assert_eq!(orders(&sources, here()), Err(InvalidPlaces::Mixed));
        }
        assert_eq!(
            orders(&[here(), there(b"")], there(b"")),
            Err(InvalidPlaces::Mixed)
        );
    }
}
