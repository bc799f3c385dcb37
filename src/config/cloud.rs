//! The choice of EC2 where no flag makes it: by the environment, else by the configuration file.

use anyhow::anyhow;
use serde::Deserialize;

use super::environment::{self, LOCAL};
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

/// The EC2 that the environment names, if it names one.
pub(super) fn of_environment() -> Result<Option<CloudName>, Failure> {
    let value = environment::value(LOCAL);
    value
        .map(|value| yes_or_no(&value.to_string_lossy()))
        .transpose()
}

fn yes_or_no(value: &str) -> Result<CloudName, Failure> {
    match value.to_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Ok(CloudName::Local),
        "0" | "false" | "no" | "off" => Ok(CloudName::Aws),
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
        let (aws, local) = (CloudName::Aws, CloudName::Local);
        for (value, name) in [("1", local), ("YES", local), ("Off", aws), ("0", aws)] {
            assert_eq!(yes_or_no(value).unwrap(), name, "{value}");
        }
        assert_eq!(yes_or_no("folder").unwrap_err().exit, Exit::Usage);
    }
}
