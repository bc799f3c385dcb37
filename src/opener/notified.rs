//! Words about a drive's run to the address that its user named.

use anyhow::anyhow;

use super::drive::Drive;
use crate::config::NotifyUrl;
use crate::failure::{Exit, Failure};

impl Drive {
    /// Posts words about the drive to `address`.
    pub(crate) async fn notify(&self, address: &NotifyUrl, words: &str) -> Result<(), String> {
        let title = format!("xdrive: {}", self.name);
        let reached = self.cloud.ec2.reached()?;
        reached.post(address.as_str(), &title, words).await
    }

    /// Posts to `address` that a run is about to begin: one that nobody answers would not be missed
    /// before weeks have passed.
    pub(crate) async fn try_address(&self, address: &NotifyUrl) -> Result<(), Failure> {
        let posted = self
            .notify(address, "a run begins; its end is posted here")
            .await;
        posted.map_err(|error| {
            let error = anyhow!("nobody can be notified by --notify: {error}");
            Failure::new(Exit::Unavailable, error)
                .hint("without --notify the run begins all the same")
        })
    }
}
