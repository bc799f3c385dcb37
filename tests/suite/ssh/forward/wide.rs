//! Variants of `forward`, which `shell/test.sh --all` runs.

use std::time::Duration;

use xdrive::ssh::forward::{Destination, Within};

use super::{connect, eight_streams_through, flooded_by, goes_on, held_back};
use harness::sshd::Sshd;

#[tokio::test]
#[ignore = "needs root and sshd"]
async fn eight_streams_survive_re_keying_by_the_server() {
    eight_streams_through(&Sshd::with("RekeyLimit 1M")).await;
}

/// The fault: for a connection within another one, the time in which that is held was silence.
#[tokio::test]
#[ignore = "needs root and sshd"]
async fn a_reader_of_one_within_may_pause_for_longer_than_a_host_may_be_silent() {
    let flooded = flooded_by(|sshd, server| {
        let within = Within {
            server: format!("/usr/sbin/sshd -i -f {}", sshd.path("config").display()),
            host: server.ip().to_string(),
            port: server.port(),
        };
        Destination {
            address: None,
            within: Some(within),
        }
    })
    .await;
    let (forward, flood) = (&flooded.forward, &flooded.flood);
    let mut behind = connect(forward).await;
    let sent = held_back(&mut behind, flood).await;
    tokio::time::sleep(Duration::from_secs(40)).await;
    goes_on(&mut behind, sent, flood).await;
}
