//! A link to sshd that can die silently.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A link to sshd that, once dead, carries nothing and reports nothing.
pub(super) struct Link {
    pub(super) address: SocketAddr,
    /// Whether connections carry nothing: all, and those after the first.
    dead: [Arc<AtomicBool>; 2],
    streams: Arc<Mutex<Vec<TcpStream>>>,
}

impl Link {
    pub(super) fn to(sshd: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let dead = [Arc::default(), Arc::default()];
        let [all_dead, later_dead]: [Arc<AtomicBool>; 2] = dead.clone();
        let streams = Arc::<Mutex<Vec<TcpStream>>>::default();
        let all = Arc::clone(&streams);
        std::thread::spawn(move || {
            for (index, near) in listener.incoming().enumerate() {
                let (near, far) = (near.unwrap(), TcpStream::connect(sshd).unwrap());
                all.lock().unwrap().push(near.try_clone().unwrap());
                let ends = [
                    (near.try_clone().unwrap(), far.try_clone().unwrap()),
                    (far, near),
                ];
                for (from, to) in ends {
                    let mut dead = vec![Arc::clone(&all_dead)];
                    if index > 0 {
                        dead.push(Arc::clone(&later_dead));
                    }
                    std::thread::spawn(move || carry(from, to, &dead));
                }
            }
        });
        Self {
            address,
            dead,
            streams,
        }
    }

    /// Carries everything again, held data included.
    pub(super) fn revive(&self) {
        for dead in &self.dead {
            dead.store(false, Ordering::Relaxed);
        }
    }

    /// Breaks every connection through it, for both sides to see.
    pub(super) fn cut(&self) {
        for stream in self.streams.lock().unwrap().drain(..) {
            // It may have ended already.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// From now on nothing arrives, and neither side gets an error.
    pub(super) fn die(&self) {
        self.dead[0].store(true, Ordering::Relaxed);
    }

    /// Lets all connections but the first die.
    pub(super) fn die_but_for_the_first(&self) {
        self.dead[1].store(true, Ordering::Relaxed);
    }
}

/// Carries bytes until either end is closed; while `dead`, none arrive.
fn carry(mut from: TcpStream, mut to: TcpStream, dead: &[Arc<AtomicBool>]) {
    let mut buffer = [0; 16 << 10];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        while dead.iter().any(|dead| dead.load(Ordering::Relaxed)) {
            std::thread::sleep(Duration::from_millis(50));
        }
        if to.write_all(&buffer[..length]).is_err() {
            return;
        }
    }
}
