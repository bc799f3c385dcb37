//! The forwarded ports of a session.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::network::{LOST, NOTICED, Silence};
use super::site::SESSION;
use super::terminal::{ends, with_a_drive};
use harness::eventually_within;

/// A server on this computer that echoes what it gets; its port.
fn echoing() -> u16 {
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
fn free() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// Sends a megabyte to `port`, and checks that it comes back; false if the connection is cut.
fn echoes(port: u16) -> bool {
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

/// Transfers through a port, one after the other, until it is dropped.
struct Transfers {
    over: Arc<AtomicBool>,
    done: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl Transfers {
    fn begin(port: u16) -> Self {
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
    fn go_on(&self) {
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

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn ports_lead_into_the_container_and_back_also_after_a_lost_network() {
    let site = with_a_drive();
    let here = echoing();
    let (one, other) = (free(), free());
    // Ports in the container that lead here: one on its loopback alone, one on all its addresses.
    // And ports of this computer that lead to those.
    let ways = [
        ("-R", format!("7001:127.0.0.1:{here}")),
        ("-R", format!("*:7002:localhost:{here}")),
        ("-L", format!("{one}:localhost:7001")),
        ("-L", format!("{other}:127.0.0.1:7002")),
    ];
    let ways = ways.iter().flat_map(|(flag, way)| [*flag, way]);
    let words: Vec<&str> = ["connect", "demo"].into_iter().chain(ways).collect();
    let mut pty = site.in_terminal(&words);
    pty.see_within(SESSION, "# ");
    pty.see(&format!(
        "127.0.0.1:{one} leads to port 7001 in the container"
    ));
    pty.see(&format!(
        "port 7002 in the container leads to port {here} here"
    ));
    let transfers = [one, other].map(Transfers::begin);
    transfers.iter().for_each(Transfers::go_on);
    pty.type_in("\r~#");
    pty.see(&format!(
        "127.0.0.1:{other} leads to port 7002 in the container"
    ));

    let silence = Silence::of(&site);
    pty.see_within(NOTICED, LOST);
    drop(silence);
    let is_back = || !pty.contents().contains(LOST);
    eventually_within(NOTICED, || pty.contents(), is_back);
    // The same ports, with the same transfers.
    transfers.iter().for_each(Transfers::go_on);
    pty.type_in("echo still-$((6*7))\r");
    pty.see("still-42");
    drop(transfers);
    pty.type_in("exit\r");
    ends(pty, &site, 0, 2);
    assert!(
        TcpStream::connect(("127.0.0.1", one)).is_err(),
        "it is closed"
    );
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_busy_port_is_replaced_or_refused() {
    let site = with_a_drive();
    let held = TcpListener::bind("127.0.0.1:0").unwrap();
    let busy = held.local_addr().unwrap().port().to_string();
    let exact = ["connect", "demo", "--exact-ports"];
    for flag in ["-L", "--jupyter-port"] {
        site.run(&[&exact[..], &[flag, &busy, "--", "true"]].concat())
            .is(69)
            .says(&format!("error: port {busy} of this computer is busy\n"))
            .says("hint: without --exact-ports another port is taken");
        // Before anything was launched.
        site.is_saved("demo", 1);
    }
    // In the container it is known once that is up.
    let once = format!("7001:127.0.0.1:{}", echoing());
    let twice = format!("7001:localhost:{}", echoing());
    let both = ["--no-jupyter", "-R", &once, "-R", &twice];
    site.run(&[&exact[..], &both, &["--", "true"]].concat())
        .is(69)
        .says("error: port 7001 in the container is busy\n")
        .says("demo is saved: snap-");
    let replaced = [
        &["connect", "demo", "-L", &busy][..],
        &both,
        &["--", "true"],
    ]
    .concat();
    site.run(&replaced)
        .is(0)
        .says(&format!(
            "port {busy} is busy: -L {busy}:localhost:{busy} gets port "
        ))
        .says(&format!(
            "port 7001 in the container is busy: -R {twice} gets port "
        ));
    for wrong in ["80:80", "0", "eth0:1:h:2"] {
        site.run(&["connect", "demo", "-L", wrong, "--", "true"])
            .is(2);
    }
    site.is_saved("demo", 3);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn the_configuration_adds_ports() {
    let site = with_a_drive();
    let folder = site.home().join(".config/xdrive");
    let (one, other) = (free(), free());
    let config = format!("forward = [{one}, \"{other}:localhost:80\"]\nremote_forward = 7001\n");
    std::fs::write(folder.join("config.toml"), config).unwrap();
    site.run(&["connect", "demo", "-L", &one.to_string(), "--", "true"])
        .is(0)
        .says(&format!(
            "127.0.0.1:{one} leads to port {one} in the container\n"
        ))
        .says(&format!(
            "127.0.0.1:{other} leads to port 80 in the container\n"
        ))
        .says("port 7001 in the container leads to port 7001 here");
    std::fs::write(folder.join("config.toml"), "forward = \"80:80\"\n").unwrap();
    let refused = site.run(&["connect", "demo", "--", "true"]);
    refused.is(78).says("it is not [BIND:]PORT[:HOST:PORT]");
    std::fs::remove_file(folder.join("config.toml")).unwrap();
    site.is_saved("demo", 2);
}
