//! The other side of the comparison: the same parts in a straight line.
//!
//! It decides nothing, records nothing, waits only for the parts, polls every few milliseconds, and
//! overlaps what it can: the volume is made and plugged in while the instance boots, Jupyter starts
//! beside the command, the copy and the shutdown go on together.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use tokio::time::{sleep, timeout};

use xdrive::cloud::LOCAL_SIZE as SIZE;
use xdrive::drive::pools::image_of;
use xdrive::drive::tags::DRIVE;
use xdrive::ec2::{
    Arch, AttachmentState, Ec2, Instance, InstanceState, LaunchOrder, SnapshotState, Tags, Volume,
    VolumeOrder, VolumeState, Zone,
};
use xdrive::host::boot::{self, BootOrder, Watch};
use xdrive::host::container::CommandId;
use xdrive::host::places::Places;
use xdrive::host::scripts::{ContainerOrder, Host, Image};
use xdrive::host::{AtMount, LockOrder, MountOrder, MountedDrive, Role};
use xdrive::ids::{Generation, SessionId, SnapshotId, VolumeId};
use xdrive::ssh::{HostKey, Received, Ssh, Target, UserKey};

use crate::evidence::{may_delete, may_prune, may_terminate};
use crate::{cache, cloud, id};

/// The name of the parts' state directory, below the benchmark's.
pub const NAME: &str = "parts";
/// The pause between two polls.
const AGAIN: Duration = Duration::from_millis(5);
/// How long a login to a booting machine may take before the next try.
const LOGIN: Duration = Duration::from_secs(3);
const DEVICE: &str = "/dev/sdf";
/// The type launched by default, with the prices of the EC2 in a folder.
const TYPE: &str = "c6a.large";

/// The parts, and their resources in this round.
pub struct Parts {
    dir: PathBuf,
    image: PathBuf,
    key: UserKey,
    snapshots: Mutex<Vec<SnapshotId>>,
}

/// The times of one session.
pub struct Session {
    pub connect: Duration,
    pub save: Duration,
    /// The steps of the parts, in order, with their times.
    pub connect_steps: Vec<(String, Duration)>,
    pub save_steps: Vec<(String, Duration)>,
}

/// Steps with their times, in the order in which they ended.
struct Steps {
    began: Instant,
    done: Vec<(String, Duration)>,
}

impl Steps {
    fn new() -> Self {
        Self {
            began: Instant::now(),
            done: Vec::new(),
        }
    }

    /// Ends a step that began when the last one ended.
    fn end(&mut self, name: &str) {
        self.done.push((name.to_owned(), self.began.elapsed()));
        self.began = Instant::now();
    }

    /// Adds reported steps beside or within the others.
    fn beside(&mut self, steps: &[(String, Duration)]) {
        let named = |(name, took): &(String, Duration)| (format!("[{name}]"), *took);
        self.done.extend(steps.iter().map(named));
    }
}

impl Parts {
    /// The parts in the directory of a benchmark.
    pub fn new(top: &Path) -> anyhow::Result<Self> {
        let dir = top.join(NAME);
        std::fs::create_dir_all(&dir)?;
        // What is launched here has no group of this computer's.
        std::fs::write(dir.join("settings.toml"), "enforce-groups = false\n")?;
        Ok(Self {
            image: cache().join("local/jupyter.tar"),
            key: UserKey::open_or_create(&top.join("key"))?,
            snapshots: Mutex::new(Vec::new()),
            dir,
        })
    }

    /// The session number `generation` of `drive`: the first one makes it.
    pub async fn session(
        &self,
        drive: &str,
        generation: usize,
        change: &str,
    ) -> anyhow::Result<Session> {
        let began = now()?;
        let mut steps = Steps::new();
        let ec2 = open(&self.dir)?;
        steps.end("open");
        let (instance, host_key) = Box::pin(self.launch(&ec2, drive)).await?;
        steps.end("launch");
        let last = self.last_snapshot();
        let disk = async {
            let mut steps = Steps::new();
            let volume = create(&ec2, drive, &instance.zone, last.as_ref()).await?;
            steps.end("volume");
            attach(&ec2, &volume, &instance).await?;
            steps.end("attach");
            anyhow::Ok((volume, steps))
        };
        let boot = async {
            let mut steps = Steps::new();
            let ssh = self.login(&ec2, &instance, &host_key).await?;
            steps.end("boot");
            let (host, _) = Host::contact(ssh.clone()).await?;
            let client = format!("{drive} now me");
            let order = LockOrder {
                client: &client,
                role: Role::Lead,
                lease: Duration::from_mins(15),
            };
            let hold = host.hold(&order).await?;
            steps.end("scripts");
            anyhow::Ok((ssh, host, hold, steps))
        };
        let ((volume, beside), (ssh, host, hold, boot)) = tokio::try_join!(disk, boot)?;
        steps.done.extend(boot.done);
        steps.beside(&beside.done);
        steps.began = Instant::now();

        let mounted = mount(&host, &volume, generation, last.is_none()).await?;
        steps.end("mount");
        steps.beside(&mounted.timings);
        let image = if mounted.source.is_some() {
            Image::Kept
        } else {
            let archive = tokio::fs::File::open(&self.image).await?;
            Image::Loaded(host.load_image("the image", archive).await?)
        };
        steps.end("image");
        let order = ContainerOrder {
            drive: drive.parse()?,
            named: None,
            image,
            environment: Vec::new(),
            places: Places::default(),
            shares: None,
        };
        let container = host.container(&order).await?;
        steps.end("container");
        steps.beside(&container.timings);
        let jupyter = {
            let host = host.clone();
            tokio::spawn(async move {
                host.jupyter(None, &SessionId("one".into()), "token", false)
                    .await?;
                host.jupyter_listens(None).await
            })
        };
        let command = container.command(
            &CommandId::new()?,
            &["XDRIVE_NOTICE=30".to_owned()],
            &command(change),
        );
        let output = ssh.run(&command, b"").await?;
        ensure!(output.status == 0, "the command failed: {output:?}");
        let (first, last) = stamps(&output.stdout)?;

        let mut saving = Steps::new();
        jupyter.abort();
        let closed = host.close("the benchmark").await?;
        ensure!(closed.unmounted, "the drive could not be unmounted");
        saving.end("close");
        saving.beside(&closed.timings);
        drop(hold);
        self.save(&ec2, drive, &instance, &volume, &mut saving)
            .await?;
        Ok(Session {
            connect: first.saturating_sub(began),
            save: now()?.saturating_sub(last),
            connect_steps: steps.done,
            save_steps: saving.done,
        })
    }

    /// Removes the snapshots of this round, which hold a gigabyte or more.
    pub async fn forget(&self) -> anyhow::Result<()> {
        let snapshots = std::mem::take(&mut *self.lock());
        let ec2 = open(&self.dir)?;
        for snapshot in snapshots {
            ec2.delete_snapshot(may_prune(&snapshot)).await?;
        }
        Ok(())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<SnapshotId>> {
        self.snapshots
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn last_snapshot(&self) -> Option<SnapshotId> {
        self.lock().last().cloned()
    }

    async fn launch(&self, ec2: &Ec2, drive: &str) -> anyhow::Result<(Instance, String)> {
        let host_key = HostKey::generate()?;
        let user_data = boot::user_data(&BootOrder {
            host_private_key: host_key.private,
            host_public_key: host_key.public.clone(),
            authorized_keys: self.key.public().to_owned(),
            first_sign: Duration::from_mins(30),
            watch: Watch::default(),
        })?;
        let order = LaunchOrder {
            image: image_of(Arch::X86_64, false).to_owned(),
            instance_type: TYPE.to_owned(),
            user_data,
            tags: drive_tag(drive),
            root_tags: drive_tag(drive),
            interface_tags: Tags::new(),
            ..cloud::launch_order(&id("token"))
        };
        Ok((ec2.launch(&order).await?, host_key.public))
    }

    async fn login(&self, ec2: &Ec2, instance: &Instance, host_key: &str) -> anyhow::Result<Ssh> {
        let address = loop {
            let seen = ec2.instance(&instance.id).await?.context("it is gone")?;
            match seen.address {
                Some(address) if seen.state == InstanceState::Running => break address,
                _ => sleep(AGAIN).await,
            }
        };
        let target = Target {
            address: SocketAddr::new(address, 22),
            user: "root".to_owned(),
            host_key: host_key.to_owned(),
            proxy: None,
            received: Received::default(),
        };
        loop {
            // A booting machine refuses or denies the login.
            if let Ok(Ok(ssh)) = timeout(LOGIN, Ssh::connect(&target, self.key.private())).await {
                return Ok(ssh);
            }
            sleep(AGAIN).await;
        }
    }

    /// From a closed drive to nothing but its snapshot.
    async fn save(
        &self,
        ec2: &Ec2,
        drive: &str,
        instance: &Instance,
        volume: &Volume,
        steps: &mut Steps,
    ) -> anyhow::Result<()> {
        let snapshot = ec2.create_snapshot(&volume.id, &drive_tag(drive)).await?.id;
        steps.end("snapshot");
        ec2.terminate(may_terminate(&instance.id)).await?;
        steps.end("terminate");
        loop {
            let copied = ec2.snapshot(&snapshot).await?.context("no snapshot")?;
            let free = is_free(ec2, &volume.id).await?;
            if copied.state == SnapshotState::Completed && free {
                break;
            }
            sleep(AGAIN).await;
        }
        steps.end("shutdown");
        ec2.delete_volume(may_delete(&volume.id)).await?;
        steps.end("delete");
        self.lock().push(snapshot);
        Ok(())
    }
}

/// The EC2 in the state directory `dir`.
pub fn open(dir: &Path) -> anyhow::Result<Ec2> {
    Ok(xdrive::cloud::folder::ec2(&cloud::open(dir)?))
}

async fn create(
    ec2: &Ec2,
    drive: &str,
    zone: &Zone,
    snapshot: Option<&SnapshotId>,
) -> anyhow::Result<Volume> {
    let order = VolumeOrder {
        client_token: id("token"),
        zone: zone.clone(),
        size: SIZE,
        snapshot: snapshot.cloned(),
        speed: xdrive::ec2::Speed::default(),
        tags: drive_tag(drive),
    };
    Ok(ec2.create_volume(&order).await?)
}

async fn attach(ec2: &Ec2, volume: &Volume, instance: &Instance) -> anyhow::Result<()> {
    while !is_free(ec2, &volume.id).await? || !is_running(ec2, instance).await? {
        sleep(AGAIN).await;
    }
    ec2.attach(&volume.id, &instance.id, DEVICE).await?;
    loop {
        let seen = ec2.volume(&volume.id).await?.context("no volume")?;
        let attached = seen
            .attachment
            .is_some_and(|attachment| attachment.state == AttachmentState::Attached);
        if attached {
            return Ok(());
        }
        sleep(AGAIN).await;
    }
}

async fn is_free(ec2: &Ec2, volume: &VolumeId) -> anyhow::Result<bool> {
    let seen = ec2.volume(volume).await?.context("no volume")?;
    Ok(seen.state == VolumeState::Available)
}

async fn is_running(ec2: &Ec2, instance: &Instance) -> anyhow::Result<bool> {
    let seen = ec2.instance(&instance.id).await?.context("no instance")?;
    Ok(seen.state == InstanceState::Running)
}

async fn mount(
    host: &Host,
    volume: &Volume,
    generation: usize,
    blank: bool,
) -> anyhow::Result<MountedDrive> {
    let order = MountOrder {
        uuid: None,
        volume: volume.id.clone(),
        generation: Generation(u64::try_from(generation)?).next(),
        blank,
        device: "/dev/sdf".into(),
        size: Some(u64::from(volume.size) << 30),
        wait: Duration::from_secs(30),
        dirty_bytes: 2500 << 20,
        frozen: AtMount::Keep,
        hot: false,
    };
    Ok(host.mount(&order).await?)
}

/// The tag by which [`Ec2::everything`] finds it.
fn drive_tag(drive: &str) -> Tags {
    Tags::from([(DRIVE.to_owned(), drive.to_owned())])
}

/// Now, as a span since 1970: the containers' clock is this computer's.
pub fn now() -> anyhow::Result<Duration> {
    Ok(std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?)
}

/// The command of a session: a stamp, the change, a stamp; nanoseconds since 1970.
pub fn command(change: &str) -> Vec<String> {
    ["sh", "-c", &format!("date +%s%N; {change}; date +%s%N")]
        .map(str::to_owned)
        .into()
}

/// The two stamps in a session's output, as spans since 1970.
pub fn stamps(printed: &[u8]) -> anyhow::Result<(Duration, Duration)> {
    let printed = String::from_utf8_lossy(printed);
    let mut stamps = printed
        .lines()
        .map(|line| line.parse().map(Duration::from_nanos));
    match (stamps.next(), stamps.next()) {
        (Some(Ok(first)), Some(Ok(last))) => Ok((first, last)),
        _ => bail!("the command wrote no stamps: {printed:?}"),
    }
}
