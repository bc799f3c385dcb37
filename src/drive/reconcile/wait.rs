//! The pauses between two sweeps. They grow with the time that the same wait lasts, because EC2's
//! budget of calls is shared by all that the account does in a region.

use std::time::Duration;

use tokio::sync::watch;

use super::super::plan::Waiting;
use super::super::timing::Timing;
use crate::clock::{BootTime, Clock};
use crate::ec2::{Ec2, SnapshotState};

/// How long a wait for a host is polled as often as at its beginning: a person or a notice waits for it,
/// and it is over within this time as a rule.
const BY_A_HOST: Duration = Duration::from_mins(2);

/// How long only the snapshot is read by which a drive is saved: it takes up to hours, and meanwhile
/// others may do something with the drive.
const ALONE: Duration = Duration::from_mins(5);

/// Waits until it is time for the next sweep: at most that long, or until there are more interrupts than
/// were received. Of a snapshot that is awaited only the state is read until that changes.
pub(super) async fn until_next_sweep(
    (ec2, clock, timing): (&Ec2, &Clock, &Timing),
    (what, since, at_most): (&Waiting, BootTime, Duration),
    (interrupts, received): (&mut watch::Receiver<u32>, u32),
) {
    let began = clock.boot();
    loop {
        let now = clock.boot();
        let waited = match what {
            Waiting::Host(_) | Waiting::Closing(_) if now.since(since) < BY_A_HOST => {
                Duration::ZERO
            }
            _ => now.since(since),
        };
        let span = timing.poll_after(waited);
        pause(at_most.min(span), interrupts, received).await;
        let Waiting::Copy(snapshot) = what else {
            return;
        };
        let is_asked = *interrupts.borrow() > received;
        if is_asked || clock.boot().since(began) >= ALONE {
            return;
        }
        match ec2.snapshot(snapshot).await {
            Ok(Some(snapshot)) if snapshot.state == SnapshotState::Pending => {}
            // What is wrong with it the sweep finds.
            _ => return,
        }
    }
}

/// Sleeps, at most until there are more interrupts than were `received`.
pub(super) async fn pause(span: Duration, interrupts: &mut watch::Receiver<u32>, received: u32) {
    tokio::select! {
        () = tokio::time::sleep(span) => {}
        _ = next_interrupt(interrupts, received) => {}
    }
}

/// Waits until there are more interrupts than were `received`; their number.
pub(super) async fn next_interrupt(interrupts: &mut watch::Receiver<u32>, received: u32) -> u32 {
    match interrupts
        .wait_for(|count| *count > received)
        .await
        .map(|count| *count)
    {
        Ok(count) => count,
        // The sender is gone: no interrupt will come.
        Err(_) => std::future::pending().await,
    }
}
