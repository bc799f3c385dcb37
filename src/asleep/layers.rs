//! The layers of a drive's container, where Docker keeps them on the drive (its storage driver
//! overlay2).

use ext4_view::{Ext4, Ext4Error};
use serde::Deserialize;

use crate::ids::{ContainerName, DriveIn, DriveName};

/// Docker's folder on the drive.
const DOCKER: &[u8] = b"/docker";

/// The folder with xdrive's records on the drive, which are those of the main container.
pub(super) const RECORDS: &[u8] = b"/xdrive";

/// A mount: the names on its path in the container, and its path on the drive.
pub(super) struct Mount {
    pub(super) names: Vec<Vec<u8>>,
    pub(super) path: Vec<u8>,
}

/// The folder with a folder of records for each of the other containers.
pub(super) fn others() -> Vec<u8> {
    joined(RECORDS, b"containers")
}

/// The mounts of a container of the drive, the main one without a `name`, but for `/work`; none
/// where there is no record of them, which `shell/host/mounts` writes.
pub(super) fn mounts(fs: &Ext4, name: Option<&ContainerName>) -> Result<Vec<Mount>, Ext4Error> {
    let records = match name {
        Some(name) => joined(&others(), name.as_str().as_bytes()),
        None => RECORDS.to_vec(),
    };
    let record = match fs.read(&*joined(&records, b"mounts")) {
        Err(Ext4Error::NotFound | Ext4Error::NotADirectory) => return Ok(Vec::new()),
        record => record?,
    };
    let mounts = record.split(|byte| *byte == b'\n').filter_map(|line| {
        let mut parts = line.split(|byte| *byte == b':');
        let (_mode, host, container) = (parts.next()?, parts.next()?, parts.next()?);
        let names = container.split(|byte| *byte == b'/').skip(1);
        Some(Mount {
            names: names.map(<[u8]>::to_vec).collect(),
            path: joined(b"/work", host),
        })
    });
    Ok(mounts.collect())
}

/// `path` with `name` below it.
pub(super) fn joined(path: &[u8], name: &[u8]) -> Vec<u8> {
    let path = path.strip_suffix(b"/").unwrap_or(path);
    [path, b"/", name].concat()
}

/// What Docker records of a container (`config.v2.json`).
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Container {
    name: String,
}

/// The folders that make the root of the container at `place` together, the topmost first; none
/// where the drive has no such container whose layers are folders.
pub(super) fn of(fs: &Ext4, place: &DriveIn<DriveName>) -> Result<Vec<Vec<u8>>, Ext4Error> {
    match find(fs, place) {
        // A folder or file of Docker's that is not there: it has another store, or none yet.
        Err(Ext4Error::NotFound | Ext4Error::NotADirectory) => Ok(Vec::new()),
        found => found,
    }
}

fn find(fs: &Ext4, place: &DriveIn<DriveName>) -> Result<Vec<Vec<u8>>, Ext4Error> {
    let Some(id) = container(fs, place)? else {
        return Ok(Vec::new());
    };
    let mounts = joined(DOCKER, b"image/overlay2/layerdb/mounts");
    let mount = fs.read(&*joined(&joined(&mounts, &id), b"mount-id"))?;
    let overlay = joined(DOCKER, b"overlay2");
    let own = joined(&overlay, mount.trim_ascii());
    let mut layers = vec![joined(&own, b"diff")];
    let lower = fs.read(&*joined(&own, b"lower"))?;
    for link in lower.trim_ascii().split(|byte| *byte == b':') {
        // A short name, which is a link to the layer's folder.
        let layer = fs.canonicalize(&*joined(&overlay, link))?;
        layers.push(layer.as_ref().to_vec());
    }
    Ok(layers)
}

/// The id of the container at `place`: the one with its name, or else one with that of another drive,
/// since a drive may have got another name since.
fn container(fs: &Ext4, place: &DriveIn<DriveName>) -> Result<Option<Vec<u8>>, Ext4Error> {
    let word = place.word();
    // The container's own name follows two dots, and the main one has none.
    let is_its = |name: &str| match &place.container {
        Some(container) => name
            .split_once("..")
            .is_some_and(|it| it.1 == container.as_str()),
        None => !name.contains(".."),
    };
    let mut other = None;
    for entry in fs.read_dir(&*joined(DOCKER, b"containers"))? {
        let entry = entry?;
        let id = entry.file_name().as_ref().to_vec();
        let Ok(recorded) = fs.read(&*joined(entry.path().as_ref(), b"config.v2.json")) else {
            continue;
        };
        let Ok(container) = serde_json::from_slice::<Container>(&recorded) else {
            continue;
        };
        match container.name.strip_prefix("/xdrive-") {
            Some(name) if name == word => return Ok(Some(id)),
            Some(name) if is_its(name) => other = Some(id),
            Some(_) | None => {}
        }
    }
    Ok(other)
}
