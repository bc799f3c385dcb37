//! An instance and its disks; dropping it clears both.

use std::fs::File;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use tokio::time::Instant;
use xdrive::clock::Clock;
use xdrive::host::boot::{BootOrder, Watch, user_data};
use xdrive::host::facts::ScriptError;
use xdrive::host::places::Places;
use xdrive::host::scripts::{ContainerOrder, Host, Image, LoadedImage};
use xdrive::host::{AtMount, ClientLock, LockOrder, MountOrder, Role};
use xdrive::ids::{Generation, VolumeId};
use xdrive::local::plane::{Gpu, Machine as Order, Plane as _, RealPlane, Up};
use xdrive::ssh::{HostKey, PublicHostKey, Received, Ssh, Target, UserKey};

use harness::cloud::plane;
use harness::{DEADLINE, id};

/// From launch to login; two seconds on an idle machine.
const BOOT: Duration = Duration::from_secs(90);

/// A disk image that outlives machines, as a volume does.
pub(super) struct Disk {
    pub(super) volume: VolumeId,
    file: PathBuf,
    _dir: tempfile::TempDir,
}

impl Disk {
    /// An empty one of `mib` MiB.
    pub(super) fn new(mib: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("disk");
        File::create(&file).unwrap().set_len(mib << 20).unwrap();
        Self {
            volume: id("vol").parse().unwrap(),
            file,
            _dir: dir,
        }
    }

    pub(super) fn grow(&self, mib: u64) {
        let file = File::options().write(true).open(&self.file).unwrap();
        file.set_len(mib << 20).unwrap();
    }

    /// Makes it an ext4 with what is in `folder`.
    pub(super) fn format_with(&self, folder: &std::path::Path) {
        let mut make = Command::new("mke2fs");
        make.args(["-q", "-F", "-t", "ext4", "-d"]).arg(folder);
        run(make.arg(&self.file));
    }

    /// Whether its file system was unmounted.
    pub(super) fn is_clean(&self) -> bool {
        let printed = run(Command::new("dumpe2fs").arg("-h").arg(&self.file));
        let state = |line: &str| line.starts_with("Filesystem state:") && line.ends_with(" clean");
        printed.lines().any(state) && !printed.contains("needs_recovery")
    }

    pub(super) fn order(&self, generation: u64, blank: bool) -> MountOrder {
        MountOrder {
            uuid: None,
            volume: self.volume.clone(),
            generation: Generation(generation),
            blank,
            device: "/dev/sdf".into(),
            size: Some(std::fs::metadata(&self.file).unwrap().len()),
            wait: Duration::from_secs(10),
            dirty_bytes: 64 << 20,
            frozen: AtMount::Keep,
            hot: false,
        }
    }
}

pub(super) struct Machine {
    plane: RealPlane,
    instance: String,
    up: Up,
    loops: Vec<String>,
    target: Target,
    user_key: UserKey,
    pub(super) ssh: Ssh,
    pub(super) host: Host,
    dir: tempfile::TempDir,
}

impl Machine {
    /// Launches one and logs in. Panics with the console if that fails.
    pub(super) async fn boot() -> Self {
        Self::boot_with(Duration::from_mins(30), Watch::default()).await
    }

    /// Boots a machine with other times until it switches itself off.
    pub(super) async fn boot_with(first_sign: Duration, watch: Watch) -> Self {
        Self::boot_in(first_sign, watch, None).await
    }

    /// Boots a machine with a stand-in for a GPU.
    pub(super) async fn boot_as(gpu: Option<Gpu>) -> Self {
        Self::boot_in(Duration::from_mins(30), Watch::default(), gpu).await
    }

    /// Boots a machine with `disk` attached, formatted and mounted.
    pub(super) async fn with_drive(disk: &Disk) -> Self {
        let mut machine = Self::boot().await;
        machine.attach(disk);
        machine.mount_blank(disk).await;
        machine
    }

    /// Boots a machine with the drive's container running, from the smallest image.
    pub(super) async fn with_container(disk: &Disk) -> Self {
        let machine = Self::with_drive(disk).await;
        let image = Image::Loaded(machine.load_image().await);
        machine.start(image, &[]).await;
        machine
    }

    pub(super) async fn boot_in(first_sign: Duration, watch: Watch, gpu: Option<Gpu>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let plane = plane(dir.path());
        let user_key = UserKey::open_or_create(&dir.path().join("key/id")).unwrap();
        let host_key = HostKey::generate().unwrap();
        let order = BootOrder {
            host_private_key: host_key.private,
            host_public_key: host_key.public.clone(),
            authorized_keys: user_key.public().to_owned(),
            first_sign,
            watch,
        };
        let (instance, up) = launch(&plane, user_data(&order).unwrap(), gpu);
        let target = Target {
            address: SocketAddr::new(up.address.into(), 22),
            user: "root".into(),
            host_key: host_key.public,
            proxy: None,
            received: Received::default(),
        };
        let clear = Clear {
            plane: &plane,
            instance: Some(&instance),
        };
        let ssh = login(&target, &user_key).await.unwrap_or_else(|error| {
            let console = plane.console(&instance).unwrap_or_default();
            panic!("{error}\n{}", String::from_utf8_lossy(&console))
        });
        let (host, _) = Host::contact(ssh.clone()).await.unwrap();
        clear.keep();
        let machine = Self {
            plane,
            instance,
            up,
            loops: Vec::new(),
            target,
            user_key,
            ssh,
            host,
            dir,
        };
        assert_eq!(machine.fact("booted").await.as_deref(), Some("yes"));
        machine
    }

    /// Makes its metadata service answer `text` at `path`.
    pub(super) fn announce(&self, path: &str, text: &str) {
        let instance = self.dir.path().join("instances").join(&self.instance);
        let file = instance.join("imds/meta-data").join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        // Written whole: the watch may read it.
        let new = file.with_extension("new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, file).unwrap();
    }

    /// Waits until the machine is off, at most `limit`; returns how long that took.
    pub(super) async fn until_off(&self, limit: Duration) -> Duration {
        let began = Instant::now();
        while self.plane.is_up(&self.up) {
            assert!(began.elapsed() < limit, "it is still up after {limit:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        began.elapsed()
    }

    /// Reboots, and logs in again.
    pub(super) async fn reboot(&mut self) {
        let boot =
            "cat /run/xdrive/booted-at 2> /dev/null || date +%s%N | tee /run/xdrive/booted-at";
        let before = self.sh(boot).await;
        self.ssh.run("systemctl reboot", b"").await.ok();
        self.comes_back(boot, &before).await;
    }

    /// Resets it: cut off at any moment, and started again.
    pub(super) async fn reset(&mut self) {
        let boot =
            "cat /run/xdrive/booted-at 2> /dev/null || date +%s%N | tee /run/xdrive/booted-at";
        let before = self.sh(boot).await;
        self.plane.reboot(&self.instance, Duration::ZERO).unwrap();
        self.comes_back(boot, &before).await;
    }

    /// Logs in once `boot` prints something else than `before`.
    async fn comes_back(&mut self, boot: &str, before: &str) {
        let end = Instant::now() + BOOT;
        loop {
            assert!(Instant::now() < end, "it does not come back");
            // A connection may still be the old machine's, and end at any moment.
            if let Ok(ssh) = Ssh::connect(&self.target, self.user_key.private()).await
                && let Ok(output) = ssh.run(boot, b"").await
                && output.status == 0
                && output.stdout != before.as_bytes()
                && let Ok(output) = ssh.run("[ -e /run/xdrive/booted ]", b"").await
                && output.status == 0
                && let Ok((host, _)) = Host::contact(ssh.clone()).await
            {
                (self.ssh, self.host) = (ssh, host);
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Logs in once more, as from another laptop with the same key.
    pub(super) async fn login(&self) -> Ssh {
        login(&self.target, &self.user_key).await.unwrap()
    }

    /// A hold of another laptop, with a lease of so many seconds.
    pub(super) async fn hold(
        &self,
        client: &str,
        role: Role,
        lease: u64,
    ) -> Result<ClientLock, ScriptError> {
        let host = Host::contact(self.login().await).await?.0;
        hold(&host, client, role, lease).await
    }

    /// From now on it is known by this key.
    pub(super) fn is_known_by(&mut self, key: &PublicHostKey) {
        self.target.host_key = key.to_string();
    }

    pub(super) fn target(&self) -> (Target, String) {
        (self.target.clone(), self.user_key.private().to_owned())
    }

    /// Plugs `disk` in under its volume's id, without the plane, whose volumes are of whole GiB.
    pub(super) fn attach(&mut self, disk: &Disk) {
        let number = self.loop_of(disk);
        let serial = disk.volume.as_str().replace('-', "");
        let link = format!("/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_{serial}");
        let node = format!("/dev/nvme{}n1", self.loops.len());
        run(Command::new("nsenter")
            .args(["-t", &self.init(), "-m", "-p", "--", "sh", "-ec"])
            .arg(format!("mknod {node} b {number}; ln -s {node} {link}")));
    }

    /// Plugs `disk` in under this name and without a serial number, as a Xen instance has it.
    pub(super) fn attach_as(&mut self, node: &str, disk: &Disk) {
        let number = self.loop_of(disk);
        run(Command::new("nsenter")
            .args(["-t", &self.init(), "-m", "-p", "--", "sh", "-ec"])
            .arg(format!("mknod {node} b {number}")));
    }

    /// The number of a loop device that serves `disk`: the same after a reset.
    fn loop_of(&mut self, disk: &Disk) -> String {
        let list = ["--noheadings", "--output", "NAME", "--associated"];
        let mut device = run(Command::new("losetup").args(list).arg(&disk.file));
        if device.is_empty() {
            let make = ["--find", "--show"];
            device = run(Command::new("losetup").args(make).arg(&disk.file));
            self.loops.push(device.clone());
        }
        run(Command::new("stat").args(["-c", "%Hr %Lr", &device]))
    }

    /// The device of `disk` on the instance.
    pub(super) fn device(disk: &Disk) -> String {
        let serial = disk.volume.as_str().replace('-', "");
        format!("/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_{serial}")
    }

    /// The instance's process 1: the child of its supervisor's child.
    pub(super) fn init(&self) -> String {
        let child = |pid: &str| {
            run(Command::new("sh").args(["-c", &format!("cat /proc/{pid}/task/*/children")]))
                .split_whitespace()
                .next()
                .unwrap()
                .to_owned()
        };
        child(&child(&self.up.supervisor.to_string()))
    }

    /// Runs a command on the host; it must succeed.
    pub(super) async fn sh(&self, command: &str) -> String {
        let output = self.ssh.run(command, b"").await.unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status, 0, "{command}: {error}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Mounts `disk` as a drive, the first time.
    pub(super) async fn mount_blank(&self, disk: &Disk) {
        let mounted = self.host.mount(&disk.order(1, true)).await.unwrap();
        assert!(mounted.formatted);
    }

    /// The smallest image fit for a drive, loaded: a few of the instance's own programs.
    pub(super) async fn load_image(&self) -> LoadedImage {
        let archive = self
            .archive("sh bash cat env id ls mkdir ps rm sleep stat touch")
            .await;
        self.host.load_image("small", &archive[..]).await.unwrap()
    }

    /// A root file system with these programs of the instance, as a tar.
    pub(super) async fn archive(&self, programs: &str) -> Vec<u8> {
        /// In MiB; what a script may print is bounded.
        const PART: usize = 4;
        let script = format!(
            "cd / && for p in {programs}; do f=$(readlink -f $(command -v $p)); echo $f; command -v $p; \
             ldd $f | grep -o '/[^ ]*'; done | sort -u > /tmp/list && \
             tar -ch --no-recursion -T /tmp/list --hard-dereference tmp 2>/dev/null >/tmp/archive.tar"
        );
        let output = self.ssh.run(&script, b"").await.unwrap();
        assert_eq!(output.status, 0, "{output:?}");
        let mut archive = Vec::new();
        loop {
            let skip = archive.len() / (PART << 20);
            let part = format!("dd if=/tmp/archive.tar bs={PART}M skip={skip} count=1 status=none");
            let part = self.ssh.run(&part, b"").await.unwrap();
            archive.extend_from_slice(&part.stdout);
            if part.stdout.len() < PART << 20 {
                return archive;
            }
        }
    }

    pub(super) async fn start(
        &self,
        image: Image,
        environment: &[(&str, &str)],
    ) -> xdrive::host::container::Container {
        let order = order(image, environment);
        self.host.container(&order).await.unwrap()
    }
}

/// A lead in its own runtime: its sshd, and a function that ends it as a kill does.
pub(super) fn mortal(machine: &Machine, line: &'static str) -> (String, impl FnOnce() + use<>) {
    let (target, key) = machine.target();
    let (attached, is_attached) = std::sync::mpsc::channel();
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let client = std::thread::spawn(move || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let held = runtime.block_on(async {
            let ssh = Ssh::connect(&target, &key).await.unwrap();
            let sshd = ssh.run("echo $PPID", b"").await.unwrap().stdout;
            let host = Host::contact(ssh).await.unwrap().0;
            let held = hold(&host, line, Role::Lead, 900).await.unwrap();
            attached.send(String::from_utf8(sshd).unwrap()).unwrap();
            held
        });
        ended.recv().unwrap();
        runtime.shutdown_background();
        drop(held);
    });
    let sshd = is_attached.recv().unwrap().trim().to_owned();
    let kill = move || {
        end.send(()).unwrap();
        client.join().unwrap();
    };
    (sshd, kill)
}

pub(super) async fn hold(
    host: &Host,
    client: &str,
    role: Role,
    lease: u64,
) -> Result<ClientLock, ScriptError> {
    let lease = Duration::from_secs(lease);
    host.hold(&LockOrder {
        client,
        role,
        lease,
    })
    .await
}

/// Waits for an answer, [`DEADLINE`] at most.
pub(super) async fn soon<T>(waiting: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, waiting)
        .await
        .expect("it does not come")
}

pub(super) fn order(image: Image, environment: &[(&str, &str)]) -> ContainerOrder {
    ContainerOrder {
        drive: "demo".parse().unwrap(),
        named: None,
        image,
        environment: environment
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect(),
        places: Places::default(),
        shares: None,
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let cleared = self.plane.clear(&self.instance);
        for device in &self.loops {
            run(Command::new("losetup").args(["--detach", device]));
        }
        if !std::thread::panicking() {
            cleared.unwrap();
        }
    }
}

/// Clears an instance whose test fails before it has a [`Machine`].
pub(super) struct Clear<'a> {
    pub(super) plane: &'a RealPlane,
    pub(super) instance: Option<&'a str>,
}

impl Clear<'_> {
    fn keep(mut self) {
        self.instance = None;
    }
}

impl Drop for Clear<'_> {
    fn drop(&mut self) {
        if let Some(instance) = self.instance {
            // The test has failed already, with its reason.
            let _ = self.plane.clear(instance);
        }
    }
}

/// Launches an instance on the tree of `XDRIVE_TEST_TREE`: `debian`, the first, or `second`; its id
/// and its machine.
pub(super) fn launch(plane: &RealPlane, user_data: Vec<u8>, gpu: Option<Gpu>) -> (String, Up) {
    let images = plane.images().unwrap();
    let tree = std::env::var("XDRIVE_TEST_TREE").unwrap_or_else(|_| "debian".to_owned());
    let image = images
        .iter()
        .find(|image| image.name.contains(&format!("-{tree}-")))
        .expect("no such machine tree: shell/setup.sh test builds them");
    let instance = id("i");
    let order = Order {
        instance: instance.clone(),
        image: image.id.clone(),
        instance_type: "t3.medium".into(),
        zone: "us-east-1a".into(),
        user_data,
        tokens_required: true,
        hop_limit: 1,
        role: None,
        public: true,
        account: "123456789012".into(),
        vpc_cidrs: vec!["172.31.0.0/16".into()],
        gpu,
        boots: Clock::system().boot(),
    };
    let up = plane.launch(&order).unwrap();
    (instance, up)
}

async fn login(target: &Target, key: &UserKey) -> Result<Ssh, xdrive::ssh::SshError> {
    let end = Instant::now() + BOOT;
    loop {
        match Ssh::connect(target, key.private()).await {
            Err(_) if Instant::now() < end => tokio::time::sleep(Duration::from_millis(20)).await,
            answer => return answer,
        }
    }
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}
