//! The first line of a program on the host that a shell is attached to: the program's answer.
//! What follows it is not text.

use bytes::{Bytes, BytesMut};

/// The longest that a first line may be, in bytes.
const LONGEST: usize = 200;

/// The first line, as it arrives.
pub(super) struct FirstLine {
    /// The beginning that it must have.
    prefix: &'static str,
    read: BytesMut,
}

impl FirstLine {
    pub(super) fn new(prefix: &'static str) -> Self {
        let read = BytesMut::new();
        Self { prefix, read }
    }

    /// Reads more of the host's output: what stands behind the prefix once the line is whole, with
    /// what follows the line; an error as soon as it cannot become one.
    pub(super) fn read(&mut self, data: &[u8]) -> Result<Option<(String, Bytes)>, String> {
        self.read.extend_from_slice(data);
        let prefix = self.prefix.as_bytes();
        let Some(end) = self.read.iter().position(|byte| *byte == b'\n') else {
            let known = self.read.len().min(prefix.len());
            return if self.read[..known] == prefix[..known] && self.read.len() < LONGEST {
                Ok(None)
            } else {
                Err(self.text())
            };
        };
        let line = self.read.split_to(end + 1);
        let line = String::from_utf8_lossy(&line).trim().to_owned();
        match line.strip_prefix(self.prefix) {
            Some(answer) => Ok(Some((answer.to_owned(), self.read.split().freeze()))),
            None => Err(line),
        }
    }

    /// The bytes read so far, as text for an error.
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.read).trim().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PREFIX: &str = "xdrive: terminal=";

    #[test]
    fn the_first_line_is_read_however_it_is_split_and_the_rest_kept() {
        let output = b"xdrive: terminal=same 17\nxdrive: terminal=none 0\n";
        for size in 1..output.len() {
            let mut line = FirstLine::new(PREFIX);
            let mut pieces = output.chunks(size);
            let (answer, mut rest) = loop {
                if let Some((answer, rest)) = line.read(pieces.next().unwrap()).unwrap() {
                    break (answer, rest.to_vec());
                }
            };
            pieces.for_each(|piece| rest.extend_from_slice(piece));
            assert_eq!(answer, "same 17");
            assert_eq!(rest, b"xdrive: terminal=none 0\n");
        }
    }

    #[test]
    fn output_that_is_no_answer_is_quoted() {
        let mut line = FirstLine::new(PREFIX);
        let error = line.read(b"sh: 1: exec: python3: not found\r\n");
        assert_eq!(error.unwrap_err(), "sh: 1: exec: python3: not found");
        let endless = format!("{PREFIX}{}", "1".repeat(LONGEST));
        assert!(FirstLine::new(PREFIX).read(endless.as_bytes()).is_err());
    }
}
