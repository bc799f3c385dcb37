//! Signals as values.
//!
//! The only installer of signal handlers. Nothing exits or prints here: [`Signals::next`] yields
//! the signals in their order, and its caller decides what each one means. A signal that was
//! ignored when xdrive started (`nohup`, a background job of a script) stays ignored. SIGPIPE never
//! ends the process: writing to a closed standard error returns an error, and the drive is saved.

mod ignored;

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGPIPE, SIGQUIT, SIGTERM, SIGTSTP, SIGWINCH};
use signal_hook::iterator::{Handle, Signals as Caught};
use tokio::sync::mpsc;

/// How soon after another one an interrupt is insistent.
const INSIST: Duration = Duration::from_secs(2);

/// A signal, by its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// A signal that asks for the end.
    End(End),
    /// The shell that started xdrive stops it or lets it run again.
    Job(Job),
    /// The terminal has another size (SIGWINCH).
    Resize,
}

/// A signal that asks for the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Ctrl-C, while the terminal is not in raw mode (SIGINT).
    Interrupt {
        /// Whether it follows another one within two seconds.
        again: bool,
    },
    /// SIGTERM, or Ctrl-\ (SIGQUIT).
    Terminate,
    /// The terminal was closed (SIGHUP).
    Hangup,
}

/// A signal of job control.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Job {
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
                let mut decoder = Decoder::default();
                for number in &mut caught {
                    if let Some(signal) = decoder.decode(number, Instant::now())
                        && sender.send(signal).is_err()
                    {
                        break;
                    }
                }
            })?;
        Ok(Self {
            receiver,
            catcher: Some(catcher),
        })
    }

    /// Installs nothing and yields nothing: a signal does what it did before. For what changes
    /// nothing, and may end anywhere.
    #[must_use]
    pub fn none() -> Self {
        let (_, receiver) = mpsc::unbounded_channel();
        Self {
            receiver,
            catcher: None,
        }
    }

    /// The first signal that has asked for the end by now. Takes all that have come.
    pub fn asked(&mut self) -> Option<End> {
        let came = std::iter::from_fn(|| self.receiver.try_recv().ok());
        let ends = came.filter_map(|signal| match signal {
            Signal::End(end) => Some(end),
            Signal::Job(_) | Signal::Resize => None,
        });
        ends.reduce(|first, _| first)
    }

    /// The next signal. Cancel safe: dropping the future loses no signal.
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

/// Turns signal numbers into signals; remembers the last interrupt.
#[derive(Default)]
struct Decoder {
    interrupted: Option<Instant>,
}

impl Decoder {
    fn decode(&mut self, number: i32, now: Instant) -> Option<Signal> {
        Some(match number {
            SIGINT => {
                let last = self.interrupted.replace(now);
                let again = last.is_some_and(|last| now.duration_since(last) <= INSIST);
                Signal::End(End::Interrupt { again })
            }
            SIGTERM | SIGQUIT => Signal::End(End::Terminate),
            SIGHUP => Signal::End(End::Hangup),
            SIGWINCH => Signal::Resize,
            SIGTSTP => Signal::Job(Job::Suspend),
            SIGCONT => Signal::Job(Job::Continue),
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
        let mut decoder = Decoder::default();
        let start = Instant::now();
        let mut at =
            |milliseconds| decoder.decode(SIGINT, start + Duration::from_millis(milliseconds));
        let interrupt = |again| Some(Signal::End(End::Interrupt { again }));
        assert_eq!(at(0), interrupt(false));
        assert_eq!(at(1999), interrupt(true));
        assert_eq!(at(5000), interrupt(false));
    }
}
