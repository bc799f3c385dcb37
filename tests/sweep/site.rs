//! A home, a state directory, and the programs that run on them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use aws_credential_types::Credentials;
use aws_sdk_ec2::config::{BehaviorVersion, Region};
use aws_sdk_ec2::types::{InstanceStateName, Reservation, SnapshotState};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use xdrive::local::Local;
use xdrive::local::plane::Plane as _;
use xdrive::local::wire::InProcess;

use crate::client::{AFTER, KILL, TRACE};
use crate::points::Kill;
use crate::running::{Ended, Running};
use harness::cloud::{open, plane};
use harness::home::{check_cache, environment};
use harness::server::ServerProcess;
use harness::{id, leaks, program, small_image};

/// How long a supervisor may take to clear up after a session.
const CLEANUP: Duration = Duration::from_mins(1);

/// The site of one sweep; dropping it removes everything of it.
pub(crate) struct Site {
    folder: TempDir,
    runtime: Runtime,
    ec2: aws_sdk_ec2::Client,
    served: Option<Endpoint>,
}

/// Where the site's EC2 is served by another process.
struct Endpoint {
    server: ServerProcess,
    /// The environment of its clients.
    environment: Vec<(String, String)>,
}

impl Site {
    /// A site whose EC2 is in the client's process, or served by another.
    pub(crate) fn new(is_served: bool) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("sweep-").tempdir()?;
        let (home, dir) = (folder.path().join("home"), folder.path().join("state"));
        std::fs::create_dir(&home)?;
        std::fs::create_dir(&dir)?;
        check_cache(&["machine"])?;
        let local = open(&dir)?;
        let ec2 = client(&local);
        let mut site = Self {
            folder,
            runtime: tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?,
            ec2,
            served: None,
        };
        if is_served {
            site.served = Some(site.serve(&local)?);
        }
        Ok(site)
    }

    pub(crate) fn dir(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn serve(&self, local: &Local) -> anyhow::Result<Endpoint> {
        let mut serve = self.bare(&program(), "home");
        let server = ServerProcess::start(serve.args(["local", "serve", "--port", "0"]))?;
        let key = local.credentials();
        let environment = [
            ("AWS_ENDPOINT_URL", server.url()),
            ("AWS_REGION", local.region()),
            ("AWS_ACCESS_KEY_ID", &key.access_key_id),
            ("AWS_SECRET_ACCESS_KEY", &key.secret_access_key),
        ];
        let environment = environment
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
        Ok(Endpoint {
            server,
            environment,
        })
    }

    /// A program without the tester's environment, on the laptop with this home.
    fn bare(&self, program: &Path, home: &str) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .envs(environment(&self.path(home), &self.dir()))
            .stdin(Stdio::null());
        command
    }

    /// Starts a session of `drive` that runs `command`, its trace going to `trace`.
    pub(crate) fn start(
        &self,
        drive: &str,
        command: &[&str],
        trace: Option<(&Path, Option<&Kill>)>,
    ) -> anyhow::Result<Running> {
        self.start_with(&[], drive, command, trace)
    }

    /// Starts a session of `drive` with these flags.
    pub(crate) fn start_with(
        &self,
        flags: &[&str],
        drive: &str,
        command: &[&str],
        trace: Option<(&Path, Option<&Kill>)>,
    ) -> anyhow::Result<Running> {
        let image = self.image("small.tar")?;
        let flags = [&["--image", &image], flags].concat();
        self.start_from("home", &flags, drive, command, trace)
    }

    /// Starts a session of `drive` from the laptop with this home, with these flags only.
    pub(crate) fn start_from(
        &self,
        home: &str,
        flags: &[&str],
        drive: &str,
        command: &[&str],
        trace: Option<(&Path, Option<&Kill>)>,
    ) -> anyhow::Result<Running> {
        let words = [&["connect", drive], flags, &["--"], command].concat();
        self.client(home, &words, trace)
    }

    /// Starts this program as the xdrive of the laptop with this home, with these words.
    pub(crate) fn client(
        &self,
        home: &str,
        words: &[&str],
        trace: Option<(&Path, Option<&Kill>)>,
    ) -> anyhow::Result<Running> {
        std::fs::create_dir_all(self.path(home))?;
        let mut client = self.bare(&std::env::current_exe()?, home);
        client.arg("client").args(words);
        if let Some(served) = &self.served {
            client.envs(served.environment.iter().map(|(name, value)| (name, value)));
        }
        if let Some((trace, kill)) = trace {
            client.env(TRACE, trace);
            if let Some(kill) = kill {
                client
                    .env(KILL, &kill.point)
                    .env(AFTER, kill.after.as_micros().to_string());
            }
        }
        Running::start(&mut client)
    }

    /// Runs the real `xdrive` to its end.
    pub(crate) fn xdrive(&self, arguments: &[&str]) -> anyhow::Result<Ended> {
        self.laptop("home", arguments)?.end()
    }

    /// Starts the real `xdrive` on the laptop with this home.
    pub(crate) fn laptop(&self, home: &str, arguments: &[&str]) -> anyhow::Result<Running> {
        std::fs::create_dir_all(self.path(home))?;
        let mut command = self.bare(&program(), home);
        Running::start(command.arg("--local").args(arguments))
    }

    /// The small image as a file of that name: xdrive identifies images by their files' names.
    pub(crate) fn image(&self, name: &str) -> anyhow::Result<String> {
        let tar = self.path(name);
        small_image(&tar);
        tar.into_os_string()
            .into_string()
            .ok()
            .context("not a name that can be typed")
    }

    /// Runs a session to its end.
    pub(crate) fn session(
        &self,
        drive: &str,
        command: &[&str],
        trace: Option<(&Path, Option<&Kill>)>,
    ) -> anyhow::Result<Ended> {
        self.start(drive, command, trace)?.end()
    }

    /// Interrupts the only running instance, so long from now.
    pub(crate) fn interrupt(&self, after: Duration) -> anyhow::Result<()> {
        let local = open(&self.dir())?;
        let instances = self.runtime.block_on(self.instances())?;
        let running = instances
            .iter()
            .find(|(_, state)| *state == Some(InstanceStateName::Running));
        local.interrupt(&running.context("no instance runs")?.0, after)?;
        Ok(())
    }

    /// Lists the resources that are left besides completed snapshots: in the running system, and in
    /// the EC2, whatever their tags.
    pub(crate) fn left(&self) -> anyhow::Result<Vec<String>> {
        let server = self.served.as_ref().map(|served| served.server.id());
        let began = Instant::now();
        loop {
            let mut left = leaks(&self.dir());
            if let Some(server) = server {
                left.retain(|line| !line.starts_with(&format!("process {server}:")));
            }
            if left.is_empty() || began.elapsed() > CLEANUP {
                left.extend(self.billed()?);
                return Ok(left);
            }
            if began.elapsed() > CLEANUP / 2 {
                // A program that another point starts holds copies of this process's locks until its
                // exec: the last user of the disks may have taken it for one more, which follows here.
                plane(&self.dir()).delete_volume(&id("vol"))?;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Whether an instance is pending, running or shutting down.
    pub(crate) fn is_running(&self) -> anyhow::Result<bool> {
        let instances = self.runtime.block_on(self.instances())?;
        Ok(instances
            .iter()
            .any(|(_, state)| *state != Some(InstanceStateName::Terminated)))
    }

    /// The id and the state of every instance.
    async fn instances(&self) -> anyhow::Result<Vec<(String, Option<InstanceStateName>)>> {
        let answer = self.ec2.describe_instances().send().await?;
        let instances = answer
            .reservations()
            .iter()
            .flat_map(Reservation::instances);
        Ok(instances
            .map(|instance| {
                let state = instance.state().and_then(|state| state.name());
                let id = instance.instance_id().unwrap_or_default();
                (id.to_owned(), state.cloned())
            })
            .collect())
    }

    /// Lists the resources that are left in the EC2: instances, volumes, snapshots that are not
    /// completed.
    pub(crate) fn billed(&self) -> anyhow::Result<Vec<String>> {
        let mut left = Vec::new();
        self.runtime.block_on(async {
            for (id, state) in self.instances().await? {
                if state != Some(InstanceStateName::Terminated) {
                    left.push(format!("{id} {state:?}"));
                }
            }
            for volume in self.ec2.describe_volumes().send().await?.volumes() {
                left.push(format!("{:?} {:?}", volume.volume_id(), volume.state()));
            }
            for snapshot in self.snapshots().await? {
                if snapshot.state() != Some(&SnapshotState::Completed) {
                    left.push(format!(
                        "{:?} {:?}",
                        snapshot.snapshot_id(),
                        snapshot.state()
                    ));
                }
            }
            anyhow::Ok(())
        })?;
        Ok(left)
    }

    async fn snapshots(&self) -> anyhow::Result<Vec<aws_sdk_ec2::types::Snapshot>> {
        let answer = self.ec2.describe_snapshots().owner_ids("self").send();
        Ok(answer.await?.snapshots().to_vec())
    }

    /// The generations of the drive's snapshots, from the first one on.
    pub(crate) fn generations(&self, drive: &str) -> anyhow::Result<Vec<u64>> {
        let snapshots = self.runtime.block_on(self.snapshots())?;
        let generation = |snapshot: &aws_sdk_ec2::types::Snapshot| {
            let tag = |key| {
                let tag = snapshot.tags().iter().find(|tag| tag.key() == Some(key));
                tag.and_then(|tag| tag.value())
            };
            let number = tag("xdrive:generation").filter(|_| tag("xdrive:drive") == Some(drive))?;
            number.parse().ok()
        };
        let mut generations: Vec<u64> = snapshots.iter().filter_map(generation).collect();
        generations.sort_unstable();
        Ok(generations)
    }

    /// The number of snapshots; they are deleted if `drive` is not used again.
    pub(crate) fn count_snapshots(&self, drive: &str, remove: bool) -> anyhow::Result<usize> {
        self.runtime.block_on(async {
            let mut count = 0;
            for snapshot in self.snapshots().await? {
                let is_of_drive = snapshot
                    .tags()
                    .iter()
                    .any(|tag| tag.key() == Some("xdrive:drive") && tag.value() == Some(drive));
                if !is_of_drive {
                    continue;
                }
                count += 1;
                if remove {
                    self.ec2
                        .delete_snapshot()
                        .set_snapshot_id(snapshot.snapshot_id().map(str::to_owned))
                        .send()
                        .await?;
                }
            }
            Ok(count)
        })
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        drop(self.served.take());
        if let Err(error) = plane(&self.dir()).sweep(&[], &[], &[]) {
            eprintln!("cannot clean up: {error:?}");
        }
        for line in leaks(&self.dir()) {
            eprintln!("left behind: {line}");
        }
    }
}

fn client(local: &Local) -> aws_sdk_ec2::Client {
    let key = local.credentials();
    aws_sdk_ec2::Client::from_conf(
        aws_sdk_ec2::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new(local.region().to_owned()))
            .endpoint_url("http://localhost")
            .credentials_provider(Credentials::from_keys(
                &key.access_key_id,
                &key.secret_access_key,
                None,
            ))
            .http_client(InProcess::new(local.clone()))
            .build(),
    )
}
