//! The process that serves one volume whose blocks come late.
//!
//! A file system of FUSE with one file, at the path that the volume's file has on this computer: a loop device
//! names what it serves by its path, and all that looks for a volume's device does so by that.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, anyhow};
use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyWrite,
    Request, Session, SessionACL, WriteFlags,
};
use rustix::fs::FallocateFlags;
use serde::{Deserialize, Serialize};
use tokio::runtime::{Handle, Runtime};

use xdrive_ground::clock::Clock;

use super::super::blocks::BLOCK;
use super::super::copies::Disks;
use super::super::host_lock::HostLock;
use super::super::loops;
use super::super::program::bound;
use super::map::Map;
use super::pace::Pace;

/// How long the kernel may keep an answer about a name or a size: the file may grow.
const TTL: Duration = Duration::ZERO;

/// The most requests that the kernel has waiting: more than any queue of a disk.
const WAITING: u16 = 1024;

/// Mounts the file system where nobody else sees it, and has a loop device serve its file. Standard input is the
/// kernel's device for it.
const ATTACH: &str = "mount --internal-only -t fuse -o fd=0,rootmode=40000,user_id=0,group_id=0 xdrive \"$1\" && \
                      echo mounted && file=\"$1$2\" && shift 2 && exec losetup \"$@\" \"$file\"";

/// The first and only line on the stdout of the process that serves a volume.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Report {
    /// The loop device is there.
    Ready,
    /// There is none, for this reason.
    Failed(String),
}

/// Serves a volume of the EC2 in `dir` to a loop device, until that is detached.
pub(crate) fn serve(dir: &Path, volume: &str) -> anyhow::Result<()> {
    let begun = begin(dir, volume);
    // The lock of attachments, which a killed caller does not hold any more.
    let nothing = File::open("/dev/null").context("opening /dev/null")?;
    rustix::stdio::dup2_stdin(&nothing).context("letting go of a lock")?;
    let report = match &begun {
        Ok(_) => Report::Ready,
        Err(error) => Report::Failed(format!("{error:#}")),
    };
    let mut stdout = std::io::stdout();
    let line = serde_json::to_string(&report)?;
    // Whoever began it may be gone: then the device is found by its file.
    let _ = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
    let served = begun?;
    served.session.join().context("serving a volume")?;
    Ok(())
}

/// The parts of a volume that is served.
struct Served {
    session: fuser::BackgroundSession,
    _runtime: Runtime,
    /// The folder stays in place for as long.
    _disks: Disks,
}

fn begin(dir: &Path, volume: &str) -> anyhow::Result<Served> {
    let disks = Disks::open(dir)?;
    let path = disks.existing(volume)?;
    let (map, head, blocks) = Map::open(&disks, volume)?;
    let file = File::options().read(true).write(true).open(&path);
    let file = file.with_context(|| format!("opening {}", path.display()))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .context("starting what serves a volume")?;
    let age = Clock::system().now().duration_since(head.since);
    let volume = Volume {
        names: path
            .components()
            .skip(1)
            .map(|name| name.as_os_str().to_owned())
            .collect(),
        late: Arc::new(Late {
            file,
            map,
            pace: Mutex::new(Pace::new(head.lazy, head.rate, head.speed, &blocks)),
            age: Duration::try_from(age).unwrap_or_default(),
            begun: Instant::now(),
        }),
        runtime: runtime.handle().clone(),
    };
    let session = attach(volume, &disks.folder(), &path)?;
    Ok(Served {
        session,
        _runtime: runtime,
        _disks: disks,
    })
}

/// Begins to serve, and makes the loop device.
fn attach(volume: Volume, place: &Path, path: &Path) -> anyhow::Result<fuser::BackgroundSession> {
    let device = File::options().read(true).write(true).open("/dev/fuse");
    let device = OwnedFd::from(device.context("opening /dev/fuse")?);
    let _mounts = HostLock::Mounts.share()?;
    // Two that look for a free loop device at once would find the same.
    let _loops = HostLock::Loops.lock()?;
    let mut child = bound("unshare")?
        .args([
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-c",
            ATTACH,
            "sh",
        ])
        .arg(place)
        .arg(path)
        .args(loops::OPTIONS)
        .stdin(Stdio::from(device.try_clone()?))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("starting unshare")?;
    let mut mounted = String::new();
    let stdout = child.stdout.take().context("no stdout")?;
    let mut stdout = BufReader::new(stdout);
    stdout.read_line(&mut mounted).context("mounting")?;
    if mounted.is_empty() {
        return Err(failed(child));
    }
    let mut config = Config::default();
    config.n_threads = Some(2);
    let session = Session::from_fd(volume, device, SessionACL::All, config);
    let session = session
        .and_then(Session::spawn)
        .context("serving by FUSE")?;
    let attached = child.wait().context("waiting for losetup")?;
    if attached.success() {
        Ok(session)
    } else {
        Err(failed(child))
    }
}

/// The error of a program that failed.
fn failed(mut child: Child) -> anyhow::Error {
    let mut words = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        let _ = stderr.read_to_string(&mut words);
    }
    let _ = child.wait();
    anyhow!("no loop device: {}", words.trim())
}

/// The file system.
#[derive(Debug)]
struct Volume {
    /// The folders and the file, from the root.
    names: Vec<std::ffi::OsString>,
    late: Arc<Late>,
    runtime: Handle,
}

/// The file.
#[derive(Debug)]
struct Late {
    file: File,
    map: Map,
    pace: Mutex<Pace>,
    /// How old the volume was when this process began.
    age: Duration,
    begun: Instant,
}

impl Late {
    fn pace(&self) -> MutexGuard<'_, Pace> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for these bytes, to read them. Returns when they are read.
    fn ask(&self, offset: u64, length: u64) -> Instant {
        let now = self.now();
        let mut pace = self.pace();
        let there = self.fetch(&mut pace, touched(offset, length), now);
        self.moment(there.max(pace.move_bytes(length, now)))
    }

    /// Asks for the blocks of which these bytes, which are to be written or to be none, are a part. Returns when
    /// they are, if so many of them have to be moved.
    fn ask_around(&self, offset: u64, length: u64, moved: u64) -> Instant {
        let now = self.now();
        let mut pace = self.pace();
        let mut done = pace.move_bytes(moved, now);
        let block = BLOCK as u64;
        for index in touched(offset, length) {
            let first = index as u64 * block;
            let is_whole = first >= offset && first + block <= offset + length;
            if !is_whole {
                done = done.max(self.fetch(&mut pace, index..index + 1, now));
            } else if pace.overwrite(index) {
                self.write_down(index);
            }
        }
        self.moment(done)
    }

    /// Asks for these blocks. Returns when all are there.
    fn fetch(&self, pace: &mut Pace, blocks: std::ops::Range<usize>, now: Duration) -> Duration {
        let mut due = now;
        for block in blocks {
            let (there, is_first) = pace.ask(block, now);
            due = due.max(there);
            if is_first {
                self.write_down(block);
            }
        }
        due
    }

    fn now(&self) -> Duration {
        self.age + self.begun.elapsed()
    }

    fn moment(&self, age: Duration) -> Instant {
        self.begun + age.saturating_sub(self.age)
    }

    fn write_down(&self, block: usize) {
        if let Err(error) = self.map.warm(block) {
            tracing::warn!(%error, "a block will be late again");
        }
    }

    fn read(&self, offset: u64, length: u32) -> std::io::Result<Vec<u8>> {
        let mut bytes = vec![0; length as usize];
        let mut filled = 0;
        while filled < bytes.len() {
            match self
                .file
                .read_at(&mut bytes[filled..], offset + filled as u64)?
            {
                0 => break,
                read => filled += read,
            }
        }
        bytes.truncate(filled);
        Ok(bytes)
    }
}

/// The blocks in which these bytes are.
fn touched(offset: u64, length: u64) -> std::ops::Range<usize> {
    let block = BLOCK as u64;
    let end = (offset + length).div_ceil(block);
    let index = |block: u64| usize::try_from(block).unwrap_or(usize::MAX);
    if length == 0 {
        0..0
    } else {
        index(offset / block)..index(end)
    }
}

impl Volume {
    /// Does `work` when `due`: now, or later and meanwhile others.
    fn when(&self, due: Instant, work: impl FnOnce(&Late) + Send + 'static) {
        if due <= Instant::now() {
            return work(&self.late);
        }
        let late = Arc::clone(&self.late);
        self.runtime.spawn(async move {
            tokio::time::sleep_until(due.into()).await;
            tokio::task::spawn_blocking(move || work(&late));
        });
    }

    /// The attributes of the root (1), of a folder on the way, or of the file.
    fn attributes(&self, inode: u64) -> Option<FileAttr> {
        let last = self.names.len() as u64 + 1;
        let size = match inode {
            _ if inode == last => self.late.file.metadata().ok()?.len(),
            1.. if inode < last => 0,
            _ => return None,
        };
        let (kind, perm) = if inode == last {
            (FileType::RegularFile, 0o600)
        } else {
            (FileType::Directory, 0o700)
        };
        Some(FileAttr {
            ino: INodeNo(inode),
            size,
            blocks: size / 512,
            atime: SystemTime::UNIX_EPOCH,
            mtime: SystemTime::UNIX_EPOCH,
            ctime: SystemTime::UNIX_EPOCH,
            crtime: SystemTime::UNIX_EPOCH,
            kind,
            perm,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }
}

fn errno(error: &std::io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_i32)
}

impl Filesystem for Volume {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        // Without these a disk would have one request at a time, or twelve.
        let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
        let _ = config.set_max_background(WAITING);
        Ok(())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let parent = u64::from(parent);
        let place = usize::try_from(parent.saturating_sub(1)).unwrap_or(usize::MAX);
        let is_known = self
            .names
            .get(place)
            .is_some_and(|known| known.as_bytes() == name.as_bytes());
        match self.attributes(parent + 1).filter(|_| is_known) {
            Some(attributes) => reply.entry(&TTL, &attributes, Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(
        &self,
        _request: &Request,
        inode: INodeNo,
        _handle: Option<FileHandle>,
        reply: ReplyAttr,
    ) {
        match self.attributes(inode.into()) {
            Some(attributes) => reply.attr(&TTL, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn read(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let due = self.late.ask(offset, size.into());
        self.when(due, move |late| match late.read(offset, size) {
            Ok(bytes) => reply.data(&bytes),
            Err(error) => reply.error(errno(&error)),
        });
    }

    fn write(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let length = data.len() as u64;
        let due = self.late.ask_around(offset, length, length);
        let data = data.to_vec();
        self.when(due, move |late| {
            match late.file.write_all_at(&data, offset) {
                Ok(()) => reply.written(u32::try_from(data.len()).unwrap_or(u32::MAX)),
                Err(error) => reply.error(errno(&error)),
            }
        });
    }

    fn fsync(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        datasync: bool,
        reply: ReplyEmpty,
    ) {
        let late = Arc::clone(&self.late);
        self.runtime.spawn_blocking(move || {
            let synced = if datasync {
                late.file.sync_data()
            } else {
                late.file.sync_all()
            };
            match synced {
                Ok(()) => reply.ok(),
                Err(error) => reply.error(errno(&error)),
            }
        });
    }

    fn fallocate(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let mode = FallocateFlags::from_bits_retain(mode.cast_unsigned());
        let due = self.late.ask_around(offset, length, 0);
        self.when(due, move |late| {
            match rustix::fs::fallocate(&late.file, mode, offset, length) {
                Ok(()) => reply.ok(),
                Err(error) => reply.error(errno(&error.into())),
            }
        });
    }
}
