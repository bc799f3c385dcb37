//! What the supervisor of an instance can be asked to do: one line each, in the `control` FIFO.
//!
//! A line is written in one go and is shorter than what the kernel passes on in one piece (pipe(7),
//! `PIPE_BUF`), so that two callers' orders never mix. What is due later is given as a span: the
//! supervisor counts it on its own clock, which nobody sets. What can be read in the instance's
//! folder is not said again.

use std::fmt;
use std::time::Duration;

/// An order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Shut down in order; by force after so long.
    PowerOff {
        /// How long it may take.
        grace: Duration,
    },
    /// Shut down in order and come up again; by force after so long.
    Reboot {
        /// How long the shutdown may take.
        grace: Duration,
    },
    /// Be cut off, as by a power cut.
    Cut {
        /// How long from now.
        after: Duration,
    },
    /// Look again at which volumes are to be plugged in, and when.
    PlugIn,
}

impl Order {
    /// Reads one; nothing if it is none.
    pub(super) fn parse(line: &str) -> Option<Self> {
        if line == "plug-in" {
            return Some(Self::PlugIn);
        }
        let (what, when) = line.split_once(' ')?;
        let span = when.parse().ok().map(Duration::from_millis)?;
        match what {
            "power-off" => Some(Self::PowerOff { grace: span }),
            "reboot" => Some(Self::Reboot { grace: span }),
            "cut" => Some(Self::Cut { after: span }),
            _ => None,
        }
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PowerOff { grace } => writeln!(f, "power-off {}", grace.as_millis()),
            Self::Reboot { grace } => writeln!(f, "reboot {}", grace.as_millis()),
            Self::Cut { after } => writeln!(f, "cut {}", after.as_millis()),
            Self::PlugIn => writeln!(f, "plug-in"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_read_as_it_was_written() {
        let span = Duration::from_millis(1500);
        for order in [
            Order::PowerOff { grace: span },
            Order::Reboot { grace: span },
            Order::Cut { after: span },
            Order::PlugIn,
        ] {
            assert_eq!(Order::parse(order.to_string().trim_end()), Some(order));
        }
        for nonsense in ["", "cut", "power-off soon", "explode 12", "plug-in 12"] {
            assert_eq!(Order::parse(nonsense), None);
        }
    }
}
