//! An EC2 behind the proxy, a drive on it, and what no API shows: contents and hosts.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use xdrive::clock::Clock;
use xdrive::cloud::folder;
use xdrive::drive::tags::{Identity, VolumeTags, read_volume};
use xdrive::drive::{Goal, Outcome, Reconciler, Timing};
use xdrive::ec2::{Account, Ec2, InstanceState, Market, SnapshotState, VolumeState};
use xdrive::ids::SessionId;
use xdrive::local::Settings;

use super::{CASES, Past};
use crate::folder::{Folder, Served};
use harness::DEADLINE;
use harness::faults::proxy::{Asked, FaultProxy};
use harness::simulation::host::{PaperHosts, wanted};
use harness::simulation::life::Ended;
use harness::simulation::{Hidden, drive};

/// At moto, the id of the session's key, whose calls meet faults, and of the test's own key.
const SESSION_KEY: &str = "AKIAIOSFODNN7EXAMPLE";
const OBSERVER_KEY: &str = "AKIAI44QH8DHBEXAMPLE";

/// How old the folder's lists are, and its reads by id.
const OLD: (u64, u64) = (60, 30);

/// The EC2s of the cases, one after the other.
pub(super) struct World {
    pub(super) proxy: FaultProxy,
    /// moto's address, if it is moto.
    moto: Option<String>,
    hidden: Arc<Mutex<Hidden>>,
    processes: u32,
    /// How many cases began with this EC2.
    cases: usize,
    now: Option<Cloud>,
}

/// The EC2 of a case.
struct Cloud {
    /// The EC2 as the session reaches it.
    ec2: Ec2,
    /// The EC2 without the proxy.
    truth: Ec2,
    served: Option<Served>,
}

impl World {
    /// A world without an EC2 yet. The proxy's listener is standard input.
    pub(super) fn new(moto: Option<String>) -> Self {
        let listener = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
        let world = Self {
            proxy: FaultProxy::on(TcpListener::from(listener)),
            moto,
            hidden: Arc::default(),
            processes: 0,
            cases: 0,
            now: None,
        };
        world.proxy.observe_by(OBSERVER_KEY);
        world
    }

    /// Prepares a drive of this past: for a new one EC2 is empty; a saved one is as the last case
    /// left it.
    pub(super) async fn come_to(&mut self, past: Past) {
        self.proxy.decide(|_| harness::faults::proxy::Fate::Passed);
        match past {
            Past::New => self.begin().await,
            Past::Saved if self.now.is_some() && self.cases < CASES => {}
            Past::Saved => {
                self.begin().await;
                let ended = self.session().await;
                assert!(matches!(ended, Ended::Saved), "{ended:?}");
            }
        }
        self.cases += 1;
    }

    /// Ends the use of this EC2.
    pub(super) fn forget(&mut self) {
        self.now = None;
    }

    /// Begins anew, with an empty EC2.
    async fn begin(&mut self) {
        self.now = None;
        self.cases = 0;
        self.hidden = Arc::default();
        let hidden = Arc::clone(&self.hidden);
        self.proxy.change(move |asked, answer| {
            follow(&mut hidden.lock().unwrap(), asked, &answer);
            answer
        });
        self.now = Some(match &self.moto {
            Some(url) => on_moto(url).await,
            None => in_a_folder().await,
        });
    }

    fn hidden(&self) -> MutexGuard<'_, Hidden> {
        self.hidden.lock().unwrap()
    }

    fn truth(&self) -> &Ec2 {
        &self.now.as_ref().unwrap().truth
    }

    /// Runs a session of one process: ready, a note, saved.
    pub(super) async fn session(&mut self) -> Ended {
        self.processes += 1;
        let process = self.processes;
        let cloud = self.now.as_ref().unwrap();
        let settle = match cloud.served {
            Some(_) => Duration::from_millis(OLD.0 + 50),
            None => Duration::from_millis(50),
        };
        let timing = Timing {
            poll: Duration::from_millis(20),
            // moto has no blocks to verify.
            verdict: settle + Duration::from_millis(200),
            ..Timing::local(settle)
        };
        let sheets = cloud.served.as_ref().map(|it| it.folder.local.clone());
        let hosts = PaperHosts::of_cloud(process, &self.hidden, &cloud.truth, sheets);
        let who = Identity::new(
            SessionId(format!("session-{process}")),
            "arn:aws:iam::000000000000:user/ada".to_owned(),
        );
        let mut reconciler = Reconciler::new(
            drive(),
            who,
            cloud.ec2.clone(),
            hosts,
            Clock::system(),
            timing,
            wanted(Market::Spot),
            |_| {},
        );
        let (_nobody, mut interrupted) = watch::channel(0);
        let goal = Goal::Ready { from: None };
        let outcome = Box::pin(reconciler.run(goal, &mut interrupted)).await;
        let Outcome::Ready { volume, .. } = &outcome else {
            return Ended::new(&outcome);
        };
        self.write(process, volume.as_str()).await;
        let goal = Goal::Saved {
            even_if_used: false,
        };
        Ended::new(&Box::pin(reconciler.run(goal, &mut interrupted)).await)
    }

    /// A user writes a note and syncs it. A drive that is ready has one instance.
    async fn write(&self, process: u32, volume: &str) {
        let live = self.live().await;
        let mut hidden = self.hidden();
        if live.len() != 1 {
            hidden
                .broken
                .push(format!("ready, and these run: {live:?}"));
        }
        hidden.acknowledged.insert(process);
        let content = hidden.contents.get_mut(volume).unwrap();
        content.notes.insert(process);
    }

    async fn live(&self) -> Vec<String> {
        let instances = self.truth().instances(&drive()).await.unwrap();
        let is_live = |state| matches!(state, InstanceState::Pending | InstanceState::Running);
        let live = instances.into_iter().filter(|it| is_live(it.state));
        live.map(|it| it.id.to_string()).collect()
    }

    /// The drive's existing volumes; root disks end with their instances.
    async fn volumes(&self) -> Vec<String> {
        let volumes = self.truth().volumes(&drive()).await.unwrap();
        let gone = [VolumeState::Deleting, VolumeState::Deleted];
        volumes
            .into_iter()
            .filter(|it| !gone.contains(&it.state))
            .filter(|it| !matches!(read_volume(&it.tags), Ok(VolumeTags::Root)))
            .map(|it| it.id.to_string())
            .collect()
    }

    /// Lists the resources that are billed although the session has ended without naming them.
    pub(super) async fn unreported(&self, ended: &Ended) -> Vec<String> {
        let reported = match ended {
            Ended::Saved => "",
            Ended::Failed { reported, .. } => reported,
        };
        let there = [self.live().await, self.volumes().await].concat();
        there
            .into_iter()
            .filter(|id| !reported.contains(id.as_str()))
            .map(|id| format!("{id} is there, and was not reported"))
            .collect()
    }

    /// Lists the resources that are left besides snapshots, broken promises, and notes that the
    /// newest snapshot lacks.
    pub(super) async fn problems(&self) -> Vec<String> {
        let began = Instant::now();
        let left = loop {
            let left = [self.live().await, self.volumes().await].concat();
            if left.is_empty() || began.elapsed() > DEADLINE {
                break left;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        let mut problems: Vec<String> = left.iter().map(|id| format!("{id} is left")).collect();
        let mut newest = None;
        for snapshot in self.truth().snapshots(&drive()).await.unwrap() {
            if snapshot.state != SnapshotState::Completed {
                problems.push(format!("{} is {:?}", snapshot.id, snapshot.state));
            }
            let generation: u64 = snapshot.tags["xdrive:generation"].parse().unwrap();
            newest = newest.max(Some((generation, snapshot.id.to_string())));
        }
        let hidden = self.hidden();
        let kept = newest.and_then(|(_, id)| hidden.contents.get(&id).cloned());
        let kept = kept.unwrap_or_default();
        for note in hidden.acknowledged.difference(&kept.notes) {
            problems.push(format!("note {note} is not in the newest snapshot"));
        }
        problems.extend(hidden.broken.iter().cloned());
        problems
    }
}

/// Contents follow volumes and snapshots, and no mounted drive's instance may end.
fn follow(hidden: &mut Hidden, asked: &Asked, answer: &str) {
    let param = |name: &str| asked.params.get(name).cloned().unwrap_or_default();
    let element = |name: &str| {
        let (_, rest) = answer.split_once(&format!("<{name}>"))?;
        rest.split('<').next().map(str::to_owned)
    };
    let (made, source) = match asked.action.as_str() {
        "CreateVolume" => (element("volumeId"), param("SnapshotId")),
        "CreateSnapshot" => (element("snapshotId"), param("VolumeId")),
        "TerminateInstances" => {
            let instance = param("InstanceId.1");
            let host = hidden.hosts.get(&instance);
            if let Some(volume) = host.and_then(|host| host.mounted.clone()) {
                let problem = format!("P2: {instance} ends with {volume} mounted");
                hidden.broken.push(problem);
            }
            return;
        }
        _ => return,
    };
    let content = hidden.contents.get(&source).cloned().unwrap_or_default();
    if let Some(made) = made {
        hidden.contents.entry(made).or_insert(content);
    }
}

/// moto, emptied.
async fn on_moto(url: &str) -> Cloud {
    let host = url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    let reset = "POST /moto-api/reset HTTP/1.1\r\nhost: moto\r\ncontent-length: 0\r\n\
                 connection: close\r\n\r\n";
    stream.write_all(reset.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains(" 200 "), "{answer}");
    Cloud {
        ec2: with_profile(SESSION_KEY, "example", url).await,
        truth: with_profile(OBSERVER_KEY, "example", url).await,
        served: None,
    }
}

/// A new EC2 in a folder, served, with stale lists.
async fn in_a_folder() -> Cloud {
    let stale = |(lists, reads)| Settings {
        stale_lists_ms: Some(lists),
        stale_reads_ms: Some(reads),
        ..Settings::default()
    };
    let folder = Folder::in_real_time(stale(OLD));
    let truth = folder::ec2(&folder.reopen_with(&stale((0, 0))).unwrap());
    let key = folder.local.credentials().clone();
    let served = folder.serve().await;
    let url = format!("http://{}", served.address);
    Cloud {
        ec2: with_profile(&key.access_key_id, &key.secret_access_key, &url).await,
        truth,
        served: Some(served),
    }
}

/// The account of a profile that has this key, whose EC2 is at `url`.
async fn with_profile(id: &str, secret: &str, url: &str) -> Ec2 {
    let mut config = "[profile there]\nregion = us-east-1\n".to_owned();
    for (name, value) in [
        ("aws_access_key_id", id),
        ("aws_secret_access_key", secret),
        ("endpoint_url", url),
    ] {
        writeln!(config, "{name} = {value}").unwrap();
    }
    std::fs::write(std::env::var_os("AWS_CONFIG_FILE").unwrap(), config).unwrap();
    let account = Account {
        profile: Some("there".to_owned()),
        region: None,
    };
    Ec2::of_account(&account, Clock::system()).await.unwrap()
}
