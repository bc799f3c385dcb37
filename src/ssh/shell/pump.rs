//! The pump between the local terminal and the host's: carries bytes and reads escapes until one
//! side ends.
//!
//! The local ends outlive a connection: after one is lost, the same ends go on with the next, with
//! what is still to be written and the modes that are on in the terminal. Typed input that was not
//! sent until then is discarded: a command that was typed blindly must not run minutes later.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use russh::ChannelMsg;
use tokio::sync::{Notify, mpsc};

use super::exit::ShellExit;
use crate::channel::{Sender, Session, signal_number};
use crate::escape::{Answers, Escapes, HELP, Question, Typed};
use crate::gate::Gate;
use crate::streams::{Sink, Source, Stop};
use xdrive_ground::terminal::{self, Margin, Screen};

/// How much typed input may wait for a dead link before reading stops (and escapes with it).
const TYPED: usize = 4 << 20;
/// The longest wait, at the end of a session, for a terminal that takes no output.
const LAST_OUTPUT: Duration = Duration::from_secs(1);
/// The longest wait, at an escape that ends the session, for what was typed before it to be sent.
const LAST_INPUT: Duration = Duration::from_secs(1);
/// The pause between two sizes, so that a program sees both and draws its whole screen again.
const REDRAW: Duration = Duration::from_millis(50);

/// A request beside the data, to the host or to the local terminal.
#[derive(Debug, Clone)]
pub(super) enum Request {
    /// Send the terminal's size.
    Resize,
    /// Send another size, and then the terminal's.
    Redraw,
    /// Print a message of xdrive's own.
    Print(Message),
}

/// A message of xdrive's own, shown amid the host's output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// A line, shown as soon as that does not spoil the screen; the bell rings at once.
    Line(String),
    /// A line, likewise, without the bell.
    Note(String),
    /// The terminal's title, until the end.
    Title(String),
}

/// The local terminal: its streams and its state.
pub(super) struct Local {
    input: Source,
    output: Sink,
    escapes: Escapes,
    screen: Screen,
    margin: Margin,
    answers: Answers,
    /// The pending messages: lines, the bell, a title.
    lines: Vec<String>,
    bell: bool,
    title: Option<String>,
    /// How many bytes of the output of the host's terminal have been shown, up to a sequence or a
    /// character that is not whole: after a lost connection it follows from its first byte on.
    pub(super) seen: u64,
    /// The bytes of a character that is not whole, which are not shown yet: the ESC of a notice
    /// would make a replacement character of them. It cancels a sequence, which is shown as it
    /// arrives.
    held: Vec<u8>,
    /// Whether a notice is shown on a screen of its own, the terminal's behind it.
    has_own_screen: bool,
    /// Whether a line of `~C` is being typed: the host's output waits until its end.
    has_line: bool,
    /// The part of that line's echo that is to be shown once the host's output is not in the middle
    /// of a sequence; the host's output waits from then on.
    unshown: Option<String>,
}

/// Input on its way to the host.
#[derive(Default)]
struct Backlog {
    bytes: AtomicUsize,
    shrunk: Notify,
}

impl Local {
    /// The terminal on the standard streams.
    pub(super) fn open(gate: &Arc<Gate>, answers: Answers) -> io::Result<Self> {
        let own =
            |stream: &dyn AsFd| -> io::Result<OwnedFd> { stream.as_fd().try_clone_to_owned() };
        let (input, output) = (own(&io::stdin())?, own(&io::stdout())?);
        Self::on(input, output, gate, answers)
    }

    /// The terminal on these streams.
    fn on(input: OwnedFd, output: OwnedFd, gate: &Arc<Gate>, answers: Answers) -> io::Result<Self> {
        Ok(Self {
            input: Source::open(input)?,
            output: Sink::open(output, Arc::clone(gate))?,
            escapes: Escapes::default(),
            screen: Screen::default(),
            margin: Margin::default(),
            answers,
            lines: Vec::new(),
            bell: false,
            title: None,
            seen: 0,
            held: Vec::new(),
            has_own_screen: false,
            has_line: false,
            unshown: None,
        })
    }

    /// A second way to end the reading of input.
    pub(super) fn stop(&self) -> io::Result<Stop> {
        self.input.stop()
    }

    /// Shows output of the host.
    pub(super) fn show(&mut self, mut data: Bytes) {
        self.screen.watch(&data);
        let received = self.seen + (self.margin.unfinished() + data.len()) as u64;
        if self.unshown.is_some() {
            let mut end = 0;
            while end < data.len() && !self.margin.is_between() {
                self.margin.watch(&data[end..=end]);
                end += 1;
            }
            self.write(data.split_to(end));
            self.show_line();
        }
        self.margin.watch(&data);
        self.write(data);
        self.seen = received - self.margin.unfinished() as u64;
    }

    /// Writes output that the margin has just watched, except a character that is not whole.
    fn write(&mut self, mut data: Bytes) {
        let count = self.margin.unfinished_character();
        let Some(end) = data.len().checked_sub(count) else {
            // It began earlier, and goes on.
            self.held.extend_from_slice(&data);
            return;
        };
        let begun = data.split_off(end);
        self.write_held();
        self.output.push(data);
        self.held.extend_from_slice(&begun);
    }

    fn write_held(&mut self) {
        let held = std::mem::take(&mut self.held);
        self.output.push(Bytes::from(held));
    }

    /// Prints a message as soon as it can be shown.
    pub(super) fn print(&mut self, message: Message) {
        match message {
            Message::Title(text) => self.title = Some(text),
            Message::Line(line) => {
                self.lines.push(line);
                self.bell = true;
            }
            Message::Note(line) => self.lines.push(line),
        }
    }

    /// Prints the pending messages, if they can be shown now: nothing in the middle of a sequence,
    /// and no line on the screen of a full-screen program. True if the cursor's line held something
    /// (a prompt, say), which is to be drawn again.
    fn print_pending(&mut self) -> bool {
        if self.has_line || !self.margin.is_between() {
            return false;
        }
        let title = self.title.take();
        let mut text = title.map_or_else(String::new, |title| terminal::title(&title));
        if std::mem::take(&mut self.bell) {
            text.push('\x07');
        }
        let shows = !self.lines.is_empty() && !Screen::is_alternate();
        let is_inside = shows && self.margin.is_inside_line();
        if shows {
            if is_inside {
                text.push_str("\r\n");
            }
            for line in self.lines.drain(..) {
                text.push_str(&line.replace('\n', "\r\n"));
                text.push_str("\r\n");
            }
            // The cursor is on an empty line now.
            self.margin.watch(b"\n");
        }
        if !text.is_empty() {
            self.output.push(Bytes::from(text));
        }
        is_inside
    }

    /// Prints text of xdrive's own, and keeps track of the modes that it switches.
    fn print_watched(&mut self, text: String) {
        self.screen.watch(text.as_bytes());
        self.output.push_first(Bytes::from(text));
    }

    /// Shows `lines` without spoiling the terminal's screen: on the alternate screen, or, where a
    /// program uses that already, in its last row, as much as fits. Replaces the last notice.
    pub(super) fn notice(&mut self, lines: &[String]) {
        if !self.has_own_screen && Screen::is_alternate() {
            let terminal::Size { rows, columns, .. } = terminal::size();
            let line: String = lines
                .iter()
                .flat_map(|line| line.chars())
                .take(columns.into())
                .collect();
            let row = terminal::draw::last_row(&line, rows);
            self.output.push_first(Bytes::from(row));
            return;
        }
        let is_first = !std::mem::replace(&mut self.has_own_screen, true);
        self.print_watched(if is_first {
            terminal::draw::alternate_screen(lines)
        } else {
            // Answers to questions may stand below it.
            terminal::draw::redrawn(lines)
        });
    }

    /// Removes the notice, and a line that was begun below it; true if a program has to draw its
    /// screen again for that.
    pub(super) fn end_of_notice(&mut self) -> bool {
        self.cut_off();
        if std::mem::take(&mut self.has_own_screen) {
            self.print_watched(terminal::draw::main_screen());
            return false;
        }
        Screen::is_alternate()
    }

    /// Prepares for output that begins with byte `from`. If bytes are missing in between, the
    /// screen is cleared; returns how many.
    pub(super) fn follow(&mut self, from: u64) -> u64 {
        let seen = std::mem::replace(&mut self.seen, from);
        if from != seen {
            self.print_watched(terminal::draw::empty_screen());
        }
        from.saturating_sub(seen)
    }

    /// Waits, without a connection, for an escape that ends the session. Loses nothing if it is
    /// dropped before it is ready.
    pub(super) async fn escape(&mut self) -> ShellExit {
        loop {
            let Some(chunk) = self.input.next().await else {
                return ShellExit::Escaped;
            };
            for typed in self.escapes.read(&chunk) {
                if let Some(exit) = self.obey(typed).await {
                    return exit;
                }
            }
        }
    }

    /// Prepares for output that goes on from byte `seen`, after a lost connection. What was begun
    /// is dropped: a sequence or a character of the output, an escape, a line to the session.
    pub(super) fn cut_off(&mut self) {
        self.escapes = Escapes::default();
        self.held.clear();
        self.margin.leave();
        self.end_line();
    }

    /// Shows the host's output again, after a line to the session.
    fn end_line(&mut self) {
        self.has_line = false;
        self.unshown = None;
        self.output.go_on();
    }

    /// Shows what there is of a line to the session, and nothing of the host's from here on, unless
    /// that would cut one of its sequences in two.
    fn show_line(&mut self) {
        if (self.has_own_screen || self.margin.is_between())
            && let Some(text) = self.unshown.take()
        {
            self.output.park();
            self.print_watched(text);
        }
    }

    /// Leaves the shell, if the session has nothing against it.
    fn leave(&mut self, question: Question, exit: ShellExit) -> Option<ShellExit> {
        let escape = question.escape();
        let why_not = (self.answers)(question);
        let below = if why_not.is_empty() { "" } else { "\r\n" };
        self.print_watched(format!("{escape}\r\n{why_not}{below}"));
        why_not.is_empty().then_some(exit)
    }

    /// Carries out an escape; an exit if it ends the session.
    async fn obey(&mut self, typed: Typed) -> Option<ShellExit> {
        match typed {
            Typed::Send(_) => {}
            Typed::End => {
                self.print_watched("~.\r\n".to_owned());
                return Some(ShellExit::Escaped);
            }
            Typed::Detach => return self.leave(Question::Detach, ShellExit::Detached),
            Typed::Freeze => return self.leave(Question::Freeze, ShellExit::Frozen),
            Typed::Help => self.print_watched(HELP.to_owned()),
            Typed::Ask(question) => self.answer(question),
            Typed::Line => {
                self.has_line = true;
                self.unshown = Some(prompt(&(self.answers)(Question::Prompt)));
                self.show_line();
            }
            Typed::Echo(text) => match &mut self.unshown {
                Some(unshown) => unshown.push_str(&text),
                None => self.print_watched(text),
            },
            Typed::Abandoned => {
                if self.unshown.is_none() {
                    self.print_watched("\r\n".to_owned());
                }
                self.end_line();
            }
            Typed::Suspend => {
                self.print_watched("~^Z [suspended]\r\n".to_owned());
                last_output(&self.output).await;
                // An orphan cannot be stopped: the session goes on.
                let _not_stopped = terminal::suspend();
            }
        }
        None
    }

    fn answer(&mut self, question: Question) {
        let escape = question.escape();
        let answer = (self.answers)(question).replace('\n', "\r\n ");
        // The answer belongs below it, wherever the host's output ends.
        if let Some(line) = self.unshown.take() {
            self.print_watched(line);
        }
        self.print_watched(format!("{escape}\r\n {answer}\r\n"));
        self.end_line();
    }

    /// Carries everything between the local ends and the host, until one of them ends.
    pub(super) async fn carry(
        &mut self,
        session: Session,
        asked: &mut mpsc::UnboundedReceiver<Request>,
        again: &mpsc::UnboundedSender<Request>,
    ) -> ShellExit {
        let Session {
            mut messages,
            sender,
        } = session;
        let (queue, mut queued) = mpsc::unbounded_channel();
        let backlog = Backlog::default();
        let mut exit = None;

        let (orders, mut ordered) = mpsc::unbounded_channel();
        let sending = send(&sender, &mut queued, &backlog);
        let asking = ask(&sender, &mut ordered);
        tokio::pin!(sending, asking);
        let (mut all_sent, mut none_asks) = (false, false);
        loop {
            if self.print_pending() {
                let _ended = orders.send(Request::Redraw);
            }
            let room = backlog.bytes.load(Ordering::Relaxed) < TYPED;
            tokio::select! {
                () = &mut sending, if !all_sent => all_sent = true,
                () = &mut asking, if !none_asks => none_asks = true,
                Some(request) = asked.recv() => match request {
                    Request::Print(message) => self.print(message),
                    request => {
                        let _ended = orders.send(request);
                    }
                },
                () = backlog.shrunk.notified(), if !room => {}
                chunk = self.input.next(), if room => {
                    // In raw mode, input ends only with the terminal itself.
                    let Some(chunk) = chunk else {
                        return ShellExit::Escaped;
                    };
                    for typed in self.escapes.read(&chunk) {
                        if let Typed::Send(bytes) = typed {
                            backlog.bytes.fetch_add(bytes.len(), Ordering::Relaxed);
                            let _lost = queue.send(bytes);
                            continue;
                        }
                        let is_suspend = typed == Typed::Suspend;
                        let is_line = matches!(typed, Typed::Ask(Question::Line(_)) | Typed::Abandoned);
                        if let Some(exit) = self.obey(typed).await {
                            // Input typed before it shall arrive; a dead link takes none.
                            let sent = async {
                                while backlog.bytes.load(Ordering::Relaxed) > 0 {
                                    tokio::select! {
                                        () = &mut sending, if !all_sent => return,
                                        () = backlog.shrunk.notified() => {}
                                    }
                                }
                            };
                            let _dead_link = tokio::time::timeout(LAST_INPUT, sent).await;
                            return exit;
                        }
                        if is_suspend {
                            let _ended = again.send(Request::Resize);
                        }
                        // A full-screen program has lost what the line took.
                        if is_line && Screen::is_alternate() {
                            let _ended = again.send(Request::Redraw);
                        }
                    }
                }
                message = messages.wait() => match message {
                    Some(ChannelMsg::Data { data }) => self.show(data),
                    Some(ChannelMsg::ExitStatus { exit_status }) => {
                        exit = Some(ShellExit::Status(exit_status));
                    }
                    Some(ChannelMsg::ExitSignal { signal_name, .. }) => {
                        exit = Some(ShellExit::Signal { number: signal_number(&signal_name) });
                    }
                    Some(ChannelMsg::Close) | None => return match exit {
                        Some(exit) => exit,
                        None => ShellExit::Lost(sender.wait_for_end().await),
                    },
                    Some(_) => {}
                },
            }
        }
    }

    /// Ends reading, so that what is typed from here on is for the terminal's next reader; shows
    /// what is still to be shown.
    pub(super) async fn end(mut self) {
        self.end_line();
        self.write_held();
        self.print_pending();
        drop(self.input);
        last_output(&self.output).await;
    }
}

/// The prompt of a line to the session, below the session's own `words`.
fn prompt(words: &str) -> String {
    let mut prompt = "~C\r\n".to_owned();
    for line in words.lines() {
        prompt.push_str(line);
        prompt.push_str("\r\n");
    }
    prompt + "xdrive> "
}

async fn send(sender: &Sender, queued: &mut mpsc::UnboundedReceiver<Bytes>, backlog: &Backlog) {
    while let Some(bytes) = queued.recv().await {
        let length = bytes.len();
        if !sender.send(bytes).await {
            return;
        }
        backlog.bytes.fetch_sub(length, Ordering::Relaxed);
        backlog.shrunk.notify_one();
    }
}

/// Sends requests, which do not queue behind data that waits for window.
async fn ask(sender: &Sender, asked: &mut mpsc::UnboundedReceiver<Request>) {
    while let Some(request) = asked.recv().await {
        let alive = match request {
            Request::Resize => sender.resize(terminal::size()).await,
            Request::Redraw => {
                let mut size = terminal::size();
                size.rows = size.rows.saturating_sub(1).max(1);
                sender.resize(size).await;
                tokio::time::sleep(REDRAW).await;
                sender.resize(terminal::size()).await
            }
            Request::Print(_) => true,
        };
        if !alive {
            return;
        }
    }
}

/// Waits until the last output is written, but not for a terminal that takes none.
async fn last_output(output: &Sink) {
    let _stuck = tokio::time::timeout(LAST_OUTPUT, output.drained()).await;
}

#[cfg(test)]
mod tests;
