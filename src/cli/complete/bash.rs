//! The answer for bash, which inserts candidates as it is given them: each is one word of its grammar.
//! The other shells quote what they insert.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io::{Error, Write};
use std::path::Path;

use clap::Command;
use clap_complete::engine;
use clap_complete::env::{Bash, EnvCompleter};

use crate::quote::quote;

/// Bash, whose script is clap's, and whose candidates are words.
pub(super) struct Quoted;

impl EnvCompleter for Quoted {
    fn name(&self) -> &'static str {
        Bash.name()
    }

    fn is(&self, name: &str) -> bool {
        Bash.is(name)
    }

    fn write_registration(
        &self,
        var: &str,
        name: &str,
        bin: &str,
        completer: &str,
        buf: &mut dyn Write,
    ) -> Result<(), Error> {
        Bash.write_registration(var, name, bin, completer, buf)
    }

    /// As clap's, by the variables that its script sets.
    fn write_complete(
        &self,
        command: &mut Command,
        words: Vec<OsString>,
        here: Option<&Path>,
        buf: &mut dyn Write,
    ) -> Result<(), Error> {
        let index = env::var("_CLAP_COMPLETE_INDEX").ok();
        let index = index.and_then(|index| index.parse().ok());
        let separator = env::var("_CLAP_IFS").unwrap_or_else(|_| "\n".to_owned());
        let found = engine::complete(command, words, index.unwrap_or_default(), here)?;
        let words = found.iter().filter_map(|it| word(it.get_value()));
        let words: Vec<String> = words.collect();
        write!(buf, "{}", words.join(&separator))
    }
}

/// A candidate as it may be typed; none where it cannot be. The home folder's `~` stays, and what
/// separates the parts of one of xdrive's own words.
fn word(value: &OsStr) -> Option<String> {
    let value = value.to_str()?;
    if value.chars().any(char::is_control) {
        return None;
    }
    let (home, rest) = match value.strip_prefix("~/") {
        Some(rest) => ("~/", rest),
        None => ("", value),
    };
    let mut parts = rest.split([',', '=']);
    if parts.all(|part| part.is_empty() || quote(part) == part) {
        return Some(value.to_owned());
    }
    Some(format!("{home}{}", quote(rest)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_candidate_is_one_word_that_does_nothing() {
        let word = |value: &str| word(OsStr::new(value));
        for plain in [
            "demo",
            "demo:",
            "m5.large,g6.xlarge",
            "--type=t3.medium",
            "~/a",
            "~/",
        ] {
            assert_eq!(word(plain).as_deref(), Some(plain));
        }
        assert_eq!(word("$(id)").unwrap(), "'$(id)'");
        assert_eq!(word("a;id").unwrap(), "'a;id'");
        assert_eq!(word("my file").unwrap(), "'my file'");
        assert_eq!(word("~/my file").unwrap(), "~/'my file'");
        assert_eq!(word("~root").unwrap(), "'~root'");
        assert_eq!(word("a\nid"), None);
        assert_eq!(word("a\u{1b}[31m"), None);
    }
}
