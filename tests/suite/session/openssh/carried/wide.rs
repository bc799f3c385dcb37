//! Variants of `carried`, which `shell/test.sh --all` runs.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use crate::session::openssh::{Client, client, configured, end, leading};
use crate::session::site::{SESSION, Site};
use harness::eventually_within;

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn forwards_begin_and_end_in_the_container() {
    let site = Site::new();
    let lead = leading(&site, &site.image());
    configured(&site);
    let here = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = here.local_addr().unwrap().port();
    let serving = std::thread::spawn(move || {
        for _ in 0..2 {
            let (mut stream, _) = here.accept().unwrap();
            stream.write_all(b"from the laptop\n").unwrap();
        }
    });
    // A port of the container's own loopback leads here.
    let back = format!("7777:127.0.0.1:{port}");
    let forward = [
        "ssh",
        "-o",
        "ExitOnForwardFailure=yes",
        "-N",
        "-R",
        &back,
        "demo.xdrive",
    ];
    let behind = Client(client(&site, &forward).spawn().unwrap());
    let asks = "exec 3<>/dev/tcp/127.0.0.1/7777 && head -n 1 <&3";
    let mut printed = String::new();
    eventually_within(
        SESSION,
        || "the forward back".to_owned(),
        || {
            let output = client(&site, &["ssh", "demo.xdrive", asks])
                .output()
                .unwrap();
            printed = String::from_utf8_lossy(&output.stdout).into_owned();
            output.status.success() && !printed.is_empty()
        },
    );
    assert_eq!(printed, "from the laptop\n");
    // And a port of this computer leads to that one.
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let local = free.local_addr().unwrap();
    drop(free);
    let there = format!("{local}:localhost:7777");
    let before = Client(
        client(&site, &["ssh", "-N", "-L", &there, "demo.xdrive"])
            .spawn()
            .unwrap(),
    );
    let mut printed = String::new();
    eventually_within(
        SESSION,
        || "the forward".to_owned(),
        || {
            let Ok(mut stream) = TcpStream::connect(local) else {
                return false;
            };
            stream.read_to_string(&mut printed).unwrap_or_default() > 0
        },
    );
    assert_eq!(printed, "from the laptop\n");
    serving.join().unwrap();
    drop((before, behind));
    end(&site, lead);
    site.is_saved("demo", 1);
}
