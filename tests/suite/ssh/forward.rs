//! Forwards: many streams, slow readers, busy ports.

mod wide;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use xdrive::ssh::forward::{Destination, Forward, ForwardError, Interface, Wanted};

use super::DEADLINE;
use harness::sshd::Sshd;

/// A server on the host's side; gone when it is dropped.
pub(super) struct Server {
    pub(super) address: SocketAddr,
    serving: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// The endless output of a server.
#[derive(Default)]
pub(super) struct Flood {
    bytes: AtomicUsize,
    /// Whether its reader has gone.
    over: AtomicBool,
    /// How many readers have gone.
    pub(super) gone: AtomicUsize,
}

/// A server that echoes its input; after `!`, it sends bytes without end.
pub(super) async fn server(flood: Arc<Flood>) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let flood = Arc::clone(&flood);
            tokio::spawn(async move {
                let mut buffer = vec![0; 64 << 10];
                loop {
                    let length = stream.read(&mut buffer).await?;
                    if length == 0 {
                        return stream.shutdown().await;
                    }
                    if buffer[..length] == *b"!" {
                        break;
                    }
                    stream.write_all(&buffer[..length]).await?;
                }
                while let Ok(length) = stream.write(&buffer).await {
                    flood.bytes.fetch_add(length, Ordering::Relaxed);
                }
                flood.over.store(true, Ordering::Relaxed);
                flood.gone.fetch_add(1, Ordering::Relaxed);
                Ok::<_, std::io::Error>(())
            });
        }
    });
    Server { address, serving }
}

pub(super) async fn connect(forward: &Forward) -> TcpStream {
    TcpStream::connect(("127.0.0.1", forward.port()))
        .await
        .unwrap()
}

/// Sends `line` and waits for it to come back.
pub(super) async fn echo(stream: &mut TcpStream, line: &[u8]) {
    let mut answer = vec![0; line.len()];
    let asking = async {
        stream.write_all(line).await?;
        stream.read_exact(&mut answer).await
    };
    timeout(DEADLINE, asking)
        .await
        .expect("an echo in time")
        .unwrap();
    assert_eq!(answer, line);
}

async fn eight_streams_through(sshd: &Sshd) {
    const LENGTH: usize = 8 << 20;
    let server = server(Arc::default()).await;
    let forward = Forward::open(&sshd.connect().await, 0, server.address);
    let forward = forward.unwrap();
    let streams: Vec<_> = (0..8_u8)
        .map(|seed| {
            let port = forward.port();
            tokio::spawn(async move {
                let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                let (mut reader, mut writer) = stream.into_split();
                let data: Vec<u8> = (0..LENGTH)
                    .map(|at| at.to_le_bytes()[at % 3].wrapping_mul(seed | 1))
                    .collect();
                let sent = data.clone();
                let writing = tokio::spawn(async move {
                    writer.write_all(&sent).await.unwrap();
                    writer.shutdown().await.unwrap();
                });
                let mut got = Vec::with_capacity(LENGTH);
                reader.read_to_end(&mut got).await.unwrap();
                writing.await.unwrap();
                assert!(got == data, "stream {seed} came back changed");
            })
        })
        .collect();
    for stream in streams {
        timeout(4 * DEADLINE, stream)
            .await
            .expect("in time")
            .unwrap();
    }
}

#[tokio::test]
#[ignore = "needs root and sshd"]
async fn eight_streams_at_once_arrive_unchanged_in_both_directions() {
    eight_streams_through(&Sshd::start()).await;
}

/// The fault: one stopped reader froze every other stream of the connection.
#[tokio::test]
#[ignore = "needs root and sshd"]
async fn a_reader_that_stops_is_dropped_if_others_wait_behind_it() {
    let flooded = flooded().await;
    let (forward, flood) = (&flooded.forward, &flooded.flood);

    let mut lively = connect(forward).await;
    echo(&mut lively, b"before").await;
    let mut stopped = connect(forward).await;
    stopped.write_all(b"!").await.unwrap();
    let until_dropped = async {
        while !flood.over.load(Ordering::Relaxed) {
            echo(&mut lively, b"meanwhile").await;
        }
    };
    timeout(DEADLINE, until_dropped).await.expect("dropped");
    // Unread data waited in memory, up to the limit, and in sockets and windows.
    let bytes = flood.bytes.load(Ordering::Relaxed);
    assert!(bytes > 64 << 20 && bytes < 160 << 20, "{bytes} bytes");
    echo(&mut lively, b"after").await;
    let mut rest = Vec::new();
    let end = timeout(DEADLINE, stopped.read_to_end(&mut rest)).await;
    assert!(end.is_ok(), "the stopped connection is closed");
}

/// A forward to a server whose output has no end.
struct Flooded {
    forward: Forward,
    flood: Arc<Flood>,
    _server: Server,
    _sshd: Sshd,
}

async fn flooded() -> Flooded {
    flooded_by(|_, server| server.into()).await
}

/// A flooded forward that is reached as this destination.
async fn flooded_by(destination: impl FnOnce(&Sshd, SocketAddr) -> Destination) -> Flooded {
    let sshd = Sshd::start();
    let flood = Arc::new(Flood::default());
    let server = server(Arc::clone(&flood)).await;
    let to = destination(&sshd, server.address);
    let wanted = Wanted {
        interface: Interface::Loopback,
        port: 0,
        is_exact: false,
    };
    let forward = Forward::to(&sshd.connect().await, wanted, to);
    Flooded {
        forward: forward.unwrap(),
        flood,
        _server: server,
        _sshd: sshd,
    }
}

/// Has a connection sent bytes without end, until the host sends no more because nothing reads them;
/// how many it has sent by then.
async fn held_back(stream: &mut TcpStream, flood: &Flood) -> usize {
    stream.write_all(b"!").await.unwrap();
    let held = async {
        let mut before = 0;
        loop {
            tokio::time::sleep(Duration::from_millis(300)).await;
            let sent = flood.bytes.load(Ordering::Relaxed);
            if sent > 64 << 20 && sent == before {
                return sent;
            }
            before = sent;
        }
    };
    timeout(DEADLINE, held).await.expect("held back")
}

#[tokio::test]
#[ignore = "needs root and sshd"]
async fn one_that_comes_while_a_reader_has_stopped_is_served() {
    let flooded = flooded().await;
    let (forward, flood) = (&flooded.forward, &flooded.flood);
    let mut stopped = connect(forward).await;
    held_back(&mut stopped, flood).await;
    echo(&mut connect(forward).await, b"next").await;
}

/// The fault: a reader that was 64 MiB behind was dropped.
#[tokio::test]
#[ignore = "needs root and sshd"]
async fn a_reader_that_is_behind_is_waited_for_and_gets_every_byte() {
    let flooded = flooded().await;
    let (forward, flood) = (&flooded.forward, &flooded.flood);
    let mut behind = connect(forward).await;
    let sent = held_back(&mut behind, flood).await;
    goes_on(&mut behind, sent, flood).await;
}

/// Reads twice what was `sent` while nothing was read.
async fn goes_on(behind: &mut TcpStream, sent: usize, flood: &Flood) {
    assert!(sent < 160 << 20, "{sent} bytes");
    let mut piece = vec![0; 1 << 20];
    for _ in 0..(2 * sent) >> 20 {
        let reading = timeout(DEADLINE, behind.read_exact(&mut piece)).await;
        reading.expect("in time").expect("not dropped");
    }
    assert!(!flood.over.load(Ordering::Relaxed));
}

#[tokio::test]
#[ignore = "needs root and sshd"]
async fn a_busy_port_gives_way_to_the_next_free_one() {
    let sshd = Sshd::start();
    let ssh = sshd.connect().await;
    let server = server(Arc::default()).await;
    let busy = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let preferred = busy.local_addr().unwrap().port();
    let first = Forward::open(&ssh, preferred, server.address).unwrap();
    assert!(first.port() > preferred || first.port() < 1024 || preferred > 65_000);
    assert_ne!(first.port(), preferred);
    let wanted = Wanted {
        interface: Interface::Loopback,
        port: first.port(),
        is_exact: true,
    };
    let exact = Forward::to(&ssh, wanted, server.address.into());
    assert!(matches!(exact, Err(ForwardError::Busy(port)) if port == first.port()));
    let second = Forward::open(&ssh, first.port(), server.address);
    let second = second.unwrap();
    assert_ne!(second.port(), first.port());
    echo(&mut connect(&second).await, b"through the second").await;
}

#[tokio::test]
#[ignore = "needs root and sshd"]
async fn a_new_target_serves_new_connections() {
    let sshd = Sshd::start();
    let old = server(Arc::default()).await;
    let forward = Forward::open(&sshd.connect().await, 0, old.address);
    let forward = forward.unwrap();
    echo(&mut connect(&forward).await, b"old").await;
    drop(old);
    let mut nobody = connect(&forward).await;
    let mut answer = Vec::new();
    let refused = timeout(DEADLINE, nobody.read_to_end(&mut answer)).await;
    assert!(
        refused.is_ok(),
        "a refused connection is closed, not left hanging"
    );

    let new = server(Arc::default()).await;
    forward.retarget(new.address);
    echo(&mut connect(&forward).await, b"new").await;
}

#[tokio::test]
#[ignore = "needs root and sshd"]
async fn dropping_a_forward_closes_its_port_and_its_connections() {
    let sshd = Sshd::start();
    let server = server(Arc::default()).await;
    let ssh = sshd.connect().await;
    let forward = Forward::open(&ssh, 0, server.address).unwrap();
    let port = forward.port();
    let mut stream = connect(&forward).await;
    echo(&mut stream, b"open").await;
    drop(forward);
    let mut rest = Vec::new();
    let end = timeout(DEADLINE, stream.read_to_end(&mut rest)).await;
    assert!(end.is_ok(), "the connection ends");
    assert!(TcpStream::connect(("127.0.0.1", port)).await.is_err());
    // The same port is free at once, although a connection through it has just been closed.
    let again = Forward::open(&ssh, port, server.address).unwrap();
    assert_eq!(again.port(), port);
}

/// The pause that ends a transfer, in these tests.
const PAUSE: Duration = Duration::from_millis(500);

/// The fault: a page that asks each few seconds held the end of a session, and the bill, for minutes.
#[tokio::test]
#[ignore = "needs root and sshd"]
async fn connections_that_poll_do_not_hold_the_end() {
    let sshd = Sshd::start();
    let server = server(Arc::default()).await;
    let forward = Forward::open(&sshd.connect().await, 0, server.address);
    let forward = forward.unwrap();
    let mut kept = connect(&forward).await;
    echo(&mut kept, b"before").await;
    // One page asks over the connection that it has, another one over a new one each time.
    let one = tokio::spawn(async move {
        let mut answer = [0; 4];
        while kept.write_all(b"news").await.is_ok() && kept.read_exact(&mut answer).await.is_ok() {
            tokio::time::sleep(PAUSE / 5).await;
        }
    });
    let port = forward.port();
    let other = tokio::spawn(async move {
        let mut answers = 0;
        while let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)).await {
            let mut answer = [0; 4];
            if stream.write_all(b"news").await.is_err()
                || stream.read_exact(&mut answer).await.is_err()
            {
                break;
            }
            answers += 1;
            tokio::time::sleep(PAUSE / 5).await;
        }
        answers
    });
    tokio::time::sleep(PAUSE).await;
    timeout(DEADLINE, forward.settled(PAUSE))
        .await
        .expect("the end is not held");
    let answers = timeout(DEADLINE, other).await.expect("refused").unwrap();
    assert!(answers > 0, "it had answers before the end");
    assert!(!one.is_finished(), "what is open is not cut before the end");
    drop(forward);
    timeout(DEADLINE, one).await.expect("cut").unwrap();
}

#[tokio::test]
#[ignore = "needs root and sshd"]
async fn a_transfer_that_is_under_way_is_waited_for_and_a_new_one_is_refused() {
    const PIECES: u32 = 20;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    // It takes four times as long as it may pause.
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        for _ in 0..PIECES {
            stream.write_all(&vec![b's'; 1 << 16]).await.unwrap();
            tokio::time::sleep(PAUSE / 5).await;
        }
    });
    let sshd = Sshd::start();
    let forward = Forward::open(&sshd.connect().await, 0, address).unwrap();
    let mut stream = connect(&forward).await;
    let mut first = [0; 100];
    stream.read_exact(&mut first).await.unwrap();
    let rest = tokio::spawn(async move {
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).await.map(|_| rest.len())
    });
    let begun = Instant::now();
    let ending = tokio::spawn(forward.settled(PAUSE));
    let port = forward.port();
    let refused = async {
        while TcpStream::connect(("127.0.0.1", port)).await.is_ok() {
            tokio::time::sleep(PAUSE / 50).await;
        }
    };
    timeout(PAUSE, refused).await.expect("refused at once");
    timeout(DEADLINE, ending).await.expect("in time").unwrap();
    assert!(begun.elapsed() > 2 * PAUSE, "{:?}", begun.elapsed());
    let length = timeout(DEADLINE, rest).await.expect("whole");
    assert_eq!(length.unwrap().unwrap(), PIECES as usize * (1 << 16) - 100);
}
