//! A host with IPv6 alone.

use std::net::{Ipv6Addr, SocketAddr, TcpListener, TcpStream};

use xdrive::ssh::{Ssh, Target};

use harness::sshd::Sshd;
use harness::{DEADLINE, eventually_within};

#[tokio::test]
#[ignore = "needs root and sshd"]
async fn a_host_is_logged_in_to_at_its_ipv6_address() {
    // A port that is free now, for sshd, and that the system chooses for nobody else meanwhile.
    let free = (20_000..30_000).map(|port| SocketAddr::new(Ipv6Addr::LOCALHOST.into(), port));
    let mut free = free.filter(|address| TcpListener::bind(address).is_ok());
    let address = free.next().unwrap();
    let sshd = Sshd::with(&format!("ListenAddress {address}"));
    // It listens at its own address first.
    eventually_within(
        DEADLINE,
        || format!("sshd listens at {address}; {}", sshd.log()),
        || TcpStream::connect(address).is_ok(),
    );
    let target = Target {
        address,
        ..sshd.target("root")
    };
    let ssh = Ssh::connect(&target, sshd.user_key.private())
        .await
        .unwrap();
    let output = ssh.run("echo \"$SSH_CONNECTION\"", b"").await.unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(printed.starts_with("::1 "), "{printed}");
}
