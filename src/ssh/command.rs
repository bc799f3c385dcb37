//! A command on the host that outlives the connection it is run over: the commands that attach to
//! it, and what is sent both ways. The other side is `shell/host/command.py`, which has the
//! protocol in full.
//!
//! The first line is the answer. Frames follow in both directions: a letter, the length of the
//! payload in four bytes (the highest first), and the payload.
//!
//! | to here | | from here | |
//! | --- | --- | --- | --- |
//! | `o` | standard output | `i` | standard input |
//! | `e` | standard error | `c` | its end |
//! | `t` | how many bytes of input the command was given, in eight bytes | `d` | the status has arrived |
//! | `x` | the exit status, in four bytes; the last frame | | |
//!
//! A byte of a stream is named by its place: how many bytes came before it since the command
//! began. A caller that attaches again names the bytes of output that follow, and the answer the
//! byte of input that does; so nothing is repeated and nothing missed, however much of either was
//! under way when the connection ended.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};

use xdrive_ground::quote::quote;

/// The beginning of the first line.
pub(super) const PREFIX: &str = "xdrive: command=";
/// The status of a caller whose place another one took, as `shell/host/keeper.py` has it.
pub(super) const TAKEN: u32 = 91;
/// The length of a frame's letter and length.
const HEAD: usize = 5;

/// A command that the host keeps for its callers, known by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteCommand {
    program: String,
    name: String,
    /// The words after the name, which start the command. None to attach to one that is there.
    order: Option<String>,
    /// The bytes of its outputs that have arrived, of one that is there.
    seen: Offsets,
}

/// Places in a command's streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Offsets {
    /// In its standard output.
    pub output: u64,
    /// In its standard error.
    pub errors: u64,
    /// In its standard input.
    pub input: u64,
}

/// A host's answer to an attach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// The command was started.
    New,
    /// The command was there already.
    Same {
        /// The bytes that follow: later ones of the outputs than requested if the host does not
        /// keep those any more.
        from: Offsets,
        /// Whether the end of its input has arrived.
        is_input_over: bool,
    },
    /// No such command is there, and none was started.
    Gone,
}

impl RemoteCommand {
    /// The command `name` that is on a host. The name has no slashes and is never used again.
    /// `program` is the path of `shell/host/command.py` on that host.
    #[must_use]
    pub fn existing(program: &str, name: &str) -> Self {
        Self {
            program: program.to_owned(),
            name: name.to_owned(),
            order: None,
            seen: Offsets::default(),
        }
    }

    /// It, for a caller that has the bytes of its outputs before `seen`.
    #[must_use]
    pub fn after(self, seen: Offsets) -> Self {
        Self { seen, ..self }
    }

    /// As [`RemoteCommand::existing`], for `command` (a string for a shell), which is to be started
    /// and is listed by its `label`. The host keeps the last `kept` bytes of each output. While the
    /// command runs, `client`, a client line, counts as attached, unless it is empty; after a `?`
    /// only while no caller is attached. `limit`, unless it is empty, is how many seconds it may
    /// take, and how many more until it is killed. `number`, unless it is empty, is that of the try
    /// which begins, where the command is tried again. `freeze` is empty, or says that it may be frozen.
    #[must_use]
    pub fn new(
        program: &str,
        name: &str,
        kept: u64,
        [label, client, limit, number, freeze]: [&str; 5],
        command: &str,
    ) -> Self {
        let order = format!(
            "{kept} {} {} {} {} {} {command}",
            quote(label),
            quote(client),
            quote(limit),
            quote(number),
            quote(freeze)
        );
        Self {
            order: Some(order),
            ..Self::existing(program, name)
        }
    }

    /// The command that starts it, if it is not there, and attaches to it.
    pub(super) fn start(&self) -> String {
        match &self.order {
            Some(order) => format!("{} {order}", self.call("start")),
            None => self.attach(self.seen),
        }
    }

    /// The command that starts it, and ends as soon as it runs.
    #[must_use]
    pub fn begin(&self) -> String {
        let order = self.order.as_deref().unwrap_or_default();
        format!("{} {order}", self.call("begin"))
    }

    /// The command that attaches to it again, after these bytes of its output.
    pub(super) fn attach(&self, seen: Offsets) -> String {
        let Offsets { output, errors, .. } = seen;
        format!("{} {output} {errors}", self.call("attach"))
    }

    fn call(&self, verb: &str) -> String {
        // Isolated: neither the environment nor a folder decides what is imported.
        format!(
            "exec python3 -I -S {} {verb} {}",
            quote(&self.program),
            quote(&self.name)
        )
    }
}

impl Answer {
    /// Parses the answer behind [`PREFIX`].
    pub(super) fn parse(answer: &str) -> Option<Self> {
        let words: Vec<&str> = answer.split(' ').collect();
        let [how, output, errors, input, state] = words[..] else {
            return None;
        };
        let from = Offsets {
            output: output.parse().ok()?,
            errors: errors.parse().ok()?,
            input: input.parse().ok()?,
        };
        let is_input_over = match state {
            "open" => false,
            "ended" => true,
            _ => return None,
        };
        match how {
            "new" => Some(Self::New),
            "same" => Some(Self::Same {
                from,
                is_input_over,
            }),
            "none" => Some(Self::Gone),
            _ => None,
        }
    }
}

/// A frame for the host.
#[derive(Clone, Copy)]
pub(super) enum Sent<'a> {
    /// The next of standard input.
    Input(&'a [u8]),
    /// The end of standard input.
    InputEnd,
    /// The exit status has arrived: the host needs to keep nothing any more.
    Done,
}

impl Sent<'_> {
    pub(super) fn encode(self) -> Bytes {
        let (kind, payload) = match self {
            Self::Input(payload) => (b'i', payload),
            Self::InputEnd => (b'c', &[][..]),
            Self::Done => (b'd', &[][..]),
        };
        let mut frame = BytesMut::with_capacity(HEAD + payload.len());
        frame.put_u8(kind);
        // What is read at once is far shorter than 4 GiB.
        frame.put_u32(u32::try_from(payload.len()).unwrap_or(u32::MAX));
        frame.put_slice(payload);
        frame.freeze()
    }
}

/// A piece of a host's stream: a whole frame, or a part of one with output.
#[derive(Clone, PartialEq, Eq)]
#[cfg_attr(test, derive(Debug))]
pub(super) enum Received {
    /// The next of standard output.
    Output(Bytes),
    /// The next of standard error.
    Errors(Bytes),
    /// The command was given so many bytes of standard input.
    Input(u64),
    /// The exit status, after everything else.
    Status(u32),
}

/// Reads frames however they are split.
#[derive(Default)]
pub(super) struct Decoder {
    /// A frame that is not whole, unless it is one with output.
    begun: BytesMut,
    /// The letter of the frame with output that is being read, and its bytes that are still to
    /// come.
    output: Option<(u8, usize)>,
}

impl Decoder {
    /// Takes the next frame, or piece of one, from the beginning of `data`. None if all of `data`
    /// was taken; an error if it is none.
    pub(super) fn next(&mut self, data: &mut Bytes) -> Result<Option<Received>, String> {
        loop {
            if let Some((kind, left)) = &mut self.output {
                if data.is_empty() {
                    return Ok(None);
                }
                let piece = data.split_to(data.len().min(*left));
                *left -= piece.len();
                let received = match kind {
                    b'o' => Received::Output(piece),
                    _ => Received::Errors(piece),
                };
                if *left == 0 {
                    self.output = None;
                }
                return Ok(Some(received));
            }
            if !self.fill(HEAD, data) {
                return Ok(None);
            }
            let kind = self.begun[0];
            let length = (&self.begun[1..HEAD]).get_u32() as usize;
            if let b'o' | b'e' = kind {
                self.begun.clear();
                self.output = (length > 0).then_some((kind, length));
                continue;
            }
            if !matches!((kind, length), (b't', 8) | (b'x', 4)) {
                return Err(format!("the host sent a frame {kind} of {length} bytes"));
            }
            if !self.fill(HEAD + length, data) {
                return Ok(None);
            }
            let mut payload = self.begun.split().split_off(HEAD);
            return Ok(Some(match kind {
                b't' => Received::Input(payload.get_u64()),
                _ => Received::Status(payload.get_u32()),
            }));
        }
    }

    /// Moves bytes until `length` of a frame are there; false if there are too few.
    fn fill(&mut self, length: usize, data: &mut Bytes) -> bool {
        let missing = length.saturating_sub(self.begun.len());
        let taken = data.split_to(missing.min(data.len()));
        self.begun.extend_from_slice(&taken);
        self.begun.len() >= length
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        [&[kind], &length[..], payload].concat()
    }

    #[test]
    fn frames_are_read_however_they_are_split() {
        let stream = [
            frame(b't', &258_u64.to_be_bytes()),
            frame(b'o', b""),
            frame(b'o', b"some output"),
            frame(b'e', b"an error"),
            frame(b'o', b"more"),
            frame(b'x', &37_u32.to_be_bytes()),
        ]
        .concat();
        for size in 1..=stream.len() {
            let mut decoder = Decoder::default();
            let (mut output, mut errors, mut others) = (Vec::new(), Vec::new(), Vec::new());
            for piece in stream.chunks(size) {
                let mut data = Bytes::copy_from_slice(piece);
                while let Some(received) = decoder.next(&mut data).unwrap() {
                    match received {
                        Received::Output(piece) => output.extend_from_slice(&piece),
                        Received::Errors(piece) => errors.extend_from_slice(&piece),
                        other => others.push(other),
                    }
                }
                assert!(data.is_empty());
            }
            assert_eq!(output, b"some outputmore");
            assert_eq!(errors, b"an error");
            assert_eq!(others, [Received::Input(258), Received::Status(37)]);
        }
    }

    #[test]
    fn bytes_that_are_no_frame_are_an_error() {
        for nonsense in [&b"Traceback"[..], b"x\0\0\0\x05hello"] {
            let mut data = Bytes::copy_from_slice(nonsense);
            assert!(Decoder::default().next(&mut data).is_err());
        }
    }

    #[test]
    fn input_is_framed() {
        assert_eq!(&Sent::Input(b"ab").encode()[..], b"i\0\0\0\x02ab");
        assert_eq!(&Sent::InputEnd.encode()[..], b"c\0\0\0\0");
        assert_eq!(&Sent::Done.encode()[..], b"d\0\0\0\0");
    }

    #[test]
    fn answers_name_the_bytes_that_follow() {
        let from = Offsets {
            output: 1,
            errors: 2,
            input: 3,
        };
        let same = |is_input_over| Answer::Same {
            from,
            is_input_over,
        };
        assert_eq!(Answer::parse("same 1 2 3 open"), Some(same(false)));
        assert_eq!(Answer::parse("same 1 2 3 ended"), Some(same(true)));
        assert_eq!(Answer::parse("none 0 0 0 ended"), Some(Answer::Gone));
        for nonsense in ["same 1 2 3", "same 1 2 x open", "old 1 2 3 open", "new"] {
            assert_eq!(Answer::parse(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn only_the_start_has_the_command() {
        let words = ["echo it", "", "60 30", "2", "freeze"];
        let command = RemoteCommand::new("/x/command.py", "1f", 4096, words, "sh -c 'echo it'");
        assert_eq!(
            command.start(),
            "exec python3 -I -S /x/command.py start 1f 4096 'echo it' '' '60 30' 2 freeze sh -c 'echo it'"
        );
        assert_eq!(command.begin(), command.start().replace("start", "begin"));
        let there = RemoteCommand::existing("/x/command.py", "1f");
        assert_eq!(
            there.start(),
            "exec python3 -I -S /x/command.py attach 1f 0 0"
        );
        let seen = Offsets {
            output: 7,
            errors: 8,
            input: 9,
        };
        assert_eq!(
            command.attach(seen),
            "exec python3 -I -S /x/command.py attach 1f 7 8"
        );
    }
}
