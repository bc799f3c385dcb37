//! The layers of a drive's container, where Docker keeps them on the drive (its storage driver
//! overlay2).

use ext4_view::{Ext4, Ext4Error};
use serde::Deserialize;

/// Docker's folder on the drive.
const DOCKER: &[u8] = b"/docker";

/// xdrive's record of the container's mounts, as `shell/host/mounts` has them.
const MOUNTS: &[u8] = b"/xdrive/mounts";

/// A mount: the names on its path in the container, and its path on the drive.
pub(super) struct Mount {
    pub(super) names: Vec<Vec<u8>>,
    pub(super) path: Vec<u8>,
}

/// The mounts of the drive's container, but for `/work`; none where there is no record of them.
pub(super) fn mounts(fs: &Ext4) -> Result<Vec<Mount>, Ext4Error> {
    let record = match fs.read(MOUNTS) {
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

/// The folders that make the root of `drive`'s container together, the topmost first; none where the
/// drive has no container whose layers are folders.
pub(super) fn of(fs: &Ext4, drive: &str) -> Result<Vec<Vec<u8>>, Ext4Error> {
    match find(fs, drive) {
        // A folder or file of Docker's that is not there: it has another store, or none yet.
        Err(Ext4Error::NotFound | Ext4Error::NotADirectory) => Ok(Vec::new()),
        found => found,
    }
}

fn find(fs: &Ext4, drive: &str) -> Result<Vec<Vec<u8>>, Ext4Error> {
    let Some(id) = container(fs, drive)? else {
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

/// The id of the drive's main container: the one with its name, or else one of xdrive's, since a drive may
/// have got another name since.
fn container(fs: &Ext4, drive: &str) -> Result<Option<Vec<u8>>, Ext4Error> {
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
            Some(name) if name == drive => return Ok(Some(id)),
            // Not one with a name of its own, which follows two dots.
            Some(name) if !name.contains("..") => other = Some(id),
            Some(_) | None => {}
        }
    }
    Ok(other)
}
