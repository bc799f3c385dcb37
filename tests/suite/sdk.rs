//! Every call of `Ec2`, through the real SDK, against a paper EC2: the SDK's own parser is the
//! judge of what the wire writes.

mod blocks;
mod errors;
mod experiments;
mod groups;
mod life;
mod lists;
mod spot;
mod types;

use std::time::Duration;

use tempfile::TempDir;
use xdrive::clock::Clock;
use xdrive::cloud::folder;
use xdrive::ec2::{Ec2, LaunchOrder, Tags, VolumeOrder, Zone};
use xdrive::ids::DriveName;
use xdrive::local::plane::PaperPlane;
use xdrive::local::{Local, OpenOptions, Preset, Settings};

use harness::cloud;
use harness::faults::connector::FaultConnector;

/// A paper EC2 in an empty folder, and a client with a fault connector to it.
struct Scene {
    _dir: TempDir,
    local: Local,
    connector: FaultConnector,
    ec2: Ec2,
}

const DRIVE: &str = "demo";
const ZONE: &str = "us-east-1b";
const DEVICE: &str = "/dev/sdf";

/// The name of the drive that everything here is tagged with.
fn drive() -> DriveName {
    DRIVE.parse().unwrap()
}

impl Scene {
    fn new(delays: Preset) -> Self {
        Self::with(Settings {
            delays: Some(delays),
            ..Settings::default()
        })
    }

    fn without_default_vpc() -> Self {
        Self::with(Settings {
            default_vpc: Some(false),
            ..Settings::default()
        })
    }

    fn with(settings: Settings) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let local = open(&dir, settings);
        let connector = FaultConnector::new(local.clone());
        let ec2 = folder::ec2_through(&local, connector.client());
        Self {
            _dir: dir,
            local,
            connector,
            ec2,
        }
    }
}

/// Polls `look` until it finds something; ten virtual minutes at most.
async fn until<T>(what: &str, look: impl AsyncFn() -> Option<T>) -> T {
    for _ in 0..6000 {
        if let Some(found) = look().await {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("never: {what}");
}

fn open(dir: &TempDir, settings: Settings) -> Local {
    let epoch = "2026-11-21T12:00:00Z".parse().unwrap();
    let mut options = OpenOptions::new(dir.path(), PaperPlane, Clock::tokio(epoch));
    options.settings = settings;
    Local::open(options).unwrap()
}

fn tags(of: &[(&str, &str)]) -> Tags {
    let drive = [("xdrive:drive", DRIVE), ("Name", DRIVE)];
    drive
        .iter()
        .chain(of)
        .map(|&(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

fn launch_order(token: &str) -> LaunchOrder {
    LaunchOrder {
        zone: Some(Zone(ZONE.to_owned())),
        tags: tags(&[("xdrive:session", "s1")]),
        root_tags: tags(&[("xdrive:root", "yes")]),
        ..cloud::launch_order(token)
    }
}

fn volume_order(token: &str) -> VolumeOrder {
    VolumeOrder {
        client_token: token.to_owned(),
        zone: Zone(ZONE.to_owned()),
        size: 8,
        snapshot: None,
        speed: xdrive::ec2::Speed::default(),
        tags: tags(&[("xdrive:blank", "yes")]),
    }
}
