//! Variants of `command`, which `shell/test.sh --all` runs.

use xdrive::ssh::{Ssh, Target};

use crate::ssh::link::Link;
use harness::sshd::Sshd;

#[tokio::test]
#[ignore = "needs root and sshd"]
async fn a_link_that_dies_silently_is_noticed_after_four_unanswered_keepalives() {
    let sshd = Sshd::start();
    let link = Link::to(sshd.address);
    let target = Target {
        address: link.address,
        ..sshd.target("root")
    };
    let ssh = Ssh::connect(&target, sshd.user_key.private())
        .await
        .unwrap();
    assert_eq!(ssh.run("true", b"").await.unwrap().status, 0);
    link.die();
    // From here on tokio's time advances whenever all tasks wait.
    tokio::time::pause();
    let start = tokio::time::Instant::now();
    let reason = ssh.wait_for_end().await;
    assert_eq!(reason, "no answer for 20 seconds");
    let seconds = start.elapsed().as_secs();
    assert!((15..=20).contains(&seconds), "{seconds} s");
}
