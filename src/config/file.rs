//! The configuration file.

use std::io::ErrorKind;

use anyhow::{anyhow, bail};

use super::cloud::{self, CloudName};
use super::paths::Paths;
use super::reach::check_service;
use super::settings::Config;
use crate::drive::pools::Requirements;
use crate::failure::{Exit, Failure};

/// Whether the EC2 in a folder is meant. The environment outranks the configuration.
pub fn is_local(paths: &Paths) -> Result<bool, Failure> {
    match cloud::of_environment()? {
        Some(name) => Ok(name == CloudName::Local),
        None => Ok(Config::read(paths)?.cloud == Some(CloudName::Local)),
    }
}

impl Config {
    /// Reads the configuration file. A missing one is empty.
    pub fn read(paths: &Paths) -> Result<Self, Failure> {
        let path = paths.config.display();
        match std::fs::read_to_string(&paths.config) {
            Ok(text) => Self::parse(&text).map_err(|error| {
                Failure::new(
                    Exit::Config,
                    anyhow!("{path} is not a configuration: {error}"),
                )
                .hint("xdrive help config lists its keys")
            }),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(Failure::new(
                Exit::Config,
                anyhow::Error::new(error).context(format!("cannot read {path}")),
            )),
        }
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        let config: Self = toml::from_str(text)?;
        if let Some(url) = &config.address_service
            && let Err(why) = check_service(url)
        {
            bail!("address_service = {url:?}: {why}");
        }
        let requirements = config.requirements().map_err(anyhow::Error::msg)?;
        if config.free && matches!(requirements, Some(Requirements::Types(_))) {
            bail!(
                "types are named, or free = true takes those that the free tier has, but not both"
            );
        }
        Ok(config)
    }
}
