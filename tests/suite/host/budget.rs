//! Budgets that a host keeps: side by side, over a reboot, and never by a record that cannot be read.

use std::time::Duration;

use xdrive::host::facts::ScriptError;
use xdrive::host::scripts::{BudgetOrder, Budgeted};

use super::machine::{Disk, Machine};

/// Has the host keep a budget of so many cents, at a dollar an hour.
async fn keep(machine: &Machine, id: &str, cents: u64) -> Result<Budgeted, ScriptError> {
    let order = BudgetOrder {
        id,
        cents,
        rate: 1.0,
        age: Duration::ZERO,
    };
    machine.host.keep_budget(&order).await
}

/// Whether it is so many seconds, but for those that a test takes.
fn is(kept: Budgeted, seconds: u64) {
    let left = kept.left.as_secs();
    assert!((seconds - 60..=seconds).contains(&left), "{left}");
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn no_budget_takes_the_place_of_another_one_whatever_the_host_does() {
    let disk = Disk::new(1024);
    let mut machine = Machine::with_drive(&disk).await;
    let first = keep(&machine, "run", 500).await.unwrap();
    is(first, 5 * 3600);
    assert_eq!(first.bound, None);
    // A larger one does not raise it, and a smaller one ends first.
    let larger = keep(&machine, "guest", 10_000).await.unwrap();
    is(larger, 5 * 3600);
    assert_eq!(larger.bound, Some(5.0));
    let smaller = keep(&machine, "other", 100).await.unwrap();
    is(smaller, 3600);
    assert_eq!(smaller.bound, None);

    machine.reboot().await;
    let after = keep(&machine, "other", 100).await.unwrap();
    is(after, 3600);
    assert!(after.left < smaller.left, "{after:?}, {smaller:?}");
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn the_next_host_knows_what_each_budget_has_taken_or_keeps_none() {
    let disk = Disk::new(1024);
    let machine = Machine::with_drive(&disk).await;
    keep(&machine, "run", 500).await.unwrap();
    // The session of somebody else, which is over.
    keep(&machine, "guest", 10_000).await.unwrap();
    let next_host = "rm /var/lib/xdrive/budget";
    machine.sh(next_host).await;
    let second = keep(&machine, "run", 500).await.unwrap();
    // The two minutes in which a former host may go on.
    is(second, 5 * 3600 - 120);
    assert_eq!(second.bound, None);
    machine.sh(next_host).await;
    is(keep(&machine, "run", 500).await.unwrap(), 5 * 3600 - 240);

    let deep = format!("printf '{}' > /v1/xdrive/budget", "[".repeat(60_000));
    let long = format!(
        "printf '{{\"run\": [{}, \"a\", 0]}}' > /v1/xdrive/budget",
        "9".repeat(400)
    );
    for unreadable in [
        "echo > /v1/xdrive/budget",
        &deep,
        &long,
        "rm /v1/xdrive/budget; mkfifo /v1/xdrive/budget",
        "rm /v1/xdrive/budget; ln -s /etc/passwd /v1/xdrive/budget",
    ] {
        machine.sh(unreadable).await;
        let error = keep(&machine, "run", 500).await.unwrap_err().to_string();
        assert!(
            error.contains("/v1/xdrive/budget"),
            "{unreadable:.40}: {error}"
        );
        assert!(!error.contains("Traceback"), "{error}");
    }
}
