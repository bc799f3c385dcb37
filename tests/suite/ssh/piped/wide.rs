//! Variants of `piped`, which `shell/test.sh --all` runs.

use std::io::{Read, Write};

use super::{Client, after_banner};
use crate::ssh::client::{Task, report};
use crate::ssh::eventually;
use crate::ssh::link::Link;
use harness::sshd::Sshd;

/// The mebibyte of `noise` with this number, which is no other's.
fn mebibyte(noise: &[u8], number: u32) -> Vec<u8> {
    let mut mebibyte = noise.to_vec();
    mebibyte[..4].copy_from_slice(&number.to_le_bytes());
    mebibyte
}

#[test]
#[ignore = "needs root and sshd"]
fn a_gibibyte_comes_back_whole() {
    let sshd = Sshd::start();
    let mut client = Client::start(&Task::new(&sshd, "cat"));
    let mut state = 1_u32;
    let noise: Vec<u8> = (0..1 << 20)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.to_be_bytes()[0]
        })
        .collect();
    let mut stdin = client.0.stdin.take().unwrap();
    let sent = noise.clone();
    let writer = std::thread::spawn(move || {
        for number in 0..1024 {
            stdin.write_all(&mebibyte(&sent, number)).unwrap();
        }
    });
    let mut stdout = client.0.stdout.take().unwrap();
    let mut banner = [0; 16];
    stdout.read_exact(&mut banner).unwrap();
    assert_eq!(after_banner(&banner), b"");
    let mut got = vec![0; noise.len()];
    for number in 0..1024 {
        stdout.read_exact(&mut got).unwrap();
        // Not `assert_eq`, which would print both.
        assert!(got == mebibyte(&noise, number), "mebibyte {number} differs");
    }
    writer.join().unwrap();
    eventually("the client ends", || client.0.try_wait().unwrap().is_some());
    assert_eq!(report(&sshd), "Status(0) 0");
}

#[test]
#[ignore = "needs root and sshd"]
fn a_line_that_dies_alone_is_noticed_although_the_connection_beside_it_lives() {
    let sshd = Sshd::start();
    let link = Link::to(sshd.address);
    let mut task = Task::new(&sshd, "echo ready >&2; sleep 1000");
    task.address = link.address;
    let mut client = Client::start(&task);
    let mut ready = [0; 6];
    let mut stderr = client.0.stderr.take().unwrap();
    stderr.read_exact(&mut ready).unwrap();
    link.die_but_for_the_first();
    eventually("the client ends", || client.0.try_wait().unwrap().is_some());
    assert_eq!(report(&sshd), "Lost(\"no answer for 15 seconds\") 255");
}
