//! The choice of EC2 where no flag makes it: by the environment, else by the configuration file.

use anyhow::anyhow;
use serde::Deserialize;

use super::environment::LOCAL;
use super::{Config, Paths, environment};
use crate::failure::{Exit, Failure};

/// `cloud` in the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CloudName {
    /// The account's.
    Aws,
    /// The EC2 in a folder.
    Local,
}

/// Whether the EC2 in a folder is meant. The environment outranks the configuration.
pub fn is_local(paths: &Paths) -> Result<bool, Failure> {
    match environment::value(LOCAL) {
        Some(value) => yes_or_no(&value.to_string_lossy()),
        None => Ok(Config::read(paths)?.cloud == Some(CloudName::Local)),
    }
}

fn yes_or_no(value: &str) -> Result<bool, Failure> {
    match value.to_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Ok(true),
        "0" | "false" | "no" | "off" => Ok(false),
        _ => Err(Failure::new(
            Exit::Usage,
            anyhow!("{LOCAL}={value} is neither yes nor no"),
        )
        .hint(format!(
            "{LOCAL}=1 chooses the EC2 in a folder, {LOCAL}=0 an account"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_is_a_yes_or_a_no() {
        for (value, is_local) in [("1", true), ("YES", true), ("Off", false), ("0", false)] {
            assert_eq!(yes_or_no(value).unwrap(), is_local, "{value}");
        }
        assert_eq!(yes_or_no("folder").unwrap_err().exit, Exit::Usage);
    }
}
