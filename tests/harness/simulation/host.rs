//! Hosts on paper: a lock, a latch, a mount; and the promises that a mount could break.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use xdrive::drive::pools::{Offer, Pool, Score, image_of};
use xdrive::drive::reconcile::Placement;
use xdrive::drive::tags::Settings;
use xdrive::drive::{Client, Contact, HostError, HostView, Hosts, Prepared, Wanted};
use xdrive::ec2::{Arch, AttachmentState, Ec2, Instance, InstanceState, InstanceType, Market};
use xdrive::host::{Closed, MountOrder, Mounted};
use xdrive::ids::{SessionId, SnapshotId, Uuid, VolumeId};
use xdrive::local::Local;
use xdrive::local::plane::PaperSuperblock;

use super::{Content, Hidden, World, drive};

/// How long a host waits for a volume that is being attached, and how often it checks.
const DEVICE: Duration = Duration::from_secs(15);
const AGAIN: Duration = Duration::from_millis(50);

/// The hosts of one process, whose end releases its locks.
pub struct PaperHosts {
    process: u32,
    hidden: Arc<Mutex<Hidden>>,
    truth: Ec2,
    /// The EC2 from whose snapshots superblocks are read back, if any.
    sheets: Option<Local>,
}

impl PaperHosts {
    pub fn new(world: &World, process: u32) -> Self {
        let sheets = Some(world.local.clone());
        Self::of_cloud(process, &world.hidden, &world.truth, sheets)
    }

    /// The hosts of another cloud.
    pub fn of_cloud(
        process: u32,
        hidden: &Arc<Mutex<Hidden>>,
        truth: &Ec2,
        sheets: Option<Local>,
    ) -> Self {
        Self {
            process,
            hidden: Arc::clone(hidden),
            truth: truth.clone(),
            sheets,
        }
    }

    fn put(&self, volume: &str, sheet: PaperSuperblock) {
        if let Some(sheets) = &self.sheets {
            sheets.write(volume, sheet).unwrap();
        }
    }

    /// Whether it runs and has booted, if that is known.
    async fn is_up(&self, host: &Instance) -> bool {
        let instance = self.truth.instance(&host.id).await.unwrap();
        let is_running = instance.is_some_and(|instance| instance.state == InstanceState::Running);
        let has_booted = || match &self.sheets {
            Some(local) => local.has_booted(host.id.as_str()).unwrap(),
            None => true,
        };
        is_running && has_booted()
    }

    async fn reach(&self, host: &Instance) -> Result<(), HostError> {
        if self.is_up(host).await {
            Ok(())
        } else {
            Err(HostError::Unreachable("it is off".into()))
        }
    }

    /// The source of the volume, and whether it is plugged in, which this waits for as a real host
    /// does.
    async fn device(&self, host: &Instance, order: &MountOrder) -> (Option<SnapshotId>, bool) {
        let mut waited = Duration::ZERO;
        loop {
            let volume = self.truth.volume(&order.volume).await.unwrap();
            let source = volume.as_ref().and_then(|volume| volume.snapshot.clone());
            let attachment = volume.and_then(|volume| volume.attachment);
            let here = attachment.filter(|attachment| attachment.instance == host.id);
            let state = here.map(|attachment| attachment.state);
            if state != Some(AttachmentState::Attaching) || waited >= DEVICE {
                return (source, state == Some(AttachmentState::Attached));
            }
            tokio::time::sleep(AGAIN).await;
            waited += AGAIN;
        }
    }

    fn held(&self, host: &Instance) -> Result<(), HostError> {
        let hidden = self.hidden.lock().unwrap();
        let state = hidden.hosts.get(host.id.as_str());
        match state.and_then(|state| state.client) {
            Some(client) if client == self.process => Ok(()),
            _ => Err(HostError::Failed("the client lock is not held".into())),
        }
    }
}

impl Drop for PaperHosts {
    fn drop(&mut self) {
        for host in self.hidden.lock().unwrap().hosts.values_mut() {
            if host.client == Some(self.process) {
                host.client = None;
            }
        }
    }
}

impl Hosts for PaperHosts {
    async fn prepare(&mut self, _: &SessionId) -> Result<Prepared, HostError> {
        Ok(Prepared {
            user_data: b"#!/bin/sh\n".to_vec(),
            host_key: "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPaper".into(),
            first_sign: Duration::from_mins(30),
            groups: Vec::new(),
        })
    }

    async fn contact(&mut self, host: &Instance) -> Contact {
        if !self.is_up(host).await {
            return Contact::Unreachable;
        }
        let mut hidden = self.hidden.lock().unwrap();
        let state = hidden.hosts.entry(host.id.to_string()).or_default();
        let client = match state.client {
            None => Client::Nobody,
            Some(client) if client == self.process => Client::Me,
            Some(client) => Client::Other {
                owner: format!("process {client}"),
                since: "2026-01-01T00:00:00Z".into(),
            },
        };
        let mounted = match &state.mounted {
            None => Mounted::Nothing,
            Some(volume) => Mounted::Volume(volume.parse().unwrap()),
        };
        Contact::Reached(HostView {
            client,
            guests: 0,
            closing: state.closed_by.is_some(),
            noticed: false,
            mounted,
            unmounted: state
                .unmounted
                .as_ref()
                .map(|volume| volume.parse().unwrap()),
        })
    }

    async fn claim(
        &mut self,
        host: &Instance,
        _: &SessionId,
        _: &str,
        _: Duration,
    ) -> Result<(), HostError> {
        self.reach(host).await?;
        let mut hidden = self.hidden.lock().unwrap();
        let state = hidden.hosts.entry(host.id.to_string()).or_default();
        match state.client {
            Some(client) if client != self.process => Err(HostError::Busy {
                owner: format!("process {client}"),
                since: "2026-01-01T00:00:00Z".into(),
            }),
            // As on a real host: a closing one accepts no client.
            _ if state.closed_by.is_some() => Ok(()),
            _ => {
                state.client = Some(self.process);
                Ok(())
            }
        }
    }

    async fn mount(&mut self, host: &Instance, order: &MountOrder) -> Result<Uuid, HostError> {
        self.reach(host).await?;
        self.held(host)?;
        let (source, here) = self.device(host, order).await;
        let live: Vec<String> = self
            .truth
            .instances(&drive())
            .await
            .unwrap()
            .into_iter()
            .filter(|instance| instance.state == InstanceState::Running)
            .map(|instance| instance.id.to_string())
            .collect();
        let mut hidden = self.hidden.lock().unwrap();
        let hidden = &mut *hidden;
        let state = hidden.hosts.entry(host.id.to_string()).or_default();
        if state.closed_by.is_some() {
            return Err(HostError::Closing("a client asked".into()));
        }
        if !here {
            return Err(HostError::Failed(format!(
                "{} is not attached",
                order.volume
            )));
        }
        let source = source.and_then(|source| hidden.contents.get(source.as_str()).cloned());
        let content = hidden
            .contents
            .entry(order.volume.to_string())
            .or_insert(source.unwrap_or_default());
        if !content.formatted {
            if !order.blank {
                return Err(HostError::Damaged("it is blank".into()));
            }
            *content = Content {
                formatted: true,
                uuid: uuid_of(&order.volume),
                ..Content::default()
            };
        } else if order.blank && !content.notes.is_empty() {
            hidden.broken.push(format!(
                "P5: {} may be formatted, and is in use",
                order.volume
            ));
        }
        let uuid = content.uuid;
        if order
            .uuid
            .is_some_and(|recorded| recorded.into_bytes() != uuid)
        {
            return Err(HostError::Damaged("it is another drive's".into()));
        }
        for note in hidden.acknowledged.difference(&content.notes) {
            hidden.broken.push(format!(
                "P3: {} is mounted without note {note}",
                order.volume
            ));
        }
        for note in hidden.discarded.intersection(&content.notes) {
            hidden.broken.push(format!(
                "P1: {} is mounted with note {note}, which was discarded",
                order.volume
            ));
        }
        for (other, state) in &hidden.hosts {
            let is_live = other != host.id.as_str() && live.contains(other);
            if let Some(volume) = &state.mounted
                && is_live
            {
                hidden.broken.push(format!(
                    "P3: {} is mounted on {} while {volume} is mounted on {other}",
                    order.volume, host.id
                ));
            }
        }
        let state = hidden.hosts.entry(host.id.to_string()).or_default();
        state.mounted = Some(order.volume.to_string());
        self.put(order.volume.as_str(), PaperSuperblock::mounted(uuid));
        Ok(Uuid::from_bytes(uuid))
    }

    async fn sync(&mut self, host: &Instance) -> Result<(), HostError> {
        self.reach(host).await?;
        self.held(host)
    }

    async fn close(&mut self, host: &Instance) -> Result<Closed, HostError> {
        self.reach(host).await?;
        let mut hidden = self.hidden.lock().unwrap();
        let hidden = &mut *hidden;
        let state = hidden.hosts.entry(host.id.to_string()).or_default();
        state.closed_by.get_or_insert(self.process);
        if let Some(volume) = state.mounted.take() {
            let uuid = hidden.contents.get(&volume).unwrap().uuid;
            self.put(&volume, PaperSuperblock::clean(uuid));
            state.unmounted = Some(volume);
        }
        Ok(match state.unmounted {
            Some(_) => Closed::Unmounted,
            None => Closed::NotMounted,
        })
    }

    fn release(&mut self, host: &Instance) {
        let mut hidden = self.hidden.lock().unwrap();
        if let Some(state) = hidden.hosts.get_mut(host.id.as_str())
            && state.client == Some(self.process)
        {
            state.client = None;
        }
    }
}

/// The UUID of a format: the volume's id makes it unique.
fn uuid_of(volume: &VolumeId) -> [u8; 16] {
    let mut uuid = [b'-'; 16];
    let id = volume.as_str().as_bytes();
    let end = &id[id.len().saturating_sub(16)..];
    uuid[..end.len()].copy_from_slice(end);
    uuid
}

/// The launch of every session on paper: one pool, whose type and image any EC2 knows.
pub fn wanted(market: Market) -> Wanted {
    Wanted {
        offers: vec![Offer {
            pool: Pool {
                instance_type: "t3.medium".to_owned(),
                zone: None,
                market,
                image: image_of(Arch::X86_64, false).to_owned(),
                max_price: None,
                reservation: None,
            },
            score: Score::default(),
            kind: InstanceType {
                name: "t3.medium".to_owned(),
                cpus: 2,
                memory: 4096,
                gpus: 0,
                part_of_gpu: false,
                has_accelerator: false,
                is_neuron: false,
                arch: Arch::X86_64,
                burstable: true,
                free_tier: false,
                spot: true,
                on_demand: true,
            },
            price: None,
        }],
        size: 2,
        lease: Duration::from_mins(15),
        settings: Settings::default(),
        new_settings: Settings::default(),
        note: None,
        placement: Placement::default(),
    }
}
