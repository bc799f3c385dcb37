//! The two ends of what is measured: a server in the container, and its clients on this computer.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::{Arc, Barrier};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, ensure};

use super::MIB;
use harness::bench::program::succeeded;

/// The port of the server in the container.
pub(crate) const PORT: u16 = 9001;

/// Listens on all addresses. The first byte says what for: `d` and eight bytes, to send so many;
/// `u` and eight bytes, to receive so many; `h`, to answer each byte with a short page. Pages come
/// from one thread for all connections: a thread each would be most of what a request waits for.
pub(crate) const SERVER: &str = "\
import selectors, socket, threading
def exactly(s, n):
    b = b''
    while len(b) < n:
        p = s.recv(n - len(b))
        if not p: raise SystemExit
        b += p
    return b
def carry(s, kind):
    left = int.from_bytes(exactly(s, 8), 'big')
    piece, into = bytes(1 << 20), bytearray(1 << 20)
    while kind == b'd' and left > 0:
        s.sendall(piece[:min(left, len(piece))]); left -= len(piece)
    while kind == b'u' and left > 0: left -= s.recv_into(into)
    s.sendall(b'.')
def taken(s, n):
    try: return s.recv(n)
    except OSError: return b''
def first(s):
    kind = taken(s, 1)
    wait.unregister(s)
    if kind == b'h': wait.register(s, selectors.EVENT_READ, answer)
    elif kind: threading.Thread(target=carry, args=[s, kind], daemon=True).start()
    else: s.close()
def answer(s):
    asked = taken(s, 64)
    if asked: s.sendall(b'h' * 300 * len(asked))
    else: wait.unregister(s); s.close()
def accept(l):
    wait.register(l.accept()[0], selectors.EVENT_READ, first)
wait = selectors.DefaultSelector()
wait.register(socket.create_server(('0.0.0.0', 9001), backlog=1024), selectors.EVENT_READ, accept)
print('listening', flush=True)
while True:
    for key, _ in wait.select(): key.data(key.fileobj)
";

fn connect(port: u16) -> anyhow::Result<TcpStream> {
    let stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_mins(1)))?;
    Ok(stream)
}

fn order(kind: u8, bytes: u64) -> [u8; 9] {
    let mut order = [kind; 9];
    order[1..].copy_from_slice(&bytes.to_be_bytes());
    order
}

fn rate(bytes: u64, took: Duration) -> anyhow::Result<f64> {
    let mib = f64::from(u32::try_from(bytes >> 20)?);
    Ok(mib / took.as_secs_f64())
}

/// Receives so many bytes through each of these ports at once; MiB a second.
pub(crate) fn down(ports: &[u16], bytes: u64) -> anyhow::Result<f64> {
    let began = Instant::now();
    let all = ports.iter().map(|port| {
        let port = *port;
        std::thread::spawn(move || {
            let mut stream = connect(port)?;
            stream.write_all(&order(b'd', bytes))?;
            receive(&mut stream, bytes + 1)
        })
    });
    let all: Vec<_> = all.collect();
    all.into_iter().try_for_each(joined)?;
    rate(bytes * ports.len() as u64, began.elapsed())
}

fn receive(stream: &mut impl Read, bytes: u64) -> anyhow::Result<()> {
    let mut buffer = vec![0; 256 << 10];
    let mut left = bytes;
    while left > 0 {
        let most = usize::try_from(left)?.min(buffer.len());
        let length = stream.read(&mut buffer[..most])?;
        ensure!(length > 0, "{left} bytes are missing");
        left -= length as u64;
    }
    Ok(())
}

fn joined<T>(thread: JoinHandle<anyhow::Result<T>>) -> anyhow::Result<T> {
    thread.join().map_err(|_| anyhow!("a thread panicked"))?
}

/// Sends so many bytes through each of these ports at once; MiB a second until they have arrived.
pub(crate) fn up(ports: &[u16], bytes: u64) -> anyhow::Result<f64> {
    let began = Instant::now();
    let all = ports.iter().map(|port| {
        let port = *port;
        std::thread::spawn(move || {
            let mut stream = connect(port)?;
            stream.write_all(&order(b'u', bytes))?;
            send(&mut stream, bytes)?;
            receive(&mut stream, 1)
        })
    });
    let all: Vec<_> = all.collect();
    all.into_iter().try_for_each(joined)?;
    rate(bytes * ports.len() as u64, began.elapsed())
}

fn send(stream: &mut impl Write, bytes: u64) -> std::io::Result<()> {
    let piece = vec![0; 256 << 10];
    for _ in 0..bytes / piece.len() as u64 {
        stream.write_all(&piece)?;
    }
    Ok(())
}

/// A forward on which the server sends without end, until it is dropped.
pub(crate) struct Flood(TcpStream);

impl Drop for Flood {
    fn drop(&mut self) {
        // Fails only where it has ended.
        let _ended = self.0.shutdown(std::net::Shutdown::Both);
    }
}

/// A full forward: everything is read.
pub(crate) fn flood(port: u16) -> anyhow::Result<Flood> {
    let mut stream = connect(port)?;
    stream.write_all(&order(b'd', 1 << 50))?;
    receive(&mut stream, 1 << 20)?;
    let mut reader = stream.try_clone()?;
    std::thread::spawn(move || receive(&mut reader, 1 << 50));
    Ok(Flood(stream))
}

/// A forward whose reader has stopped: whatever may wait for it does, a second later.
pub(crate) fn stalled(port: u16) -> anyhow::Result<Flood> {
    let mut stream = connect(port)?;
    stream.write_all(&order(b'd', 1 << 50))?;
    receive(&mut stream, 1 << 20)?;
    std::thread::sleep(Duration::from_secs(1));
    Ok(Flood(stream))
}

/// The time in milliseconds, at the 99th percentile, of so many short exchanges at once, each with
/// a connection of its own.
pub(crate) fn requests(port: u16, count: usize) -> anyhow::Result<f64> {
    let gate = Arc::new(Barrier::new(count));
    let all = (0..count).map(|_| {
        let gate = Arc::clone(&gate);
        std::thread::spawn(move || {
            gate.wait();
            let began = Instant::now();
            let mut stream = connect(port)?;
            stream.write_all(b"hh")?;
            receive(&mut stream, 300)?;
            Ok(began.elapsed())
        })
    });
    let all: Vec<_> = all.collect();
    let times: anyhow::Result<Vec<_>> = all.into_iter().map(joined).collect();
    let [_, p99] = percentiles(times?);
    Ok(p99)
}

/// The 50th and the 99th percentile, in milliseconds.
pub(crate) fn percentiles(mut times: Vec<Duration>) -> [f64; 2] {
    times.sort_unstable();
    [50, 99].map(|percent| {
        let index = (times.len() * percent / 100).min(times.len() - 1);
        times[index].as_secs_f64() * 1000.0
    })
}

/// Opens so many connections, each of which has carried something.
pub(crate) fn open(port: u16, count: usize) -> anyhow::Result<Vec<TcpStream>> {
    let connections = (0..count).map(|_| {
        let mut stream = connect(port)?;
        stream.write_all(b"hh")?;
        receive(&mut stream, 300)?;
        Ok(stream)
    });
    connections.collect()
}

/// Carries so many bytes through a command that sends them back; MiB a second from the first on.
pub(crate) fn cat(command: &mut Command, bytes: u64) -> anyhow::Result<f64> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let mut input = child.stdin.take().context("no input")?;
    let mut output = child.stdout.take().context("no output")?;
    let sending = std::thread::spawn(move || Ok(send(&mut input, bytes)?));
    receive(&mut output, 1 << 20)?;
    let began = Instant::now();
    receive(&mut output, bytes - (1 << 20))?;
    let took = began.elapsed();
    joined(sending)?;
    let status = child.wait()?;
    ensure!(status.success(), "cat: {status}");
    rate(bytes - (1 << 20), took)
}

/// The time of a process in seconds, from its start to its end.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<f64> {
    let began = Instant::now();
    let output = command.stdin(Stdio::null()).output()?;
    let took = began.elapsed();
    succeeded(output)?;
    Ok(took.as_secs_f64())
}

/// The memory of a process, in MiB.
pub(crate) fn memory(pid: u32) -> anyhow::Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next());
    let kib: f64 = kib.context("no memory")?.parse()?;
    Ok(kib * 1024.0 / MIB)
}

/// The processor time of a process, in seconds.
pub(crate) fn cpu(pid: u32) -> anyhow::Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (_, after) = stat.rsplit_once(") ").context("no times")?;
    let fields: Vec<&str> = after.split(' ').collect();
    let ticks = fields[11].parse::<f64>()? + fields[12].parse::<f64>()?;
    // USER_HZ, which is the same everywhere (times(2)).
    Ok(ticks / 100.0)
}
