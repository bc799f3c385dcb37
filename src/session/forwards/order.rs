//! The order in a line of `~C`, in the words of ssh's command line.

use crate::config::Forwarding;

/// The help of `~C`.
pub(super) const USAGE: &str = "\
-L PORT[:HOST:PORT]   lead a port on this computer into the container
-R PORT[:HOST:PORT]   lead a port in the container to this computer
-KL PORT, -KR PORT    end such a forward
Enter alone opens what the line above it offers; ~# lists all offers";

/// An order about forwards.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// `-L`, `-R`: open it.
    Open(Direction, Forwarding),
    /// `-KL`, `-KR`: end those on this port.
    Close(Direction, u16),
    /// Open what was offered last.
    Accept,
    /// Show [`USAGE`].
    Help,
}

/// The direction of a forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    /// From this computer into the container.
    Local,
    /// From the container to this computer.
    Remote,
}

impl Direction {
    pub(super) fn flag(self) -> &'static str {
        match self {
            Self::Local => "-L",
            Self::Remote => "-R",
        }
    }
}

impl Order {
    /// Parses a line; why it cannot be parsed.
    pub(super) fn parse(line: &str) -> Result<Self, String> {
        let line = line.trim();
        match line {
            "" => return Ok(Self::Accept),
            "?" | "-h" | "-?" | "help" => return Ok(Self::Help),
            _ => {}
        }
        let flags = [("-L", Direction::Local), ("-R", Direction::Remote)];
        for (flag, direction) in flags {
            if let Some(rest) = line.strip_prefix(flag) {
                let rest = rest.trim_start();
                let wanted = rest
                    .parse()
                    .map_err(|why| format!("{flag} {rest}: {why}"))?;
                return Ok(Self::Open(direction, wanted));
            }
        }
        for (flag, direction) in [("-KL", Direction::Local), ("-KR", Direction::Remote)] {
            if let Some(rest) = line.strip_prefix(flag) {
                // ssh takes an address in front of it.
                let port = rest
                    .trim()
                    .rsplit(':')
                    .next()
                    .and_then(|it| it.parse().ok());
                let port = port.ok_or_else(|| format!("{line}: {flag} takes a port"))?;
                return Ok(Self::Close(direction, port));
            }
        }
        Err(format!("{line}: not understood"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Order {
        Order::parse(line).unwrap_or_else(|why| panic!("{line}: {why}"))
    }

    #[test]
    fn lines_are_understood_as_ssh_does() {
        let forward = |text: &str| text.parse::<Forwarding>().unwrap();
        for line in ["-L 80", "-L80", "  -L   80 "] {
            assert_eq!(
                parse(line),
                Order::Open(Direction::Local, forward("80")),
                "{line}"
            );
        }
        let remote = Order::Open(Direction::Remote, forward("*:80:db:81"));
        assert_eq!(parse("-R *:80:db:81"), remote);
        for line in ["-KL 80", "-KL80", "-KL localhost:80"] {
            assert_eq!(parse(line), Order::Close(Direction::Local, 80), "{line}");
        }
        assert_eq!(parse("-KR 80"), Order::Close(Direction::Remote, 80));
        assert_eq!((parse(" "), parse("?")), (Order::Accept, Order::Help));
        for wrong in ["-L", "-L x", "-KL", "-K 80", "-D 1080", "!ls", "6006"] {
            assert!(Order::parse(wrong).is_err(), "{wrong}");
        }
        let why = Order::parse("-L 80:80").unwrap_err();
        assert!(why.starts_with("-L 80:80: it is not [BIND:]PORT"), "{why}");
    }

    #[test]
    fn the_help_fits_a_terminal() {
        assert!(USAGE.lines().all(|line| line.len() < 79), "{USAGE}");
    }
}
