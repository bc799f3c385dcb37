//! A site whose EC2 a process serves: the AWS of programs that know no other.

use std::process::{ExitStatus, Output};

use rustix::process::Signal;

use super::site::Site;
use harness::server::ServerProcess;

/// A site whose EC2 is served.
pub(crate) struct ServedSite {
    /// First, so that it has ended before the site is checked.
    server: ServerProcess,
    pub(crate) site: Site,
}

impl ServedSite {
    /// Serves an EC2 on paper with these settings.
    pub(crate) fn paper(settings: &str) -> Self {
        Self::new(&format!("plane = \"paper\"\n{settings}"))
    }

    /// Serves an EC2 with machines and disks and these settings.
    pub(crate) fn real(settings: &str) -> Self {
        Self::new(settings)
    }

    fn new(settings: &str) -> Self {
        let site = Site::with_settings(settings);
        let mut serve = site.words(&["local", "serve", "--port", "0"]);
        let server = ServerProcess::start(&mut serve).unwrap();
        Self { server, site }
    }

    /// The server's URL.
    pub(crate) fn url(&self) -> &str {
        self.server.url()
    }

    /// The output of `xdrive local env`.
    pub(crate) fn environment(&self) -> Output {
        self.site.words(&["local", "env"]).output().unwrap()
    }

    /// The variables that `xdrive local env` sets.
    pub(crate) fn variables(&self) -> Vec<(String, String)> {
        let printed = String::from_utf8(self.environment().stdout).unwrap();
        let variables = printed.lines().filter_map(|line| {
            let (name, value) = line.strip_prefix("export ")?.split_once('=')?;
            Some((name.to_owned(), value.trim_matches('\'').to_owned()))
        });
        variables.collect()
    }

    /// Sends the server `signal` and waits for its end.
    pub(crate) fn end(&mut self, signal: Signal) -> ExitStatus {
        self.server.end(signal)
    }
}
