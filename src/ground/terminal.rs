//! The terminal: raw mode, size, and restoring it.
//!
//! The only user of crossterm, for the size and for what xdrive itself draws. Raw mode is not its:
//! that neither returns the modes before it, which SSH sends, nor waits for output in the old ones.
//! Raw mode is entered through a guard and left on every way out: when the guard is dropped, before
//! a panic is printed, and around a suspension. Leaving is one `tcsetattr` with the saved modes, and
//! then the sequences that switch off what the remote has switched on and left on (alternate screen,
//! mouse, pasting, hidden cursor). Only those, because switching off what is not on moves the cursor
//! of some terminals.
//!
//! It never waits for a terminal that takes no output, and never prints.

use std::io::{self, IsTerminal};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use signal_hook::consts::SIGSTOP;

pub mod draw;
mod margin;
mod screen;

pub use margin::Margin;
pub use screen::{Screen, title};

/// A terminal's size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Columns.
    pub columns: u16,
    /// Rows.
    pub rows: u16,
    /// Pixels across; 0 if unknown.
    pub width: u16,
    /// Pixels down; 0 if unknown.
    pub height: u16,
}

impl Size {
    /// Columns, rows, width, height, as SSH sends them.
    #[must_use]
    pub fn as_u32(self) -> [u32; 4] {
        [self.columns, self.rows, self.width, self.height].map(u32::from)
    }
}

/// Whether standard input and output are terminals.
#[must_use]
pub fn is_interactive() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// The terminal's type, as `TERM` has it; `dumb` if it has none.
#[must_use]
pub fn term() -> String {
    std::env::var("TERM").unwrap_or_else(|_| "dumb".to_owned())
}

/// The variables that programs draw by in this terminal, as `NAME=VALUE`: its type, and `COLORTERM`
/// where that says that it has more colours than its type knows of.
#[must_use]
pub fn variables() -> Vec<String> {
    let colours = std::env::var("COLORTERM").ok();
    let colours = colours.map(|colours| format!("COLORTERM={colours}"));
    [format!("TERM={}", term())]
        .into_iter()
        .chain(colours)
        .collect()
}

/// The terminal's size now; 80 by 24 if that is not known.
#[must_use]
pub fn size() -> Size {
    match crossterm::terminal::window_size() {
        Ok(size) if size.columns > 0 && size.rows > 0 => Size {
            columns: size.columns,
            rows: size.rows,
            width: size.width,
            height: size.height,
        },
        _ => Size {
            columns: 80,
            rows: 24,
            width: 0,
            height: 0,
        },
    }
}

/// The modes of the terminal on standard input; those from before raw mode while it is in that.
pub fn modes() -> io::Result<Termios> {
    match &*saved() {
        Some(before) => Ok(before.clone()),
        None => Ok(tcgetattr(rustix::stdio::stdin())?),
    }
}

/// Whether the terminal is in raw mode, in which a newline needs a carriage return.
#[must_use]
pub fn is_raw() -> bool {
    saved().is_some()
}

/// The modes before raw mode, while it is on.
static SAVED: Mutex<Option<Termios>> = Mutex::new(None);

fn saved() -> MutexGuard<'static, Option<Termios>> {
    SAVED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Raw mode; dropping it restores the terminal.
#[derive(Debug)]
#[must_use = "dropping it leaves raw mode"]
pub struct Raw(());

impl Raw {
    /// Puts the terminal on standard input into raw mode. An error if there is none, or if it is
    /// in raw mode already.
    pub fn enter() -> io::Result<Self> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                // `try_lock`, because the panicking thread may hold the lock.
                if let Ok(mut saved) = SAVED.try_lock() {
                    restore(&mut saved);
                }
                before(panic);
            }));
        });
        let mut saved = saved();
        if saved.is_some() {
            return Err(io::Error::other("the terminal is in raw mode already"));
        }
        let before = tcgetattr(rustix::stdio::stdin())?;
        set_raw(&before)?;
        *saved = Some(before);
        Ok(Self(()))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        restore(&mut saved());
    }
}

/// Stops this process as Ctrl-Z does, with the terminal restored. Returns when the process is
/// continued, in raw mode again if it was in that.
pub fn suspend() -> io::Result<()> {
    let saved = saved();
    if let Some(before) = &*saved {
        set(before);
    }
    // Not SIGTSTP, which is caught. Raised in this thread, so that it stops before the next line:
    // a `kill` of the whole process may be taken by another thread, while this one goes on.
    signal_hook::low_level::raise(SIGSTOP)?;
    raw_again(saved.as_ref())
}

/// Enters raw mode again if it was on: after a SIGCONT a shell may have changed the modes.
pub fn resume() -> io::Result<()> {
    raw_again(saved().as_ref())
}

fn raw_again(before: Option<&Termios>) -> io::Result<()> {
    match before.map_or(Ok(()), set_raw) {
        // A terminal that is closed sends SIGCONT with its SIGHUP, in either order: the hang-up is
        // what ends the session, not this.
        Err(error) if Errno::from_io_error(&error) == Some(Errno::IO) => Ok(()),
        result => result,
    }
}

fn set_raw(before: &Termios) -> io::Result<()> {
    let mut raw = before.clone();
    raw.make_raw();
    // Drain, not now: earlier output is still printed in the old modes.
    Ok(tcsetattr(
        rustix::stdio::stdin(),
        OptionalActions::Drain,
        &raw,
    )?)
}

/// Leaves raw mode. The order is OpenSSH's: modes first, so that the rest is printed properly.
fn restore(saved: &mut Option<Termios>) {
    if let Some(before) = saved.take() {
        set(&before);
        let undo = screen::undo();
        let stdout = rustix::stdio::stdout();
        let mut ready = [PollFd::new(&stdout, PollFlags::OUT)];
        let at_once = Timespec::default();
        // A terminal that accepts no output is hung or gone; the save must not wait for it.
        if !undo.is_empty() && rustix::event::poll(&mut ready, Some(&at_once)) == Ok(1) {
            let _hung_up = rustix::io::write(stdout, undo.as_bytes());
        }
    }
}

fn set(modes: &Termios) {
    // Now, not drain: draining waits for a terminal that may accept no output. A terminal that is
    // gone needs no restoring.
    let _gone = tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, modes);
}
