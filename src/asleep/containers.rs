//! The containers that are on record on a drive, as `shell/host/containers` lists them.

use std::ops::ControlFlow;

use super::blocks::Blocks;
use super::ext4::{Error, Ext4};
use super::layers::{RECORD, RECORDS, containers_folder, joined};
use super::reader::Reader;
use super::tree::failed;
use crate::host::on_record::{ContainerState, OnRecord};
use crate::host::sftp::SftpError;
use crate::ids::ContainerName;

/// The containers on record, the main one first. Blocks until they are read.
pub(super) fn read(blocks: Blocks) -> Result<Vec<OnRecord>, SftpError> {
    let fs = Ext4::load(Box::new(Reader::new(blocks))).map_err(failed)?;
    on_record(&fs).map_err(failed)
}

pub(super) fn on_record(fs: &Ext4) -> Result<Vec<OnRecord>, Error> {
    let asleep = |name, source| OnRecord {
        name,
        state: ContainerState::Asleep,
        source,
    };
    let mut found = Vec::new();
    found.extend(source(fs, RECORDS)?.map(|source| asleep(None, source)));
    let folder = match fs.find(&containers_folder()) {
        Err(Error::Missing) => return Ok(found),
        folder => folder?,
    };
    let mut names = Vec::<ContainerName>::new();
    let each = fs.each(&folder, |name, _| {
        let name = str::from_utf8(name).ok();
        names.extend(name.and_then(|name| name.parse().ok()));
        ControlFlow::<()>::Continue(())
    });
    match each {
        Err(Error::Missing) => return Ok(found),
        each => each?,
    };
    for name in names {
        if let Some(source) = source(fs, &joined(&containers_folder(), name.as_str().as_bytes()))? {
            found.push(asleep(Some(name), source));
        }
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(found)
}

/// The image that the container with these records was made from; none if it never was.
fn source(fs: &Ext4, records: &[u8]) -> Result<Option<String>, Error> {
    match fs.record(&joined(records, b"source"), RECORD) {
        Err(Error::Missing) => Ok(None),
        record => {
            let record = record?;
            let source = String::from_utf8_lossy(record.trim_ascii());
            Ok(Some(source.into_owned()))
        }
    }
}
