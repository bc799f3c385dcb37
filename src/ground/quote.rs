//! Words for a POSIX shell.
//!
//! A command that is sent over SSH is one string, which the login shell splits into words again:
//! every word that is not a constant is quoted here. NUL cannot be part of a word and is refused by
//! the callers' types or by the kernel, never here.

use shlex::Quoter;

/// `word` as one word of a shell command, whatever it contains.
#[must_use]
#[expect(
    clippy::missing_panics_doc,
    reason = "with NUL allowed no word is refused"
)]
pub fn quote(word: &str) -> String {
    let quoted = Quoter::new().allow_nul(true).quote(word);
    quoted.expect("no word is refused").into_owned()
}

/// `words` as the words of one shell command.
pub fn join<S: AsRef<str>>(words: impl IntoIterator<Item = S>) -> String {
    let quoted: Vec<String> = words.into_iter().map(|word| quote(word.as_ref())).collect();
    quoted.join(" ")
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;

    fn through_a_shell(shell: &str, words: &[String]) -> Vec<String> {
        let script = format!(
            r#"set -- {}; for w; do printf '%s\0' "$w"; done"#,
            join(words)
        );
        let output = Command::new(shell).args(["-c", &script]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let mut read: Vec<String> = String::from_utf8(output.stdout)
            .unwrap()
            .split('\0')
            .map(str::to_owned)
            .collect();
        assert_eq!(read.pop().as_deref(), Some(""));
        read
    }

    #[test]
    fn every_byte_but_nul_survives_dash_and_bash() {
        let ascii: String = (1..=127_u8).map(char::from).collect();
        let words = [
            ascii,
            String::new(),
            "it's".into(),
            "'".into(),
            "\n".into(),
            "$(reboot) `reboot` ${HOME} \\ \" ! * ~".into(),
            "größe 数 🚀".into(),
            "-n".into(),
        ];
        for shell in ["dash", "bash"] {
            assert_eq!(through_a_shell(shell, &words), words, "{shell}");
        }
    }

    #[test]
    fn plain_words_stay_readable() {
        assert_eq!(
            join(["docker", "exec", "-i", "a b"]),
            "docker exec -i 'a b'"
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_words_survive(words in prop::collection::vec("[^\0]{0,40}", 1..5)) {
            prop_assert_eq!(through_a_shell("sh", &words), words);
        }
    }
}
