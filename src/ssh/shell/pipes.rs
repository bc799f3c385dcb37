//! The pump between the local standard streams and a command on the host, byte for byte.
//!
//! The local ends outlive a connection, with the places up to which they have gone. Input is kept
//! here until the host has it, and sent again over the next connection if it has not.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use russh::ChannelMsg;
use tokio::sync::mpsc;

use super::exit::ShellExit;
use crate::Ssh;
use crate::channel::{Sender, Session};
use crate::command::{Decoder, Offsets, Received, Sent, TAKEN};
use crate::escape::{Answers, Escapes, HELP, Question, Typed};
use crate::gate::Gate;
use crate::streams::{Sink, Source, Stop};

/// How much input is read ahead of what the host has: a far line of 100 ms still carries 40 MiB a
/// second.
const AHEAD: usize = 4 << 20;
/// How long the last frame may wait for the host's window; without it the host keeps the command's
/// exit status for some minutes.
const LAST_FRAME: Duration = Duration::from_secs(1);
/// How long the connection is kept open for the last frame to arrive.
const FAREWELL: Duration = Duration::from_secs(10);

/// How far the streams of a command have come here. Clones have the same numbers, which outlive their
/// shell: that may be dropped at any time.
#[derive(Debug, Clone, Default)]
pub struct Progress(Arc<Numbers>);

#[derive(Debug, Default)]
struct Numbers {
    unconfirmed: AtomicUsize,
    output: AtomicU64,
    errors: AtomicU64,
}

impl Progress {
    /// How many bytes of standard input were read here that the host has not passed to the command, as
    /// far as is known.
    #[must_use]
    pub fn unconfirmed(&self) -> usize {
        self.0.unconfirmed.load(Ordering::Relaxed)
    }

    /// The places in the command's outputs up to which they have arrived.
    #[must_use]
    pub fn arrived(&self) -> Offsets {
        Offsets {
            output: self.0.output.load(Ordering::Relaxed),
            errors: self.0.errors.load(Ordering::Relaxed),
            input: 0,
        }
    }

    fn set_arrived(&self, seen: Offsets) {
        self.0.output.store(seen.output, Ordering::Relaxed);
        self.0.errors.store(seen.errors, Ordering::Relaxed);
    }
}

/// The local standard streams, attached to a command on the host.
pub(super) struct Pipes {
    input: Source,
    output: Sink,
    errors: Sink,
    /// Escapes, if standard input is a terminal; and the answers to questions.
    escapes: Option<(Escapes, Answers)>,
    /// The bytes of output that have arrived here, and those of input that the host has.
    pub(super) seen: Offsets,
    /// Input that was read and that the host does not have, as far as is known.
    unconfirmed: VecDeque<Bytes>,
    /// How much that is, and what of the outputs has arrived.
    progress: Progress,
    /// Whether the host takes no more input.
    is_input_over: bool,
    /// Whether nothing more is typed.
    is_typed_out: bool,
}

/// The pieces to send to the host, in order.
type Queue = mpsc::UnboundedSender<Bytes>;

impl Pipes {
    pub(super) fn open(gate: &Arc<Gate>, answers: Answers, progress: Progress) -> io::Result<Self> {
        let own = |stream: &dyn AsFd| stream.as_fd().try_clone_to_owned();
        let is_terminal = io::IsTerminal::is_terminal(&io::stdin());
        Ok(Self {
            input: Source::open(own(&io::stdin())?)?,
            output: Sink::open(own(&io::stdout())?, Arc::clone(gate))?,
            errors: Sink::open(own(&io::stderr())?, Arc::clone(gate))?,
            escapes: is_terminal.then(|| (Escapes::default(), answers)),
            seen: progress.arrived(),
            unconfirmed: VecDeque::new(),
            progress,
            is_input_over: false,
            is_typed_out: false,
        })
    }

    /// A second way to end the reading of input.
    pub(super) fn stop(&self) -> io::Result<Stop> {
        self.input.stop()
    }

    /// Goes on with the bytes that the host names; `is_input_over` if it takes no more input.
    /// Returns how many bytes of output, and of errors, are lost.
    pub(super) fn follow(&mut self, from: Offsets, is_input_over: bool) -> [u64; 2] {
        let lost = [
            from.output.saturating_sub(self.seen.output),
            from.errors.saturating_sub(self.seen.errors),
        ];
        self.confirm(from.input);
        self.seen = from;
        self.progress.set_arrived(from);
        if is_input_over {
            self.unconfirmed.clear();
            self.is_input_over = true;
            self.recount();
        }
        lost
    }

    /// Drops the input before byte `arrived`, which the host has.
    fn confirm(&mut self, arrived: u64) {
        let mut count = arrived.saturating_sub(self.seen.input);
        self.seen.input = self.seen.input.max(arrived);
        while let Some(chunk) = self.unconfirmed.front_mut() {
            let length = chunk.len() as u64;
            if length > count {
                // At most the length of a chunk.
                chunk.advance(usize::try_from(count).unwrap_or_default());
                break;
            }
            count -= length;
            self.unconfirmed.pop_front();
        }
        self.recount();
    }

    fn recount(&self) {
        let bytes = self.unconfirmed.iter().map(Bytes::len).sum();
        self.progress.0.unconfirmed.store(bytes, Ordering::Relaxed);
    }

    /// Carries everything between the local ends and the host, until one of them ends. `rest` is
    /// what has arrived already.
    pub(super) async fn carry(&mut self, session: Session, rest: Bytes, ssh: &Ssh) -> ShellExit {
        let Session {
            mut messages,
            sender,
        } = session;
        let (queue, mut queued) = mpsc::unbounded_channel();
        let is_done = AtomicBool::new(false);
        let exit = {
            let sending = send(&sender, &mut queued, &is_done);
            tokio::pin!(sending);
            let mut all_sent = false;
            let exit = {
                let carrying = self.carry_frames(&mut messages, rest, &sender, &queue);
                tokio::pin!(carrying);
                loop {
                    tokio::select! {
                        exit = &mut carrying => break exit,
                        () = &mut sending, if !all_sent => all_sent = true,
                    }
                }
            };
            if matches!(exit, ShellExit::Status(_)) && !all_sent {
                // The command has ended: waiting input is dropped.
                is_done.store(true, Ordering::Relaxed);
                let _ended = queue.send(Sent::Done.encode());
                drop(queue);
                let _late = tokio::time::timeout(LAST_FRAME, sending).await;
            }
            exit
        };
        // Keeps the connection until the channel's end: the last frame may be on its way.
        let ssh = ssh.clone();
        tokio::spawn(async move {
            let _open = (ssh, sender);
            let closed = async { while messages.wait().await.is_some() {} };
            let _late = tokio::time::timeout(FAREWELL, closed).await;
        });
        exit
    }

    async fn carry_frames(
        &mut self,
        messages: &mut russh::ChannelReadHalf,
        rest: Bytes,
        sender: &Sender,
        queue: &Queue,
    ) -> ShellExit {
        for chunk in &self.unconfirmed {
            let _ended = queue.send(Sent::Input(chunk).encode());
        }
        if self.is_input_over {
            let _ended = queue.send(Sent::InputEnd.encode());
        }
        let mut decoder = Decoder::default();
        let mut status = None;
        if let Some(exit) = self.receive(&mut decoder, rest) {
            return exit;
        }
        loop {
            // Escapes are read also where the command reads nothing.
            let is_wanted = !self.is_input_over || self.escapes.is_some();
            let reads = is_wanted && !self.is_typed_out && self.progress.unconfirmed() < AHEAD;
            tokio::select! {
                chunk = self.input.next(), if reads => {
                    let Some(chunk) = chunk else {
                        self.is_typed_out = true;
                        if !self.is_input_over {
                            self.is_input_over = true;
                            let _ended = queue.send(Sent::InputEnd.encode());
                        }
                        continue;
                    };
                    if let Some(exit) = self.read(chunk, queue) {
                        return exit;
                    }
                }
                // A pipe whose reader is gone ends the command (SIGPIPE), as it would locally.
                () = self.output.failed() => return ShellExit::Signal { number: 13 },
                message = messages.wait() => match message {
                    Some(ChannelMsg::Data { data }) => {
                        if let Some(exit) = self.receive(&mut decoder, data) {
                            return exit;
                        }
                    }
                    // Words of the program on the host.
                    Some(ChannelMsg::ExtendedData { data, .. }) => self.errors.push(data),
                    Some(ChannelMsg::ExitStatus { exit_status }) => status = Some(exit_status),
                    // Without a frame for it.
                    Some(ChannelMsg::Close) => return match status {
                        Some(TAKEN) => ShellExit::TakenOver,
                        Some(status) => ShellExit::Status(status),
                        None => ShellExit::Lost("the host ended it".to_owned()),
                    },
                    None => return ShellExit::Lost(sender.wait_for_end().await),
                    Some(_) => {}
                },
            }
        }
    }

    /// Queues input for the host; an exit if it has an escape that is one.
    fn read(&mut self, chunk: Bytes, queue: &Queue) -> Option<ShellExit> {
        let typed = match &mut self.escapes {
            Some((escapes, _)) => escapes.read(&chunk),
            None => vec![Typed::Send(chunk)],
        };
        for typed in typed {
            match typed {
                Typed::Send(_) if self.is_input_over => {}
                Typed::Send(bytes) => {
                    let _ended = queue.send(Sent::Input(&bytes).encode());
                    self.unconfirmed.push_back(bytes);
                    self.recount();
                }
                Typed::End => return Some(ShellExit::Escaped),
                Typed::Detach | Typed::Freeze => {
                    let (question, exit) = match typed {
                        Typed::Freeze => (Question::Freeze, ShellExit::Frozen),
                        _ => (Question::Detach, ShellExit::Detached),
                    };
                    let answers = self.escapes.as_ref().map(|(_, answers)| answers);
                    let why_not = answers.map_or_else(String::new, |it| it(question));
                    if why_not.is_empty() {
                        return Some(exit);
                    }
                    self.print(format!("{why_not}\n"));
                }
                Typed::Help => {
                    let list = HELP.replace('\r', "");
                    self.print(list.trim_start_matches("~?\n").to_owned());
                }
                Typed::Ask(question) => {
                    if let Some((_, answers)) = &self.escapes {
                        self.print(format!("{}\n", answers(question)));
                    }
                }
                // The terminal itself edits lines and shows them, and has Ctrl-Z.
                Typed::Line | Typed::Echo(_) | Typed::Abandoned | Typed::Suspend => {}
            }
        }
        None
    }

    fn print(&self, text: String) {
        self.errors.push(Bytes::from(text));
    }

    /// Shows what the host sent; an exit if it is one.
    fn receive(&mut self, decoder: &mut Decoder, mut data: Bytes) -> Option<ShellExit> {
        loop {
            match decoder.next(&mut data) {
                Ok(None) => return None,
                Ok(Some(Received::Output(piece))) => {
                    self.seen.output += piece.len() as u64;
                    self.progress.set_arrived(self.seen);
                    self.output.push(piece);
                }
                Ok(Some(Received::Errors(piece))) => {
                    self.seen.errors += piece.len() as u64;
                    self.progress.set_arrived(self.seen);
                    self.errors.push(piece);
                }
                Ok(Some(Received::Input(arrived))) => self.confirm(arrived),
                Ok(Some(Received::Status(status))) => return Some(ShellExit::Status(status)),
                // Attaching again begins with whole frames.
                Err(error) => return Some(ShellExit::Lost(error)),
            }
        }
    }

    /// Ends reading, so that what is typed from here on is for the next program; waits until all
    /// was shown.
    pub(super) async fn end(self) {
        drop(self.input);
        self.output.drained().await;
        self.errors.drained().await;
    }
}

/// Sends what is queued, until the queue or the connection ends; once the command `is_done`, only
/// the last of it.
async fn send(sender: &Sender, queued: &mut mpsc::UnboundedReceiver<Bytes>, is_done: &AtomicBool) {
    let done = Sent::Done.encode();
    while let Some(frame) = queued.recv().await {
        if is_done.load(Ordering::Relaxed) && frame != done {
            continue;
        }
        if !sender.send(frame).await {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pipes() -> Pipes {
        let null = || std::fs::File::open("/dev/null").unwrap().into();
        Pipes {
            input: Source::open(null()).unwrap(),
            output: Sink::open(null(), Arc::default()).unwrap(),
            errors: Sink::open(null(), Arc::default()).unwrap(),
            escapes: None,
            seen: Offsets::default(),
            unconfirmed: VecDeque::new(),
            progress: Progress::default(),
            is_input_over: false,
            is_typed_out: false,
        }
    }

    fn input(number: u64) -> Offsets {
        Offsets {
            input: number,
            ..Offsets::default()
        }
    }

    #[test]
    fn input_is_kept_from_the_byte_on_that_the_host_does_not_have() {
        let (queue, _queued) = mpsc::unbounded_channel();
        let mut pipes = pipes();
        for chunk in [&b"abc"[..], b"de", b"f"] {
            assert_eq!(pipes.read(Bytes::from_static(chunk), &queue), None);
        }
        let kept = |pipes: &Pipes| {
            let chunks: Vec<&[u8]> = pipes.unconfirmed.iter().map(|chunk| &chunk[..]).collect();
            String::from_utf8(chunks.concat()).unwrap()
        };
        pipes.confirm(2);
        assert_eq!(kept(&pipes), "cdef");
        // An older report that comes late changes nothing.
        pipes.confirm(1);
        assert_eq!(
            (kept(&pipes).as_str(), pipes.progress.unconfirmed()),
            ("cdef", 4)
        );
        assert_eq!(pipes.follow(input(5), false), [0, 0]);
        assert_eq!((kept(&pipes).as_str(), pipes.seen), ("f", input(5)));
        pipes.follow(input(5), true);
        assert_eq!(
            (kept(&pipes).as_str(), pipes.progress.unconfirmed()),
            ("", 0)
        );
        assert!(pipes.is_input_over);
    }
}
