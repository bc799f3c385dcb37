//! The address for words about runs.

use std::fmt;
use std::str::FromStr;

use anyhow::anyhow;

use super::environment::{NOTIFY, value};
use super::quantity::Invalid;
use crate::failure::{Exit, Failure};

/// The longest address, in bytes.
const LONGEST: usize = 500;

/// A URL to which words about a run are posted: a topic of ntfy, or any webhook that takes plain text.
/// Whoever knows it may post there, so it is not printed.
#[derive(Clone, PartialEq, Eq)]
pub struct NotifyUrl(String);

impl NotifyUrl {
    /// The address that is typed, else that of the environment.
    pub(crate) fn choose(typed: Option<Self>) -> Result<Option<Self>, Failure> {
        let Some(set) = value(NOTIFY).filter(|_| typed.is_none()) else {
            return Ok(typed);
        };
        let address = set.to_string_lossy().parse::<Self>();
        address.map(Some).map_err(|error| {
            Failure::new(Exit::Usage, anyhow!(error).context(format!("in {NOTIFY}")))
        })
    }

    /// The URL.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for NotifyUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NotifyUrl(…)")
    }
}

impl FromStr for NotifyUrl {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        const HINT: &str = "such as https://ntfy.sh/a-topic-that-nobody-guesses";
        let url: Option<http::Uri> = text.parse().ok();
        let is_web = url.is_some_and(|url| {
            let host = url.host().unwrap_or_default();
            matches!(url.scheme_str(), Some("https" | "http")) && !host.is_empty()
        });
        if !is_web || text.len() > LONGEST || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Invalid::with("it is not the address of a web page", HINT));
        }
        Ok(Self(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_that_of_a_web_page_and_is_not_printed() {
        for text in ["https://ntfy.sh/topic", "http://127.0.0.1:8080/a?b=c"] {
            let url: NotifyUrl = text.parse().unwrap();
            assert_eq!(url.as_str(), text);
            assert_eq!(format!("{url:?}"), "NotifyUrl(…)");
        }
        let long = format!("https://ntfy.sh/{}", "x".repeat(LONGEST));
        for text in [
            "ntfy.sh/topic",
            "file:///etc/passwd",
            "https:///topic",
            "https://a b",
            "https://a\nb",
            "",
            &long,
        ] {
            text.parse::<NotifyUrl>().unwrap_err();
        }
    }
}
