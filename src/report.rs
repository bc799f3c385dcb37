//! Progress and data, printed: the only module that prints.
//!
//! Progress goes to standard error, one line a finished step, in the order steps end, each with
//! its own time; a spinner only on a terminal, and only once a step takes longer than [`SPINNER`].
//! Data (`xdrive list`) goes to standard output. Progress never fails: with a closed standard error
//! xdrive goes on, and saves the drive all the same.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How long a step takes before it gets a spinner.
const SPINNER: Duration = Duration::from_millis(250);

/// Frames of the spinner a second.
const FRAMES: u8 = 10;

/// Prints progress. Cheap to clone; clones share one spinner.
#[derive(Debug, Clone)]
pub struct Report(Arc<Mutex<Board>>);

#[derive(Debug)]
struct Board {
    running: BTreeMap<u64, (String, Instant)>,
    next: u64,
    spinner: ProgressBar,
    quiet: bool,
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
        Self::on(Out::Stderr, !std::io::stderr().is_terminal())
    }

    /// A report that keeps its lines for [`Report::printed`].
    #[cfg(test)]
    pub(crate) fn kept() -> Self {
        Self::on(Out::Kept(String::new()), true)
    }

    /// The lines of a [`Report::kept`].
    #[cfg(test)]
    pub(crate) fn printed(&self) -> String {
        match &lock(&self.0).out {
            Out::Stderr => panic!("it was printed"),
            Out::Kept(text) => text.clone(),
        }
    }

    /// A report on `out`; a `quiet` one has no spinner.
    fn on(out: Out, quiet: bool) -> Self {
        let spinner = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template("     {spinner}    {msg}") {
            spinner.set_style(style.tick_chars("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏ "));
        }
        Self(Arc::new(Mutex::new(Board {
            running: BTreeMap::new(),
            next: 0,
            spinner,
            quiet,
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

    /// Prints a line of its own, not a step's: a fact, a choice, an address.
    pub fn print(&self, line: &str) {
        lock(&self.0).line(line);
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
        board.line(&format!("{:>7.2} s  {line}", took.as_secs_f64()));
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
    fn line(&mut self, line: &str) {
        self.hide();
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
        if self.quiet {
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

#[cfg(test)]
mod tests {
    use super::*;

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
