//! The runs that are on record on a drive, as `shell/host/runs.py` lists them where it is mounted.

use std::ops::ControlFlow;

use bytes::Bytes;

use super::blocks::Blocks;
use super::ext4::{Error, Ext4, Kind};
use super::layers::{RECORD, RECORDS, joined};
use super::reader::Reader;
use super::tree::failed;
use crate::host::container::CommandId;
use crate::host::logs::Piece;
use crate::host::runs::{MOST_TRIES, Run};
use crate::host::sftp::SftpError;
use crate::host::tries::{TriedCommand, Tries};

/// How many runs are read: as many as a host keeps on record, of those with an order and of others
/// (`shell/host/spool.py`).
const MOST: usize = 2 * 50;

/// How much is read of the end of an output, in bytes: what a record has of it there.
const TAIL: u64 = 1 << 20;

/// How much of that is read to find its last line (`shell/host/runs.py`).
const LINE: u64 = 4 << 10;

/// The most bytes of an order that are read: as many as are kept (`shell/host/tries.py`).
const ORDER: u64 = 2 << 20;

/// The files with the ends of a run's two outputs.
const STREAMS: [&[u8]; 2] = [b"output", b"errors"];

/// The most characters of a last line.
const LAST: usize = 200;

/// The runs on record, the oldest first. Blocks until they are read.
pub(super) fn read(blocks: Blocks) -> Result<Vec<Run>, SftpError> {
    on_record(&load(blocks)?).map_err(failed)
}

/// The ends of what each try of a run wrote, the first try first, and standard output before standard
/// error; of a run that is not on record nothing. Blocks until they are read.
pub(super) fn read_output(blocks: Blocks, id: &CommandId) -> Result<Vec<Vec<Piece>>, SftpError> {
    outputs(&load(blocks)?, id).map_err(failed)
}

/// The tries of a run, as `shell/host/tries.py` has them. Blocks until they are read.
pub(super) fn read_tries(blocks: Blocks, id: &CommandId) -> Result<Tries, SftpError> {
    tries(&load(blocks)?, id).map_err(failed)
}

fn load(blocks: Blocks) -> Result<Ext4, SftpError> {
    Ext4::load(Box::new(Reader::new(blocks))).map_err(failed)
}

pub(super) fn on_record(fs: &Ext4) -> Result<Vec<Run>, Error> {
    let folder = match fs.find(&runs_folder()) {
        Err(Error::Missing) => return Ok(Vec::new()),
        folder => folder?,
    };
    let mut ids = Vec::new();
    let each = fs.each(&folder, |name, _| {
        let name = str::from_utf8(name).ok();
        ids.extend(name.and_then(CommandId::parse));
        match ids.len() {
            MOST => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    });
    match each {
        Err(Error::Missing) => return Ok(Vec::new()),
        each => each?,
    };
    let mut runs = Vec::new();
    for id in ids {
        if let Some((mut run, _)) = record(fs, &id)? {
            run.last = last_line(fs, &id)?;
            runs.push(run);
        }
    }
    runs.sort_by(|one, other| one.began.total_cmp(&other.began));
    Ok(runs)
}

fn outputs(fs: &Ext4, id: &CommandId) -> Result<Vec<Vec<Piece>>, Error> {
    let Some((run, written)) = record(fs, id)? else {
        return Ok(Vec::new());
    };
    let mut tries = Vec::new();
    for former in 1..run.number.unwrap_or(1).min(MOST_TRIES) {
        let folder = try_folder(id, former);
        let Some((_, written)) = record_in(fs, &folder, id)? else {
            continue;
        };
        tries.push(output(fs, &folder, written)?);
    }
    tries.push(output(fs, &run_folder(id), written)?);
    Ok(tries)
}

fn tries(fs: &Ext4, id: &CommandId) -> Result<Tries, Error> {
    let order = match fs.record(&joined(&run_folder(id), b"order"), ORDER) {
        Err(Error::Missing) => None,
        order => TriedCommand::parse(&String::from_utf8_lossy(&order?)),
    };
    let mut numbers = Vec::new();
    if let Some(folder) = unless_missing(fs.find(&tries_folder(id)))? {
        let read = fs.each(&folder, |name, _| {
            let number = str::from_utf8(name).ok().and_then(|name| name.parse().ok());
            numbers.extend(number.filter(|number| (1..=MOST_TRIES).contains(number)));
            ControlFlow::<()>::Continue(())
        });
        unless_missing(read)?;
    }
    let begun = numbers.iter().copied().max().unwrap_or(0);
    let mut failed = 0;
    for number in numbers {
        let record = record_in(fs, &try_folder(id, number), id)?;
        failed += u32::from(record.is_some_and(|(run, _)| run.has_failed()));
    }
    Ok(Tries {
        order,
        begun,
        failed,
    })
}

/// What was found; none if it is missing.
fn unless_missing<T>(result: Result<T, Error>) -> Result<Option<T>, Error> {
    match result {
        Err(Error::Missing) => Ok(None),
        result => result.map(Some),
    }
}

/// What a record in this folder has of the outputs of a try, to which it had `written` so many bytes.
fn output(fs: &Ext4, folder: &[u8], written: [u64; 2]) -> Result<Vec<Piece>, Error> {
    let mut pieces = Vec::new();
    for (stream, written) in STREAMS.into_iter().zip(written) {
        let bytes = end_of(fs, folder, stream, TAIL)?;
        pieces.push(Piece {
            is_output: stream == STREAMS[0],
            place: written.saturating_sub(bytes.len() as u64),
            bytes: Bytes::from(bytes),
        });
    }
    Ok(pieces)
}

/// A run's record, and how many bytes it wrote to each of its outputs; none if it has none that can be
/// parsed.
fn record(fs: &Ext4, id: &CommandId) -> Result<Option<(Run, [u64; 2])>, Error> {
    record_in(fs, &run_folder(id), id)
}

fn record_in(fs: &Ext4, folder: &[u8], id: &CommandId) -> Result<Option<(Run, [u64; 2])>, Error> {
    match fs.record(&joined(folder, b"record"), RECORD) {
        Err(Error::Missing) => Ok(None),
        record => {
            let frozen = [RECORDS, b"frozen", id.as_str().as_bytes(), b"whole"];
            let is_frozen = unless_missing(fs.find(&frozen.join(&b'/')))?.is_some();
            Ok(Run::on_record(id, &record?, is_frozen))
        }
    }
}

/// The last line that a run printed, as `shell/host/runs.py` has it: of its standard output, or of its
/// standard error if it printed nothing else.
fn last_line(fs: &Ext4, id: &CommandId) -> Result<String, Error> {
    for stream in STREAMS {
        let end = end_of(fs, &run_folder(id), stream, LINE)?;
        let end = String::from_utf8_lossy(&end);
        let line = end.rsplit('\n').find(|line| !line.trim().is_empty());
        if let Some(line) = line.and_then(|line| line.rsplit('\r').next()) {
            return Ok(line.trim().chars().take(LAST).collect());
        }
    }
    Ok(String::new())
}

/// The last `most` bytes of what the record in this folder has of an output.
fn end_of(fs: &Ext4, folder: &[u8], stream: &[u8], most: u64) -> Result<Vec<u8>, Error> {
    let file = match fs.find(&joined(folder, stream)) {
        Err(Error::Missing) => return Ok(Vec::new()),
        file => file?,
    };
    if file.kind() != Kind::File {
        return Ok(Vec::new());
    }
    let length = usize::try_from(file.size.min(most)).unwrap_or_default();
    let mut end = vec![0; length];
    let start = file.size - length as u64;
    let mut done = 0;
    while let Some(into) = end.get_mut(done..).filter(|into| !into.is_empty()) {
        done += fs.read(&file, start + done as u64, into)?;
    }
    Ok(end)
}

/// The folder with a folder for each run.
fn runs_folder() -> Vec<u8> {
    joined(RECORDS, b"runs")
}

fn run_folder(id: &CommandId) -> Vec<u8> {
    joined(&runs_folder(), id.as_str().as_bytes())
}

/// The folder with a folder for each try of a run that has begun.
fn tries_folder(id: &CommandId) -> Vec<u8> {
    joined(&run_folder(id), b"tries")
}

fn try_folder(id: &CommandId, number: u32) -> Vec<u8> {
    joined(&tries_folder(id), number.to_string().as_bytes())
}

#[cfg(test)]
mod tests;
