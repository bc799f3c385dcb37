//! The forwarded ports of a session.

mod wide;

use std::net::{Shutdown, TcpListener, TcpStream};

use super::json::document;
use super::network::{LOST, NOTICED, NoAnswer};
use super::site::{SESSION, Site};
use super::terminal::ends;
use super::transfers::{Transfers, at_once, echoes, echoing, free, stalled};
use harness::{Pty, eventually_within, image_with};

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn ports_lead_into_the_container_and_back_also_after_a_lost_network() {
    let site = Site::with_a_drive();
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

    let silence = NoAnswer::begin(&site);
    pty.see_within(NOTICED, LOST);
    drop(silence);
    let is_back = || !pty.contents().contains(LOST);
    eventually_within(NOTICED, || pty.contents(), is_back);
    // The same ports, with the same transfers.
    transfers.iter().for_each(Transfers::go_on);
    drop(transfers);
    // A reader that has stopped holds up nobody.
    let stopped = stalled(other);
    assert!(at_once(one, 200), "200 connections at once");
    assert!(echoes(one));
    pty.type_in("echo still-$((6*7))\r");
    pty.see("still-42");
    stopped.shutdown(Shutdown::Both).unwrap();
    pty.type_in("exit\r");
    ends(pty, &site, 0, 2);
    assert!(
        TcpStream::connect(("127.0.0.1", one)).is_err(),
        "it is closed"
    );
}

/// Listens on a port of the loopback address, and sends back what comes, without any module.
const LISTEN: &str = "socket(S,2,1,0);bind(S,pack(\"S n C4 x8\",2,shift,127,0,0,1));listen(S,9);\
                      while(accept(C,S)){syswrite(C,$b)while(sysread(C,$b,65536));close(C)}";

/// A port that nothing listens on, and that the system chooses for nobody.
fn below_the_chosen() -> u16 {
    let own = u16::try_from(std::process::id() % 9000).unwrap();
    let mut ports = (20_000 + own..).filter(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok());
    ports.next().unwrap()
}

/// Types a line of `~C`.
fn order(pty: &mut Pty, line: &str) {
    pty.type_in(&format!("\r~C{line}"));
    pty.see(&format!("xdrive> {line}"));
    pty.type_in("\r");
}

/// Whether a line of `~C`, which is given up, would lead to this port.
fn is_prompted(pty: &mut Pty, port: u16) -> bool {
    let prompt = format!("Enter leads to port {port}: perl");
    let shown = |pty: &Pty| ["xdrive> ", &prompt].map(|text| pty.sent(text));
    let before = shown(pty);
    pty.type_in("\r~C\x03");
    eventually_within(SESSION, || pty.contents(), || shown(pty)[0] > before[0]);
    shown(pty)[1] > before[1]
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn ports_are_offered_added_listed_and_ended_while_a_shell_runs() {
    let site = Site::new();
    let (tar, here) = (site.path("perl.tar"), echoing());
    std::fs::write(&tar, image_with(&["perl"])).unwrap();
    let words = ["connect", "demo", "--no-jupyter", "--image"];
    let mut pty = site.in_terminal(&[&words[..], &[tar.to_str().unwrap()]].concat());
    pty.see_within(SESSION, "# ");
    let nothing = site.run(&["ports", "demo"]);
    nothing.is(0).prints("  nothing listens in the container\n");

    let (one, two) = (below_the_chosen(), 7002);
    let clear = "printf '\\033[H\\033[2J'";
    let serve = |port: u16| format!("perl -e '{LISTEN}' {port} & {clear}\r");
    pty.type_in(&serve(one));
    let offer = |port: u16| format!("perl listens on port {port}: ~C and Enter lead there");
    pty.see_within(SESSION, &offer(one));
    assert!(!echoes(one), "it was opened unasked");
    order(&mut pty, "");
    pty.see(&format!("Enter leads to port {one}: perl"));
    let opened = format!("127.0.0.1:{one} leads to port {one} in the container");
    pty.see(&opened);
    assert!(echoes(one));
    order(&mut pty, "");
    pty.see("no port is offered");

    // Not on the screen of a full-screen program, but in the list and after it.
    pty.type_in(&format!("printf '\\033[?1049h'; {}", serve(two)));
    let listed = || {
        pty.type_in("\r~#");
        pty.contents()
            .contains(&format!("{two}: ~C -L {two} leads there"))
    };
    eventually_within(SESSION, || "the offer in the list".to_owned(), listed);
    assert_eq!(pty.sent(&offer(two)), 0, "{}", pty.contents());
    pty.type_in("\rprintf '\\033[?1049l'\r");
    pty.see(&offer(two));
    // A server that is restarted has its offer again, without another line.
    pty.type_in("kill $!\r");
    let gone = || !is_prompted(&mut pty, two);
    eventually_within(SESSION, || "the end of the offer".to_owned(), gone);
    pty.type_in(&serve(two));
    let again = || is_prompted(&mut pty, two);
    eventually_within(SESSION, || "the offer again".to_owned(), again);
    assert_eq!(pty.sent(&offer(two)), 1, "{}", pty.contents());

    // The other way round; what cannot be; and the end of one.
    order(&mut pty, &format!("-R 7003:127.0.0.1:{here}"));
    pty.see(&format!(
        "port 7003 in the container leads to port {here} here"
    ));
    order(&mut pty, "-L 80:80");
    pty.see("-L 80:80: it is not [BIND:]PORT[:HOST:PORT]");
    let ports = site.run(&["ports", "demo"]);
    ports
        .is(0)
        .prints(&format!("{one:>7}  127.0.0.1             perl\n"));
    ports
        .prints("   7003  ")
        .prints("  leads out of the container (-R)\n");
    let rows = document("ports", site.run(&["ports", "demo", "--json"]).is(0));
    let kind = |port: u16| {
        let mut rows = rows.as_array().unwrap().iter();
        rows.find(|row| row["port"] == port).unwrap()["kind"].clone()
    };
    assert_eq!(
        (kind(one), kind(7003)),
        ("program".into(), "forward".into())
    );
    order(&mut pty, &format!("-KL {one}"));
    pty.see(&format!("port {one} of this computer is forwarded no more"));
    assert!(
        TcpStream::connect(("127.0.0.1", one)).is_err(),
        "it is closed"
    );
    let remote = format!("port 7003 in the container leads to port {here} here");
    let [before, closed] = [&remote, &opened].map(|line| pty.sent(line));
    pty.type_in("\r~#");
    let listed = || pty.sent(&remote) > before;
    eventually_within(SESSION, || pty.contents(), listed);
    assert_eq!(pty.sent(&opened), closed, "{}", pty.contents());
    pty.type_in("exit\r");
    ends(pty, &site, 0, 1);
    let gone = site.run(&["ports", "demo"]);
    gone.is(69).reports("demo is not up: nothing runs on it");
}
