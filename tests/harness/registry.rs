//! A registry that an instance reaches: Debian's docker-registry, in the instance's own network.
//! Docker asks for no TLS at loopback addresses (Docker documentation, *Test an insecure
//! registry*).

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

/// The address without a login.
pub const OPEN: &str = "127.0.0.1:5000";
/// The address that requires a login.
pub const PRIVATE: &str = "127.0.0.1:5001";
/// The slow address of the open one: [`RATE`] bytes a second.
pub const SLOW: &str = "127.0.0.1:5002";
/// The private one's user and password, which is found wherever it is left.
pub const USER: (&str, &str) = ("ada", "open-sesame-of-4714");

/// The password's bcrypt hash, the only form that the registry accepts.
const HASH: &str = "$2b$04$.LqYcaTZpHQ0zlXLjSzT3OeIQK5hoiQykKmgIQKBPP00cJvlG5iHu";

const RATE: u32 = 6_000_000;

/// A relay that passes so many bytes a second.
const RELAY: &str = r#"
import socket, sys, threading, time
(here, there, rate), CHUNK = sys.argv[1:], 1 << 15
def address(text):
    host, _, port = text.partition(":")
    return host, int(port)
def carry(source, sink, pause):
    try:
        while data := source.recv(CHUNK):
            sink.sendall(data)
            time.sleep(len(data) * pause)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass
listener = socket.create_server(address(here))
print("listening on", here, file=sys.stderr, flush=True)
while True:
    client, _ = listener.accept()
    server = socket.create_connection(address(there))
    for source, sink, pause in (client, server, 0), (server, client, 1 / int(rate)):
        threading.Thread(target=carry, args=(source, sink, pause), daemon=True).start()
"#;

/// The registry; it ends when this is dropped, which must be before its instance does.
pub struct Registry {
    programs: Vec<Child>,
    _folder: TempDir,
}

impl Registry {
    /// Starts it in the network of the instance whose process 1 is `init`.
    pub fn start(init: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let (user, _) = USER;
        fs::write(path("users"), format!("{user}:{HASH}\n")).unwrap();
        let auth = format!(
            "auth: {{htpasswd: {{realm: test, path: {}}}}}\n",
            path("users")
        );
        let network = format!("--net=/proc/{init}/ns/net");
        let mut programs = Vec::new();
        for (address, auth) in [(OPEN, ""), (PRIVATE, &*auth)] {
            let settings = format!(
                "version: 0.1\nstorage: {{filesystem: {{rootdirectory: {}}}}}\n\
                 http: {{addr: \"{address}\"}}\n{auth}",
                path("store")
            );
            let file = path(address);
            fs::write(&file, settings).unwrap();
            programs.push(listening(&[&network, "docker-registry", "serve", &file]));
        }
        let rate = RATE.to_string();
        programs.push(listening(&[
            &network, "python3", "-c", RELAY, SLOW, OPEN, &rate,
        ]));
        Self {
            programs,
            _folder: folder,
        }
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        for program in &mut self.programs {
            // It may have ended already.
            let _ = program.kill();
            let _ = program.wait();
        }
    }
}

/// Starts a program and waits until it prints that it listens.
fn listening(words: &[&str]) -> Child {
    let mut child = Command::new("nsenter")
        .args(words)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut printed = String::new();
    while !printed.contains("listening on") {
        let length = stderr.read_line(&mut printed).unwrap();
        assert_ne!(length, 0, "{words:?} ended: {printed}");
    }
    // Its further output is read and discarded.
    std::thread::spawn(move || stderr.read_to_end(&mut Vec::new()));
    child
}

/// The commands for a root shell of the instance that push an image, `base` and three new layers,
/// to [`OPEN`] as `name`, and leave nothing of it on the drive.
pub fn publish(base: &str, name: &str) -> String {
    format!(
        "set -e; image={base}; for n in 1 2 3; do docker create --name layer $image sh >/dev/null; \
         head -c 4000000 /dev/urandom >/tmp/layer; docker cp /tmp/layer layer:/layer$n; \
         docker commit layer {OPEN}/{name} >/dev/null; docker rm layer >/dev/null; \
         image={OPEN}/{name}; done; docker push -q {OPEN}/{name} >/dev/null; \
         docker rmi {OPEN}/{name} >/dev/null; docker image prune -f >/dev/null; rm /tmp/layer"
    )
}
