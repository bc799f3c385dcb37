//! An EC2 in a folder: the EC2 Query API over real Linux machines, without a daemon.
//!
//! ```text
//! request ─ wire (query in, SigV4, XML out) ─ calls (EC2's behaviour) ─ change ─ store (one file)
//!                                                                         └ plane (paper, or
//!                                                                           namespaces and disks)
//! ```
//!
//! The rest of xdrive sees none of this: it calls an `aws-sdk-ec2` client. All state is in one
//! directory, which several processes may use at once. States follow from time stamps (`records`)
//! and one table of delays (`delays`). The next call records what a machine has done by itself
//! (`world`, `change`). It answers the calls and parameters it knows as EC2 does, errors included;
//! it refuses all others and never makes up a success.

mod bill;
mod caller;
mod calls;
mod catalog;
mod change;
mod delays;
mod experiment;
mod faults;
mod interrupt;
pub mod plane;
mod records;
mod rights;
mod session;
mod settings;
pub mod setup;
mod store;
mod supervise;
mod throttle;
pub mod wire;
mod world;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;

pub use bill::Bill;
pub use delays::{Delays, Preset};
pub use faults::Fault;
pub use settings::{Boots, InstanceProfile, InstanceProfiles, Plan, PlaneKind, Settings};
pub use store::{Credentials, StoreError};
pub use supervise::{serve_volume, supervise};

use caller::Caller;
use plane::{Gpu, Lazy, PaperPlane, PaperSuperblock, Plane, RealPlane};
use records::Ending;
use rights::Rights;
use session::Session;
use store::Store;
use throttle::Throttle;
use wire::{ApiError, Params, Xml};
use xdrive_ground::clock::Clock;

/// The options for opening an EC2 in a folder.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// The state directory; made if it is not there.
    pub dir: PathBuf,
    /// Paper or real. A directory is one of them for good.
    pub plane: Arc<dyn Plane>,
    /// The clock that all times of this EC2 are read from.
    pub clock: Clock,
    /// The settings that override the directory's `settings.toml`.
    pub settings: Settings,
}

impl OpenOptions {
    /// The EC2 in `dir`, with the settings of its `settings.toml`.
    #[must_use]
    pub fn new(dir: &Path, plane: impl Plane + 'static, clock: Clock) -> Self {
        Self {
            dir: dir.to_owned(),
            plane: Arc::new(plane),
            clock,
            settings: Settings::default(),
        }
    }

    /// The EC2 in `real.dir`, on the plane that its `settings.toml` asks for: `real` by default.
    pub fn from_settings(real: RealPlane, clock: Clock) -> anyhow::Result<Self> {
        let dir = real.dir.clone();
        Ok(match Settings::read(&dir)?.plane.unwrap_or_default() {
            PlaneKind::Paper => Self::new(&dir, PaperPlane, clock),
            PlaneKind::Real => Self::new(&dir, real, clock),
        })
    }
}

/// An EC2 in a folder, opened. Cheap to clone; all clones and all processes share the folder.
#[derive(Clone)]
pub struct Local(Arc<Inner>);

/// Without its state: the SDK's log has its HTTP clients as they are printed.
impl std::fmt::Debug for Local {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Local")
            .field("region", &self.0.region)
            .finish_non_exhaustive()
    }
}

#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a setting of its own"
)]
struct Inner {
    store: Store,
    plane: Arc<dyn Plane>,
    clock: Clock,
    delays: Delays,
    region: String,
    default_vpc: bool,
    map_public_ip: bool,
    internet_gateway: bool,
    /// Whether security groups hold for this computer too.
    enforces_groups: bool,
    block_public_access: String,
    root_device: String,
    /// The rights of each role, by its instance profile, which has the same name.
    roles: BTreeMap<String, Rights>,
    /// The VPC's address ranges, the first one first.
    vpc_cidrs: Vec<String>,
    /// Whom the folder's key stands for.
    caller: Caller,
    default_key: Option<String>,
    spot_key_grant: bool,
    gpu: Gpu,
    plan: Plan,
    boots: BTreeMap<String, Boots>,
    quotas: BTreeMap<String, u32>,
    /// How the blocks of volumes come from their snapshots.
    lazy: Lazy,
    /// The calls to the EBS direct APIs, where they are limited.
    throttle: Option<Throttle>,
    credentials: Credentials,
}

impl Local {
    /// Opens it, and completes or undoes the call in which a process was killed.
    ///
    /// Fails, with nothing changed, if the directory cannot be used: a damaged or newer state
    /// file ([`StoreError`]), another plane or region than it was made with, a wrong setting; or
    /// if this computer lacks a program it needs ([`plane::PlaneError::Missing`]).
    pub fn open(options: OpenOptions) -> anyhow::Result<Self> {
        let OpenOptions {
            dir,
            plane,
            clock,
            settings,
        } = options;
        let real = plane.is_real();
        plane.check()?;
        let store = Store::new(&dir, real)?;
        let settings = settings.over(Settings::read(&dir)?);
        let lock = store.lock()?;
        store.cleanup(&lock)?;
        let known = store.read()?;
        let region = match (&known, &settings.region) {
            (Some(world), None) => world.region.clone(),
            (None, None) => catalog::DEFAULT_REGION.to_owned(),
            (Some(world), Some(region)) if *region != world.region => anyhow::bail!(
                "{} is in {}, not in {region}: its settings cannot move it",
                dir.display(),
                world.region
            ),
            (_, Some(region)) => region.clone(),
        };
        catalog::check_region(&region)?;
        let mut world = if let Some(world) = known {
            Arc::unwrap_or_clone(world)
        } else {
            let world = world::World::new(real, &region, clock.now());
            store.write(&lock, &world)?;
            world
        };
        anyhow::ensure!(
            world.real == real,
            "{} holds {} instances; open another directory for {} ones",
            dir.display(),
            if world.real { "real" } else { "paper" },
            if real { "real" } else { "paper" }
        );
        let credentials = store.credentials(&lock)?;
        let delays = settings.table();
        let roles = roles(&dir, &settings)?;
        let inner = Inner {
            store,
            plane,
            clock,
            delays,
            region,
            default_vpc: settings.default_vpc.unwrap_or(true),
            map_public_ip: settings.map_public_ip.unwrap_or(true),
            internet_gateway: settings.internet_gateway.unwrap_or(true),
            enforces_groups: settings.enforce_groups.unwrap_or(true),
            throttle: settings
                .limit_blocks
                .unwrap_or(false)
                .then(Throttle::default),
            block_public_access: settings
                .block_public_access
                .unwrap_or_else(|| "off".to_owned()),
            root_device: settings
                .root_device
                .unwrap_or_else(|| catalog::ROOT_DEVICE.to_owned()),
            roles,
            vpc_cidrs: std::iter::once(catalog::VPC_CIDR.to_owned())
                .chain(settings.secondary_cidrs.into_iter().flatten())
                .collect(),
            caller: Caller {
                allows: Rights::read(
                    settings.policy.as_deref(),
                    settings.control_policy.as_deref(),
                )?,
                arn: settings
                    .caller
                    .unwrap_or_else(|| catalog::CALLER.to_owned()),
                is_temporary: false,
            },
            default_key: settings.default_key,
            spot_key_grant: settings.spot_key_grant.unwrap_or(true),
            gpu: settings.gpu.unwrap_or_default(),
            plan: settings.plan.unwrap_or_default(),
            boots: settings.boots.unwrap_or_default(),
            quotas: settings.quotas.unwrap_or_default(),
            lazy: settings.volumes.unwrap_or_default(),
            credentials,
        };
        change::recover(&inner, &lock, &mut world)
            .and_then(|()| change::sweep(&inner, &world))
            .with_context(|| format!("cannot clean up {}", dir.display()))?;
        drop(lock);
        Ok(Self(Arc::new(inner)))
    }

    /// Carries out one call of the caller whom the folder's key stands for. Blocks for as long as the
    /// lock and the data plane take.
    ///
    /// The answer is the response element: `<DescribeVolumesResponse>` with `<volumeSet>` in it
    /// (the wire adds namespace and request id); for STS the content of
    /// `<GetCallerIdentityResult>`; for EC2 Instance Connect the members of its JSON answer as
    /// children.
    pub fn call(&self, action: &str, params: &Params) -> Result<Xml, ApiError> {
        self.call_as(&self.0.caller, action, params)
    }

    /// Carries out one call of `caller`, as [`Local::call`] does.
    fn call_as(&self, caller: &Caller, action: &str, params: &Params) -> Result<Xml, ApiError> {
        calls::dispatch(self, caller, action, params)
    }

    /// Whoever signs by `session`, or with the folder's key without one; none if that session's
    /// instance is over, or its role is not in the settings any more.
    fn caller(&self, session: Option<&Session>) -> Result<Option<Caller>, ApiError> {
        calls::caller_of(self, session)
    }

    /// The file system of EFS that an instance reaches at an address, if one is there; its folder is made.
    fn mountable(&self, instance: &str, at: std::net::Ipv4Addr) -> Option<String> {
        let id = calls::reached(self, instance, at)?;
        plane::make_share(self.dir(), &id).ok()?;
        Some(id)
    }

    /// The key that requests are signed with.
    #[must_use]
    pub fn credentials(&self) -> &Credentials {
        &self.0.credentials
    }

    /// The region's name, such as `us-east-1`.
    #[must_use]
    pub fn region(&self) -> &str {
        &self.0.region
    }

    /// Whether it has a default VPC.
    fn has_default_vpc(&self) -> bool {
        self.0.default_vpc
    }

    /// Whether its subnets give public addresses.
    fn maps_public_ip(&self) -> bool {
        self.0.map_public_ip
    }

    /// The address ranges of its VPC.
    fn vpc_cidrs(&self) -> &[String] {
        &self.0.vpc_cidrs
    }

    /// The name of its images' root device.
    fn root_device(&self) -> &str {
        &self.0.root_device
    }

    /// The names of its instance profiles.
    fn instance_profiles(&self) -> impl Iterator<Item = &String> {
        self.0.roles.keys()
    }

    /// The stand-in for the GPUs of types that have one.
    fn gpu(&self) -> Gpu {
        self.0.gpu
    }

    /// The key of the account's own that encrypts new disks; none if it is `aws/ebs`.
    fn default_key(&self) -> Option<&str> {
        self.0.default_key.as_deref()
    }

    /// Whether spot instances cannot be launched with encrypted disks.
    fn locks_out_spot(&self) -> bool {
        self.0.default_key.is_some() && !self.0.spot_key_grant
    }

    /// How instances of a type boot.
    fn boots(&self, kind: &str) -> Boots {
        self.0.boots.get(kind).copied().unwrap_or_default()
    }

    /// The clock that all times of this EC2 are read from.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.0.clock
    }

    /// The state directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.0.store.dir()
    }

    /// How the blocks of volumes come from their snapshots, if they come late.
    fn lazy(&self) -> Option<&Lazy> {
        Some(&self.0.lazy).filter(|it| it.lazy)
    }

    /// The table of delays: how long each change of state takes.
    #[must_use]
    pub fn delays(&self) -> &Delays {
        &self.0.delays
    }

    /// Makes the next calls fail: tests plant the fault for the program under test.
    pub fn plant(&self, fault: Fault) -> Result<(), ApiError> {
        self.change(|change| {
            change.world.faults.push(fault);
            Ok(())
        })
    }

    /// Ends all planted faults.
    pub fn clear_faults(&self) -> Result<(), ApiError> {
        self.change(|change| {
            change.world.faults.clear();
            Ok(())
        })
    }

    /// Makes the volume or snapshot `id` fail: its state is `error` from now on.
    pub fn break_down(&self, id: &str) -> Result<(), ApiError> {
        self.change(|change| {
            let now = change.now;
            let world = &mut change.world;
            let failed = match (world.volumes.get_mut(id), world.snapshots.get_mut(id)) {
                (Some(volume), _) => &mut volume.failed,
                (None, Some(snapshot)) => &mut snapshot.failed,
                (None, None) => return Err(calls::no_such_id(id)),
            };
            failed.get_or_insert(now);
            Ok(())
        })
    }

    /// Writes `superblock` on the paper volume or snapshot `id`, as a host does that formats,
    /// mounts or unmounts it. Real disks are written by their hosts alone.
    pub fn write(&self, id: &str, superblock: PaperSuperblock) -> Result<(), ApiError> {
        self.change(|change| {
            let world = &mut change.world;
            let there = match (world.volumes.get_mut(id), world.snapshots.get_mut(id)) {
                _ if world.real => None,
                (Some(volume), _) => Some(&mut volume.superblock),
                (None, snapshot) => snapshot.map(|snapshot| &mut snapshot.superblock),
            };
            *there.ok_or_else(|| calls::no_such_id(id))? = Some(superblock);
            Ok(())
        })
    }

    /// Delays the next transition of the instance, volume or snapshot `id` by an hour, as a
    /// `pending`, `creating` or `attaching` that does not end. Real machines keep the first moment.
    pub fn stall(&self, id: &str) -> Result<(), ApiError> {
        const STALLED: std::time::Duration = std::time::Duration::from_hours(1);
        self.change(|change| {
            let now = change.now;
            let world = &mut change.world;
            let due = if let Some(instance) = world.instances.get_mut(id) {
                &mut instance.running
            } else if let Some(volume) = world.volumes.get_mut(id) {
                match volume.attachments.iter_mut().next_back() {
                    Some(attachment) => &mut attachment.attached,
                    None => &mut volume.available,
                }
            } else if let Some(snapshot) = world.snapshots.get_mut(id) {
                &mut snapshot.completed
            } else {
                return Err(calls::no_such_id(id));
            };
            if *due > now {
                *due += STALLED;
            }
            Ok(())
        })
    }

    /// Whether the machine of the instance `id` has booted, which no call shows.
    pub fn has_booted(&self, id: &str) -> Result<bool, ApiError> {
        let world = self.look()?;
        let now = world.now(self.0.clock.now());
        match world.instances.get(id) {
            Some(instance) => Ok(instance.boots().is_some_and(|at| at <= now)),
            None => Err(calls::no_such_id(id)),
        }
    }

    /// Switches the instance `id` off, as `poweroff` inside it does: it is terminated or stopped,
    /// after its `InstanceInitiatedShutdownBehavior`.
    pub fn switch_off(&self, id: &str) -> Result<(), ApiError> {
        self.change(|change| {
            let now = change.now;
            if change.world.instance(id, now, &self.0.delays).is_none() {
                return Err(calls::no_such_id(id));
            }
            change.power_off(id)?;
            change.world.begin_end(id, Ending::by_itself(now));
            Ok(())
        })
    }
}

/// The rights of each role: those of its policy, a file in `dir`; without one it may do everything.
fn roles(dir: &Path, settings: &Settings) -> anyhow::Result<BTreeMap<String, Rights>> {
    let control = settings.control_policy.as_deref();
    let profiles = settings.instance_profiles.iter();
    let profiles = profiles.flat_map(InstanceProfiles::iter);
    let roles = profiles.map(|(name, profile)| {
        let Some(file) = &profile.policy else {
            return Ok((name.clone(), Rights::read(None, control)?));
        };
        let path = dir.join(file);
        let rights = std::fs::read_to_string(&path)
            .map_err(anyhow::Error::from)
            .and_then(|policy| Rights::read(Some(&policy), control));
        let rights = rights.with_context(|| {
            format!(
                "the policy of the instance profile {name}, {}",
                path.display()
            )
        })?;
        Ok((name.clone(), rights))
    });
    roles.collect()
}
