//! Tests that only the named destination changes here, whatever a server says, and that the copy
//! ends.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;

use super::super::{Order, Servers, Sync, Transfer};
use super::liar::{Asked, Byte, FOLDER, Field, LINK, Liar, Lie, Long, Number, Raw, Text};
use crate::host::sftp::Sftp;
use crate::host::sftp::piped::Peer;

/// How long a server may be silent here.
const SILENCE: Duration = Duration::from_millis(200);

/// How many entries of folders a copy takes here.
const ENTRIES: u64 = 300;

/// How long a copy may take that a liar answers.
const BOUND: Duration = Duration::from_mins(1);

/// Lies in place of a field.
fn instead(field: &Field) -> Vec<Field> {
    let long = [vec![b'x'; 300], vec![b'y'; 100_000]];
    let texts: [&[u8]; 11] = [
        b"",
        b".",
        b"..",
        b"../../.ssh/authorized_keys",
        b"/",
        b"deep/x",
        b"\0",
        b"link",
        b".ssh",
        &long[0],
        &long[1],
    ];
    match field {
        Byte(_) => [0, 1, 255].map(Byte).to_vec(),
        Number(_) => {
            let modes = [LINK, FOLDER, 0o100_666, 0o107_777, 0o060_666];
            [0, 1, u32::MAX]
                .into_iter()
                .chain(modes)
                .map(Number)
                .collect()
        }
        Long(_) => [0, 1, 1 << 20, 1 << 40, 1 << 63, u64::MAX]
            .map(Long)
            .to_vec(),
        Text(_) => texts.map(|text| Text(text.to_vec())).to_vec(),
        Raw(_) => [0, 1, 900_000].map(|length| Raw(vec![1; length])).to_vec(),
    }
}

/// Every lie about answers like these.
fn lies(seen: &BTreeMap<Asked, Vec<Field>>) -> Vec<(Asked, Lie)> {
    let mut lies = Vec::new();
    for (asked, fields) in seen {
        let mut add = |lie| lies.push((asked.clone(), lie));
        for (at, field) in fields.iter().enumerate() {
            for other in instead(field).into_iter().filter(|it| it != field) {
                add(Lie::Field(at, other));
            }
            add(Lie::Cut(at));
        }
        let statuses = [0, 1, 2, 4, u32::MAX].map(Lie::Status);
        let lengths = [0, 4, 1 << 20, u32::MAX].map(Lie::Length);
        let others = [
            Lie::Longer,
            Lie::OtherNumber,
            Lie::Twice,
            Lie::Late,
            Lie::Never,
            Lie::End,
        ];
        statuses
            .into_iter()
            .chain(lengths)
            .chain(others)
            .for_each(&mut add);
        if asked.starts_with("list") {
            let listings = [Lie::Endless(0), Lie::Endless(200), Lie::Deep];
            listings.into_iter().for_each(&mut add);
        }
    }
    lies
}

/// Makes the surroundings of the destination, which is `home` or in it.
fn surroundings(top: &Path) {
    fs::create_dir_all(top.join(".ssh")).unwrap();
    fs::create_dir_all(top.join("home/.ssh")).unwrap();
    fs::create_dir_all(top.join("source/deep")).unwrap();
    for file in [
        ".ssh/authorized_keys",
        "secret",
        "home/.bashrc",
        "home/.ssh/authorized_keys",
        "source/a",
        "source/deep/b",
    ] {
        fs::write(top.join(file), "mine").unwrap();
        fs::set_permissions(top.join(file), Permissions::from_mode(0o600)).unwrap();
    }
    fs::write(top.join("source/large"), vec![3; 250 << 10]).unwrap();
    symlink("../.ssh", top.join("home/things")).unwrap();
    symlink("../secret", top.join("home/a")).unwrap();
    symlink("../secret", top.join("source/link")).unwrap();
}

/// All that is below a folder, but for what is named: mode, time of a file, and content or target.
fn snapshot(top: &Path, named: &BTreeSet<PathBuf>) -> BTreeMap<PathBuf, (u32, i64, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut folders = vec![top.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let below = path.strip_prefix(top).unwrap().to_owned();
            let name = below.file_name().unwrap().to_string_lossy().into_owned();
            if named.contains(&below) || super::super::part::is_part(name.as_bytes()) {
                continue;
            }
            let metadata = fs::symlink_metadata(&path).unwrap();
            let (time, content) = if metadata.is_symlink() {
                let target = fs::read_link(&path).unwrap();
                (0, target.into_os_string().into_encoded_bytes())
            } else if metadata.is_dir() {
                folders.push(path);
                (0, Vec::new())
            } else {
                (metadata.mtime_nsec(), fs::read(&path).unwrap())
            };
            found.insert(below, (metadata.mode(), time, content));
        }
    }
    found
}

/// A copy, and the paths that it names.
#[derive(Debug, Clone, Copy)]
struct Scenario {
    sources: &'static [&'static str],
    to: &'static str,
    /// The paths here that may change.
    named: &'static [&'static str],
}

impl Scenario {
    fn order(&self, top: &Path) -> Order {
        if self.sources == ["source"] {
            let folder = top.join("source");
            let to = self.to.into();
            return if self.to == "sync" {
                let sync = Sync { deletes: true };
                Order::Sync { folder, to, sync }
            } else {
                let sources = vec![folder];
                Order::Up { sources, to }
            };
        }
        Order::Down {
            sources: self
                .sources
                .iter()
                .map(|it| it.as_bytes().to_vec())
                .collect(),
            to: top.join(self.to),
        }
    }
}

const SCENARIOS: [Scenario; 6] = [
    Scenario {
        sources: &["things"],
        to: "home/new",
        named: &["home/new"],
    },
    Scenario {
        sources: &["~/deep", "a"],
        to: "home",
        named: &["home/deep", "home/a"],
    },
    Scenario {
        sources: &["things"],
        to: "home",
        named: &["home/things"],
    },
    Scenario {
        sources: &["large"],
        to: "home/large",
        named: &["home/large"],
    },
    Scenario {
        sources: &["source"],
        to: "things",
        named: &[],
    },
    Scenario {
        sources: &["source"],
        to: "sync",
        named: &[],
    },
];

/// Copies twice, as what a lie in a field makes may be what another one needs. What was answered.
async fn copied(scenario: Scenario, asked: Asked, lie: Lie) -> BTreeMap<Asked, Vec<Field>> {
    let folder = tempfile::tempdir().unwrap();
    let top = folder.path().to_owned();
    surroundings(&top);
    let named = scenario.named.iter().map(PathBuf::from).collect();
    let before = snapshot(&top, &named);
    let seen = Arc::<Mutex<BTreeMap<_, _>>>::default();
    let what = format!("{scenario:?}, {asked}, {lie:?}");
    let times = if matches!(lie, Lie::Field(..)) { 2 } else { 1 };
    for _ in 0..times {
        let (here, there) = UnixStream::pair().unwrap();
        let liar = Liar {
            asked: asked.clone(),
            lie: lie.clone(),
            seen: Arc::clone(&seen),
            listed: 0,
        };
        std::thread::spawn(move || liar.serve(&there));
        let (answers, requests) = (here.try_clone().unwrap(), here.try_clone().unwrap());
        let copying = async {
            let server = Sftp::piped(Peer {
                answers,
                requests,
                silence: SILENCE,
            })
            .await;
            if let Ok(server) = server {
                let copy = Transfer::new(scenario.order(&top), false);
                // Whether it fails is the liar's choice.
                let _ = copy.run(Servers::bounded(vec![server], ENTRIES)).await;
            }
        };
        let ended = timeout(BOUND, copying).await;
        assert!(ended.is_ok(), "no end: {what}");
        let _ = here.shutdown(std::net::Shutdown::Both);
    }
    let after = snapshot(&top, &named);
    for (path, found) in &before {
        assert_eq!(
            after.get(path),
            Some(found),
            "{} changed: {what}",
            path.display()
        );
    }
    assert_eq!(after.len(), before.len(), "something is new: {what}");
    seen.lock().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_a_server_says_nothing_changes_but_what_was_named() {
    for scenario in SCENARIOS {
        let seen = copied(scenario, Asked::new(), Lie::None).await;
        assert!(seen.len() >= 3, "{seen:?}");
        let mut running = JoinSet::new();
        for (asked, lie) in lies(&seen) {
            while running.len() >= 8 {
                running.join_next().await.unwrap().unwrap();
            }
            running.spawn(copied(scenario, asked, lie));
        }
        while let Some(copied) = running.join_next().await {
            copied.unwrap();
        }
    }
}
