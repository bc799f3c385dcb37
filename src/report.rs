//! Progress and data, printed: the only module that prints.
//!
//! Progress goes to standard error, one line a finished step, in the order steps end, each with
//! its own time; a spinner only on a terminal, and only once a step takes longer than [`SPINNER`].
//! Data (`xdrive list`) goes to standard output. Progress never fails: with a closed standard error
//! xdrive goes on, and saves the drive all the same.
//!
//! Whatever is printed is made harmless first ([`harmless`]): nothing of it is obeyed by a terminal.
//! Raw are only [`bytes`], for what a program printed or a file has.

#[cfg(test)]
pub(crate) mod schema;
mod text;

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

pub use text::{Label, Text, ToText, Tone, harmless, one_line, to_json};

use text::Takes;

/// The width of a terminal, which lines of data do not exceed unless a word or a command does.
pub const WIDTH: usize = 80;

/// How long a step takes before it gets a spinner.
const SPINNER: Duration = Duration::from_millis(250);

/// Frames of the spinner a second.
const FRAMES: u8 = 10;

/// When words are coloured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// In a terminal, unless `NO_COLOR` is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// The choice of `--color`, for the whole process, as `--quiet` is.
static COLOR: Mutex<Color> = Mutex::new(Color::Auto);

/// Sets when words are coloured, for the whole process.
pub fn set_color(choice: Color) {
    *COLOR.lock().unwrap_or_else(PoisonError::into_inner) = choice;
}

/// Whether what goes to a `terminal`, or to something else, is coloured (<https://no-color.org>).
fn is_colored(is_terminal: bool) -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    match *COLOR.lock().unwrap_or_else(PoisonError::into_inner) {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => {
            let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
            is_terminal && !is_set("NO_COLOR") && !is_dumb
        }
    }
}

/// The features of a stream that is a `terminal`, or something else.
fn features(is_terminal: bool, stream: supports_hyperlinks::Stream) -> Takes {
    let colors = is_colored(is_terminal);
    Takes {
        colors,
        links: colors && supports_hyperlinks::on(stream),
    }
}

fn taken_by_stderr() -> Takes {
    let is_terminal = std::io::stderr().is_terminal();
    features(is_terminal, supports_hyperlinks::Stream::Stderr)
}

/// Whether `--quiet` was given: for the whole process, as standard error is.
static QUIET: AtomicBool = AtomicBool::new(false);

/// From now on no report prints steps, or lines that only accompany them.
pub fn set_quiet(quiet: bool) {
    QUIET.store(quiet, Ordering::Relaxed);
}

/// Prints progress. Cheap to clone; clones share one spinner.
#[derive(Debug, Clone)]
pub struct Report(Arc<Mutex<Board>>);

#[derive(Debug)]
struct Board {
    running: BTreeMap<u64, (String, Instant)>,
    next: u64,
    spinner: ProgressBar,
    /// Whether steps are shown while they run.
    is_live: bool,
    /// Whether neither steps nor notes have lines.
    is_quiet: bool,
    /// The beginning of each line; empty in a process that works on one drive.
    label: String,
    out: Out,
}

/// Where lines go.
#[derive(Debug)]
enum Out {
    Stderr,
    #[cfg(test)]
    Kept(String),
}

/// A running step. Dropped without [`Step::done`], it leaves no line.
#[derive(Debug)]
pub struct Step {
    board: Arc<Mutex<Board>>,
    id: u64,
    since: Instant,
}

impl Report {
    /// A report on standard error.
    #[must_use]
    pub fn stderr() -> Self {
        let is_quiet = QUIET.load(Ordering::Relaxed);
        let is_live = std::io::stderr().is_terminal() && !is_quiet;
        Self::on(Out::Stderr, is_live, is_quiet)
    }

    /// Likewise, for a process that works on several drives at a time: a `label` begins each line, and
    /// nothing is shown of steps that run.
    #[must_use]
    pub fn labelled(label: &str) -> Self {
        let report = Self::on(Out::Stderr, false, QUIET.load(Ordering::Relaxed));
        lock(&report.0).label = format!("{label}: ");
        report
    }

    /// A report that keeps its lines for [`Report::printed`].
    #[cfg(test)]
    pub(crate) fn in_memory() -> Self {
        Self::on(Out::Kept(String::new()), false, false)
    }

    /// The lines of a [`Report::in_memory`].
    #[cfg(test)]
    pub(crate) fn printed(&self) -> String {
        match &lock(&self.0).out {
            Out::Stderr => panic!("it was printed"),
            Out::Kept(text) => text.clone(),
        }
    }

    /// A report on `out`.
    fn on(out: Out, is_live: bool, is_quiet: bool) -> Self {
        let spinner = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template("     {spinner}    {msg}") {
            spinner.set_style(style.tick_chars("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏ "));
        }
        Self(Arc::new(Mutex::new(Board {
            running: BTreeMap::new(),
            next: 0,
            spinner,
            is_live,
            is_quiet,
            label: String::new(),
            out,
        })))
    }

    /// Starts a step; `doing` is the spinner's text ("starting the container").
    pub fn step(&self, doing: impl Into<String>) -> Step {
        let mut board = lock(&self.0);
        let id = board.next;
        let since = Instant::now();
        board.next += 1;
        board.running.insert(id, (one_line(&doing.into()), since));
        Step {
            board: Arc::clone(&self.0),
            id,
            since,
        }
    }

    /// Prints a line that is no step: a warning, an address, what somebody has to know.
    pub fn print(&self, line: &(impl ToText + ?Sized)) {
        lock(&self.0).line(&line.to_text());
    }

    /// Prints a line behind `warning:`.
    pub fn warn(&self, words: &str) {
        self.print(&Text::labelled(Label::Warning, words));
    }

    /// Prints a line that goes with the steps, as what is launched or that the drive is saved. A
    /// quiet report does not.
    pub fn note(&self, line: &(impl ToText + ?Sized)) {
        lock(&self.0).note(&line.to_text());
    }

    /// Prints a question, whose line stays open for the answer.
    pub fn ask(&self, question: &str) {
        lock(&self.0).ask(question);
    }

    /// Stops xdrive as Ctrl-Z does, without a spinner in the shell's way, until it is continued.
    pub fn suspend(&self) {
        lock(&self.0).hide();
        if let Err(error) = crate::terminal::suspend() {
            self.print(&format!("cannot stop here: {error}"));
        }
    }

    /// Shows the spinner if a step has taken long enough; call it some times a second.
    pub fn tick(&self) {
        lock(&self.0).tick();
    }

    /// Moves the spinner while it is polled; it never ends.
    pub async fn keep_ticking(&self) {
        let mut interval = tokio::time::interval(Duration::from_secs(1) / u32::from(FRAMES));
        loop {
            interval.tick().await;
            self.tick();
        }
    }
}

impl Step {
    /// Replaces the spinner's text ("pulling IMAGE: 5 of 14 layers").
    pub fn now(&self, doing: impl Into<String>) {
        if let Some((printed, _)) = lock(&self.board).running.get_mut(&self.id) {
            *printed = one_line(&doing.into());
        }
    }

    /// Ends the step with its line ("container started").
    pub fn done(self, line: &(impl ToText + ?Sized)) {
        let took = self.since.elapsed();
        let mut board = lock(&self.board);
        board.running.remove(&self.id);
        let mut text = Text::block(&format!("{:>7.2} s  ", took.as_secs_f64()));
        text.push(line);
        board.note(&text);
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        let mut board = lock(&self.board);
        board.running.remove(&self.id);
        board.tick();
    }
}

impl Board {
    fn note(&mut self, line: &Text) {
        if !self.is_quiet {
            self.line(line);
        }
    }

    fn line(&mut self, line: &Text) {
        self.hide();
        let line = format!("{}{}", self.label, line.shown(self.takes()));
        let line = if crate::terminal::is_raw() {
            format!("\r\n{}\r\n", line.replace('\n', "\r\n"))
        } else {
            format!("{line}\n")
        };
        self.write(&line);
        self.tick();
    }

    fn ask(&mut self, question: &str) {
        self.hide();
        let question = question.to_text().shown(self.takes());
        self.write(&format!("{question} "));
    }

    fn takes(&self) -> Takes {
        match self.out {
            Out::Stderr => taken_by_stderr(),
            #[cfg(test)]
            Out::Kept(_) => Takes::default(),
        }
    }

    fn write(&mut self, text: &str) {
        match &mut self.out {
            // An error means that the reader is gone, which is no failure.
            Out::Stderr => drop(std::io::stderr().write_all(text.as_bytes())),
            #[cfg(test)]
            Out::Kept(printed) => printed.push_str(text),
        }
    }

    fn tick(&mut self) {
        if !self.is_live {
            return;
        }
        match self
            .running
            .values()
            .find(|(_, since)| since.elapsed() >= SPINNER)
        {
            Some((doing, since)) => {
                if self.spinner.is_hidden() {
                    self.spinner
                        .set_draw_target(ProgressDrawTarget::stderr_with_hz(FRAMES));
                }
                self.spinner
                    .set_message(format!("{doing}, {} s", since.elapsed().as_secs()));
                self.spinner.tick();
            }
            None => self.hide(),
        }
    }

    fn hide(&mut self) {
        if !self.spinner.is_hidden() {
            self.spinner.finish_and_clear();
            // Hidden before the reset, which would draw it once more.
            self.spinner.set_draw_target(ProgressDrawTarget::hidden());
            self.spinner.reset();
        }
    }
}

fn lock(board: &Mutex<Board>) -> MutexGuard<'_, Board> {
    board.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes data to standard output. A reader that leaves early (`| head`) is no failure.
pub fn data(text: &Text) -> std::io::Result<()> {
    let mut stdout = std::io::stdout();
    let takes = features(stdout.is_terminal(), supports_hyperlinks::Stream::Stdout);
    match stdout.write_all(text.shown(takes).as_bytes()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// Writes what a program printed to standard output, or to standard error.
pub fn bytes(is_output: bool, bytes: &[u8]) -> std::io::Result<()> {
    if is_output {
        let mut stdout = std::io::stdout();
        stdout.write_all(bytes).and_then(|()| stdout.flush())
    } else {
        std::io::stderr().write_all(bytes)
    }
}

/// Writes lines to standard error, such as a failure. With that closed the exit code alone reports it.
pub fn error(text: &(impl ToText + ?Sized)) {
    let text = text.to_text().shown(taken_by_stderr()) + "\n";
    drop(std::io::stderr().write_all(text.as_bytes()));
}

/// How long a line of the log is at most, in bytes: enough for a request.
const LOGGED: usize = 16 << 10;

/// Where the log goes: standard error, an event a line.
#[derive(Debug)]
pub struct Log;

impl Write for Log {
    fn write(&mut self, event: &[u8]) -> std::io::Result<usize> {
        std::io::stderr().write_all(logged(event).as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// An event as a line of the log.
fn logged(event: &[u8]) -> String {
    let kept = &event[..event.len().min(LOGGED)];
    let line = one_line(String::from_utf8_lossy(kept).trim_end_matches('\n'));
    match event.len() - kept.len() {
        0 => line + "\n",
        more => format!("{line}… and {more} bytes\n"),
    }
}

/// How wide standard output is; none if that is no terminal.
#[must_use]
pub fn width() -> Option<u16> {
    let is_terminal = std::io::stdout().is_terminal();
    is_terminal.then(|| crate::terminal::size().columns)
}

/// Writes data to standard output as one JSON document.
pub fn json(data: &impl Serialize) -> anyhow::Result<()> {
    let text = to_json(data, true)? + "\n";
    self::data(&Text::block(&text)).context("cannot write to standard output")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quiet_report_prints_what_has_to_be_known() {
        let report = Report::on(Out::Kept(String::new()), false, true);
        report.step("starting").done("started");
        report.note("launching it");
        report.print("the disk is nearly full");
        assert_eq!(report.printed(), "the disk is nearly full\n");
    }

    #[test]
    fn a_step_has_a_line_when_it_is_done_and_none_if_it_never_is() {
        let report = Report::in_memory();
        let (first, second) = (report.step("starting"), report.step("attaching"));
        drop(first);
        assert_eq!(report.printed(), "");
        second.done("attached");
        report.print("demo is saved");
        report.ask("go on?");
        let printed = report.printed();
        let (step, rest) = printed.split_once(" s  ").unwrap();
        assert!(step.trim().parse::<f64>().is_ok(), "{printed}");
        assert_eq!(rest, "attached\ndemo is saved\ngo on? ");
    }

    #[test]
    fn an_event_of_the_log_is_a_line_with_an_end() {
        assert_eq!(logged(b"a\x1b[2J\nhint: b\n"), "a?[2J?hint: b\n");
        let long = logged("x".repeat(LOGGED + 7).as_bytes());
        assert!(long.ends_with("x… and 7 bytes\n"), "{long}");
    }

    #[test]
    fn nothing_that_is_reported_is_obeyed_by_a_terminal() {
        const HOSTILE: &str = "\u{1b}]0;x\u{7}\u{9b}2J\r\nhint: curl evil";
        const LINES: &str = "?]0;x??2J\n  | hint: curl evil";
        let report = Report::in_memory();
        report.print(HOSTILE);
        report.note(HOSTILE);
        report.step("x").done(HOSTILE);
        report.warn(HOSTILE);
        report.ask(HOSTILE);
        let printed = report.printed();
        assert_eq!(printed.matches(LINES).count(), 5, "{printed}");
        assert!(
            !printed.contains(['\u{1b}', '\u{7}', '\u{9b}', '\r']),
            "{printed:?}"
        );
        let step = report.step(HOSTILE);
        let shown = || lock(&report.0).running.values().next().unwrap().0.clone();
        assert_eq!(shown(), "?]0;x??2J?hint: curl evil");
        step.now(format!("pull {HOSTILE}"));
        assert_eq!(shown(), "pull ?]0;x??2J?hint: curl evil");
    }
}
