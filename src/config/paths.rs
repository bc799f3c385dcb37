//! Where xdrive's files are.

use std::path::PathBuf;

use anyhow::Context as _;
use etcetera::BaseStrategy as _;
use etcetera::base_strategy::Xdg;

use super::environment;
use crate::failure::{Exit, Failure};

/// The paths of xdrive's files (XDG base directory specification).
#[derive(Debug, Clone)]
pub struct Paths {
    /// The configuration file.
    pub config: PathBuf,
    /// The laptop's private SSH key.
    pub key: PathBuf,
    /// The state of the EC2 in a folder.
    pub local_dir: PathBuf,
    /// Whether `local_dir` is from the command line.
    pub local_dir_named: bool,
    /// The trees and images of the EC2 in a folder, shared by all its state directories.
    pub local_cache: PathBuf,
    /// Where a build from a clone puts criu for hosts (`shell/criu.sh`).
    pub criu: PathBuf,
    /// The names of drives, kept for completions.
    pub names: PathBuf,
    /// The file that `xdrive ssh-config` writes for OpenSSH's client.
    pub ssh_config: PathBuf,
    /// The folder of the host keys for that client.
    pub known_hosts: PathBuf,
    /// The own configuration of that client.
    pub users_ssh_config: PathBuf,
}

impl Paths {
    /// Finds the paths by the environment; `local_dir` overrides that of the EC2 in a folder.
    pub fn find(local_dir: Option<PathBuf>) -> Result<Self, Failure> {
        let xdg = Xdg::new()
            .context("cannot tell where your files are")
            .map_err(|error| Failure::new(Exit::Config, error).hint("set HOME"))?;
        let cache = environment::path(environment::CACHE);
        let cache = cache.unwrap_or_else(|| xdg.cache_dir().join("xdrive"));
        let config = xdg.config_dir().join("xdrive");
        Ok(Self {
            config: config.join("config.toml"),
            key: config.join("id_ed25519"),
            local_dir_named: local_dir.is_some(),
            local_dir: local_dir
                .or_else(|| environment::path(environment::LOCAL_DIR))
                .unwrap_or_else(|| xdg.data_dir().join("xdrive").join("local")),
            local_cache: cache.join("local"),
            criu: cache.join("criu"),
            names: cache.join("names"),
            ssh_config: config.join("ssh_config"),
            known_hosts: config.join("known_hosts"),
            users_ssh_config: xdg.home_dir().join(".ssh").join("config"),
        })
    }
}
