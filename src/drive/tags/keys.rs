//! The keys of xdrive's tags.

/// The name that AWS's console shows: the drive's.
pub const NAME: &str = "Name";
/// The session that made or last claimed the thing.
pub const SESSION: &str = "xdrive:session";
/// On root disks: `root`, which keeps them from being read as drives' volumes.
pub use crate::ec2::DISK;
/// On snapshots: `clean`, `crashed` or `checkpoint`.
pub use crate::ec2::KIND;
/// On snapshots: the unique id of the attempt.
pub use crate::ec2::OP;
/// The drive that the thing belongs to, by which xdrive filters; and the ARN of its session's
/// caller (see [`crate::ec2::Ownership`]).
pub use crate::ec2::{DRIVE, OWNER};
/// On instances: the host's public SSH key.
pub const HOST_KEY: &str = "xdrive:host-key";
/// On instances: when the lease ends (RFC 3339, by the writer's clock). It is written before the
/// lease is set on the host, so that no lease lasts longer than this.
pub const UNTIL: &str = "xdrive:until";
/// On volumes: created empty.
pub const BLANK: &str = "xdrive:blank";
/// On volumes created empty: the generation at which it was first seen formatted, written before
/// the drive is used. A volume created empty that lacks it holds no data.
pub const FORMATTED: &str = "xdrive:formatted";
/// On volumes and snapshots: the UUID of the drive's file system, from when a host first reported
/// it.
pub const UUID: &str = "xdrive:uuid";
/// On volumes: the generation it started with.
pub const BASE: &str = "xdrive:base";
/// On volumes and snapshots: the owner who had the drive mounted last, where that may not be the thing's own.
/// Written with whatever changes the owner, and once the drive is ready for that one.
pub const MOUNTER: &str = "xdrive:mounter";
/// On volumes and snapshots: how often the drive has been mounted.
pub const GENERATION: &str = "xdrive:generation";
/// On checkpoints: its number within its generation, from 1.
pub const NUMBER: &str = "xdrive:number";

/// On instances: the machine image as it was asked for (a `resolve:ssm:` parameter or an id), in
/// the call that launched it. On volumes, and so on snapshots: the id of the image under which the
/// drive was last used, as EC2 answered it; there it outlives the instance.
pub const AMI: &str = "xdrive:ami";
/// On volumes and snapshots: the architecture of the programs on the drive, `x86_64` or `arm64`;
/// settled by the drive's first launch.
pub const ARCH: &str = "xdrive:arch";

/// On snapshots of a drive that its user deletes: the session. The newest has it last, and from then
/// on the drive is not mounted any more.
pub const DELETING: &str = "xdrive:deleting";
/// On snapshots of a drive that its user renames: the name that it gets. The same holds, as long as it
/// is not the drive's own.
pub const RENAMING: &str = "xdrive:renaming";

/// On the snapshot that a worker begins with, and nowhere else: the drive that leads it. What is saved of
/// such a drive is its user's.
pub const WORKER_OF: &str = "xdrive:worker-of";

/// On volumes and snapshots of a scratch drive, made for a test: its snapshots may be deleted with
/// nothing in their place.
pub const SCRATCH: &str = "xdrive:scratch";
