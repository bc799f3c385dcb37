//! The only user of the AWS SDK: xdrive's calls to AWS, in xdrive's own types.
//!
//! Ids, states and times are parsed here, once. Errors become [`Error`] with a [`Kind`] that the
//! caller can act on and with AWS's own code and message: the SDK's `Display` is only "service
//! error". Calls that destroy, or create without a token, are not retried; "not found" on a
//! deletion is success. Terminating and deleting take a proof ([`MayTerminate`], [`MayDelete`],
//! [`MayPrune`]), which `drive::proof` makes.
//!
//! Nothing here decides what to do next: that is `drive::plan`.

mod account;
mod address;
mod arch;
mod blocks;
pub mod calls;
mod change;
mod checks;
mod cidr;
mod client;
mod convert;
mod credentials;
mod describe;
mod dry_run;
mod endpoints;
mod error;
mod experiment;
mod group;
mod https;
mod ini;
mod instance_connect;
mod model;
mod modify;
mod network;
mod on_demand;
mod open_port;
mod owner;
mod pages;
mod partition;
mod price;
mod prices;
mod profiles;
mod proof;
mod quotas;
mod reservations;
mod scores;
mod shares;
mod signed;
mod source;
pub mod speed;
mod spot;
mod storage;
mod trace;
mod types;

/// The tag with the name of a resource's drive.
pub const DRIVE: &str = "xdrive:drive";

/// The tag with the ARN of the caller that made or last claimed a resource.
pub const OWNER: &str = "xdrive:owner";
/// The tag of what is no drive: on root disks `root`.
pub const DISK: &str = "xdrive:disk";
/// The tag of a snapshot's kind, and that of the attempt that made it. Both are in the call that makes
/// one, and on nothing else.
pub const KIND: &str = "xdrive:kind";
/// See [`KIND`].
pub const OP: &str = "xdrive:op";
/// The tag with the name of a share.
pub const SHARE: &str = "xdrive:share";

pub use account::{Account, AccountError};
pub use address::{ElasticIp, HostAddress};
pub use arch::Arch;
/// The SDK's HTTP client, which carries the requests to AWS or to an EC2 in a folder.
pub use aws_smithy_runtime_api::client::http::SharedHttpClient as HttpClient;
pub use blocks::{BLOCK, WrittenBlocks};
pub use change::{LaunchOrder, VolumeOrder};
pub use checks::{Check, StatusChecks};
pub use cidr::{Cidr, InvalidCidr};
pub use client::{Caller, Direct, Ec2};
pub use credentials::Chain;
pub use describe::Encryption;
pub use dry_run::{DryRun, DryRunTargets};
pub use error::{Error, Kind};
pub use experiment::{Injection, NoExperiment, State};
pub use group::{Group, Rule, RuleSource};
pub use model::{
    Attachment, AttachmentState, GibiBytes, Instance, InstanceState, Mapping, Market, Snapshot,
    SnapshotState, Tags, Volume, VolumeState, Zone,
};
pub use modify::Modified;
pub use network::{Routes, Subnet};
pub use open_port::{InvalidOpenPort, OpenPort};
pub use owner::{Ownership, role};
pub use partition::{KeyArn, Partition};
pub use price::{NoPrice, Price};
pub use prices::{PriceChange, SpotPrice};
pub use profiles::SettingError;
pub use proof::{MayDelete, MayPrune, MayTerminate, Permit, Prove, Rules};
pub use quotas::Quota;
pub use reservations::CapacityReservation;
pub use scores::{BEST_SCORE, FEWEST_SCORED};
pub use shares::{FileSystem, MountTarget, ShareState};
pub use source::{By, Source, profile_names};
pub use speed::Speed;
pub use spot::{SPOT_ROLE, SpotStatus, TakenBack};
pub use storage::StoragePrices;
pub use types::{InstanceType, type_names};

#[cfg(test)]
pub(crate) use https::tests as loopback;
