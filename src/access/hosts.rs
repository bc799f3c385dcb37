//! The drive's hosts, as the reconciler sees them.

use std::time::Duration;

use super::SshHosts;
use super::client_line::{no_answer, translated};
use super::login::Refusal;
use super::own_key;
use crate::drive::{Contact, HostError, Hosts, NoAnswer, Prepared, RECORD_LIFE, Subnets};
use crate::ec2::Instance;
use crate::host::boot::{self, BootOrder, Watch};
use crate::host::{AtMount, CloseReport, Closed, MountOrder, Role};
use crate::ids::{InstanceId, SessionId, Uuid};
use crate::ssh::HostKey;

/// How long a new host waits for its first client: longer than any boot.
const FIRST_SIGN: Duration = Duration::from_mins(30);

impl Hosts for SshHosts {
    async fn prepare(&mut self, _session: &SessionId) -> Result<Prepared, HostError> {
        let failed = |error: &dyn std::fmt::Display| HostError::Failed(error.to_string());
        let groups = self.login.ingress().for_launch().await?;
        let host_key = HostKey::generate().map_err(|error| failed(&error))?;
        let user_data = boot::user_data(&BootOrder {
            host_private_key: host_key.private,
            host_public_key: host_key.public.clone(),
            authorized_keys: self.login.key().public().to_owned(),
            first_sign: FIRST_SIGN,
            watch: Watch::default(),
        })
        .map_err(|error| HostError::NoRoute {
            why: format!("{error:#}"),
            hint: "the longest part of it is this computer's public key, with its comment; xdrive \
                   makes a short one where it finds none (~/.config/xdrive/id_ed25519)"
                .to_owned(),
        })?;
        Ok(Prepared {
            user_data,
            host_key: host_key.public,
            first_sign: FIRST_SIGN,
            groups,
        })
    }

    async fn subnets(&mut self) -> Result<Subnets, HostError> {
        self.login.ingress().subnets().await
    }

    fn forget_groups(&mut self) {
        self.login.ingress().forget();
    }

    async fn contact(&mut self, host: &Instance) -> Contact {
        let looked = self.look(host).await;
        match looked.as_ref().err().and_then(no_answer) {
            Some(no_answer) => self.silent.insert(host.id.clone(), no_answer),
            None => self.silent.remove(&host.id),
        };
        match looked {
            Ok((_, contact)) => {
                self.room = contact.room;
                self.view(&host.id, contact)
            }
            Err(Refusal::Unreachable(_) | Refusal::ProxyFailed(_) | Refusal::OtherHostKey(_)) => {
                Contact::Unreachable
            }
            Err(Refusal::KeyRefused(_)) => Contact::KeyRefused,
        }
    }

    fn no_answer(&self, host: &InstanceId) -> Option<NoAnswer> {
        self.silent.get(host).cloned()
    }

    async fn claim(
        &mut self,
        host: &Instance,
        session: &SessionId,
        caller: &str,
        lease: Duration,
    ) -> Result<(), HostError> {
        let clock = self.links.context().clock.clone();
        let began = clock.boot();
        self.host(host).await?;
        if clock.boot().since(began) > RECORD_LIFE {
            return Err(HostError::Failed(
                "the host's lease was recorded too long ago".to_owned(),
            ));
        }
        if let Some(claimed) = self.links.claim_arrival(&host.id, lease) {
            self.mounted = claimed.mounted;
            self.terminal = claimed.terminal;
        } else if !self.is_attached(&host.id) {
            let client = self.links.attachment(Role::Lead, session, caller, lease);
            match self.links.attach(&host.id, client.clone()).await {
                // A closing host takes no client any more, and needs none to be closed again.
                Ok(()) | Err(HostError::Closing(_)) => {}
                Err(error) => return Err(error),
            }
            self.links.set_client(client);
        }
        Box::pin(own_key::renew(host, &mut self.links, &mut self.login)).await;
        Ok(())
    }

    fn received(&self) -> u64 {
        self.login.received.bytes()
    }

    fn forgets(&self) -> bool {
        self.frozen == AtMount::Forget
    }

    async fn mount(&mut self, host: &Instance, order: &MountOrder) -> Result<Uuid, HostError> {
        let scripts = self.host(host).await?;
        if self.frozen == AtMount::Keep {
            self.frozen = order.frozen;
        }
        let order = MountOrder {
            frozen: self.frozen,
            hot: self.hot,
            ..order.clone()
        };
        let mounted = scripts.mount(&order).await.map_err(translated)?;
        let uuid = mounted.uuid;
        self.mounted = Some(mounted);
        // An earlier close's result is another host's.
        self.closed = None;
        Ok(uuid)
    }

    async fn sync(&mut self, host: &Instance) -> Result<(), HostError> {
        let scripts = self.host(host).await?;
        scripts.sync().await.map_err(translated)
    }

    async fn close(&mut self, host: &Instance) -> Result<Closed, HostError> {
        let scripts = self.host(host).await?;
        let report = scripts.close(self.closes_for).await;
        let report = report.map_err(translated)?;
        let closed = report.closed();
        self.closed = Some(report);
        closed.ok_or_else(|| {
            HostError::Failed(
                "the drive could be neither unmounted nor made read-only; the host powers off"
                    .to_owned(),
            )
        })
    }

    fn closed(&self) -> Option<&CloseReport> {
        self.closed.as_ref()
    }

    fn release(&mut self, host: &Instance) {
        self.links.remove(&host.id);
    }
}
