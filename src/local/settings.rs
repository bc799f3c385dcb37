//! The settings: `settings.toml` in the state directory, and what overrides it at opening.
//!
//! ```toml
//! region = "us-east-1"
//! plane = "real"          # or "paper"
//! delays = "fast"         # or "aws"
//! stale-lists-ms = 0      # how old the world is that lists show
//! stale-reads-ms = 0      # the same for reads by id
//! calls-take-ms = 0       # how long every answer takes
//! snapshots-take-ms = 60  # how long a snapshot is pending
//! checks-take-ms = 200    # how long after a boot an instance has passed its status checks
//! default-vpc = true      # whether launches that name no subnet have one
//! map-public-ip = true    # whether subnets give their instances a public address
//! internet-gateway = true # whether the VPC's routes lead to one
//! enforce-groups = true   # whether security groups hold for this computer too
//! limit-blocks = false    # whether the EBS direct APIs allow only so many calls a second
//! block-public-access = "off" # the mode of VPC Block Public Access, which subnets show
//! root-device = "/dev/xvda" # the name that images give to their root disk
//! instance-profiles = []  # the names of those that IAM would have, whose roles may do everything; or:
//! secondary-cidrs = []    # the VPC's address ranges besides its first
//! caller = "arn:aws:iam::000000000000:user/local"  # the caller that STS names
//! policy = "{…}"          # the caller's one IAM policy document; without one it may do everything
//! default-key = "arn:aws:kms:…" # the key of the account's own that encrypts new disks; else aws/ebs
//! spot-key-grant = true   # whether EC2's role for spot instances may use that key
//! control-policy = "{…}"  # what the account's organization forbids (a service control policy)
//! plan = "paid"           # or "free": launches only what the free tier has
//!
//! [instance-profiles.lab] # a profile, and its role of the same name
//! policy = "lab.json"     # its one policy document, a file in this directory
//!
//! [gpu]                   # of types with a GPU of NVIDIA's: what stands in for it
//! driver = "ready"        # or "late", "never", "failed", "hangs"; "real": this computer's own
//! seconds = 20            # how long a late one takes
//! on-bus = true           # whether the device is on the instance's bus
//! toolkit = true          # whether Docker knows NVIDIA's container toolkit
//!
//! [boots]                 # types that do not boot as soon as EC2 calls them running
//! "m5.4xlarge" = { seconds = 90 }               # but so long after that
//! "c5.4xlarge" = { seconds = 30, fails = true } # never: by then their status checks fail
//!
//! [quotas]                # vCPUs, by the code of the quota; no limit by default
//! L-3819A6DF = 0          # All G and VT Spot Instance Requests
//!
//! [volumes]               # those that are made from snapshots
//! lazy = true             # their blocks of 512 KiB come at their first touch, and they are no faster than they
//!                         # were asked to be; else all is there at once
//! median-ms = 30          # how long that takes
//! p99-ms = 150            # and for one in a hundred
//! at-once = 32            # how many come at once
//! mib-a-second = 100      # and how much of all together
//! ```
//!
//! The file is read at every opening and never written by xdrive.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::catalog;
use super::delays::{Delays, Preset};
use super::plane::{Gpu, Lazy};
use super::rights::Rights;

/// The data plane behind the API.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlaneKind {
    /// Machines and disks.
    #[default]
    Real,
    /// States only.
    Paper,
}

/// The account's plan (AWS Billing user guide, *Free Tier plans*).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Plan {
    /// The paid plan, which can launch every type.
    #[default]
    Paid,
    /// The free plan, which can launch the free tier's types only.
    Free,
}

/// How the instances of a type boot: a row of `[boots]` in `settings.toml`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Boots {
    /// How long after they are `running`, in seconds: large and metal types take minutes.
    pub seconds: u32,
    /// Whether they never boot: their instance status check fails after that time.
    pub fails: bool,
}

impl Boots {
    /// How long after it runs the machine boots: a year, if it never does.
    pub(super) fn after(self) -> Duration {
        const NEVER: Duration = Duration::from_hours(24 * 365);
        if self.fails {
            NEVER
        } else {
            Duration::from_secs(self.seconds.into())
        }
    }
}

/// The instance profiles that there are, by name: a list of names, or a table of the settings of each.
/// Each has a role of its own name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InstanceProfiles(BTreeMap<String, InstanceProfile>);

/// An instance profile: a row of `[instance-profiles]` in `settings.toml`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct InstanceProfile {
    /// The file of its role's one IAM policy document, from the state directory; by default the role
    /// may do everything.
    pub policy: Option<PathBuf>,
}

impl InstanceProfiles {
    /// Their names, each with its settings.
    pub fn iter(&self) -> impl Iterator<Item = (&String, &InstanceProfile)> {
        self.0.iter()
    }
}

impl<N: Into<String>> FromIterator<N> for InstanceProfiles {
    /// Profiles of these names, whose roles may do everything.
    fn from_iter<I: IntoIterator<Item = N>>(names: I) -> Self {
        let profiles = names.into_iter();
        Self(
            profiles
                .map(|name| (name.into(), InstanceProfile::default()))
                .collect(),
        )
    }
}

impl<'de> Deserialize<'de> for InstanceProfiles {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = InstanceProfiles;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("names of instance profiles, or a table of them")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, names: A) -> Result<Self::Value, A::Error> {
                let names = Vec::<String>::deserialize(SeqAccessDeserializer::new(names))?;
                Ok(names.into_iter().collect())
            }

            fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<Self::Value, A::Error> {
                BTreeMap::deserialize(MapAccessDeserializer::new(table)).map(InstanceProfiles)
            }
        }

        deserializer.deserialize_any(Either)
    }
}

/// Settings of one EC2 in a folder; `None` means the default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// The region's name; `us-east-1` by default.
    pub region: Option<String>,
    /// Paper or real; real by default.
    pub plane: Option<PlaneKind>,
    /// The table of delays; fast by default.
    pub delays: Option<Preset>,
    /// How stale lists are, in milliseconds; the table's by default.
    pub stale_lists_ms: Option<u64>,
    /// How stale reads by id are, in milliseconds; the table's by default.
    pub stale_reads_ms: Option<u64>,
    /// How long every answer takes, in milliseconds; the table's by default.
    pub calls_take_ms: Option<u64>,
    /// How long a snapshot is pending, in milliseconds; the table's by default.
    pub snapshots_take_ms: Option<u64>,
    /// How long an instance's status checks are `initializing` after it has booted, in
    /// milliseconds; the table's by default.
    pub checks_take_ms: Option<u64>,
    /// Whether there is a default VPC, as there is by default; an account's owner may delete it.
    pub default_vpc: Option<bool>,
    /// Whether subnets give public addresses to the instances launched in them
    /// (`MapPublicIpOnLaunch`); they do by default. On AWS other than default subnets do not.
    pub map_public_ip: Option<bool>,
    /// The mode of VPC Block Public Access, such as `block-ingress`; off by default. It shows in the
    /// subnets, and nothing here keeps anything out.
    pub block_public_access: Option<String>,
    /// Whether calls to the EBS direct APIs are limited as on AWS; they are not by default.
    pub limit_blocks: Option<bool>,
    /// Whether the VPC's route table leads to an internet gateway; it does by default.
    pub internet_gateway: Option<bool>,
    /// Whether security groups hold for this computer too; between instances they always do. By
    /// default it reaches all of them, as if by a VPN.
    pub enforce_groups: Option<bool>,
    /// The name of the root device of its images; `/dev/xvda` by default, as Amazon Linux has it.
    /// Debian and Ubuntu have another.
    pub root_device: Option<String>,
    /// The instance profiles that launches may give to instances; none by default.
    pub instance_profiles: Option<InstanceProfiles>,
    /// The IPv4 address ranges that the VPC has besides its first (VPC user guide, *VPC CIDR
    /// blocks*); none by default. Its subnets are in the first; a test makes peers in the others.
    pub secondary_cidrs: Option<Vec<String>>,
    /// The caller's ARN in STS's answers; a user's by default.
    pub caller: Option<String>,
    /// The caller's one IAM policy document, as JSON; by default it may do everything.
    pub policy: Option<String>,
    /// The ARN of the key of the account's own with which new disks are encrypted; by default
    /// `aws/ebs`, which is anybody's.
    pub default_key: Option<String>,
    /// Whether EC2's role for spot instances has a grant on that key, as it has by default; without
    /// one they end at birth.
    pub spot_key_grant: Option<bool>,
    /// The service control policy of the account's organization, of which only what denies counts.
    pub control_policy: Option<String>,
    /// The stand-in for NVIDIA's GPUs of types that have one; by default with a driver in the
    /// image. Nothing computes on it.
    pub gpu: Option<Gpu>,
    /// The account's plan; paid by default.
    pub plan: Option<Plan>,
    /// How the instances of a type boot, by its name; other types boot as soon as they run.
    pub boots: Option<BTreeMap<String, Boots>>,
    /// How many vCPUs may run at once, by the code of their quota; other quotas have no limit.
    pub quotas: Option<BTreeMap<String, u32>>,
    /// How the blocks of volumes come from their snapshots; by default all are there at once.
    pub volumes: Option<Lazy>,
}

impl Settings {
    /// Reads `settings.toml` in `dir`. Without a file all are defaults; a file with an error is an
    /// error.
    pub fn read(dir: &Path) -> anyhow::Result<Self> {
        let path = dir.join("settings.toml");
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self::default());
            }
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", path.display()));
            }
        };
        let settings: Self =
            toml::from_str(&text).with_context(|| format!("{} is not right", path.display()))?;
        if let Some(region) = &settings.region {
            catalog::check_region(region)?;
        }
        for cidr in settings.secondary_cidrs.iter().flatten() {
            catalog::check_cidr(cidr)?;
        }
        for name in settings.boots.iter().flat_map(BTreeMap::keys) {
            catalog::check_type(name)?;
        }
        for (name, _) in settings
            .instance_profiles
            .iter()
            .flat_map(InstanceProfiles::iter)
        {
            catalog::check_profile(name)?;
        }
        if let Some(caller) = &settings.caller {
            catalog::check_caller(caller)?;
        }
        Rights::read(
            settings.policy.as_deref(),
            settings.control_policy.as_deref(),
        )?;
        Ok(settings)
    }

    /// Merges two settings: a setting that is absent here is taken from `base`.
    #[must_use]
    pub fn over(self, base: Self) -> Self {
        Self {
            region: self.region.or(base.region),
            plane: self.plane.or(base.plane),
            delays: self.delays.or(base.delays),
            stale_lists_ms: self.stale_lists_ms.or(base.stale_lists_ms),
            stale_reads_ms: self.stale_reads_ms.or(base.stale_reads_ms),
            calls_take_ms: self.calls_take_ms.or(base.calls_take_ms),
            snapshots_take_ms: self.snapshots_take_ms.or(base.snapshots_take_ms),
            checks_take_ms: self.checks_take_ms.or(base.checks_take_ms),
            default_vpc: self.default_vpc.or(base.default_vpc),
            map_public_ip: self.map_public_ip.or(base.map_public_ip),
            internet_gateway: self.internet_gateway.or(base.internet_gateway),
            limit_blocks: self.limit_blocks.or(base.limit_blocks),
            block_public_access: self.block_public_access.or(base.block_public_access),
            enforce_groups: self.enforce_groups.or(base.enforce_groups),
            root_device: self.root_device.or(base.root_device),
            instance_profiles: self.instance_profiles.or(base.instance_profiles),
            secondary_cidrs: self.secondary_cidrs.or(base.secondary_cidrs),
            caller: self.caller.or(base.caller),
            policy: self.policy.or(base.policy),
            default_key: self.default_key.or(base.default_key),
            spot_key_grant: self.spot_key_grant.or(base.spot_key_grant),
            control_policy: self.control_policy.or(base.control_policy),
            gpu: self.gpu.or(base.gpu),
            plan: self.plan.or(base.plan),
            boots: self.boots.or(base.boots),
            quotas: self.quotas.or(base.quotas),
            volumes: self.volumes.or(base.volumes),
        }
    }

    /// The table of delays: the preset, and the settings that override it.
    #[must_use]
    pub fn table(&self) -> Delays {
        let mut delays = Delays::new(self.delays.unwrap_or_default());
        if let Some(ms) = self.stale_lists_ms {
            delays.stale_lists = Duration::from_millis(ms);
        }
        if let Some(ms) = self.stale_reads_ms {
            delays.stale_reads = Duration::from_millis(ms);
        }
        if let Some(ms) = self.snapshots_take_ms {
            delays.completed = Duration::from_millis(ms);
        }
        if let Some(ms) = self.calls_take_ms {
            delays.call = Duration::from_millis(ms);
        }
        if let Some(ms) = self.checks_take_ms {
            delays.checks = Duration::from_millis(ms);
        }
        delays
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_setting_is_an_error_that_names_the_file() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("settings.toml"), "delay = \"aws\"").unwrap();
        let error = format!("{:#}", Settings::read(dir.path()).unwrap_err());
        assert!(
            error.contains("settings.toml") && error.contains("delay"),
            "{error}"
        );
    }

    #[test]
    fn instance_profiles_are_names_or_a_table_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("settings.toml");
        let read = |text: &str| {
            std::fs::write(&file, text).unwrap();
            let settings = Settings::read(dir.path())?;
            let profiles = settings.instance_profiles.unwrap_or_default();
            let profiles = profiles.iter().map(|(name, profile)| {
                let policy = profile.policy.as_deref().map(Path::to_string_lossy);
                format!("{name} {}", policy.unwrap_or_default())
            });
            anyhow::Ok(profiles.collect::<Vec<_>>().join(", "))
        };
        for (text, profiles) in [
            ("", ""),
            ("instance-profiles = []", ""),
            ("instance-profiles = [\"lab\", \"a\"]", "a , lab "),
            (
                "[instance-profiles.lab]\npolicy = \"lab.json\"\n[instance-profiles.b]\n",
                "b , lab lab.json",
            ),
        ] {
            assert_eq!(read(text).unwrap(), profiles, "{text}");
        }
        for wrong in [
            "instance-profiles = \"lab\"",
            "instance-profiles = [1]",
            "instance-profiles = [\"a|b\"]",
            "instance-profiles = [\"\"]",
            "[instance-profiles.lab]\npolicies = \"lab.json\"",
            "[instance-profiles.\"a/b\"]",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_address_range_that_is_none_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("settings.toml");
        std::fs::write(
            &file,
            "secondary-cidrs = [\"172.17.0.0/16\", \"10.0.0.0/28\"]",
        )
        .unwrap();
        Settings::read(dir.path()).unwrap();
        for wrong in [
            "172.17.0.0",
            "172.17.0.1/16",
            "172.17.0.0/8",
            "a/16",
            "::/16",
        ] {
            std::fs::write(&file, format!("secondary-cidrs = [\"{wrong}\"]")).unwrap();
            let error = format!("{:#}", Settings::read(dir.path()).unwrap_err());
            assert!(error.contains(wrong), "{error}");
        }
    }

    #[test]
    fn a_type_that_is_not_sold_does_not_boot_late_either() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("settings.toml");
        std::fs::write(&file, "[boots]\n\"m5.large\" = { seconds = 90 }\n").unwrap();
        let boots = Settings::read(dir.path()).unwrap().boots.unwrap();
        let late = Boots {
            seconds: 90,
            fails: false,
        };
        assert_eq!(boots.get("m5.large"), Some(&late));
        std::fs::write(&file, "[boots]\n\"m5.larg\" = { seconds = 90 }\n").unwrap();
        let error = format!("{:#}", Settings::read(dir.path()).unwrap_err());
        assert!(error.contains("m5.larg"), "{error}");
    }

    #[test]
    fn an_opener_overrides_the_file() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(
            dir.path().join("settings.toml"),
            "delays = \"aws\"\nstale-lists-ms = 700\nplane = \"paper\"",
        )
        .unwrap();
        let file = Settings::read(dir.path()).unwrap();
        let asked = Settings {
            stale_lists_ms: Some(20),
            ..Settings::default()
        };
        let settings = asked.over(file);
        assert_eq!(settings.plane, Some(PlaneKind::Paper));
        assert_eq!(settings.table().stale_lists, Duration::from_millis(20));
        assert_eq!(settings.table().completed, Duration::from_secs(46));
    }
}
