//! Every call that xdrive makes, to both clouds, with each one's answer.
//!
//! Equal answers are plain assertions. Where the two disagree [`Cloud::differ`] has each one's
//! answer and whom AWS agrees with, so that a corrected moto is noticed.

use std::time::Duration;
use xdrive::ec2::{
    Arch, AttachmentState, Ec2, Error, Instance, InstanceState, Kind, LaunchOrder, Market,
    Snapshot, SnapshotState, StatusChecks, Tags, Volume, VolumeOrder, VolumeState, Zone,
};
use xdrive::local::Settings;

use super::server::against_moto;
use crate::folder::Folder;
use harness::cloud::launch_order;
use harness::evidence::{may_delete, may_prune, may_terminate};

const DRIVE: &str = "demo";
const DEVICE: &str = "/dev/sdf";
const KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGzkzPnFOFnjZZhLyH2jMr4cPgYbNUMoMcpVLkz0Qxyl x";

/// The cloud that answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    Moto,
    Folder,
}

/// A cloud of the two that are compared.
struct Cloud {
    who: Who,
    ec2: Ec2,
}

#[test]
#[ignore = "needs python3 with moto"]
fn moto_answers_every_call() {
    against_moto(test_name!(moto_answers_every_call), async |ec2| {
        let who = Who::Moto;
        Cloud { who, ec2 }.answers_every_call().await;
    });
}

#[tokio::test]
async fn the_folder_answers_every_call_alike() {
    let folder = Folder::in_real_time(Settings::default());
    let (who, ec2) = (Who::Folder, folder.ec2.clone());
    Cloud { who, ec2 }.answers_every_call().await;
}

impl Cloud {
    async fn answers_every_call(&self) {
        assert!(!self.ec2.is_aws());
        assert!(self.ec2.owner().await.unwrap().starts_with("arn:aws:"));
        self.sells().await;
        let host = self.launches().await;
        let volume = self.makes_volumes(&host).await;
        self.tags(&volume).await;
        self.attaches(&host, &volume).await;
        let snapshot = self.makes_snapshots(&volume).await;
        self.looks_into(&snapshot).await;
        self.answers_about(&host).await;
        self.detaches_and_deletes(&host, &volume, &snapshot).await;
        self.terminates(&host).await;
        self.attaches_once().await;
    }

    /// Checks an answer in which the two differ. `right` is whom AWS agrees with, by the page in
    /// `why`.
    #[track_caller]
    fn differ<T: std::fmt::Debug + PartialEq>(
        &self,
        got: &T,
        (moto, folder): (&T, &T),
        right: Who,
        why: &str,
    ) {
        assert_ne!(moto, folder, "nothing to disagree about");
        let expected = match self.who {
            Who::Moto => moto,
            Who::Folder => folder,
        };
        let who = self.who;
        assert_eq!(got, expected, "{who:?}; AWS agrees with {right:?}: {why}");
    }

    /// Types and their prices.
    async fn sells(&self) {
        let owned = |names: &[&str]| {
            names
                .iter()
                .map(|&name| name.to_owned())
                .collect::<Vec<_>>()
        };
        let names = owned(&["g5g.xlarge", "t3.medium"]);
        let mut types = self.ec2.instance_types(&names).await.unwrap();
        types.sort_by(|one, other| one.name.cmp(&other.name));
        let seen: Vec<_> = types
            .iter()
            .map(|sold| (&*sold.name, sold.cpus, sold.memory, sold.gpus, sold.arch))
            .collect();
        let expected = [
            ("g5g.xlarge", 4, 8 * 1024, 1, Arch::Arm64),
            ("t3.medium", 2, 4 * 1024, 0, Arch::X86_64),
        ];
        assert_eq!(seen, expected);
        let unknown = self.ec2.instance_types(&owned(&["t3.medum"])).await;
        assert_eq!(unknown.unwrap_err().code, "InvalidInstanceType");
        let near = self.ec2.instance_types_like("t3.*").await.unwrap();
        assert!(near.len() > 3 && near.iter().all(|kind| kind.name.starts_with("t3.")));
        let arm = self
            .ec2
            .instance_types_for(Market::Spot, &[Arch::Arm64], false);
        let arm = arm.await.unwrap();
        assert!(!arm.is_empty() && arm.iter().all(|kind| kind.arch == Arch::Arm64));
        assert!(arm.iter().all(|kind| !kind.burstable), "{arm:?}");
        let free = self
            .ec2
            .instance_types_for(Market::OnDemand, &Arch::ALL, true);
        let free = free.await.unwrap();
        let mut free: Vec<&str> = free.iter().map(|kind| &*kind.name).collect();
        free.sort_unstable();
        let listed = ["c7i-flex.large", "m7i-flex.large", "t3.micro", "t3.small"];
        assert_eq!(free, [&listed[..], &["t4g.micro", "t4g.small"]].concat());
        let part = self.ec2.instance_types(&owned(&["g6f.large"])).await;
        let part = part.unwrap().remove(0);
        assert_eq!(
            (part.gpus, part.part_of_gpu, part.has_accelerator),
            (0, true, true)
        );
        assert!(part.needs_driver());
        let prices = self.ec2.spot_prices(&names).await.unwrap();
        for name in &names {
            let zones = prices.iter().filter(|price| price.instance_type == *name);
            assert!(zones.count() > 1, "{prices:?}");
        }
    }

    /// The last check, as moto's instance does not recover from it.
    async fn attaches_once(&self) {
        let host = self.ec2.launch(&launch("launch-2")).await.unwrap();
        let host = self.until_running(&host).await;
        let made = self.ec2.create_volume(&order("volume-4", &host.zone)).await;
        let volume = self.until_available(&made.unwrap()).await;
        let (id, to) = (&volume.id, &host.id);
        self.ec2.attach(id, to, DEVICE).await.unwrap();
        let twice = self.ec2.attach(id, to, "/dev/sdg").await;
        self.differ(
            &kind(&twice),
            (&None, &Some(Kind::State)),
            Who::Folder,
            "VolumeInUse: a volume is attached once (EC2 API reference, Error codes)",
        );
        if self.who == Who::Folder {
            return;
        }
        // moto keeps the first device in its record, and cannot terminate an instance with a
        // deleted volume. That answer is about the volume, and the instance runs on: it is no
        // success.
        self.ec2.detach(id, to).await.unwrap();
        self.ec2.delete_volume(may_delete(id)).await.unwrap();
        let failed = self.ec2.terminate(may_terminate(to)).await.unwrap_err();
        assert_eq!(failed.code, "InvalidVolume.NotFound");
    }

    async fn launches(&self) -> Instance {
        let order = launch("launch-1");
        let made = self.ec2.launch(&order).await.unwrap();
        assert_eq!(made.instance_type, "t3.medium");
        assert_eq!(made.tags["xdrive:drive"], DRIVE);
        assert_eq!(made.market, Market::Spot);

        let again = self.ec2.launch(&order).await.unwrap();
        self.differ(
            &(again.id == made.id),
            (&false, &true),
            Who::Folder,
            "a client token's instance is launched once (EC2 API reference, \
             Ensuring idempotency)",
        );
        if again.id != made.id {
            self.ec2.terminate(may_terminate(&again.id)).await.unwrap();
        }
        let running = self.until_running(&made).await;
        let listed = self.ec2.instances(&DRIVE.parse().unwrap()).await.unwrap();
        assert!(listed.iter().any(|instance| instance.id == made.id));
        let nobody = "i-0123456789abcdef0".parse().unwrap();
        assert_eq!(self.ec2.instance(&nobody).await.unwrap(), None);
        running
    }

    async fn until_running(&self, made: &Instance) -> Instance {
        for _ in 0..200 {
            let seen = self.ec2.instance(&made.id).await.unwrap().unwrap();
            if seen.state == InstanceState::Running {
                return seen;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("{} never runs", made.id);
    }

    async fn makes_volumes(&self, host: &Instance) -> Volume {
        let order = order("volume-1", &host.zone);
        let made = self.ec2.create_volume(&order).await.unwrap();
        assert_eq!((made.size, &made.snapshot), (2, &None));
        assert_eq!(made.zone, host.zone);
        let again = self.ec2.create_volume(&order).await.unwrap();
        self.differ(
            &(again.id == made.id),
            (&false, &true),
            Who::Folder,
            "a client token's volume is made once (EC2 API reference, Ensuring idempotency)",
        );
        if again.id != made.id {
            self.ec2.delete_volume(may_delete(&again.id)).await.unwrap();
        }
        let nowhere = VolumeOrder {
            client_token: "volume-2".to_owned(),
            zone: Zone("us-east-1z".to_owned()),
            tags: tags(&[("xdrive:drive", "nowhere")]),
            ..order.clone()
        };
        let refused = self.ec2.create_volume(&nowhere).await;
        self.differ(
            &kind(&refused),
            (&Some(Kind::Ambiguous), &Some(Kind::Invalid)),
            Who::Folder,
            "a zone that is not there is refused; moto makes a volume in none (EC2 API reference, \
             Error codes: InvalidZone.NotFound)",
        );
        let unknown = VolumeOrder {
            client_token: "volume-3".to_owned(),
            snapshot: Some("snap-0123456789abcdef0".parse().unwrap()),
            ..order
        };
        let refused = self.ec2.create_volume(&unknown).await.unwrap_err();
        assert_eq!(refused.kind, Kind::NotFound, "{refused}");
        let seen = self.until_available(&made).await;
        let listed = self.ec2.volumes(&DRIVE.parse().unwrap()).await.unwrap();
        assert!(listed.iter().any(|volume| volume.id == made.id));
        seen
    }

    async fn until_available(&self, made: &Volume) -> Volume {
        for _ in 0..200 {
            let seen = self.ec2.volume(&made.id).await.unwrap().unwrap();
            if seen.state == VolumeState::Available {
                return seen;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("{} is never available", made.id);
    }

    async fn tags(&self, volume: &Volume) {
        let own = tags(&[("xdrive:generation", "1")]);
        self.ec2.tag(volume.id.as_str(), &own).await.unwrap();
        let seen = self.ec2.volume(&volume.id).await.unwrap().unwrap();
        assert_eq!(seen.tags["xdrive:generation"], "1");
        assert_eq!(seen.tags["Name"], DRIVE, "the others stay");
        let gone = self.ec2.tag("vol-0123456789abcdef0", &own).await;
        assert_eq!(kind(&gone), Some(Kind::NotFound), "{gone:?}");
    }

    async fn attaches(&self, host: &Instance, volume: &Volume) {
        let (id, to) = (&volume.id, &host.id);
        self.ec2.attach(id, to, DEVICE).await.unwrap();
        let seen = self.until_attached(volume).await;
        let attachment = seen.attachment.unwrap();
        assert_eq!((&attachment.instance, &*attachment.device), (to, DEVICE));
        assert!(!attachment.delete_on_termination);
        self.ec2.keep_on_termination(to, DEVICE).await.unwrap();

        let busy = self.ec2.delete_volume(may_delete(id)).await;
        assert_eq!(kind(&busy), Some(Kind::State), "{busy:?}");
    }

    async fn until_attached(&self, volume: &Volume) -> Volume {
        for _ in 0..200 {
            let seen = self.ec2.volume(&volume.id).await.unwrap().unwrap();
            let state = seen.attachment.as_ref().map(|attachment| attachment.state);
            if state == Some(AttachmentState::Attached) {
                return seen;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("{} is never attached", volume.id);
    }

    async fn makes_snapshots(&self, volume: &Volume) -> Snapshot {
        let own = tags(&[("xdrive:drive", DRIVE), ("xdrive:op", "op-1")]);
        let made = self.ec2.create_snapshot(&volume.id, &own).await.unwrap();
        assert_eq!(made.volume.as_ref(), Some(&volume.id));
        assert_eq!(made.tags["xdrive:op"], "op-1");
        let of_nothing = "vol-0123456789abcdef0".parse().unwrap();
        let refused = self.ec2.create_snapshot(&of_nothing, &own).await;
        assert_eq!(kind(&refused), Some(Kind::NotFound), "{refused:?}");
        for _ in 0..200 {
            let seen = self.ec2.snapshot(&made.id).await.unwrap().unwrap();
            if seen.state == SnapshotState::Completed {
                let listed = self.ec2.snapshots(&DRIVE.parse().unwrap()).await.unwrap();
                assert_eq!(listed.len(), 1, "nobody else's: {listed:?}");
                return seen;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("{} is never completed", made.id);
    }

    async fn looks_into(&self, snapshot: &Snapshot) {
        let block = self.ec2.snapshot_block(&snapshot.id, 0).await;
        self.differ(
            &kind(&block),
            (&Some(Kind::Invalid), &None),
            Who::Folder,
            "moto has no EBS direct APIs (EBS direct APIs reference, ListSnapshotBlocks), and the proxy \
             before it says so at once",
        );
    }

    async fn answers_about(&self, host: &Instance) {
        let price = self.ec2.spot_price(&host.instance_type, &host.zone).await;
        assert!(price.unwrap().is_some_and(|dollars| dollars > 0.0));
        self.ec2.console(&host.id).await.unwrap();
        let status = self.ec2.spot_status(&host.id).await.unwrap();
        self.differ(
            &status.map(|status| status.code),
            (&None, &Some("fulfilled".to_owned())),
            Who::Folder,
            "a spot instance has a request (EC2 user guide, Spot request status)",
        );
        let mut checks = self.ec2.status_checks(&host.id).await.unwrap();
        // Moto's pass at once.
        while checks.is_some_and(StatusChecks::are_initializing) {
            tokio::time::sleep(Duration::from_millis(50)).await;
            checks = self.ec2.status_checks(&host.id).await.unwrap();
        }
        let words = checks.map(|checks| checks.to_string());
        assert_eq!(words.as_deref(), Some("system ok, instance ok"));
        let user = "ec2-user";
        let sent = self.ec2.send_ssh_key(&host.id, &host.zone, user, KEY);
        sent.await.unwrap();
    }

    async fn detaches_and_deletes(&self, host: &Instance, volume: &Volume, snapshot: &Snapshot) {
        self.ec2.detach(&volume.id, &host.id).await.unwrap();
        self.until_available(volume).await;
        let again = self.ec2.detach(&volume.id, &host.id).await;
        self.differ(
            &kind(&again),
            (&Some(Kind::NotFound), &Some(Kind::State)),
            Who::Folder,
            "IncorrectState: the volume is available (EC2 API reference, Error codes)",
        );
        self.ec2
            .delete_volume(may_delete(&volume.id))
            .await
            .unwrap();
        self.ec2
            .delete_volume(may_delete(&volume.id))
            .await
            .unwrap();
        self.ec2
            .delete_snapshot(may_prune(&snapshot.id))
            .await
            .unwrap();
        self.ec2
            .delete_snapshot(may_prune(&snapshot.id))
            .await
            .unwrap();
        // A read by id may be a moment old.
        for _ in 0..200 {
            if self.ec2.snapshot(&snapshot.id).await.unwrap().is_none() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("{} is never gone", snapshot.id);
    }

    async fn terminates(&self, host: &Instance) {
        self.ec2.terminate(may_terminate(&host.id)).await.unwrap();
        self.ec2.terminate(may_terminate(&host.id)).await.unwrap();
        let nobody = "i-0123456789abcdef0".parse().unwrap();
        self.ec2.terminate(may_terminate(&nobody)).await.unwrap();
        let seen = self.ec2.instance(&host.id).await.unwrap().unwrap();
        let gone = [InstanceState::ShuttingDown, InstanceState::Terminated];
        assert!(gone.contains(&seen.state), "{seen:?}");
    }
}

pub(super) fn launch(token: &str) -> LaunchOrder {
    LaunchOrder {
        tags: tags(&[("Name", DRIVE), ("xdrive:drive", DRIVE)]),
        root_tags: tags(&[
            ("Name", DRIVE),
            ("xdrive:drive", DRIVE),
            ("xdrive:root", ""),
        ]),
        ..launch_order(token)
    }
}

fn order(token: &str, zone: &Zone) -> VolumeOrder {
    VolumeOrder {
        client_token: token.to_owned(),
        zone: zone.clone(),
        size: 2,
        snapshot: None,
        speed: xdrive::ec2::Speed::default(),
        tags: tags(&[("Name", DRIVE), ("xdrive:drive", DRIVE)]),
    }
}

fn kind<T>(answer: &Result<T, Error>) -> Option<Kind> {
    answer.as_ref().err().map(|error| error.kind)
}

fn tags(pairs: &[(&str, &str)]) -> Tags {
    pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}
