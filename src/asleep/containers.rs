//! The containers that are on record on a drive, as `shell/host/containers` lists them.

use ext4_view::{Ext4, Ext4Error};

use super::blocks::Blocks;
use super::layers::{RECORDS, joined, others};
use super::reader::Reader;
use super::tree::failed;
use crate::host::on_record::{ContainerState, OnRecord};
use crate::host::sftp::SftpError;

/// The containers on record, the main one first. Blocks until they are read.
pub(super) fn read(blocks: Blocks) -> Result<Vec<OnRecord>, SftpError> {
    let fs = Ext4::load(Box::new(Reader::new(blocks))).map_err(|error| failed(&error))?;
    on_record(&fs).map_err(|error| failed(&error))
}

fn on_record(fs: &Ext4) -> Result<Vec<OnRecord>, Ext4Error> {
    let asleep = |name, source| OnRecord {
        name,
        state: ContainerState::Asleep,
        source,
    };
    let mut found = Vec::new();
    found.extend(source(fs, RECORDS)?.map(|source| asleep(None, source)));
    let entries = match fs.read_dir(&*others()) {
        Err(Ext4Error::NotFound | Ext4Error::NotADirectory) => return Ok(found),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let name = String::from_utf8_lossy(entry.file_name().as_ref()).into_owned();
        // `.` and `..` are no names.
        if let Ok(name) = name.parse()
            && let Some(source) = source(fs, entry.path().as_ref())?
        {
            found.push(asleep(Some(name), source));
        }
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(found)
}

/// What the container with these records was made from; none if it never was.
fn source(fs: &Ext4, records: &[u8]) -> Result<Option<String>, Ext4Error> {
    match fs.read(&*joined(records, b"source")) {
        Err(Ext4Error::NotFound | Ext4Error::NotADirectory) => Ok(None),
        record => Ok(Some(
            String::from_utf8_lossy(record?.trim_ascii()).into_owned(),
        )),
    }
}
