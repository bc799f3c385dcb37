//! The order of a command that a host keeps, and how many of its tries have begun: both are on the drive,
//! where `shell/host/tries.py` writes them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::closing;
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
    /// How long it may take, in seconds; none in what an earlier version wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// How many US cents all its hosts may take; none where it has no budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<u64>,
    /// What it had of the computer that began it.
    #[serde(default)]
    pub along: Along,
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

/// What a command had of the computer that began it. The drive has the names alone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Along {
    /// The names of variables.
    pub variables: Vec<String>,
    /// Whether its SSH agent was forwarded.
    pub agent: bool,
    /// Whether its AWS credentials were.
    pub aws: bool,
}

impl Along {
    /// The flags that bring along again what `given` has not. A name that could be read as another flag
    /// stays unsaid: whoever may write on the drive may have made it up.
    #[must_use]
    pub fn missing_in(&self, given: &Self) -> Vec<String> {
        let is_name = |name: &str| {
            let mut bytes = name.bytes();
            let is_letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
            bytes.next().is_some_and(is_letter)
                && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
        };
        let names = self.variables.iter().filter(|name| is_name(name));
        let missing = names.filter(|name| !given.variables.contains(name));
        let flags = missing.map(|name| format!("-e {name}"));
        let agent = (self.agent && !given.agent).then(|| "-A".to_owned());
        let aws = (self.aws && !given.aws).then(|| "--aws".to_owned());
        flags.chain(agent).chain(aws).collect()
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
            limit: None,
            budget: None,
            along: Along::default(),
            retry: Retry::default(),
            results: None,
            notify: None,
        }
    }

    /// How long the command may take to end when its instance is taken.
    #[must_use]
    pub fn notice(&self) -> Duration {
        Duration::from_secs(self.notice).clamp(closing::SHORTEST, closing::LONGEST)
    }

    /// Parses an order; none if it is of a newer version, or no order: no words, or some that nobody can
    /// have typed.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let order: Self = serde_json::from_str(line).ok()?;
        let has_words =
            !order.words.is_empty() && order.words.iter().all(|word| !word.contains('\0'));
        (order.version <= VERSION && has_words).then_some(order)
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
            limit: Some(86400),
            budget: Some(550),
            along: Along {
                variables: vec!["TOKEN".to_owned()],
                ..Along::default()
            },
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
        for words in [&[][..], &["sh\0".to_owned()]] {
            let order = TriedCommand::new(words, Duration::ZERO, 1);
            let line = serde_json::to_string(&order).unwrap();
            assert_eq!(TriedCommand::parse(&line), None, "{words:?}");
        }
    }

    #[test]
    fn an_order_of_an_earlier_version_is_read_and_a_notice_is_one_that_may_be_given() {
        let earlier =
            r#"{"version":1,"words":["true"],"notice":18446744073709551615,"kept":1,"tries":2}"#;
        let order = TriedCommand::parse(earlier).unwrap();
        assert_eq!((order.limit, &order.along), (None, &Along::default()));
        assert_eq!(order.notice(), closing::LONGEST);
    }

    #[test]
    fn what_is_missing_is_named_by_flags_and_no_name_is_another_flag() {
        let along = |names: &[&str], aws| Along {
            variables: names.iter().map(|name| (*name).to_owned()).collect(),
            agent: true,
            aws,
        };
        let before = along(
            &["TOKEN", "A --instance-profile admin", "1X", "", "_b2"],
            true,
        );
        assert_eq!(
            before.missing_in(&Along::default()),
            ["-e TOKEN", "-e _b2", "-A", "--aws"]
        );
        let missing = before.missing_in(&along(&["TOKEN"], false));
        assert_eq!(missing, ["-e _b2", "--aws"]);
    }
}
