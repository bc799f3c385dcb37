//! A command over another connection, after the first was lost: its streams go on at the very byte.

mod wide;

use std::io::{Read, Write};
use std::process::ChildStderr;
use std::thread::JoinHandle;
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::client::{Task, report};
use super::link::Link;
use super::piped::{Client, after_banner};
use super::{eventually, eventually_within};
use harness::sshd::Sshd;

/// Numbered lines on both streams, as long as a cut lasts.
const NUMBERED: &str = "i=0; while [ $i -lt 2000 ]; do echo $i; echo e$i >&2; i=$((i+1)); \
                        [ $((i % 20)) -gt 0 ] || sleep 0.1; done; exit 7";

/// The output of a client, once it has ended.
struct Printed {
    output: String,
    errors: String,
}

/// A client over the first link, which attaches again over the second as soon as that carries
/// data.
fn between_two_links(sshd: &Sshd, command: &str, kept: u64) -> (Client, Link, Link) {
    let (first, second) = (Link::to(sshd.address), Link::to(sshd.address));
    second.die();
    let mut task = Task::new(sshd, command);
    task.address = first.address;
    task.second = Some(second.address);
    task.kept = kept;
    (Client::start(&task), first, second)
}

/// Waits until standard error has begun with this line.
fn see(errors: &mut ChildStderr, line: &str) {
    let mut seen = vec![0; line.len()];
    errors.read_exact(&mut seen).unwrap();
    assert_eq!(String::from_utf8_lossy(&seen), line);
}

fn text(mut stream: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        all
    })
}

/// Waits for the end of a client whose standard error was read up to here.
fn end(mut client: Client, errors: ChildStderr) -> Printed {
    let output = text(client.0.stdout.take().unwrap());
    let errors = text(errors);
    eventually_within(Duration::from_mins(2), "the client ends", || {
        client.0.try_wait().unwrap().is_some()
    });
    let output = output.join().unwrap();
    let output = String::from_utf8_lossy(after_banner(&output)).into_owned();
    Printed {
        // libtest's last words follow.
        output: output.split("\ntest result").next().unwrap().to_owned(),
        errors: String::from_utf8_lossy(&errors.join().unwrap()).into_owned(),
    }
}

fn numbers(prefix: &str) -> String {
    let lines = (0..2000).map(|number| format!("{prefix}{number}\n"));
    lines.collect::<Vec<_>>().concat()
}

/// Checks that the host keeps the command no longer.
fn nothing_is_kept(sshd: &Sshd) {
    let look = "[ ! -e /run/xdrive/commands/here ] && [ ! -e /var/lib/xdrive/commands/here ]";
    eventually("nothing is kept", || sshd.inside(look).success());
}

#[test]
#[ignore = "needs root and sshd"]
fn both_streams_go_on_at_the_very_byte_and_the_exit_code_is_kept() {
    let sshd = Sshd::start();
    let (mut client, first, second) = between_two_links(&sshd, NUMBERED, 64 << 20);
    let mut errors = client.0.stderr.take().unwrap();
    see(&mut errors, "e0\ne1\ne2\n");
    first.cut();
    std::thread::sleep(Duration::from_secs(2));
    second.revive();
    let printed = end(client, errors);
    assert_eq!(report(&sshd), "Status(7) 7");
    assert!(
        printed.output.starts_with(&numbers("")),
        "{}",
        printed.output
    );
    assert_eq!(format!("e0\ne1\ne2\n{}", printed.errors), numbers("e"));
    nothing_is_kept(&sshd);
}

#[test]
#[ignore = "needs root and sshd"]
fn a_command_that_ended_meanwhile_has_its_last_output_and_its_exit_code() {
    let sshd = Sshd::start();
    let (gone, over) = (sshd.path("gone"), sshd.path("over"));
    let command = format!(
        "echo begun >&2; until [ -e {} ]; do sleep 0.02; done; echo last; echo >{}; exit 9",
        gone.display(),
        over.display()
    );
    let (mut client, first, second) = between_two_links(&sshd, &command, 64 << 20);
    let mut errors = client.0.stderr.take().unwrap();
    see(&mut errors, "begun\n");
    first.cut();
    std::fs::write(gone, "").unwrap();
    eventually("the end of the command", || over.exists());
    second.revive();
    let printed = end(client, errors);
    assert!(printed.output.starts_with("last\n"), "{}", printed.output);
    assert_eq!(report(&sshd), "Status(9) 9");
    nothing_is_kept(&sshd);
}

#[test]
#[ignore = "needs root and sshd"]
fn input_longer_than_any_window_arrives_once_and_whole_through_many_cuts() {
    let sshd = Sshd::start();
    let link = Link::to(sshd.address);
    // Slow enough that cuts meet data under way.
    let command = "echo begun >&2; exec 3>&1; \
                   while [ $(head -c 1000000 | tee /dev/fd/3 | wc -c) -gt 0 ]; do sleep 0.1; done";
    let mut task = Task::new(&sshd, command);
    task.address = link.address;
    task.second = Some(link.address);
    let mut client = Client::start(&task);
    let mut state = 1_u32;
    let input: Vec<u8> = (0..24 << 20)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.to_be_bytes()[0]
        })
        .collect();
    let digest = Sha256::digest(&input);
    let length = input.len();
    let mut stdin = client.0.stdin.take().unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(&input).unwrap());
    let output = text(client.0.stdout.take().unwrap());
    let mut errors = client.0.stderr.take().unwrap();
    see(&mut errors, "begun\n");
    let mut ended = false;
    for _ in 0..6 {
        std::thread::sleep(Duration::from_millis(300));
        ended = client.0.try_wait().unwrap().is_some();
        link.cut();
    }
    assert!(!ended, "no cut met data under way");
    eventually_within(Duration::from_mins(2), "the client ends", || {
        client.0.try_wait().unwrap().is_some()
    });
    writer.join().unwrap();
    assert_eq!(report(&sshd), "Status(0) 0");
    let output = output.join().unwrap();
    let output = &after_banner(&output)[..length];
    assert!(Sha256::digest(output) == digest, "what came back differs");
}

#[test]
#[ignore = "needs root and sshd"]
fn the_host_keeps_the_last_of_the_output_and_says_how_much_is_lost() {
    const KEPT: usize = 100_000;
    let sshd = Sshd::start();
    let (gone, over) = (sshd.path("gone"), sshd.path("over"));
    let command = format!(
        "echo begun >&2; until [ -e {} ]; do sleep 0.02; done; seq 100000 199999; echo >{}; \
         exit 3",
        gone.display(),
        over.display()
    );
    let (mut client, first, second) = between_two_links(&sshd, &command, KEPT as u64);
    let mut errors = client.0.stderr.take().unwrap();
    see(&mut errors, "begun\n");
    first.cut();
    std::fs::write(gone, "").unwrap();
    eventually("the end of the command", || over.exists());
    second.revive();
    let printed = end(client, errors);
    assert_eq!(report(&sshd), "Status(3) 3");
    let lines = (100_000..200_000).map(|number| format!("{number}\n"));
    let all = lines.collect::<Vec<_>>().concat();
    let lost = all.len() - KEPT;
    assert!(
        printed.errors.contains(&format!("lost: [{lost}, 0]")),
        "{}",
        printed.errors
    );
    assert!(printed.output.starts_with(&all[lost..]));
}
