//! Variants of `forwards`, which `shell/test.sh --all` runs.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::session::network::NOTICED;
use crate::session::site::{SESSION, Site};
use crate::session::terminal::ends;
use crate::session::transfers::{echoes, echoing, free};
use harness::eventually_within;

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_port_is_open_on_this_computer_alone_unless_it_is_asked_for_on_all_addresses() {
    let site = Site::with_a_drive();
    let back = format!("7001:127.0.0.1:{}", echoing());
    let (own, open) = (free(), free());
    let (alone, all) = (
        format!("{own}:localhost:7001"),
        format!("*:{open}:localhost:7001"),
    );
    let ways = ["-R", &back, "-L", &alone, "-L", &all];
    let mut pty = site.in_terminal(&[&["connect", "demo"][..], &ways].concat());
    pty.see_within(SESSION, "# ");
    // Another address than what `localhost` is.
    let there = |port: u16| TcpStream::connect(("127.0.0.2", port));
    assert!(echoes(own) && echoes(open));
    let mut stream = there(open).unwrap();
    stream.write_all(b"come in").unwrap();
    let mut answer = [0; 7];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"come in");
    drop(stream);
    assert!(there(own).is_err(), "it listens on all addresses");
    pty.type_in("exit\r");
    ends(pty, &site, 0, 2);
}

/// A page that asks four times a second, over a new connection each time, until one is refused.
struct Polls(JoinHandle<usize>);

impl Polls {
    /// Begins; it has had an answer.
    fn begin(port: u16) -> Self {
        let poll = move || {
            let mut stream = TcpStream::connect(("127.0.0.1", port))?;
            stream.set_read_timeout(Some(NOTICED))?;
            stream.write_all(b"news")?;
            stream.read_exact(&mut [0; 4])
        };
        poll().unwrap();
        Self(std::thread::spawn(move || {
            let mut answers = 0;
            while poll().is_ok() {
                answers += 1;
                std::thread::sleep(Duration::from_millis(250));
            }
            answers
        }))
    }

    /// Checks that they were refused while the transfer went on, which takes three seconds.
    fn are_refused(self) {
        let refused = || self.0.is_finished();
        eventually_within(Duration::from_secs(1), || "the polls".to_owned(), refused);
        let answers = self.0.join().unwrap();
        assert!(answers < 12, "{answers} answers: the end let new ones in");
    }
}

/// Asks as [`Polls`] does, but in the container, where that port leads here; prints what came of it.
const ASKS: &str = "while :; do \
                    (exec 3<>/dev/tcp/127.0.0.1/7002 || exit 1; echo news >&3; read -t 9 -u 3 || exit 4); \
                    case $? in 0) echo answered;; 1) echo closed;; *) echo refused;; esac; sleep 0.25; \
                    done";

/// Checks what [`ASKS`] has printed: once the command was over it was refused, and found the port
/// there all the same while the transfer went on.
fn was_refused(asked: &str) {
    let (before, after) = asked.split_once("over\n").unwrap();
    assert!(before.contains("answered"), "{asked}");
    let count = |word: &str| after.lines().filter(|line| *line == word).count();
    assert!(count("answered") < 6, "the end let new ones in: {asked}");
    assert!(count("refused") > 0, "{asked}");
}

/// A server on this computer that sends a megabyte in three seconds; its port.
fn sending() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                for _ in 0..16 {
                    // A connection that is cut ends with an error.
                    let _cut = stream.write_all(&vec![b's'; 1 << 16]);
                    std::thread::sleep(Duration::from_millis(200));
                }
            });
        }
    });
    port
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn bytes_that_a_forward_carries_when_the_command_ends_arrive() {
    let site = Site::with_a_drive();
    let asks = format!("bash -c '{ASKS}' >>/work/asked 2>/dev/null &");
    let script = format!("{asks} echo begun; read end; echo over >>/work/asked");
    let (port, idle) = (free(), free());
    let ways = [
        ("-R", format!("7001:127.0.0.1:{}", sending())),
        ("-R", format!("7002:127.0.0.1:{}", echoing())),
        ("-L", format!("{port}:localhost:7001")),
        ("-L", format!("{idle}:localhost:7002")),
    ];
    let ways = ways.iter().flat_map(|(flag, way)| [*flag, way]);
    let command = ["--", "sh", "-c", &script];
    let words: Vec<&str> = ["connect", "demo"]
        .into_iter()
        .chain(ways)
        .chain(command)
        .collect();
    let mut connect = site.command(&words);
    let streams = [Stdio::piped(), Stdio::piped(), Stdio::piped()];
    let [stdin, stdout, stderr] = streams;
    let mut child = connect
        .stdin(stdin)
        .stdout(stdout)
        .stderr(stderr)
        .spawn()
        .unwrap();
    let mut begun = [0; 6];
    child
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut begun)
        .unwrap();
    let connected = |port: u16| {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(NOTICED)).unwrap();
        stream
    };
    // A connection that nothing comes through is not waited for.
    let mut silent = connected(idle);
    silent.write_all(b"x").unwrap();
    silent.read_exact(&mut [0]).unwrap();
    let mut stream = connected(port);
    stream.read_exact(&mut [0; 100]).unwrap();
    let polls = Polls::begin(idle);
    drop(child.stdin.take());
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert_eq!(rest.len(), (1 << 20) - 100);
    polls.are_refused();
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(0));
    let shown = String::from_utf8(ended.stderr).unwrap();
    assert!(
        shown.contains(
            "forwards take no new connection; waiting for the transfers through them, 10 min at \
             most; Ctrl-C ends that\n"
        ),
        "{shown}"
    );
    let asked = site.run(&["cat", "demo:/work/asked"]);
    was_refused(&asked.is(0).stdout);
    site.is_saved("demo", 2);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_busy_port_is_replaced_or_refused() {
    let site = Site::with_a_drive();
    let held = TcpListener::bind("127.0.0.1:0").unwrap();
    let busy = held.local_addr().unwrap().port().to_string();
    let exact = ["connect", "demo", "--exact-ports"];
    for flag in ["-L", "--jupyter-port"] {
        site.run(&[&exact[..], &[flag, &busy, "--", "true"]].concat())
            .is(69)
            .reports(&format!("error: port {busy} of this computer is busy\n"))
            .reports("hint: without --exact-ports another port is taken");
        // Before anything was launched.
        site.is_saved("demo", 1);
    }
    // Two that want the same one.
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port().to_string();
    drop(free);
    let twice = ["-L", &port, "--jupyter-port", &port, "--", "true"];
    site.run(&[&exact[..], &twice].concat())
        .is(69)
        .reports(&format!("error: port {port} of this computer is busy\n"));
    site.is_saved("demo", 1);
    // In the container it is known once that is up.
    let once = format!("7001:127.0.0.1:{}", echoing());
    let twice = format!("7001:localhost:{}", echoing());
    let both = ["--no-jupyter", "-R", &once, "-R", &twice];
    site.run(&[&exact[..], &both, &["--", "true"]].concat())
        .is(69)
        .reports("error: port 7001 in the container is busy\n")
        .reports("demo is saved: its snapshot (snap-");
    let replaced = [
        &["connect", "demo", "-L", &busy][..],
        &both,
        &["--", "true"],
    ]
    .concat();
    site.run(&replaced)
        .is(0)
        .reports(&format!(
            "port {busy} is busy: -L {busy}:localhost:{busy} gets port "
        ))
        .reports(&format!(
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
    let site = Site::with_a_drive();
    let (one, other) = (free(), free());
    site.configure(&format!(
        "forward = [{one}, \"{other}:localhost:80\"]\nremote_forward = 7001\n"
    ));
    site.run(&["connect", "demo", "-L", &one.to_string(), "--", "true"])
        .is(0)
        .reports(&format!(
            "127.0.0.1:{one} leads to port {one} in the container\n"
        ))
        .reports(&format!(
            "127.0.0.1:{other} leads to port 80 in the container\n"
        ))
        .reports("port 7001 in the container leads to port 7001 here");
    site.configure("forward = \"80:80\"\n");
    let refused = site.run(&["connect", "demo", "--", "true"]);
    refused.is(78).reports("it is not [BIND:]PORT[:HOST:PORT]");
    site.configure("");
    site.is_saved("demo", 2);
}
