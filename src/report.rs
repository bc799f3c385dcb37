//! Progress and data, printed: the only module that prints.
//!
//! Progress goes to standard error, one line a finished step, in the order steps end, each with
//! its own time; a spinner only on a terminal, and only once a step takes longer than [`SPINNER`].
//! Data (`xdrive list`) goes to standard output. Progress never fails: with a closed standard error
//! xdrive goes on, and saves the drive all the same.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

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

/// The words that begin a line and have a colour (ECMA-48, *Select Graphic Rendition*).
const COLORED: [(&str, &str); 3] = [
    ("error:", "\x1b[1;31m"),
    ("warning:", "\x1b[1;33m"),
    ("hint:", "\x1b[1;36m"),
];

/// Ends a colour.
const PLAIN: &str = "\x1b[0m";

/// What a word in data means to its reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// As it should be, and at work.
    Good,
    /// On its way, or waiting.
    Notable,
    /// Somebody has to look.
    Bad,
}

/// `word` for standard output, in the colour of `tone` where that takes colours.
#[must_use]
pub fn in_tone(word: &str, tone: Tone) -> String {
    let color = match tone {
        Tone::Good => "\x1b[32m",
        Tone::Notable => "\x1b[33m",
        Tone::Bad => "\x1b[31m",
    };
    if is_colored(std::io::stdout().is_terminal()) {
        format!("{color}{word}{PLAIN}")
    } else {
        word.to_owned()
    }
}

/// A word such as `hint:` for standard output, where it begins no line: in its colour where that
/// takes colours.
#[must_use]
pub fn labelled(word: &str) -> String {
    match COLORED.iter().find(|(known, _)| *known == word) {
        Some((_, color)) if is_colored(std::io::stdout().is_terminal()) => {
            format!("{color}{word}{PLAIN}")
        }
        _ => word.to_owned(),
    }
}

/// Colours the words of [`COLORED`] where they begin a line of `text`.
fn painted(text: &str) -> String {
    let lines = text.split_inclusive('\n').map(|line| {
        let word = COLORED.iter().find(|(word, _)| line.starts_with(word));
        match word {
            Some((word, color)) => format!("{color}{word}{PLAIN}{}", &line[word.len()..]),
            None => line.to_owned(),
        }
    });
    lines.collect()
}

/// `url` for a line on standard error: a hyperlink where the terminal takes one (*Hyperlinks in
/// terminal emulators*, OSC 8).
#[must_use]
pub fn link(url: &str) -> String {
    let is_taken = supports_hyperlinks::on(supports_hyperlinks::Stream::Stderr);
    if is_taken && is_colored(std::io::stderr().is_terminal()) {
        format!("\x1b]8;;{url}\x1b\\{url}\x1b]8;;\x1b\\")
    } else {
        url.to_owned()
    }
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

    /// A report that keeps its lines for [`Report::printed`].
    #[cfg(test)]
    pub(crate) fn kept() -> Self {
        Self::on(Out::Kept(String::new()), false, false)
    }

    /// The lines of a [`Report::kept`].
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
            out,
        })))
    }

    /// Starts a step; `doing` is the spinner's text ("starting the container").
    pub fn step(&self, doing: impl Into<String>) -> Step {
        let mut board = lock(&self.0);
        let id = board.next;
        let since = Instant::now();
        board.next += 1;
        board.running.insert(id, (doing.into(), since));
        Step {
            board: Arc::clone(&self.0),
            id,
            since,
        }
    }

    /// Prints a line that is no step: a warning, an address, what somebody has to know.
    pub fn print(&self, line: &str) {
        lock(&self.0).line(line);
    }

    /// Prints a line that goes with the steps, as what is launched or that the drive is saved. A
    /// quiet report does not.
    pub fn note(&self, line: &str) {
        lock(&self.0).note(line);
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
            *printed = doing.into();
        }
    }

    /// Ends the step with its line ("container started").
    pub fn done(self, line: &str) {
        let took = self.since.elapsed();
        let mut board = lock(&self.board);
        board.running.remove(&self.id);
        board.note(&format!("{:>7.2} s  {line}", took.as_secs_f64()));
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
    fn note(&mut self, line: &str) {
        if !self.is_quiet {
            self.line(line);
        }
    }

    fn line(&mut self, line: &str) {
        self.hide();
        let is_stderr = matches!(self.out, Out::Stderr);
        let line = if is_stderr && is_colored(std::io::stderr().is_terminal()) {
            &painted(line)
        } else {
            line
        };
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
        self.write(&format!("{question} "));
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
pub fn data(text: &str) -> std::io::Result<()> {
    match std::io::stdout().write_all(text.as_bytes()) {
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

/// Writes an error to standard error. With that closed the exit code alone reports it.
pub fn error(text: &str) {
    let mut stderr = std::io::stderr();
    let text = if is_colored(stderr.is_terminal()) {
        painted(text)
    } else {
        text.to_owned()
    };
    drop(stderr.write_all(text.as_bytes()));
}

/// How wide standard output is; none if that is no terminal.
#[must_use]
pub fn width() -> Option<u16> {
    let is_terminal = std::io::stdout().is_terminal();
    is_terminal.then(|| crate::terminal::size().columns)
}

/// Writes data to standard output as one JSON document.
pub fn json(data: &impl Serialize) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(data)? + "\n";
    self::data(&text).context("cannot write to standard output")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_first_words_are_coloured() {
        let text = "error: no hint: here\n\nhint: xdrive list\n";
        assert_eq!(
            painted(text),
            "\x1b[1;31merror:\x1b[0m no hint: here\n\n\x1b[1;36mhint:\x1b[0m xdrive list\n"
        );
        assert_eq!(painted("launching\n"), "launching\n");
    }

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
        let report = Report::kept();
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
}
