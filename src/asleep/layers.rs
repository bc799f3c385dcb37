//! The layers of a drive's container, where Docker keeps them on the drive (its storage driver
//! overlay2), and what else is in its root.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use serde::Deserialize;

use super::ext4::{Error, Ext4, Inode};
use crate::ids::{ContainerName, DriveIn, DriveName};

/// Docker's folder on the drive.
const DOCKER: &[u8] = b"/docker";

/// The folder with xdrive's records on the drive, which are those of the main container.
pub(super) const RECORDS: &[u8] = b"/xdrive";

/// The longest record that is read, in bytes: those of xdrive, and what Docker says of layers, have
/// some hundred.
pub(super) const RECORD: u64 = 64 << 10;

/// The longest record of a container that is read: Docker writes all its variables and labels there.
const CONTAINER: u64 = 1 << 20;

/// Records that the host writes when it lays a drive out: where none is there, all files are those of a disk
/// that is adopted at its first connect (`shell/host/drive`, `is_foreign`).
const LAID_OUT: [&[u8]; 3] = [b"format", b"generation", b"mounts"];

/// A mount: the names on its path in the container, and its path on the drive.
pub(super) struct Mount {
    pub(super) names: Vec<Vec<u8>>,
    pub(super) path: Vec<u8>,
}

/// The folder with a folder of records for each of the other containers.
pub(super) fn containers_folder() -> Vec<u8> {
    joined(RECORDS, b"containers")
}

/// Whether the drive was never connected: its files are those of a disk that was adopted.
pub(super) fn is_foreign(fs: &Ext4) -> Result<bool, Error> {
    for name in LAID_OUT {
        match fs.find(&joined(RECORDS, name)) {
            Err(Error::Missing) => {}
            found => return found.map(|_| false),
        }
    }
    Ok(true)
}

/// The mounts of a container of the drive, the main one without a `name`, but for `/work`; none
/// where there is no record of them, which `shell/host/mounts` writes.
pub(super) fn mounts(fs: &Ext4, name: Option<&ContainerName>) -> Result<Vec<Mount>, Error> {
    let records = match name {
        Some(name) => joined(&containers_folder(), name.as_str().as_bytes()),
        None => RECORDS.to_vec(),
    };
    let record = match fs.record(&joined(&records, b"mounts"), RECORD) {
        Err(Error::Missing) => return Ok(Vec::new()),
        record => record?,
    };
    let mounts = record.split(|byte| *byte == b'\n').filter_map(|line| {
        let mut parts = line.split(|byte| *byte == b':');
        // Nothing of a share is on the drive.
        parts.next().filter(|mode| matches!(*mode, b"ro" | b"rw"))?;
        let (host, container) = (parts.next()?, parts.next()?);
        Some(Mount {
            names: names(container)?,
            path: joined(b"/work", host),
        })
    });
    Ok(mounts.collect())
}

/// The names on a path in the container; none if one is no name, such as `..`: nothing is mounted there,
/// and a listing with it would be refused as a whole.
fn names(path: &[u8]) -> Option<Vec<Vec<u8>>> {
    let names = path.split(|byte| *byte == b'/');
    let names = names.filter(|name| !name.is_empty());
    let is_name =
        |name: &[u8]| !matches!(name, b"." | b"..") && name.len() <= 255 && !name.contains(&0);
    names
        .map(|name| is_name(name).then(|| name.to_vec()))
        .collect()
}

/// `path` with `name` below it.
pub(super) fn joined(path: &[u8], name: &[u8]) -> Vec<u8> {
    let path = path.strip_suffix(b"/").unwrap_or(path);
    [path, b"/", name].concat()
}

/// Docker's record of a container (`config.v2.json`).
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Container {
    name: String,
    #[serde(default)]
    mount_points: Option<BTreeMap<String, MountPoint>>,
}

/// A mount that it has.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", default)]
#[derive(Default)]
struct MountPoint {
    destination: String,
    /// The volume's name.
    name: String,
    driver: String,
    r#type: String,
}

/// The root of a container.
#[derive(Default)]
pub(super) struct Root {
    /// The folders that make it together, the topmost first; none where they are not on the drive.
    pub(super) layers: Vec<Inode>,
    /// The volumes in it.
    pub(super) volumes: Vec<Mount>,
}

/// The root of the container at `place`; an empty one where the drive has no such container whose
/// layers are folders.
pub(super) fn find_root(fs: &Ext4, place: &DriveIn<DriveName>) -> Result<Root, Error> {
    match find(fs, place) {
        // A folder or file of Docker's that is not there: it has another store, or none yet.
        Err(Error::Missing) => Ok(Root::default()),
        found => found,
    }
}

fn find(fs: &Ext4, place: &DriveIn<DriveName>) -> Result<Root, Error> {
    let Some((id, container)) = container(fs, place)? else {
        return Ok(Root::default());
    };
    let mounts = joined(DOCKER, b"image/overlay2/layerdb/mounts");
    let mount = fs.record(&joined(&joined(&mounts, &id), b"mount-id"), RECORD)?;
    let overlay = joined(DOCKER, b"overlay2");
    let own = joined(&overlay, mount.trim_ascii());
    let mut layers = vec![fs.find(&joined(&own, b"diff"))?];
    let lower = fs.record(&joined(&own, b"lower"), RECORD)?;
    for link in lower.trim_ascii().split(|byte| *byte == b':') {
        // A short name, which is a link to the layer's folder.
        layers.push(fs.find(&joined(&overlay, link))?);
    }
    let points = container.mount_points.unwrap_or_default();
    Ok(Root {
        layers,
        volumes: points.values().filter_map(volume).collect(),
    })
}

/// A volume of Docker's own, which is on the drive; other mounts are those that xdrive records.
fn volume(point: &MountPoint) -> Option<Mount> {
    let name = point.name.as_bytes();
    let is_own = (point.r#type.as_str(), point.driver.as_str()) == ("volume", "local");
    if !is_own || name.is_empty() || name.contains(&b'/') || name.starts_with(b".") {
        return None;
    }
    let volumes = joined(DOCKER, b"volumes");
    Some(Mount {
        names: names(point.destination.as_bytes())?,
        path: joined(&joined(&volumes, name), b"_data"),
    })
}

/// The container at `place` and its id: the one with its name, or else one with that of another
/// drive, since a drive may have got another name since.
fn container(fs: &Ext4, place: &DriveIn<DriveName>) -> Result<Option<(Vec<u8>, Container)>, Error> {
    let word = place.word();
    // The container's own name follows two dots, and the main one has none.
    let is_its = |name: &str| match &place.container {
        Some(container) => name
            .split_once("..")
            .is_some_and(|it| it.1 == container.as_str()),
        None => !name.contains(".."),
    };
    let folder = joined(DOCKER, b"containers");
    let mut ids = Vec::new();
    fs.each(&fs.find(&folder)?, |name, _| {
        ids.push(name.to_vec());
        ControlFlow::<()>::Continue(())
    })?;
    let mut other = None;
    for id in ids {
        let path = joined(&joined(&folder, &id), b"config.v2.json");
        let recorded = match fs.record(&path, CONTAINER) {
            Err(error @ Error::Disk(_)) => return Err(error),
            Err(_) => continue,
            Ok(recorded) => recorded,
        };
        let Ok(container) = serde_json::from_slice::<Container>(&recorded) else {
            continue;
        };
        match container.name.strip_prefix("/xdrive-") {
            Some(name) if name == word => return Ok(Some((id, container))),
            Some(name) if is_its(name) => other = Some((id, container)),
            Some(_) | None => {}
        }
    }
    Ok(other)
}
