//! Orders to the supervisor of an instance: one line each, in the `control` FIFO.
//!
//! A line is written in one piece and is shorter than the kernel's atomic write (pipe(7),
//! `PIPE_BUF`), so that two callers' orders never mix. A delay is given as a span, which the
//! supervisor counts on its monotonic clock. Orders do not repeat what is in the instance's folder.

use std::fmt;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::PlaneError;
use super::folder::Folder;

/// An order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Shut down in order; by force after `grace`.
    PowerOff {
        /// How long the shutdown may take.
        grace: Duration,
    },
    /// Shut down in order, by force after `grace`, and boot again.
    Reboot {
        /// How long the shutdown may take.
        grace: Duration,
    },
    /// Cut the power.
    Cut {
        /// How long from now.
        after: Duration,
    },
    /// Read the due volumes again.
    PlugIn,
}

impl Order {
    /// Gives it to the supervisor of `instance`; [`PlaneError::Gone`] where there is none.
    pub(super) fn give(self, dir: &Path, instance: &str) -> Result<(), PlaneError> {
        let control = Folder::new(dir, instance).control();
        // Without a reader, opening does not wait: it fails.
        let nonblock = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
        File::options()
            .write(true)
            .custom_flags(nonblock)
            .open(control)
            .and_then(|mut control| control.write_all(self.to_string().as_bytes()))
            .map_err(
                |error| match error.raw_os_error().map(Errno::from_raw_os_error) {
                    Some(Errno::NXIO | Errno::NOENT) => PlaneError::Gone,
                    _ => anyhow::Error::new(error)
                        .context(format!("giving an order to {instance}"))
                        .into(),
                },
            )
    }

    /// Parses a line; none if it is no order.
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
