//! The drive's own settings: tags that travel with its volumes and snapshots. Those of the account's own,
//! such as a cost centre, travel with them.

use std::collections::BTreeMap;
use std::str::FromStr;

use crate::ec2::{Arch, HostAddress, InvalidOpenPort, OpenPort, Speed, Tags};
use crate::host::shares::{InvalidShared, Shared};
use crate::ids::{ImageReference, InvalidId};

use super::super::pools::Requirements;
use super::{AMI, ARCH, NAME, SCRATCH, Unreadable};

/// The container image: a registry's, or [`FILE`].
const IMAGE: &str = "xdrive:image";

/// In place of an image that was a file of the computer where it was named: that of another one is
/// none of this computer's, and its path nobody else's business.
const FILE: &str = "@file";

/// The keys of the drive's own settings: those that are chosen, then those that follow.
const SETTINGS: [&str; 13] = [
    IMAGE,
    "xdrive:type",
    "xdrive:size",
    THROUGHPUT,
    IOPS,
    WARM,
    ARCH,
    AMI,
    SCRATCH,
    FREEZE,
    SHARES,
    INGRESS,
    ADDRESS,
];

/// Whether what begins on the drive may be frozen: `yes` or `no`.
const FREEZE: &str = "xdrive:freeze";

/// The shares of its containers, separated by commas; [`NONE`] for none.
const SHARES: &str = "xdrive:shares";

/// The ports of its host that others may reach, separated by commas; [`NONE`] for none.
const INGRESS: &str = "xdrive:ingress";

/// The public address that its hosts have: the id of an Elastic IP address, or `none`.
pub(super) const ADDRESS: &str = "xdrive:address";

/// The value of a list that is empty.
const NONE: &str = "none";

/// The speed of the drive's volumes, and the rate at which they are filled from its snapshots.
const THROUGHPUT: &str = "xdrive:throughput";
const IOPS: &str = "xdrive:iops";
const WARM: &str = "xdrive:warm";

/// The most tags of the account's own that are carried on: AWS allows 50 on a resource (EC2 user guide,
/// *Tag restrictions*), and a volume or snapshot has at most 37 of xdrive's.
pub const OWN_MOST: usize = 13;

/// Whether a tag is the account's own: neither xdrive's nor AWS's.
fn is_own(key: &str) -> bool {
    key != NAME && !key.starts_with("xdrive:") && !key.starts_with("aws:")
}

/// The drive's own settings (`image`, `type`, `size`, speed) and its architecture, by tag, and the
/// tags of the account's own. Its volumes and snapshots carry them, so that another laptop needs no
/// flags.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings(BTreeMap<String, String>);

impl Settings {
    /// The settings among `tags`.
    #[must_use]
    pub fn read(tags: &Tags) -> Self {
        let is_kept =
            |(key, _): &(&String, &String)| SETTINGS.contains(&key.as_str()) || is_own(key);
        let kept = tags.iter().filter(is_kept);
        let kept = kept.map(|(key, value)| match key.as_str() {
            IMAGE => (key.clone(), recorded(value)),
            _ => (key.clone(), value.clone()),
        });
        Self(kept.collect()).with_own(&Tags::new())
    }

    /// Adds tags of the account's own. Others stay only as far as there is room.
    #[must_use]
    pub fn with_own(mut self, own: &Tags) -> Self {
        self.0.extend(own.clone());
        let kept = self
            .0
            .keys()
            .filter(|key| is_own(key) && !own.contains_key(*key));
        let room = OWN_MOST.saturating_sub(own.len());
        let beyond: Vec<String> = kept.skip(room).cloned().collect();
        self.0.retain(|key, _| !beyond.contains(key));
        self
    }

    /// The tags of the account's own.
    #[must_use]
    pub fn own_tags(&self) -> Tags {
        let own = self.0.iter().filter(|(key, _)| is_own(key));
        own.map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    }

    /// Settings of the image, the requirements and the size in GiB, where they are the drive's own.
    /// Of an image that is a file no path is kept.
    #[must_use]
    pub fn new(
        image: Option<&str>,
        requirements: Option<&Requirements>,
        size: Option<u32>,
    ) -> Self {
        let values = [
            image.map(recorded),
            requirements.map(Requirements::to_string),
            size.map(|gib| gib.to_string()),
        ];
        Self(
            SETTINGS
                .into_iter()
                .zip(values)
                .filter_map(|(key, value)| Some((key.to_owned(), value?)))
                .collect(),
        )
    }

    /// Marks the settings as those of a scratch drive if `is_scratch`.
    #[must_use]
    pub fn scratch(mut self, is_scratch: bool) -> Self {
        if is_scratch {
            self.0.insert(SCRATCH.to_owned(), "yes".to_owned());
        }
        self
    }

    /// Adds a speed of the drive's own.
    #[must_use]
    pub fn with_speed(mut self, speed: Speed) -> Self {
        let values = [
            (THROUGHPUT, speed.throughput),
            (IOPS, speed.iops),
            (WARM, speed.warm),
        ];
        let values = values.into_iter();
        self.0
            .extend(values.filter_map(|(key, value)| Some((key.to_owned(), value?.to_string()))));
        self
    }

    /// Adds whether what begins may be frozen, where that is the drive's own.
    #[must_use]
    pub fn with_freezing(mut self, freezes: Option<bool>) -> Self {
        let value = freezes.map(|it| if it { "yes" } else { "no" });
        self.0
            .extend(value.map(|value| (FREEZE.to_owned(), value.to_owned())));
        self
    }

    /// Whether what begins may be frozen, if the drive says so.
    #[must_use]
    pub fn freezing(&self) -> Option<bool> {
        self.0.get(FREEZE).map(|value| value == "yes")
    }

    /// Adds the shares of its containers, where they are the drive's own.
    #[must_use]
    pub fn with_shares(mut self, shares: Option<&[Shared]>) -> Self {
        let value = shares.map(listed);
        self.0.extend(value.map(|value| (SHARES.to_owned(), value)));
        self
    }

    /// The shares of its containers, if the drive has its own.
    pub fn shares(&self) -> Result<Option<Vec<Shared>>, Unreadable> {
        self.list(SHARES)
            .map_err(|error: InvalidShared| Unreadable {
                tag: SHARES,
                problem: format!("has no share's name and place: {error}"),
            })
    }

    /// Adds the ports of its host that others may reach, where they are the drive's own.
    #[must_use]
    pub fn with_ingress(mut self, ports: Option<&[OpenPort]>) -> Self {
        let value = ports.map(listed);
        self.0
            .extend(value.map(|value| (INGRESS.to_owned(), value)));
        self
    }

    /// The ports of its host that others may reach, if the drive says so.
    pub fn ingress(&self) -> Result<Option<Vec<OpenPort>>, Unreadable> {
        self.list(INGRESS)
            .map_err(|error: InvalidOpenPort| Unreadable {
                tag: INGRESS,
                problem: format!("has no ports to open: {error}"),
            })
    }

    /// Adds the address that its hosts have, where it is the drive's own.
    #[must_use]
    pub fn with_address(mut self, address: Option<&HostAddress>) -> Self {
        let value = address.map(HostAddress::to_string);
        self.0
            .extend(value.map(|value| (ADDRESS.to_owned(), value)));
        self
    }

    /// The address that its hosts have, if the drive says so.
    pub fn address(&self) -> Result<Option<HostAddress>, Unreadable> {
        let text = self.0.get(ADDRESS);
        let address = text.map(|text| text.parse()).transpose();
        address.map_err(|error: InvalidId| Unreadable {
            tag: ADDRESS,
            problem: format!("has no address: {error}"),
        })
    }

    /// The values of a list, if the drive has one.
    fn list<T: FromStr>(&self, tag: &str) -> Result<Option<Vec<T>>, T::Err> {
        let text = self.0.get(tag);
        text.map(|text| match text.as_str() {
            NONE => Ok(Vec::new()),
            text => text.split(',').map(str::parse).collect(),
        })
        .transpose()
    }

    /// Merges two settings: a setting that is absent here is taken from `kept`.
    #[must_use]
    pub fn over(&self, kept: &Self) -> Self {
        let mut merged = kept.clone();
        merged.0.extend(self.0.clone());
        merged.with_own(&self.own_tags())
    }

    /// The container image, if the drive has its own. Whoever may tag may have written it: it is a
    /// registry's or none, never a file of this computer.
    pub fn image(&self) -> Result<Option<ImageReference>, Unreadable> {
        let text = self.0.get(IMAGE);
        text.map(|text| {
            text.parse().map_err(|_| Unreadable {
                tag: IMAGE,
                problem: "stands for a file of the computer where it was named, or for no image"
                    .to_owned(),
            })
        })
        .transpose()
    }

    /// The drive's own requirements of its instance, if it has some.
    pub fn requirements(&self) -> Result<Option<Requirements>, Unreadable> {
        let text = self.0.get(SETTINGS[1]);
        text.map(|text| {
            text.parse().map_err(|error| Unreadable {
                tag: SETTINGS[1],
                problem: format!("is {text:?}: {error}"),
            })
        })
        .transpose()
    }

    /// The speed of the drive's volumes.
    pub fn speed(&self) -> Result<Speed, Unreadable> {
        let read = |tag: &'static str| {
            let text = self.0.get(tag);
            text.map(|text| {
                text.parse().map_err(|_| Unreadable {
                    tag,
                    problem: format!("is {text:?}, which is no number"),
                })
            })
            .transpose()
        };
        Ok(Speed {
            iops: read(IOPS)?,
            throughput: read(THROUGHPUT)?,
            warm: read(WARM)?,
        })
    }

    /// The requested size in GiB, if any.
    #[must_use]
    pub fn size(&self) -> Option<u32> {
        self.0.get(SETTINGS[2])?.parse().ok()
    }

    /// The architecture of the programs on the drive, if that is recorded.
    pub fn arch(&self) -> Result<Option<Arch>, Unreadable> {
        let text = self.0.get(ARCH);
        text.map(|text| {
            text.parse()
                .map_err(|problem| Unreadable { tag: ARCH, problem })
        })
        .transpose()
    }

    /// The settings as tags.
    #[must_use]
    pub fn tags(&self) -> Tags {
        self.0.clone()
    }
}

/// The value of a tag for a list.
fn listed(values: &[impl ToString]) -> String {
    let words: Vec<String> = values.iter().map(ToString::to_string).collect();
    match &words[..] {
        [] => NONE.to_owned(),
        words => words.join(","),
    }
}

/// The value of [`IMAGE`] for an image.
fn recorded(image: &str) -> String {
    match image.parse::<ImageReference>() {
        Ok(reference) => reference.to_string(),
        Err(_) => FILE.to_owned(),
    }
}
