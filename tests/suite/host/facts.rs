//! Facts of a host that its scripts print, and no session acts on.

use std::time::Duration;

use super::machine::Machine;

impl Machine {
    /// The fact of this name among those of `session contact`, if it prints that.
    pub(super) async fn fact(&self, name: &str) -> Option<String> {
        let contact = "sh /var/lib/xdrive/scripts/*/session contact";
        let printed = self.sh(contact).await;
        let mark = format!("xdrive: {name}=");
        let fact = printed.lines().find_map(|line| line.strip_prefix(&mark));
        fact.map(str::to_owned)
    }

    /// Whether its drive was unmounted for good.
    pub(super) async fn is_unmounted(&self) -> bool {
        self.fact("unmounted").await.is_some()
    }

    /// The rest of its lease; none if it had none since it booted.
    pub(super) async fn lease_left(&self) -> Option<Duration> {
        let left = self.fact("lease").await?;
        Some(Duration::from_secs(left.parse().unwrap()))
    }
}
