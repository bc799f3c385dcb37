//! The variables that a session brings along: from flags, files in docker's syntax, and the
//! configuration.
//!
//! Their values are secrets: they are printed nowhere, and sent on standard input alone.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};

/// The bytes of an argument or a variable that Linux does not give to a program any more, its final NUL
/// counted (execve(2), `MAX_ARG_STRLEN`).
pub const LONGEST_WORD: usize = 128 << 10;

/// Variables by name. Its debug form has the names alone.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Variables(BTreeMap<String, String>);

impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Where variables are asked for: `NAME=VALUE`, or `NAME` for the caller's value.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// Files, as for `docker run --env-file`.
    pub files: &'a [PathBuf],
    /// Variables, which outrank those of the files.
    pub variables: &'a [String],
    /// Whether a variable that the caller does not have is an error, and not left out.
    pub is_strict: bool,
}

impl Variables {
    /// Adds what is asked for; it outranks what is there. `caller` has the caller's variables.
    pub fn add(
        &mut self,
        asked: Asked<'_>,
        caller: &dyn Fn(&str) -> Option<OsString>,
    ) -> anyhow::Result<()> {
        for file in asked.files {
            self.add_file(file, caller)?;
        }
        for variable in asked.variables {
            let is_added = self.add_one(variable, caller)?;
            if asked.is_strict && !is_added {
                // Its name may be a value in the wrong place.
                bail!("-e names a variable that is not set in this environment");
            }
        }
        Ok(())
    }

    /// Each line is a variable; empty ones and those that begin with # are none (docker's reference,
    /// *docker run*, `--env-file`).
    fn add_file(
        &mut self,
        file: &Path,
        caller: &dyn Fn(&str) -> Option<OsString>,
    ) -> anyhow::Result<()> {
        let shown = file.display();
        let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {shown}"))?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        for (index, line) in text.lines().enumerate() {
            let line = line.trim_start();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let name = line.split('=').next().unwrap_or_default();
            let added = if name.contains([' ', '\t']) {
                // It may be a value in the wrong place.
                Err(anyhow!("a variable's name in a file has no spaces"))
            } else {
                self.add_one(line, caller)
            };
            added.with_context(|| format!("{shown}, line {}", index + 1))?;
        }
        Ok(())
    }

    /// False if the caller does not have it.
    fn add_one(
        &mut self,
        variable: &str,
        caller: &dyn Fn(&str) -> Option<OsString>,
    ) -> anyhow::Result<bool> {
        let (name, value) = match variable.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (variable, None),
        };
        if name.is_empty() || name.contains('\0') {
            bail!("a variable has no name");
        }
        let value = match value {
            Some(value) => Some(value),
            None => caller(name)
                .map(OsString::into_string)
                .transpose()
                .map_err(|_| anyhow!("the value of {name} is not UTF-8"))?,
        };
        let Some(value) = value else {
            return Ok(false);
        };
        if value.contains('\0') {
            bail!("the value of {name} has a NUL");
        }
        let length = name.len() + "=".len() + value.len();
        if length >= LONGEST_WORD {
            bail!("{name} has {length} bytes, and Linux gives a program at most {LONGEST_WORD}");
        }
        self.0.insert(name.to_owned(), value);
        Ok(true)
    }

    /// Their names.
    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.0.keys()
    }

    /// Sets a variable, in place of what was asked for.
    pub fn set(&mut self, name: &str, value: &str) {
        self.0.insert(name.to_owned(), value.to_owned());
    }

    /// Sets a variable that was not asked for.
    pub fn set_missing(&mut self, name: &str, value: &str) {
        let value = value.to_owned();
        self.0.entry(name.to_owned()).or_insert(value);
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Lines `export NAME='VALUE'`, as a shell and Python's `shlex` read them. Names that a shell does
    /// not have are left to env(1): a last line puts that before the words of the shell that reads the
    /// script, of which the first is the script's own.
    #[must_use]
    pub fn script(&self) -> String {
        let mut script = String::new();
        let mut others = String::new();
        for (name, value) in &self.0 {
            let value = value.replace('\'', "'\\''");
            if is_exportable(name) {
                let _ = writeln!(script, "export {name}='{value}'");
            } else {
                let name = name.replace('\'', "'\\''");
                let _ = write!(others, " '{name}={value}'");
            }
        }
        if !others.is_empty() {
            let _ = writeln!(script, "shift; set -- - env --{others} \"$@\"");
        }
        script
    }
}

/// Whether a shell can export a variable of this name.
fn is_exportable(name: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphabetic() || c == '_';
    name.starts_with(is_letter) && name.chars().all(|c| is_letter(c) || c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(name: &str) -> Option<OsString> {
        (name == "HERE").then(|| "the caller's".into())
    }

    fn collect(
        files: &[PathBuf],
        variables: &[&str],
        is_strict: bool,
    ) -> anyhow::Result<Variables> {
        let variables: Vec<String> = variables.iter().map(|it| (*it).to_owned()).collect();
        let mut all = Variables::default();
        let asked = Asked {
            files,
            variables: &variables,
            is_strict,
        };
        all.add(asked, &caller)?;
        Ok(all)
    }

    #[test]
    fn a_file_has_dockers_syntax_and_is_outranked() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("env");
        let text =
            "\u{feff}# a comment\n\n  A=1\nB=\"quoted\" # not a comment\nHERE\nNOT_HERE\nC=\n";
        std::fs::write(&file, text).unwrap();
        let all = collect(std::slice::from_ref(&file), &["A=2=3"], true).unwrap();
        assert_eq!(
            all.script(),
            "export A='2=3'\nexport B='\"quoted\" # not a comment'\nexport C=''\n\
             export HERE='the caller'\\''s'\n"
        );
        // As docker's client reads them (28.2.2).
        for (text, read) in [
            ("my.env=1", "my.env=1"),
            ("1A=x", "1A=x"),
            ("npm_config_//r/:_t=1", "npm_config_//r/:_t=1"),
            ("\t A=1 \r\n", "A=1 "),
            ("\u{a0}A=1", "A=1"),
            ("A\u{a0}B=1", "A\u{a0}B=1"),
            ("#x\n #y\n\n  \nA", ""),
        ] {
            std::fs::write(&file, text).unwrap();
            let all = collect(std::slice::from_ref(&file), &[], false).unwrap();
            let all: Vec<String> = all.0.iter().map(|(k, v)| format!("{k}={v}")).collect();
            assert_eq!(all.join("|"), read, "{text:?}");
        }
        for text in [
            "A B=secret",
            "A =secret",
            "HERE ",
            "export A=secret",
            "=secret",
        ] {
            std::fs::write(&file, format!("fine=1\n{text}\n")).unwrap();
            let refused = collect(std::slice::from_ref(&file), &[], false).unwrap_err();
            let error = format!("{refused:#}");
            assert!(error.contains("line 2: a variable"), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn a_variable_that_is_not_there_is_left_out_or_refused() {
        assert!(collect(&[], &["NOT_HERE"], false).unwrap().is_empty());
        let error = collect(&[], &["NOT_HERE"], true).unwrap_err().to_string();
        assert_eq!(
            error,
            "-e names a variable that is not set in this environment"
        );
        for name in ["", "=x"] {
            assert!(collect(&[], &[name], false).is_err(), "{name}");
        }
        let long = format!("A={}", "x".repeat(LONGEST_WORD - 3));
        assert!(collect(&[], &[&long], true).is_ok());
        let error = collect(&[], &[&format!("{long}x")], true).unwrap_err();
        assert!(error.to_string().contains("131072"), "{error}");
    }

    #[test]
    fn values_are_not_in_its_debug_form() {
        let all = collect(&[], &["TOKEN=secret"], true).unwrap();
        assert_eq!(format!("{all:?}"), "{\"TOKEN\"}");
    }

    #[test]
    fn a_shell_reads_every_value_as_it_is() {
        let value = "it's \"a\" $HOME `id` \\ * ~\n two\tlines ;&|";
        let all = collect(&[], &[&format!("V={value}")], true).unwrap();
        let script = format!("{}printf %s \"$V\"", all.script());
        let output = std::process::Command::new("sh")
            .args(["-c", &script])
            .output();
        assert_eq!(String::from_utf8(output.unwrap().stdout).unwrap(), value);
    }

    /// The fault: such a name refused the session.
    #[test]
    fn names_that_no_shell_has_reach_the_command_too() {
        let names = ["my.env=it's 1", "A-B=2", "9 c=3", "-x=4", "FINE=5"];
        let script = collect(&[], &names, true).unwrap().script();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("variables");
        std::fs::write(&file, script).unwrap();
        for shell in ["sh", "bash"] {
            let mut run = std::process::Command::new(shell);
            run.args(["-c", r#". "$1"; shift; exec "$@""#, "sh"]);
            run.arg(&file)
                .args(["sh", "-c", "env; echo $#$1", "sh", "a b"]);
            let printed = String::from_utf8(run.output().unwrap().stdout).unwrap();
            // Not all shells pass on what they cannot have themselves.
            run = std::process::Command::new(shell);
            run.args(["-c", r#". "$1"; shift; exec "$@""#, "sh"]);
            let own = run.arg(&file).arg("env").output().unwrap().stdout;
            let own = String::from_utf8(own).unwrap();
            for variable in names {
                assert!(
                    own.lines().any(|line| line == variable),
                    "{variable}: {own}"
                );
            }
            assert!(printed.ends_with("1a b\n"), "{printed}");
        }
    }
}
