//! The difference between two generations of a drive: the files that were added, changed, or gone.
//!
//! A file is the same if its kind, permissions, size, time of change and target are, as for rsync.

use std::collections::{BTreeMap, VecDeque};

use anyhow::anyhow;
use tokio::task::JoinSet;

use super::files::{at_host, expanded, stop};
use super::visitor::{Visit, Visitor};
use crate::asleep::Asleep;
use crate::failure::Failure;
use crate::host::sftp::{Attributes, Entry, Kind, SftpError};
use crate::ids::Generation;
use crate::opener::{Drive, Ending, Files};
use crate::transfer::{Servers, Stop};

/// How many folders are compared at once.
const AT_ONCE: usize = 32;

/// The folders of a container that no drive has.
const NOT_OF_THE_DRIVE: [&[u8]; 4] = [b"/dev", b"/proc", b"/run", b"/sys"];

/// A path with something else in the later generation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Difference {
    /// As a path in the container, or below the folder that was named.
    pub(crate) path: Vec<u8>,
    /// The entry before; none if it was added.
    pub(crate) before: Option<Attributes>,
    /// The entry after; none if it is gone.
    pub(crate) after: Option<Attributes>,
}

/// The generations and the path to compare.
pub(crate) struct Comparison {
    /// The earlier generation.
    pub(crate) before: Generation,
    /// The later one; what the drive has now if there is none.
    pub(crate) after: Option<Generation>,
    /// The folder or file in the container.
    pub(crate) path: Vec<u8>,
}

/// The content of a folder on either side.
#[derive(Clone)]
struct Folder {
    path: Vec<u8>,
    before: bool,
    after: bool,
}

/// The servers of both sides.
#[derive(Clone)]
struct Sides {
    before: Servers,
    after: Servers,
}

/// Lists the differences, by path. Where the later side is on a host `visitor` visits.
pub(crate) async fn differences(
    mut drive: Drive,
    visitor: impl FnOnce() -> Result<Visitor, Failure>,
    comparison: Comparison,
) -> Result<Vec<Difference>, Failure> {
    let earlier = drive.find_saved(Some(comparison.before))?;
    let later = drive.find_files(comparison.after).await?;
    let place = drive.place();
    let before = Asleep::to_compare(drive.cloud.ec2.clone(), &earlier.snapshot, &place);
    drive.demand_container(&before).await?;
    let mut found = Vec::new();
    let comparing = async |after: Servers| {
        let before = Servers::new(before.servers());
        found = compare(Sides { before, after }, &comparison.path).await?;
        Ok(())
    };
    let ending = match later {
        Files::Up(host) => {
            let mut visit = Visit::new(drive, visitor()?, false)?;
            let ending = at_host(&mut visit, &host, "diff", comparing).await?;
            visit.drive.note_reading(&earlier, &before);
            ending
        }
        Files::Asleep(later) => {
            let after = before.later(&later.snapshot, &place);
            let ending = drive.read(&later, &after, comparing).await;
            drive.note_reading(&earlier, &before);
            ending
        }
    };
    if let (Ending::Failed(_), Some(error)) = (&ending, before.failed()) {
        return Err(Failure::from(error.clone()));
    }
    ending.code()?;
    found.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(found)
}

/// Compares the entries at `path`.
async fn compare(sides: Sides, path: &[u8]) -> Result<Vec<Difference>, Stop> {
    let failed = |error| stop(path, error);
    let named = expanded(&sides.after, path).await.map_err(failed)?;
    let before = sides
        .before
        .one()
        .look(&named, true)
        .await
        .map_err(failed)?;
    let after = sides.after.one().look(&named, true).await.map_err(failed)?;
    if before.is_none() && after.is_none() {
        return Err(failed(SftpError::Missing));
    }
    let is_folder = |found: &Option<Entry>| {
        let kind = found.as_ref().map(|it| it.attributes.kind());
        kind == Some(Kind::Folder)
    };
    let mut found = Vec::new();
    let mut folders = VecDeque::new();
    if is_folder(&before) || is_folder(&after) {
        folders.push_back(Folder {
            path: if path.is_empty() { Vec::new() } else { named },
            before: is_folder(&before),
            after: is_folder(&after),
        });
    } else if let Some(difference) = difference(path.to_vec(), before.as_ref(), after.as_ref()) {
        found.push(difference);
    }
    let mut running = JoinSet::new();
    loop {
        while running.len() < AT_ONCE
            && let Some(folder) = folders.pop_front()
        {
            running.spawn(compare_folder(sides.clone(), folder));
        }
        let Some(compared) = running.join_next().await else {
            return Ok(found);
        };
        let (more, below) = compared.map_err(|error| Stop::Refused(anyhow!(error)))??;
        found.extend(more);
        folders.extend(below);
    }
}

/// Compares the content of a folder; returns the differences, and the folders in it.
async fn compare_folder(
    sides: Sides,
    folder: Folder,
) -> Result<(Vec<Difference>, Vec<Folder>), Stop> {
    let (mut before, after) = tokio::try_join!(
        content(&sides.before, &folder.path, folder.before),
        content(&sides.after, &folder.path, folder.after),
    )?;
    let mut found = Vec::new();
    let mut below = Vec::new();
    let added: Vec<_> = after
        .into_iter()
        .map(|(name, entry)| (before.remove(&name), name, Some(entry)))
        .collect();
    let gone = before
        .into_iter()
        .map(|(name, entry)| (Some(entry), name, None));
    for (before, name, after) in added.into_iter().chain(gone) {
        let path = joined(&folder.path, &name);
        if NOT_OF_THE_DRIVE.contains(&&*path) {
            continue;
        }
        let is_folder = |entry: &Option<Entry>| {
            let kind = entry.as_ref().map(|it| it.attributes.kind());
            kind == Some(Kind::Folder)
        };
        let (was, is) = (is_folder(&before), is_folder(&after));
        if was || is {
            below.push(Folder {
                path: path.clone(),
                before: was,
                after: is,
            });
        }
        found.extend(difference(path, before.as_ref(), after.as_ref()));
    }
    Ok((found, below))
}

/// Reads the content of a folder, by name; empty where there is no such folder.
async fn content(
    servers: &Servers,
    path: &[u8],
    exists: bool,
) -> Result<BTreeMap<Vec<u8>, Entry>, Stop> {
    if !exists {
        return Ok(BTreeMap::new());
    }
    let at: &[u8] = if path.is_empty() { b"." } else { path };
    match servers.list(at).await {
        Ok(entries) => Ok(entries
            .into_iter()
            .map(|entry| (entry.name.clone(), entry))
            .collect()),
        // It has gone meanwhile, on a drive that is up.
        Err(SftpError::Missing) => Ok(BTreeMap::new()),
        Err(error) => Err(stop(path, error)),
    }
}

/// The difference at a path, if there is one. A folder's own size and time say nothing.
fn difference(path: Vec<u8>, before: Option<&Entry>, after: Option<&Entry>) -> Option<Difference> {
    if let (Some(before), Some(after)) = (before, after) {
        let (was, is) = (before.attributes, after.attributes);
        let is_folder = is.kind() == Kind::Folder;
        let is_same = was.mode == is.mode
            && (is_folder || (was.size, was.changed) == (is.size, is.changed))
            && before.target == after.target;
        if is_same {
            return None;
        }
    }
    Some(Difference {
        path,
        before: before.map(|it| it.attributes),
        after: after.map(|it| it.attributes),
    })
}

fn joined(folder: &[u8], name: &[u8]) -> Vec<u8> {
    match folder {
        b"" => name.to_vec(),
        _ => [folder.strip_suffix(b"/").unwrap_or(folder), b"/", name].concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(mode: u32, size: u64, changed: i64) -> Entry {
        Entry {
            name: b"a".to_vec(),
            attributes: Attributes {
                mode,
                size,
                changed,
            },
            target: Vec::new(),
        }
    }

    #[test]
    fn files_that_were_written_or_changed_their_kind_differ() {
        let file = entry(0o100_644, 5, 1);
        let folder = entry(0o040_755, 4096, 1);
        let differs = |before: &Entry, after: &Entry| {
            difference(b"a".to_vec(), Some(before), Some(after)).is_some()
        };
        assert!(!differs(&file, &file));
        assert!(!differs(&folder, &entry(0o040_755, 8192, 2)));
        for other in [
            entry(0o100_600, 5, 1),
            entry(0o100_644, 6, 1),
            entry(0o100_644, 5, 2),
            folder.clone(),
        ] {
            assert!(differs(&file, &other), "{other:?}");
        }
        assert!(differs(&folder, &entry(0o040_700, 4096, 1)));
        let link = |target: &[u8]| Entry {
            target: target.to_vec(),
            ..entry(0o120_777, 1, 1)
        };
        assert!(differs(&link(b"b"), &link(b"c")));
        let added = difference(b"a".to_vec(), None, Some(&file)).unwrap();
        assert_eq!((added.before, added.after), (None, Some(file.attributes)));
        assert!(
            difference(b"a".to_vec(), Some(&file), None)
                .unwrap()
                .after
                .is_none()
        );
    }

    #[test]
    fn paths_are_written_as_the_folder_was_named() {
        assert_eq!(joined(b"", b"a"), b"a");
        assert_eq!(joined(b"/", b"a"), b"/a");
        assert_eq!(joined(b"/etc", b"a"), b"/etc/a");
    }
}
