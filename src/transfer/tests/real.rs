//! Copies to and from the host's own file server, which has the files of this computer here; beside
//! cp and scp, where they do the same.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::super::place::path;
use super::super::{Order, Servers, Transfer, local};
use crate::host::sftp::piped::Peer;
use crate::host::sftp::{Attributes, MOST, Sftp, SftpError};

/// The server's process, which ends with it.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn started() -> (Server, Sftp) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/shell/host/sftp.py");
    let process = Command::new("python3")
        .args(["-I", "-S", "-B", script, &std::process::id().to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut process = process.unwrap();
    let (requests, answers) = (
        process.stdin.take().unwrap(),
        process.stdout.take().unwrap(),
    );
    let silence = Duration::from_mins(1);
    let peer = Peer {
        answers,
        requests,
        silence,
    };
    (Server(process), Sftp::piped(peer).await.unwrap())
}

fn bytes(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes().to_vec()
}

fn up(from: &Path, to: &Path) -> Transfer {
    up_to(from, bytes(to))
}

fn up_to(from: &Path, to: Vec<u8>) -> Transfer {
    let sources = vec![from.to_owned()];
    Transfer::new(Order::Up { sources, to }, false)
}

fn down(from: &Path, to: &Path) -> Transfer {
    let (sources, to) = (vec![bytes(from)], to.to_owned());
    Transfer::new(Order::Down { sources, to }, false)
}

/// The content of a folder's files, the targets of links, the kinds of all else.
fn tree(top: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![top.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let kind = fs::symlink_metadata(&path).unwrap().file_type();
            let what = if kind.is_symlink() {
                format!("-> {}", fs::read_link(&path).unwrap().display())
            } else if kind.is_dir() {
                folders.push(path.clone());
                "folder".to_owned()
            } else if kind.is_file() {
                fs::read_to_string(&path).unwrap()
            } else {
                "other".to_owned()
            };
            found.insert(path.strip_prefix(top).unwrap().display().to_string(), what);
        }
    }
    found
}

/// A folder with what a copy may find at its destination.
fn layout(top: &Path) {
    fs::create_dir_all(top.join("folder")).unwrap();
    fs::create_dir_all(top.join("deep")).unwrap();
    for (name, content) in [
        ("file", "old"),
        ("target", "old"),
        ("new", "newer"),
        ("deep/x", "x"),
    ] {
        fs::write(top.join(name), content).unwrap();
    }
    for (target, link) in [
        ("target", "link"),
        ("link", "twice"),
        ("folder/made", "dangling"),
        ("folder", "to-folder"),
        ("loop", "loop"),
    ] {
        symlink(target, top.join(link)).unwrap();
    }
}

/// `scp` to a host, with the file server of OpenSSH's at the other end of a pipe.
fn scp(top: &Path, from: &str, to: &str) -> bool {
    let ssh = top.join("../ssh");
    fs::write(&ssh, "#!/bin/sh\nexec /usr/lib/openssh/sftp-server\n").unwrap();
    fs::set_permissions(&ssh, fs::Permissions::from_mode(0o755)).unwrap();
    let to = format!("host:{}/{to}", top.display());
    let mut scp = Command::new("scp");
    scp.args(["-q", "-r", "-S"])
        .arg(ssh)
        .args([from, &*to])
        .current_dir(top);
    scp.stderr(Stdio::null()).status().unwrap().success()
}

fn cp(top: &Path, from: &str, to: &str) -> bool {
    let mut cp = Command::new("cp");
    cp.args(["-r", from, to])
        .current_dir(top)
        .stderr(Stdio::null());
    cp.status().unwrap().success()
}

#[tokio::test]
#[ignore = "needs root (the file server enters a container's root) and OpenSSH's scp"]
async fn a_destination_that_was_typed_is_that_of_cp_and_scp() {
    let (_server, sftp) = started().await;
    let folder = tempfile::tempdir().unwrap();
    let make = |name: String| {
        let top = folder.path().join(name);
        fs::create_dir(&top).unwrap();
        layout(&top);
        top
    };
    let cases: [(&str, &str, &[&str]); 14] = [
        ("new", "missing", &["cp", "scp"]),
        ("new", "file", &["cp", "scp"]),
        ("new", "link", &["cp", "scp"]),
        ("new", "twice", &["cp", "scp"]),
        // cp refuses that.
        ("new", "dangling", &["scp"]),
        ("new", "loop", &["cp", "scp"]),
        ("new", "folder", &["cp", "scp"]),
        ("new", "folder/", &["cp", "scp"]),
        ("new", "folder/other", &["cp", "scp"]),
        ("new", "to-folder", &["cp", "scp"]),
        ("new", "to-folder/", &["cp", "scp"]),
        // OpenSSH's scp makes a file of that name.
        ("new", "missing/", &["cp"]),
        ("deep", "missing", &["cp", "scp"]),
        ("deep", "to-folder", &["cp", "scp"]),
    ];
    for (number, (from, to, tools)) in cases.into_iter().enumerate() {
        let mut expected = Vec::new();
        for tool in tools {
            let top = make(format!("{number}-{tool}"));
            let copied = match *tool {
                "cp" => cp(&top, from, to),
                _ => scp(&top, from, to),
            };
            expected.push((copied, tree(&top)));
        }
        for direction in ["up", "down"] {
            let top = make(format!("{number}-{direction}"));
            let named = [&*bytes(&top), b"/", to.as_bytes()].concat();
            let copy = match direction {
                "up" => up_to(&top.join(from), named),
                _ => down(&top.join(from), &path(&named)),
            };
            let copied = copy.run(Servers::new(vec![sftp.clone()])).await;
            let is_copied = copied.is_ok() && copy.problems().is_empty();
            let found = (is_copied, tree(&top));
            for (expected, tool) in expected.iter().zip(tools) {
                assert_eq!(
                    &found, expected,
                    "{direction} {from} {to}, as {tool} {copied:?}"
                );
            }
        }
    }
}

#[tokio::test]
#[ignore = "needs root (the file server enters a container's root)"]
async fn the_file_server_has_the_rights_for_files_alone_and_is_traced_by_nobody() {
    let (server, sftp) = started().await;
    let status = fs::read_to_string(format!("/proc/{}/status", server.0.id())).unwrap();
    for line in [
        "CapEff:\t000000000000001b",
        "CapPrm:\t000000000000001b",
        "NoNewPrivs:\t1",
    ] {
        assert!(status.contains(line), "{line}: {status}");
    }
    // Root with the same rights, as that of a container.
    let tracer = "import ctypes, struct, sys\n\
        libc = ctypes.CDLL(None)\n\
        sets = struct.pack('=6I', 0x1b, 0x1b, 0, 0, 0, 0)\n\
        assert libc.capset(struct.pack('=Ii', 0x20080522, 0), sets) == 0\n\
        open(f'/proc/{sys.argv[1]}/mem', 'rb')";
    let id = server.0.id().to_string();
    let opening = Command::new("python3").args(["-c", tracer, &id]).output();
    let error = String::from_utf8(opening.unwrap().stderr).unwrap();
    assert!(error.contains("PermissionError"), "{error}");

    // A device, a pipe and a link are no part, and no file.
    let folder = tempfile::tempdir().unwrap();
    let [device, pipe, link, file] =
        ["device", "pipe", "link", "file"].map(|name| folder.path().join(name));
    fs::write(&file, "mine").unwrap();
    symlink("file", &link).unwrap();
    for (tool, words) in [("mknod", &["c", "1", "3"][..]), ("mkfifo", &[])] {
        let path = if tool == "mknod" { &device } else { &pipe };
        let made = Command::new(tool).arg(path).args(words).status();
        assert!(made.unwrap().success());
    }
    for path in [&device, &pipe, &link] {
        let part = sftp.open_part(&bytes(path)).await.map(drop);
        assert!(
            matches!(part, Err(SftpError::Refused(_) | SftpError::Missing)),
            "{part:?}"
        );
    }
    for path in [&device, &pipe] {
        let opened = sftp.open_file(&bytes(path)).await.map(drop);
        assert!(matches!(opened, Err(SftpError::Refused(_))), "{opened:?}");
    }
    let attributes = local::look(&file, false).unwrap().unwrap().attributes;
    let mode = fs::metadata(&file).unwrap().mode();
    let wide = Attributes {
        mode: 0o100_777,
        ..attributes
    };
    for path in [&device, &pipe, &link] {
        sftp.set(&bytes(path), &wide).done().await.unwrap_err();
    }
    assert_eq!(fs::metadata(&file).unwrap().mode(), mode);
}

/// Writes to the end of a file until it is dropped.
fn growing<'scope>(
    scope: &'scope std::thread::Scope<'scope, '_>,
    path: &'scope Path,
    ends: &'scope AtomicBool,
) {
    let mut file = OpenOptions::new().append(true).open(path).unwrap();
    scope.spawn(move || {
        while !ends.load(Ordering::Relaxed) {
            file.write_all(&[9; 4096]).unwrap();
            std::thread::sleep(Duration::from_millis(1));
        }
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs root (the file server enters a container's root)"]
async fn a_file_that_grows_is_copied_as_it_was_when_it_was_opened() {
    let (_server, sftp) = started().await;
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    fs::write(&log, vec![1; 40 * MOST]).unwrap();
    let ends = AtomicBool::new(false);
    let handle = tokio::runtime::Handle::current();
    let copies = [
        up(&log, &folder.path().join("there")),
        down(&log, &folder.path().join("here")),
    ];
    tokio::task::block_in_place(|| {
        std::thread::scope(|scope| {
            growing(scope, &log, &ends);
            for copy in &copies {
                let ended = handle.block_on(copy.run(Servers::new(vec![sftp.clone()])));
                if ended.is_err() {
                    ends.store(true, Ordering::Relaxed);
                }
                ended.unwrap();
            }
            ends.store(true, Ordering::Relaxed);
        });
    });
    let log = fs::read(&log).unwrap();
    for (copy, name) in copies.iter().zip(["there", "here"]) {
        assert_eq!(copy.problems(), []);
        let found = fs::read(folder.path().join(name)).unwrap();
        let length = found.len();
        assert!(length >= 40 * MOST && log.starts_with(&found), "{length}");
    }
    assert!(log.len() > 40 * MOST);
}

#[tokio::test]
#[ignore = "needs root (the file server enters a container's root)"]
async fn holes_stay_holes_both_ways() {
    let (_server, sftp) = started().await;
    let folder = tempfile::tempdir().unwrap();
    let [sparse, there, here] = ["sparse", "there", "here"].map(|it| folder.path().join(it));
    let file = File::create(&sparse).unwrap();
    // What nobody reads in full, or sends.
    let size = 1 << 40;
    file.set_len(size).unwrap();
    for at in [5 << 20, 100 << 30] {
        file.write_all_at(b"data", at).unwrap();
    }
    for (copy, to) in [(up(&sparse, &there), &there), (down(&there, &here), &here)] {
        copy.run(Servers::new(vec![sftp.clone()])).await.unwrap();
        assert_eq!(copy.problems(), []);
        let found = fs::metadata(to).unwrap();
        assert_eq!(found.len(), size);
        assert!(found.blocks() * 512 < 4 << 20, "{} blocks", found.blocks());
        let mut data = [0; 4];
        for at in [5 << 20, 100 << 30] {
            File::open(to)
                .unwrap()
                .read_exact_at(&mut data, at)
                .unwrap();
            assert_eq!(&data, b"data");
        }
    }
}
