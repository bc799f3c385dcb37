//! The output of a run, as any computer can have it: in pieces, each with its place. The other side
//! is `shell/host/runs.py`, which has the protocol in full.
//!
//! A caller that lost its connection asks for what follows its last byte.

use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};

use super::container::CommandId;
use super::facts::{Facts, ScriptError};
use super::scripts::Host;
use crate::quote::quote;
use crate::ssh;
use crate::ssh::channel::{Output, Session};

const SCRIPT: &str = "runs.py logs";

/// The length of a frame's letter, place, and length of its payload.
const HEAD: usize = 13;

/// The longest payload, in bytes: far more than the host reads at once.
const LONGEST: usize = 16 << 20;

/// Where the output of a run is to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beginning {
    /// At the first byte that is kept.
    Kept,
    /// At what came in the last so long (whole seconds).
    Since(Duration),
    /// After so many bytes of its standard output, and of its standard error.
    After([u64; 2]),
}

/// A piece of a run's output.
#[derive(Clone, PartialEq, Eq)]
#[cfg_attr(test, derive(Debug))]
pub(crate) struct Piece {
    /// Whether it is of standard output, and not of standard error.
    pub(crate) is_output: bool,
    /// How many bytes the run had written to that before.
    pub(crate) place: u64,
    /// The output; empty where only the place is named.
    pub(crate) bytes: Bytes,
}

/// The output of a run, as it arrives.
pub(crate) struct Logs {
    host: Host,
    session: Session,
    frames: Frames,
    /// The script's message for people.
    words: Vec<u8>,
    status: Option<u32>,
}

impl Host {
    /// The output of a run from there on, or of a `former` try of it. With `follows` it ends with the
    /// run.
    pub(crate) async fn logs(
        &self,
        id: &CommandId,
        former: Option<u32>,
        from: Beginning,
        follows: bool,
    ) -> Result<Logs, ScriptError> {
        let from = match from {
            Beginning::Kept => "0".to_owned(),
            Beginning::Since(time) => time.as_secs().max(1).to_string(),
            Beginning::After([output, errors]) => format!("{output}:{errors}"),
        };
        let follow = if follows { " follow" } else { "" };
        let former = former.map_or_else(String::new, |number| format!(" {number}"));
        let script = format!("{SCRIPT} {} {from}{follow}{former}", quote(id.as_str()));
        Ok(Logs {
            host: self.clone(),
            session: self.exec_python(&script).await?,
            frames: Frames::default(),
            words: Vec::new(),
            status: None,
        })
    }
}

impl Logs {
    /// The next piece; none after the last one. The first two name the places of both streams, also
    /// where nothing is there. [`ScriptError::Ssh`] if the connection ends before.
    pub(crate) async fn next(&mut self) -> Result<Option<Piece>, ScriptError> {
        loop {
            match self.frames.next()? {
                Some(Frame::Piece(piece)) => return Ok(Some(piece)),
                Some(Frame::End) => return Ok(None),
                None => {}
            }
            match self.session.output_beside(self.words.len()).await? {
                Some(Output::Stdout(data)) => self.frames.arrived(&data),
                Some(Output::Stderr(words)) => self.words.extend_from_slice(&words),
                Some(Output::Status(status)) => self.status = Some(status),
                None => return Err(self.broken().await),
            }
        }
    }

    /// Why it ended before its last frame.
    async fn broken(&mut self) -> ScriptError {
        let ended = self.status.map(|status| ssh::Output {
            status,
            stdout: Vec::new(),
            stderr: std::mem::take(&mut self.words),
        });
        match ended.map(|ended| Facts::read(SCRIPT, &ended, &[])) {
            Some(Err(error)) => error,
            Some(Ok(_)) | None => ScriptError::Ssh(self.host.why_ended().await),
        }
    }
}

/// Reads frames however they are split.
#[derive(Default)]
pub(super) struct Frames(BytesMut);

#[derive(PartialEq, Eq)]
#[cfg_attr(test, derive(Debug))]
pub(super) enum Frame {
    Piece(Piece),
    /// There is nothing more.
    End,
}

impl Frames {
    pub(super) fn arrived(&mut self, data: &[u8]) {
        self.0.extend_from_slice(data);
    }

    /// The next frame; none before it is whole, an error if it is none.
    pub(super) fn next(&mut self) -> Result<Option<Frame>, ScriptError> {
        let Some(mut head) = self.0.get(..HEAD) else {
            return Ok(None);
        };
        let (kind, place, length) = (head.get_u8(), head.get_u64(), head.get_u32() as usize);
        if !matches!(kind, b'o' | b'e' | b'x') || length > LONGEST {
            let missing = "a frame";
            let script = SCRIPT;
            return Err(ScriptError::Garbled { script, missing });
        }
        if self.0.len() < HEAD + length {
            return Ok(None);
        }
        let bytes = self.0.split_to(HEAD + length).split_off(HEAD).freeze();
        Ok(Some(match kind {
            b'x' => Frame::End,
            kind => Frame::Piece(Piece {
                is_output: kind == b'o',
                place,
                bytes,
            }),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, place: u64, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        [&[kind], &place.to_be_bytes()[..], &length, payload].concat()
    }

    #[test]
    fn pieces_are_read_with_their_places_however_they_are_split() {
        let stream = [
            frame(b'o', 258, b""),
            frame(b'e', 0, b""),
            frame(b'o', 258, b"some output"),
            frame(b'e', 0, b"an error"),
            frame(b'x', 0, b""),
        ]
        .concat();
        let piece = |is_output, place, bytes: &'static [u8]| {
            let bytes = Bytes::from_static(bytes);
            Frame::Piece(Piece {
                is_output,
                place,
                bytes,
            })
        };
        let expected = [
            piece(true, 258, b""),
            piece(false, 0, b""),
            piece(true, 258, b"some output"),
            piece(false, 0, b"an error"),
            Frame::End,
        ];
        for size in 1..=stream.len() {
            let (mut frames, mut read) = (Frames::default(), Vec::new());
            for data in stream.chunks(size) {
                frames.arrived(data);
                while let Some(frame) = frames.next().unwrap() {
                    read.push(frame);
                }
            }
            assert_eq!(read, expected, "{size}");
        }
    }

    #[test]
    fn bytes_that_are_no_frame_are_an_error() {
        for nonsense in [&b"Traceback (most"[..], b"o\0\0\0\0\0\0\0\0\xff\0\0\0"] {
            let mut frames = Frames::default();
            frames.arrived(nonsense);
            assert!(frames.next().is_err());
        }
    }
}
