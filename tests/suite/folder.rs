//! An EC2 on paper, in a folder of its own: the world of the tests that need its API alone.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use xdrive::clock::Clock;
use xdrive::cloud;
use xdrive::ec2::Ec2;
use xdrive::local::plane::PaperPlane;
use xdrive::local::wire::Server;
use xdrive::local::{Local, OpenOptions, Preset, Settings};

use harness::faults::connector::FaultConnector;

/// An EC2 in a new folder.
pub(crate) struct Folder {
    pub(crate) local: Local,
    /// The client that xdrive has.
    pub(crate) ec2: Ec2,
    /// The log of that client's calls, and their faults.
    pub(crate) connector: FaultConnector,
    pub(crate) clock: Clock,
    pub(crate) settings: Settings,
    dir: TempDir,
}

/// An EC2 in a new folder that is served in this process, until `stop` is sent to or dropped.
pub(crate) struct Served {
    pub(crate) folder: Folder,
    /// The server's address and port.
    pub(crate) address: String,
    pub(crate) stop: oneshot::Sender<()>,
    pub(crate) running: JoinHandle<()>,
}

impl Folder {
    /// With these settings, on tokio's clock, which a test may pause.
    pub(crate) fn new(settings: Settings) -> Self {
        let began = Timestamp::from_second(1_800_000_000).unwrap();
        Self::on(Clock::tokio(began), settings)
    }

    /// With this table of delays.
    pub(crate) fn delayed(delays: Preset) -> Self {
        Self::new(Settings {
            delays: Some(delays),
            ..Settings::default()
        })
    }

    /// With the AWS-like table of delays and lists that are never stale.
    pub(crate) fn aws() -> Self {
        Self::new(Settings {
            delays: Some(Preset::Aws),
            stale_lists_ms: Some(0),
            stale_reads_ms: Some(0),
            ..Settings::default()
        })
    }

    /// With these settings, on the computer's clock.
    pub(crate) fn in_real_time(settings: Settings) -> Self {
        Self::on(Clock::system(), settings)
    }

    fn on(clock: Clock, settings: Settings) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let local = open(dir.path(), &clock, &settings).unwrap();
        let connector = FaultConnector::new(local.clone());
        let ec2 = cloud::folder::ec2_through(&local, connector.client());
        Self {
            local,
            ec2,
            connector,
            clock,
            settings,
            dir,
        }
    }

    /// A second handle on the same folder, as another process has it.
    pub(crate) fn reopen(&self) -> anyhow::Result<Local> {
        self.reopen_with(&self.settings)
    }

    /// A second handle on the same folder, with other settings.
    pub(crate) fn reopen_with(&self, settings: &Settings) -> anyhow::Result<Local> {
        open(self.dir.path(), &self.clock, settings)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Serves it on a free port.
    pub(crate) async fn serve(self) -> Served {
        let server = Server::bind(self.local.clone(), 0).await.unwrap();
        let address = server.url().strip_prefix("http://").unwrap().to_owned();
        let (stop, stopped) = oneshot::channel();
        let running = tokio::spawn(server.run(async move {
            stopped.await.ok();
        }));
        Served {
            folder: self,
            address,
            stop,
            running,
        }
    }
}

/// The EC2 on paper in `dir`.
pub(crate) fn open(dir: &Path, clock: &Clock, settings: &Settings) -> anyhow::Result<Local> {
    let mut options = OpenOptions::new(dir, PaperPlane, clock.clone());
    options.settings = settings.clone();
    Local::open(options)
}
