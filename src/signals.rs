//! Signals as values.
//!
//! The only installer of signal handlers. Nothing exits or prints here: signals come out of
//! [`Signals::next`] in their order, and whoever holds the session decides what each one means in
//! its phase. A signal that was ignored when xdrive started (`nohup`, a background job of a script)
//! stays ignored. SIGPIPE never ends the process, so that a closed standard error is an error that
//! is returned, not a death before the save.

mod ignored;

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGPIPE, SIGQUIT, SIGTERM, SIGTSTP, SIGWINCH};
use signal_hook::iterator::{Handle, Signals as Caught};
use tokio::sync::mpsc;

/// Within this time after the one before it, an interrupt is insistent.
const INSIST: Duration = Duration::from_secs(2);

/// What was asked of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Ctrl-C, while the terminal is not in raw mode (SIGINT).
    Interrupt {
        /// Whether it follows another one within two seconds.
        again: bool,
    },
    /// SIGTERM, or Ctrl-\ (SIGQUIT).
    Terminate,
    /// The terminal was closed (SIGHUP).
    Hangup,
    /// The terminal has another size (SIGWINCH).
    Resize,
    /// Ctrl-Z, while the terminal is not in raw mode (SIGTSTP): see [`crate::terminal::suspend`].
    Suspend,
    /// The process runs again (SIGCONT).
    Continue,
}

/// The stream of signals. Handlers stay installed for the rest of the process: after this is
/// dropped, the signals do nothing.
#[derive(Debug)]
pub struct Signals {
    receiver: mpsc::UnboundedReceiver<Signal>,
    catcher: Option<Handle>,
}

impl Signals {
    /// Installs the handlers.
    pub fn install() -> io::Result<Self> {
        // A handler that does nothing; children get the default back, which `SIG_IGN` would not do.
        signal_hook::flag::register(SIGPIPE, Arc::new(AtomicBool::new(false)))?;
        let ignored = ignored::at_start();
        let wanted = [SIGINT, SIGTERM, SIGQUIT, SIGHUP, SIGWINCH, SIGTSTP, SIGCONT];
        let mut caught = Caught::new(wanted.iter().filter(|signal| ignored & mask(**signal) == 0))?;
        let catcher = caught.handle();
        let (sender, receiver) = mpsc::unbounded_channel();
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                let mut meaning = Meaning::default();
                for number in &mut caught {
                    if let Some(signal) = meaning.of(number, Instant::now())
                        && sender.send(signal).is_err()
                    {
                        break;
                    }
                }
            })?;
        let catcher = Some(catcher);
        Ok(Self { receiver, catcher })
    }

    /// A stream in which nothing ever happens.
    #[must_use]
    pub fn none() -> Self {
        Self::scripted().1
    }

    /// A stream that yields what is sent to it, for tests.
    #[must_use]
    pub fn scripted() -> (mpsc::UnboundedSender<Signal>, Self) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let catcher = None;
        (sender, Self { receiver, catcher })
    }

    /// The next signal. Loses nothing if it is dropped before it is ready.
    pub async fn next(&mut self) -> Signal {
        match self.receiver.recv().await {
            Some(signal) => signal,
            None => std::future::pending().await,
        }
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        if let Some(catcher) = &self.catcher {
            catcher.close();
        }
    }
}

/// From numbers to what they mean; remembers the last interrupt.
#[derive(Default)]
struct Meaning {
    interrupted: Option<Instant>,
}

impl Meaning {
    fn of(&mut self, number: i32, now: Instant) -> Option<Signal> {
        Some(match number {
            SIGINT => {
                let last = self.interrupted.replace(now);
                let again = last.is_some_and(|last| now.duration_since(last) <= INSIST);
                Signal::Interrupt { again }
            }
            SIGTERM | SIGQUIT => Signal::Terminate,
            SIGHUP => Signal::Hangup,
            SIGWINCH => Signal::Resize,
            SIGTSTP => Signal::Suspend,
            SIGCONT => Signal::Continue,
            _ => return None,
        })
    }
}

fn mask(signal: i32) -> u64 {
    1 << (signal - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_interrupt_insists_only_within_two_seconds() {
        let mut meaning = Meaning::default();
        let start = Instant::now();
        let mut at = |milliseconds| meaning.of(SIGINT, start + Duration::from_millis(milliseconds));
        assert_eq!(at(0), Some(Signal::Interrupt { again: false }));
        assert_eq!(at(1999), Some(Signal::Interrupt { again: true }));
        assert_eq!(at(5000), Some(Signal::Interrupt { again: false }));
    }

    #[tokio::test]
    async fn scripted_signals_come_in_their_order_and_then_nothing() {
        let (sender, mut signals) = Signals::scripted();
        sender.send(Signal::Resize).unwrap();
        sender.send(Signal::Hangup).unwrap();
        drop(sender);
        assert_eq!(signals.next().await, Signal::Resize);
        assert_eq!(signals.next().await, Signal::Hangup);
        let nothing = tokio::time::timeout(Duration::from_millis(20), signals.next()).await;
        assert!(nothing.is_err());
    }
}
