//! A drive's life under the policy that `xdrive policy` prints, as the caller's only one.

use xdrive::commands::policy::{Grants, policy};
use xdrive::drive::Outcome;
use xdrive::ec2::Partition;

use harness::simulation::{Ask, FRESH, Trouble, World};

#[tokio::test(start_paused = true)]
async fn the_printed_policy_is_enough_for_a_drives_whole_life() {
    let world = World::new(FRESH);
    let policy = policy(Partition::Aws, Grants::default());
    world.set(&format!("policy = '''{policy}'''\n"));
    // Made, restored, recovered after a power cut, tried out, and finished by a stop.
    for ask in [
        Ask::Session(1),
        Ask::Session(2),
        Ask::Checkpoints {
            note: 3,
            times: 2,
            killed: true,
        },
    ] {
        world.run(ask, Trouble::default()).await;
    }
    world.cut_power().await;
    world.saves(Ask::Session(4)).await;
    let report = world.run(Ask::Discard(5), Trouble::default()).await;
    let refused = |outcome: &Outcome| format!("{outcome:?}").contains("Unauthorized");
    assert!(!report.outcome.as_ref().is_some_and(refused), "{report:#?}");
    world.run(Ask::KilledInShell(6), Trouble::default()).await;
    world.saves(Ask::Stop).await;
    assert_eq!(world.problems().await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn without_the_policys_rights_nothing_is_launched() {
    let world = World::new(FRESH);
    let read = r#"{"Version": "2012-10-17", "Statement": [
        {"Effect": "Allow", "Action": "ec2:Describe*", "Resource": "*"}]}"#;
    world.set(&format!("policy = '''{read}'''\n"));
    let report = world.run(Ask::Session(1), Trouble::default()).await;
    let outcome = format!("{:?}", report.outcome);
    assert!(outcome.contains("UnauthorizedOperation"), "{outcome}");
}
