//! The hosts of a verb that needs none: nothing is launched, and no instance is asked.

use std::time::Duration;

use crate::drive::{Contact, HostError, Hosts, Prepared};
use crate::ec2::Instance;
use crate::host::{Closed, MountOrder};
use crate::ids::{SessionId, Uuid};

/// No hosts. An instance that a sweep finds is not asked, and every other call fails.
pub(super) struct NoHosts;

fn refused<T>() -> Result<T, HostError> {
    Err(HostError::Failed("this command asks no host".to_owned()))
}

impl Hosts for NoHosts {
    async fn prepare(&mut self, _session: &SessionId) -> Result<Prepared, HostError> {
        refused()
    }

    async fn contact(&mut self, _host: &Instance) -> Contact {
        Contact::NotAsked
    }

    async fn claim(
        &mut self,
        _host: &Instance,
        _session: &SessionId,
        _owner: &str,
        _lease: Duration,
    ) -> Result<(), HostError> {
        refused()
    }

    async fn mount(&mut self, _host: &Instance, _order: &MountOrder) -> Result<Uuid, HostError> {
        refused()
    }

    async fn sync(&mut self, _host: &Instance) -> Result<(), HostError> {
        refused()
    }

    async fn close(&mut self, _host: &Instance) -> Result<Closed, HostError> {
        refused()
    }

    fn release(&mut self, _host: &Instance) {}
}
