//! The constants: regions, zones, the network, instance types and prices, images' names.
//!
//! On-demand prices are those of us-east-1 (Amazon EC2 On-Demand Pricing); spot prices are made
//! from them and differ by zone, so that a choice by price has a result. Types of both
//! architectures are sold, but only those of this computer's can be launched: `RunInstances`
//! answers the others with `Unsupported`, as EC2 does where a zone has no such type.

/// The account that owns all resources.
pub(super) const ACCOUNT: &str = "000000000000";

/// The ARN of an instance profile of its account.
pub(super) fn instance_profile(name: &str) -> String {
    format!("arn:aws:iam::{ACCOUNT}:instance-profile/{name}")
}

/// The role of the instance profile with this ARN, which has its name.
pub(super) fn role(profile: &str) -> &str {
    profile.rsplit('/').next().unwrap_or(profile)
}

/// The ARN of a role of its account, as an instance has it.
pub(super) fn assumed_role(name: &str, instance: &str) -> String {
    format!("arn:aws:sts::{ACCOUNT}:assumed-role/{name}/{instance}")
}

/// The ARN of the key `aws/ebs` of a region.
pub(super) fn aws_key(region: &str) -> String {
    format!("arn:aws:kms:{region}:{ACCOUNT}:key/00000000-0000-4000-8000-0000000000eb")
}
/// The default caller's ARN in STS's answers.
pub(super) const CALLER: &str = "arn:aws:iam::000000000000:user/local";
/// The unique id of a caller that is a user.
pub(super) const USER_ID: &str = "AIDALOCAL000000000000";
/// The unique id of the role of a caller that has one.
pub(super) const ROLE_ID: &str = "AROALOCAL000000000000";
/// The unique id of an instance profile.
pub(super) const PROFILE_ID: &str = "AIPALOCAL000000000000";
/// The default region.
pub(super) const DEFAULT_REGION: &str = "us-east-1";
/// Regions that can be set, and that `DescribeRegions` lists.
pub(super) const REGIONS: [&str; 4] = ["eu-central-1", "us-east-1", "us-east-2", "us-west-2"];
/// The default VPC.
pub(super) const VPC: &str = "vpc-00000000000000001";
/// The default VPC's addresses.
pub(super) const VPC_CIDR: &str = "172.31.0.0/16";
/// The VPC's main route table.
pub(super) const ROUTES: &str = "rtb-00000000000000001";
/// The VPC's internet gateway, if it has one.
pub(super) const GATEWAY: &str = "igw-00000000000000001";
/// The VPC's default security group.
pub(super) const DEFAULT_GROUP: &str = "sg-00000000000000001";
/// The letters of a region's zones.
const ZONES: [char; 3] = ['a', 'b', 'c'];
/// The default name of an image's root device, and so of an instance's root disk.
pub(super) const ROOT_DEVICE: &str = "/dev/xvda";
/// The size of an image's root snapshot, in GiB (as the ECS images have).
pub(super) const ROOT_GIB: u32 = 30;
/// The architecture of this computer's images, as EC2 writes it.
pub(super) const ARCHITECTURE: &str = if cfg!(target_arch = "aarch64") {
    "arm64"
} else {
    "x86_64"
};

/// A zone of the region, with the default subnet in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Zone {
    /// The zone's name, such as `us-east-1a`.
    pub(super) name: String,
    /// The zone's id, such as `use1-az1`.
    pub(super) id: String,
    /// The id of the zone's default subnet.
    pub(super) subnet: String,
    /// The subnet's addresses.
    pub(super) cidr: String,
}

/// Refuses any text but the ARN of a user or role of this account.
pub(super) fn check_caller(arn: &str) -> anyhow::Result<()> {
    let mut parts = arn.splitn(6, ':');
    let whose = (parts.next(), parts.nth(1), parts.nth(1), parts.next());
    let is_caller = matches!(
        whose,
        (Some("arn"), Some("iam" | "sts"), Some(ACCOUNT), Some(_))
    );
    anyhow::ensure!(
        is_caller,
        "{arn:?} is no caller's ARN of the account {ACCOUNT}, such as {CALLER}"
    );
    Ok(())
}

/// Refuses a name that IAM would not give to an instance profile (IAM API reference,
/// `CreateInstanceProfile`).
pub(super) fn check_profile(name: &str) -> anyhow::Result<()> {
    let is_name = (1..=128).contains(&name.len())
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"+=,.@_-".contains(&b));
    anyhow::ensure!(is_name, "{name:?} is no name of an instance profile");
    Ok(())
}

/// Prices of storage a month, in millionths of a dollar.
pub(super) struct Storage {
    /// A GiB of a gp3 volume.
    pub gib: u32,
    /// An operation a second beyond 3,000.
    pub operation: u32,
    /// A MiB a second beyond 125.
    pub mib: u32,
    /// A GiB in snapshots.
    pub snapshot: u32,
    /// Before the usage types of the region's bills.
    pub prefix: &'static str,
}

/// The prices of storage in a region: Frankfurt's differ, as AWS's do.
pub(super) fn storage(region: &str) -> Storage {
    match region {
        "eu-central-1" => Storage {
            gib: 95_200,
            operation: 6_000,
            mib: 48_000,
            snapshot: 54_000,
            prefix: "EUC1-",
        },
        _ => Storage {
            gib: 80_000,
            operation: 5_000,
            mib: 40_000,
            snapshot: 50_000,
            prefix: "",
        },
    }
}

/// Refuses a region that is not in the list.
pub(super) fn check_region(region: &str) -> anyhow::Result<()> {
    anyhow::ensure!(
        REGIONS.contains(&region),
        "there is no region {region:?}; there are {}",
        REGIONS.join(", ")
    );
    Ok(())
}

/// Refuses a type that is not sold here.
pub(super) fn check_type(name: &str) -> anyhow::Result<()> {
    anyhow::ensure!(
        TYPES.iter().any(|kind| kind.name == name),
        "no instance type here is called {name:?}"
    );
    Ok(())
}

/// Refuses any text but an IPv4 address range that a VPC can have (VPC user guide, *VPC CIDR
/// blocks*: from /16 to /28).
pub(super) fn check_cidr(cidr: &str) -> anyhow::Result<()> {
    let is_range = || {
        let (address, length) = cidr.split_once('/')?;
        let address: std::net::Ipv4Addr = address.parse().ok()?;
        let length: u32 = length.parse().ok()?;
        let rest = u32::MAX.checked_shr(length)?;
        Some((16..=28).contains(&length) && address.to_bits() & rest == 0)
    };
    anyhow::ensure!(
        is_range() == Some(true),
        "{cidr:?} is no address range of a VPC, such as 172.17.0.0/16"
    );
    Ok(())
}

/// The zones of `region`.
pub(super) fn zones(region: &str) -> Vec<Zone> {
    let mut parts = region.split('-');
    let (area, side, number) = (
        parts.next().unwrap_or_default(),
        parts.next().unwrap_or_default(),
        parts.next().unwrap_or_default(),
    );
    let short = format!("{area}{}{number}", side.chars().next().unwrap_or_default());
    (1..)
        .zip(ZONES)
        .map(|(index, letter)| Zone {
            name: format!("{region}{letter}"),
            id: format!("{short}-az{index}"),
            subnet: format!("subnet-{index:017x}"),
            cidr: format!("172.31.{}.0/20", (index - 1) * 16),
        })
        .collect()
}

/// A type of instance.
#[derive(Debug, Clone, Copy)]
pub(super) struct InstanceType {
    /// The type's name, such as `t3.micro`.
    pub(super) name: &'static str,
    /// Virtual CPUs.
    pub(super) vcpus: u32,
    /// Memory in MiB.
    pub(super) memory: u32,
    /// `x86_64` or `arm64`.
    pub(super) architecture: &'static str,
    /// The type's graphics card.
    pub(super) gpu: Option<Gpu>,
    /// The hypervisor, which decides how the instance sees its volumes.
    pub(super) hypervisor: Hypervisor,
    /// On demand, in millionths of a dollar an hour.
    price: u32,
}

/// The hypervisor of an instance type (EC2 user guide, *Amazon EC2 instance types*, on instances
/// built on the Nitro System; EBS user guide, on device names).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hypervisor {
    /// Volumes are `NVMe` disks, and their ids the disks' serial numbers.
    Nitro,
    /// Volumes have no serial numbers: only the device name of the attachment is known, with `xvd`
    /// for `sd`.
    Xen,
}

/// The graphics card of an instance type; there is one in each, or a part of one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gpu {
    /// The manufacturer, such as `NVIDIA`.
    pub(super) manufacturer: &'static str,
    /// The card's name, such as `T4`.
    pub(super) name: &'static str,
    /// The instance's share of the card: 1, or a part such as 0.125.
    pub(super) part: f64,
    /// Memory in MiB.
    pub(super) memory: u32,
}

impl Gpu {
    /// The number of whole cards.
    pub(super) fn count(self) -> u32 {
        u32::from(self.part >= 1.0)
    }
}

const T4: Gpu = Gpu {
    manufacturer: "NVIDIA",
    name: "T4",
    part: 1.0,
    memory: 16384,
};
const T4G: Gpu = Gpu {
    manufacturer: "NVIDIA",
    name: "T4g",
    part: 1.0,
    memory: 16384,
};
const A10G: Gpu = Gpu {
    manufacturer: "NVIDIA",
    name: "A10G",
    part: 1.0,
    memory: 24576,
};

/// An eighth of an L4, as EC2 lists it.
const L4_EIGHTH: Gpu = Gpu {
    manufacturer: "NVIDIA",
    name: "L4",
    part: 0.125,
    memory: 2861,
};

const fn x86(name: &'static str, vcpus: u32, gib: u32, price: u32) -> InstanceType {
    InstanceType {
        name,
        vcpus,
        memory: gib * 1024,
        architecture: "x86_64",
        gpu: None,
        hypervisor: Hypervisor::Nitro,
        price,
    }
}

const fn xen(base: InstanceType) -> InstanceType {
    InstanceType {
        hypervisor: Hypervisor::Xen,
        ..base
    }
}

const fn arm(name: &'static str, vcpus: u32, gib: u32, price: u32) -> InstanceType {
    InstanceType {
        architecture: "arm64",
        ..x86(name, vcpus, gib, price)
    }
}

const fn with(gpu: Gpu, base: InstanceType) -> InstanceType {
    InstanceType {
        gpu: Some(gpu),
        ..base
    }
}

/// Every type that can be launched.
pub(super) const TYPES: [InstanceType; 32] = [
    xen(x86("t2.micro", 1, 1, 11_600)),
    xen(x86("t2.medium", 2, 4, 46_400)),
    xen(x86("t2.large", 2, 8, 92_800)),
    x86("t3.micro", 2, 1, 10_400),
    x86("t3.small", 2, 2, 20_800),
    x86("t3.medium", 2, 4, 41_600),
    x86("t3.large", 2, 8, 83_200),
    x86("t3.xlarge", 4, 16, 166_400),
    x86("t3.2xlarge", 8, 32, 332_800),
    x86("m5.large", 2, 8, 96_000),
    x86("m5.xlarge", 4, 16, 192_000),
    x86("m5.2xlarge", 8, 32, 384_000),
    x86("m5.4xlarge", 16, 64, 768_000),
    x86("c5.large", 2, 4, 85_000),
    x86("c5.xlarge", 4, 8, 170_000),
    x86("c5.2xlarge", 8, 16, 340_000),
    x86("c5.4xlarge", 16, 32, 680_000),
    x86("c6a.large", 2, 4, 76_500),
    x86("c7i-flex.large", 2, 4, 84_790),
    x86("m7i-flex.large", 2, 8, 95_760),
    x86("r5.large", 2, 16, 126_000),
    x86("r5.xlarge", 4, 32, 252_000),
    with(T4, x86("g4dn.xlarge", 4, 16, 526_000)),
    with(T4, x86("g4dn.2xlarge", 8, 32, 752_000)),
    with(A10G, x86("g5.xlarge", 4, 16, 1_006_000)),
    with(L4_EIGHTH, x86("g6f.large", 2, 8, 202_000)),
    arm("t4g.micro", 2, 1, 8_400),
    arm("t4g.small", 2, 2, 16_800),
    arm("t4g.medium", 2, 4, 33_600),
    arm("m6g.large", 2, 8, 77_000),
    arm("m7g.large", 2, 8, 81_600),
    with(T4G, arm("g5g.xlarge", 4, 8, 420_000)),
];

/// The types that the free tier of new accounts has.
const FREE: [&str; 6] = [
    "c7i-flex.large",
    "m7i-flex.large",
    "t3.micro",
    "t3.small",
    "t4g.micro",
    "t4g.small",
];

impl InstanceType {
    /// Whether it earns credits for bursts of CPU.
    pub(super) fn is_burstable(&self) -> bool {
        self.name.starts_with('t')
    }

    /// Whether the free tier has it.
    pub(super) fn is_free(&self) -> bool {
        FREE.contains(&self.name)
    }

    /// The type called `name`.
    pub(super) fn find(name: &str) -> Option<&'static Self> {
        TYPES.iter().find(|kind| kind.name == name)
    }

    /// The type's graphics card, if NVIDIA made it.
    pub(super) fn nvidia(&self) -> Option<Gpu> {
        self.gpu.filter(|gpu| gpu.manufacturer == "NVIDIA")
    }

    /// The price on demand, in millionths of a dollar an hour.
    pub(super) fn on_demand_price(&self) -> u32 {
        self.price
    }

    /// The spot price in the `zone`-th zone, in millionths of a dollar an hour: 30 % of the
    /// on-demand price in the first, 4 % more in each further one.
    pub(super) fn spot_price(&self, zone: usize) -> u32 {
        self.price / 100 * (30 + 4 * u32::try_from(zone).unwrap_or(0))
    }
}

/// The spot placement score of the `zone`-th zone for so many `types`: where spot costs more, machines are
/// idle. Of fewer than three types it is always low (EC2 user guide, *Spot placement score*, *Limitations*).
pub(super) fn placement_score(zone: usize, types: usize) -> u32 {
    if types < 3 {
        return 1;
    }
    (3 + 3 * u32::try_from(zone).unwrap_or(0)).min(10)
}

impl Hypervisor {
    /// The hypervisor of the type called `name`; Nitro for an unknown type.
    pub(super) fn for_type(name: &str) -> Self {
        InstanceType::find(name).map_or(Self::Nitro, |kind| kind.hypervisor)
    }

    /// The name of the root disk in the instance's own system.
    pub(super) fn root_disk(self) -> &'static str {
        match self {
            Self::Nitro => "nvme0n1",
            Self::Xen => "xvda",
        }
    }

    /// The hypervisor's name in `DescribeInstanceTypes`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Nitro => "nitro",
            Self::Xen => "xen",
        }
    }
}

/// A price as AWS writes it: dollars with six digits after the point.
pub(super) fn dollars(millionths: u32) -> String {
    format!("{}.{:06}", millionths / 1_000_000, millionths % 1_000_000)
}

/// The architecture of the image that the public parameter `name` stands for; `None` if there is
/// no such parameter (AWS Systems Manager user guide, *Discover public parameters*).
pub(super) fn parameter_architecture(name: &str) -> Option<&'static str> {
    Some(match name {
        "/aws/service/ecs/optimized-ami/amazon-linux-2023/recommended/image_id"
        | "/aws/service/ecs/optimized-ami/amazon-linux-2023/gpu/recommended/image_id"
        | "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64" => "x86_64",
        "/aws/service/ecs/optimized-ami/amazon-linux-2023/arm64/recommended/image_id"
        | "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-arm64"
        | "/aws/service/deeplearning/ami/arm64/base-oss-nvidia-driver-gpu-amazon-linux-2023/latest/ami-id" => {
            "arm64"
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_zone_has_a_name_an_id_and_a_subnet_of_its_own() {
        let zones = zones("eu-central-1");
        assert_eq!(zones[0].name, "eu-central-1a");
        assert_eq!(zones[2].id, "euc1-az3");
        assert_eq!(zones[1].cidr, "172.31.16.0/20");
        assert_eq!(zones[1].subnet, "subnet-00000000000000002");
    }

    #[test]
    fn spot_is_cheaper_than_on_demand_and_differs_by_zone() {
        let kind = InstanceType::find("t3.micro").unwrap();
        assert_eq!(dollars(kind.spot_price(0)), "0.003120");
        assert!(kind.spot_price(0) < kind.spot_price(2));
        assert!(kind.spot_price(2) < kind.price);
    }
}
