//! Connections through the forwarded ports of a session.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::network::NOTICED;
use super::site::SESSION;
use harness::eventually_within;

/// A server on this computer that echoes what it gets; its port.
pub(super) fn echoing() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut reader = stream.unwrap();
            let mut writer = reader.try_clone().unwrap();
            std::thread::spawn(move || {
                // A connection that is cut ends with an error.
                let _cut = std::io::copy(&mut reader, &mut writer);
                let _cut = writer.shutdown(Shutdown::Write);
            });
        }
    });
    port
}

/// A port that nothing listens on.
pub(super) fn free() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// Sends a megabyte to `port`, and checks that it comes back; false if the connection is cut.
pub(super) fn echoes(port: u16) -> bool {
    let exchange = || {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(NOTICED))?;
        let mut writer = stream.try_clone()?;
        let data: Vec<u8> = (0..1_u32 << 18).flat_map(u32::to_le_bytes).collect();
        let sent = data.clone();
        let sending = std::thread::spawn(move || {
            writer.write_all(&sent)?;
            writer.shutdown(Shutdown::Write)
        });
        let mut back = Vec::new();
        stream.read_to_end(&mut back)?;
        sending.join().unwrap()?;
        std::io::Result::Ok(back == data)
    };
    exchange().unwrap_or(false)
}

/// A reader that has stopped: what it sends comes back, and it never reads. It ends with its stream.
pub(super) fn stalled(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let mut writer = stream.try_clone().unwrap();
    std::thread::spawn(move || while writer.write_all(&[0; 1 << 14]).is_ok() {});
    stream
}

/// Opens so many connections at once, each with something that comes back.
pub(super) fn at_once(port: u16, count: u32) -> bool {
    let exchange = move |number: u32| {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(NOTICED))?;
        stream.write_all(&number.to_le_bytes())?;
        let mut back = [0; 4];
        stream.read_exact(&mut back)?;
        std::io::Result::Ok(back == number.to_le_bytes())
    };
    let all = (0..count).map(|number| std::thread::spawn(move || exchange(number)));
    let all: Vec<_> = all.collect();
    all.into_iter()
        .map(|it| it.join().unwrap())
        .all(|it| it.unwrap_or(false))
}

/// Transfers through a port, one after the other, until it is dropped.
pub(super) struct Transfers {
    over: Arc<AtomicBool>,
    done: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl Transfers {
    pub(super) fn begin(port: u16) -> Self {
        let over = Arc::<AtomicBool>::default();
        let done = Arc::<AtomicUsize>::default();
        let (until, counted) = (Arc::clone(&over), Arc::clone(&done));
        let thread = std::thread::spawn(move || {
            while !until.load(Ordering::Relaxed) {
                if echoes(port) {
                    counted.fetch_add(1, Ordering::Relaxed);
                } else {
                    std::thread::sleep(Duration::from_millis(100));
                }
            }
        });
        let thread = Some(thread);
        Self { over, done, thread }
    }

    /// Waits for some more that come back whole.
    pub(super) fn go_on(&self) {
        let before = self.done.load(Ordering::Relaxed);
        let done = || self.done.load(Ordering::Relaxed);
        let more = || done() > before + 2;
        eventually_within(SESSION, || format!("{} transfers", done()), more);
    }
}

impl Drop for Transfers {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}
