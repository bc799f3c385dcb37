//! Git's identity of the caller: `user.name` and `user.email`.

use std::fmt::Write as _;
use std::process::{Command, Stdio};

/// The caller's name and address for Git. One of the two may be missing, but not both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitUser {
    name: Option<String>,
    email: Option<String>,
}

impl GitUser {
    /// Asks the Git on this computer, which knows the folder that it is asked in. None if it is not
    /// there, or does not know either.
    #[must_use]
    pub fn find() -> Option<Self> {
        let asked = ["config", "--null", "--get-regexp", r"^user\.(name|email)$"];
        let mut git = Command::new("git");
        git.args(asked).stdin(Stdio::null()).stderr(Stdio::null());
        Self::parse(&String::from_utf8(git.output().ok()?.stdout).ok()?)
    }

    /// Parses entries `key\nvalue\0`, of which later ones outrank earlier ones (git-config(1)).
    fn parse(entries: &str) -> Option<Self> {
        let value = |wanted: &str| {
            let entries = entries.split_terminator('\0').rev();
            let mut entries = entries.filter_map(|entry| entry.split_once('\n'));
            let (_, value) = entries.find(|(key, _)| *key == wanted)?;
            let fits = !value.is_empty() && !value.contains(char::is_control);
            fits.then(|| value.to_owned())
        };
        let (name, email) = (value("user.name"), value("user.email"));
        (name.is_some() || email.is_some()).then_some(Self { name, email })
    }

    /// A configuration file for Git that has it, and then includes those of a system: they outrank
    /// it.
    #[must_use]
    pub fn config(&self) -> String {
        let mut config = "[user]\n".to_owned();
        for (key, value) in [("name", &self.name), ("email", &self.email)] {
            if let Some(value) = value {
                let value = value.replace('\\', r"\\").replace('"', "\\\"");
                let _ = writeln!(config, "\t{key} = \"{value}\"");
            }
        }
        config.push_str("[include]\n");
        for file in SYSTEM {
            let _ = writeln!(config, "\tpath = {file}");
        }
        config
    }
}

/// Where Git's configuration of a system is: in distributions, from its sources, from conda. One
/// that is not there is skipped.
const SYSTEM: [&str; 3] = [
    "/etc/gitconfig",
    "/usr/local/etc/gitconfig",
    "/opt/conda/etc/gitconfig",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_entry_counts_and_what_is_missing_is_left_out() {
        let of = |name: Option<&str>, email: Option<&str>| GitUser {
            name: name.map(str::to_owned),
            email: email.map(str::to_owned),
        };
        let both = "user.name\nOld\0user.email\nme@example.com\0user.name\nJane Doe\0";
        let jane = of(Some("Jane Doe"), Some("me@example.com"));
        assert_eq!(GitUser::parse(both), Some(jane));
        assert_eq!(
            GitUser::parse("user.name\nJane\0user.email\n\0"),
            Some(of(Some("Jane"), None))
        );
        for nothing in ["", "user.name\0", "user.name\na\nb\0"] {
            assert_eq!(GitUser::parse(nothing), None, "{nothing:?}");
        }
    }

    #[test]
    fn git_reads_every_name_as_it_is() {
        let name = r#"it's "J\D"; # $HOME"#;
        let user = GitUser::parse(&format!("user.name\n{name}\0")).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config");
        std::fs::write(&file, user.config()).unwrap();
        let mut git = Command::new("git");
        git.args(["config", "--file"]).arg(&file).arg("user.name");
        let read = String::from_utf8(git.output().unwrap().stdout).unwrap();
        assert_eq!(read.trim_end_matches('\n'), name);
    }
}
