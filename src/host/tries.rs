//! The order of a command that a host keeps, and how many of its tries have begun: both are on the drive,
//! where `shell/host/tries.py` writes them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::runs::Retry;

/// The version of the orders that this xdrive writes, and the last that it reads.
const VERSION: u32 = 1;

/// The order by which any computer begins the next try of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TriedCommand {
    /// The version of its form.
    pub version: u32,
    /// The command and its arguments.
    pub words: Vec<String>,
    /// How long it may take to end when its instance is taken, in seconds.
    pub notice: u64,
    /// How many bytes of each of its outputs are kept.
    pub kept: u64,
    /// How often it may be begun again where its host was lost.
    pub tries: u32,
    /// How it is begun again after a failure of its own.
    #[serde(default)]
    pub retry: Retry,
    /// Where its results go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub results: Option<Results>,
    /// Whom its host notifies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notify: Option<Notify>,
}

/// Whom the host of a command notifies of its end, of its host's, and of its next tries.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notify {
    /// The URL for words about it, which may be a secret.
    pub address: String,
    /// The drive's name.
    pub drive: String,
}

impl std::fmt::Debug for Notify {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Notify")
            .field("drive", &self.drive)
            .finish_non_exhaustive()
    }
}

/// Where the results of a command go: what is in `/work/results`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Results {
    /// The place in S3: `s3://BUCKET` or `s3://BUCKET/PREFIX`.
    pub url: String,
    /// How many seconds two syncs are apart.
    pub every: u64,
}

/// What is kept of a command's tries.
#[derive(Debug, PartialEq, Eq)]
pub struct Tries {
    /// The order; none if there is none, or a newer xdrive wrote it.
    pub order: Option<TriedCommand>,
    /// The number of the last try that has begun; 0 if none has.
    pub begun: u32,
    /// How many tries failed by themselves, and are followed by another one.
    pub failed: u32,
}

impl Tries {
    /// Whether another one may begin where the last one's host was lost.
    #[must_use]
    pub fn may_begin(&self, order: &TriedCommand) -> bool {
        self.begun.saturating_sub(self.failed) <= order.tries
    }
}

impl TriedCommand {
    /// The order of a command with these `words`.
    #[must_use]
    pub fn new(words: &[String], notice: Duration, kept: u64) -> Self {
        Self {
            version: VERSION,
            words: words.to_vec(),
            notice: notice.as_secs(),
            kept,
            tries: 0,
            retry: Retry::default(),
            results: None,
            notify: None,
        }
    }

    /// How long the command may take to end when its instance is taken.
    #[must_use]
    pub fn notice(&self) -> Duration {
        Duration::from_secs(self.notice)
    }

    /// Parses an order; none if it is of a newer version, or no order.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let order: Self = serde_json::from_str(line).ok()?;
        (order.version <= VERSION).then_some(order)
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU8;

    use super::*;

    #[test]
    fn an_order_is_read_as_it_was_written_and_a_newer_one_is_none() {
        let words = ["sh", "-c", "echo 'a'; echo \"b\"\n"].map(str::to_owned);
        let order = TriedCommand {
            tries: 1000,
            retry: Retry {
                times: 2,
                codes: vec![NonZeroU8::MAX],
            },
            results: Some(Results {
                url: "s3://bucket/prefix".to_owned(),
                every: 600,
            }),
            notify: Some(Notify {
                address: "https://ntfy.sh/secret".to_owned(),
                drive: "demo".to_owned(),
            }),
            ..TriedCommand::new(&words, Duration::from_secs(45), 1 << 20)
        };
        let line = serde_json::to_string(&order).unwrap();
        assert!(!line.contains('\n'), "{line}");
        assert!(!format!("{order:?}").contains("secret"), "{order:?}");
        assert_eq!(TriedCommand::parse(&line), Some(order.clone()));
        assert_eq!(order.notice(), Duration::from_secs(45));
        let newer = line.replace("\"version\":1", "\"version\":2");
        assert_ne!(newer, line);
        assert_eq!(TriedCommand::parse(&newer), None);
        assert_eq!(TriedCommand::parse("{}"), None);
    }
}
