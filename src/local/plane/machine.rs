//! A machine: what it is to be, and where it is once it is up.

use super::gpu::Gpu;
use xdrive_ground::clock::BootTime;

/// A machine to bring up.
#[derive(Clone, serde::Serialize, serde::Deserialize)]
pub struct Machine {
    /// `i-…`.
    pub instance: String,
    /// The tree it runs (`ami-…`, as `DescribeImages` lists it).
    pub image: String,
    /// The instance type: for the metadata service, and for the names of the machine's disks.
    pub instance_type: String,
    /// The zone, for the metadata service.
    pub zone: String,
    /// User data, decoded from base64; may be gzip.
    #[serde(skip)]
    pub user_data: Vec<u8>,
    /// Whether the metadata service demands session tokens.
    pub tokens_required: bool,
    /// How many hops the metadata service's answer to a request for a token may take; one ends at the
    /// instance, and reaches none of its containers.
    #[serde(default)]
    pub hop_limit: u32,
    /// The name of its role, if it has one.
    #[serde(default)]
    pub role: Option<String>,
    /// Whether its address is a public one.
    #[serde(default)]
    pub public: bool,
    /// The caller's account, for the instance identity document.
    pub account: String,
    /// The stand-in for its GPU, if its type has one.
    #[serde(default)]
    pub gpu: Option<Gpu>,
    /// The address ranges of its VPC, for the metadata service.
    pub vpc_cidrs: Vec<String>,
    /// When it boots; at once if all else is ready later than that.
    pub boots: BootTime,
}

/// Without the user data, which has a private key.
impl std::fmt::Debug for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Machine")
            .field("instance", &self.instance)
            .field("image", &self.image)
            .finish_non_exhaustive()
    }
}

/// A machine that is up.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Up {
    /// The machine's address, reachable from this computer.
    pub address: std::net::Ipv4Addr,
    /// The supervisor's process id.
    pub supervisor: u32,
    /// The supervisor's start time (field 22 of `/proc/PID/stat`): a pid alone is reused.
    pub started: u64,
}
