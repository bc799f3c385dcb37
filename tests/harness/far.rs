//! A laptop that is far from its hosts: programs in its network namespace reach port 22 of every
//! instance through a relay with a delay, unknowingly.
//!
//! The namespace's address translation redirects connections to an instance's address to the relay,
//! which reads the original address from the connection. The relay is a thread of this process, and
//! ends with it. A connection costs a round trip before its first byte passes, as in TCP; if the
//! instance does not answer, the connection is reset.
//!
//! It counts round trips as logical clocks do: what one side sends is half a round trip later than
//! all that had reached it before. So parallel traffic does not count twice, and the work of either
//! side does not count while it is short beside a round trip; longer work may let parallel traffic
//! add to the count, never more than fits into its time.
//!
//! Unlike a real line it has no slow start and loses no packets.

use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsFd as _;
use std::process::Command;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::{Instant, sleep, sleep_until, timeout};

/// The network of instances.
const INSTANCES: &str = "10.99.0.0/16";
/// The relay's own local ports, whose connections are not redirected.
const OWN_PORTS: std::ops::Range<u16> = 700..1000;
/// How long an instance may take to accept.
const REACH: Duration = Duration::from_secs(3);
/// How many bytes the relay queues in one direction before the sender waits, as a modem does.
const QUEUE: usize = 128 << 10;
/// As [`QUEUE`], of a line without a limit: more than a window of either side.
const LONG_QUEUE: usize = 64 << 20;
const CHUNK: usize = 4 << 10;
/// As [`CHUNK`], of a line without a limit.
const LARGE_CHUNK: usize = 64 << 10;

/// A distance.
#[derive(Debug, Clone, Copy)]
pub struct Distance {
    /// The time there and back.
    pub round_trip: Duration,
    /// Bytes a second from the laptop to all hosts together; `None` for no limit.
    pub up: Option<u32>,
}

/// A network namespace with such a relay. Instances launched from there are reached from there
/// only. Dropping it removes both.
pub struct Far {
    name: String,
    stop: Option<oneshot::Sender<()>>,
    relay: Option<JoinHandle<()>>,
    passed: Arc<AtomicUsize>,
    clocks: Arc<Clocks>,
    distance: Arc<Mutex<Distance>>,
}

/// The clock of each side, in half round trips.
#[derive(Debug, Default)]
struct Clocks {
    laptop: AtomicUsize,
    hosts: AtomicUsize,
}

/// The side that sends.
#[derive(Debug, Clone, Copy)]
enum From {
    Laptop,
    Host,
}

impl Clocks {
    /// When data sent now from there arrives.
    fn sent(&self, from: From) -> usize {
        let clock = match from {
            From::Laptop => &self.laptop,
            From::Host => &self.hosts,
        };
        clock.load(Ordering::Relaxed) + 1
    }

    fn arrived(&self, from: From, at: usize) {
        let clock = match from {
            From::Laptop => &self.hosts,
            From::Host => &self.laptop,
        };
        clock.fetch_max(at, Ordering::Relaxed);
    }
}

impl Far {
    pub fn new(distance: Distance) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let mut far = Self {
            name: format!("xf-{}-{number}", std::process::id()),
            stop: None,
            relay: None,
            passed: Arc::default(),
            clocks: Arc::default(),
            distance: Arc::new(Mutex::new(distance)),
        };
        succeeds(Command::new("ip").args(["netns", "add", &far.name]));
        succeeds(Command::new("ip").args(["-n", &far.name, "link", "set", "lo", "up"]));
        let (stop, stopped) = oneshot::channel();
        let (ready, port) = std::sync::mpsc::channel();
        let (namespace, passed) = (far.namespace(), Arc::clone(&far.passed));
        let (clocks, distance) = (Arc::clone(&far.clocks), Arc::clone(&far.distance));
        far.stop = Some(stop);
        far.relay = Some(std::thread::spawn(move || {
            let namespace = File::open(namespace).unwrap();
            let kind = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(namespace.as_fd(), kind).unwrap();
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).await.unwrap();
                ready.send(listener.local_addr().unwrap().port()).unwrap();
                tokio::select! {
                    () = relay(listener, distance, passed, clocks) => {}
                    _ = stopped => {}
                }
            });
        }));
        let port = port.recv().unwrap().to_string();
        let (first, last) = (OWN_PORTS.start, OWN_PORTS.end - 1);
        let own = format!("{first}:{last}");
        let mut rule = far.command("iptables");
        rule.args(["-w", "-t", "nat", "-A", "OUTPUT", "-p", "tcp"]);
        rule.args(["-d", INSTANCES, "--dport", "22", "!", "--sport", &own]);
        succeeds(rule.args(["-j", "REDIRECT", "--to-ports", &port]));
        far
    }

    /// The words before a command that run it there.
    pub fn words(&self) -> [String; 2] {
        ["nsenter".to_owned(), format!("--net={}", self.namespace())]
    }

    /// How many connections were made through the relay.
    pub fn passed(&self) -> usize {
        self.passed.load(Ordering::Relaxed)
    }

    /// From now on new connections have this distance.
    pub fn moves(&self, distance: Distance) {
        *self.distance.lock().unwrap() = distance;
    }

    /// How many round trips were waited for until now, one after the other.
    pub fn round_trips(&self) -> usize {
        self.clocks.laptop.load(Ordering::Relaxed) / 2
    }

    fn namespace(&self) -> String {
        format!("/run/netns/{}", self.name)
    }

    fn command(&self, program: &str) -> Command {
        let [enter, net] = self.words();
        let mut command = Command::new(enter);
        command.args([&net, program]);
        command
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.stop.take().map(|stop| stop.send(()));
        let _ = self.relay.take().map(JoinHandle::join);
        let removed = Command::new("ip")
            .args(["netns", "delete", &self.name])
            .output();
        if !std::thread::panicking() {
            let removed = removed.unwrap();
            assert!(removed.status.success(), "{removed:?}");
        }
    }
}

fn succeeds(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
}

/// Accepts connections until it is dropped.
async fn relay(
    listener: TcpListener,
    distance: Arc<Mutex<Distance>>,
    passed: Arc<AtomicUsize>,
    clocks: Arc<Clocks>,
) {
    let up = Arc::new(Mutex::new(Instant::now()));
    loop {
        let Ok((near, _)) = listener.accept().await else {
            sleep(Duration::from_millis(10)).await;
            continue;
        };
        passed.fetch_add(1, Ordering::Relaxed);
        let (up, clocks) = (Arc::clone(&up), Arc::clone(&clocks));
        let distance = *distance.lock().unwrap();
        // A connection that ends on one side ends on both.
        tokio::spawn(async move { drop(pass(near, distance, &up, &clocks).await) });
    }
}

async fn pass(
    near: TcpStream,
    distance: Distance,
    up: &Mutex<Instant>,
    clocks: &Clocks,
) -> io::Result<()> {
    let to = rustix::net::sockopt::ip_original_dst(&near)?;
    // TCP's own: what is sent meanwhile waits in the socket.
    let reached = clocks.sent(From::Laptop) + 1;
    sleep(distance.round_trip).await;
    clocks.arrived(From::Host, reached);
    let reached = timeout(REACH, connect(to.into())).await;
    let Ok(Ok(far)) = reached else {
        return near.set_zero_linger();
    };
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    let half = distance.round_trip / 2;
    let (near_in, near_out) = near.into_split();
    let (far_in, far_out) = far.into_split();
    let sent = |length: usize| {
        let Some(rate) = distance.up else {
            return Instant::now();
        };
        let mut free = up.lock().unwrap();
        let length = u32::try_from(length).unwrap();
        let takes = Duration::from_secs_f64(f64::from(length) / f64::from(rate));
        *free = (*free).max(Instant::now()) + takes;
        *free
    };
    let sizes = match distance.up {
        Some(_) => (QUEUE, CHUNK),
        None => (LONG_QUEUE, LARGE_CHUNK),
    };
    let there = carry(
        near_in,
        far_out,
        (half, sizes),
        (clocks, From::Laptop),
        sent,
    );
    let back = carry(
        far_in,
        near_out,
        (half, sizes),
        (clocks, From::Host),
        |_| Instant::now(),
    );
    tokio::try_join!(there, back).map(drop)
}

async fn connect(to: SocketAddr) -> io::Result<TcpStream> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    loop {
        let ports = OWN_PORTS.end - OWN_PORTS.start;
        let next = NEXT.fetch_add(1, Ordering::Relaxed) % ports;
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseaddr(true)?;
        socket.bind((Ipv4Addr::UNSPECIFIED, OWN_PORTS.start + next).into())?;
        match socket.connect(to).await {
            // The kernel still remembers the last connection from this port to there.
            Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => {}
            connected => return connected,
        }
    }
}

/// Carries bytes one way: each arrives `half` a round trip after it was `sent`.
async fn carry(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    (half, (most, piece)): (Duration, (usize, usize)),
    (clocks, side): (&Clocks, From),
    sent: impl Fn(usize) -> Instant,
) -> io::Result<()> {
    let (queue, mut queued) = mpsc::unbounded_channel::<(Instant, usize, Vec<u8>)>();
    let waiting = AtomicUsize::new(0);
    let room = Notify::new();
    let reading = async {
        loop {
            while waiting.load(Ordering::Relaxed) >= most {
                room.notified().await;
            }
            let mut chunk = vec![0; piece];
            let length = from.read(&mut chunk).await?;
            chunk.truncate(length);
            waiting.fetch_add(length, Ordering::Relaxed);
            // The end travels as long as the last byte.
            let _over = queue.send((sent(length) + half, clocks.sent(side), chunk));
            if length == 0 {
                return Ok::<_, io::Error>(());
            }
        }
    };
    let delivering = async {
        while let Some((due, arrival, chunk)) = queued.recv().await {
            sleep_until(due).await;
            clocks.arrived(side, arrival);
            if chunk.is_empty() {
                return to.shutdown().await;
            }
            to.write_all(&chunk).await?;
            waiting.fetch_sub(chunk.len(), Ordering::Relaxed);
            room.notify_one();
        }
        Ok(())
    };
    tokio::try_join!(reading, delivering).map(drop)
}
