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

use xdrive::ec2::{LaunchOrder, Tags, VolumeOrder, Zone};
use xdrive::ids::DriveName;

use harness::cloud;

const DRIVE: &str = "demo";
const ZONE: &str = "us-east-1b";
const DEVICE: &str = "/dev/sdf";

/// The name of the drive that everything here is tagged with.
fn drive() -> DriveName {
    DRIVE.parse().unwrap()
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
