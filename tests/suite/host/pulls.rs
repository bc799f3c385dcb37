//! Images from a real registry: the progress of pulls, and the errors of those that fail.

use std::time::{Duration, Instant};

use xdrive::host::facts::ScriptError;
use xdrive::host::pull::{Pulled, Refused};
use xdrive::host::scripts::Image;

use super::machine::{Disk, Machine};
use harness::registry::{OPEN, PRIVATE, Registry, SLOW, USER, publish};

async fn machine(disk: &Disk) -> Machine {
    let mut machine = Machine::boot().await;
    machine.attach(disk);
    machine.mount_blank(disk).await;
    machine
}

async fn pull(machine: &Machine, reference: &str) -> Result<Option<Pulled>, ScriptError> {
    machine.host.pull(reference, &mut |_| {}).await
}

/// The reason for a refused pull, and dockerd's message.
async fn refused(machine: &Machine, reference: &str) -> (Refused, String) {
    match pull(machine, reference).await {
        Err(ScriptError::NotPulled(words)) => (Refused::of(&words), words),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices), the machine tree and docker-registry"]
async fn a_pull_says_how_many_layers_and_bytes_have_come() {
    let disk = Disk::new(2048);
    let machine = machine(&disk).await;
    machine.load_image().await;
    let _registry = Registry::start(&machine.init());
    machine
        .sh(&publish("xdrive/image:latest", "three:v1"))
        .await;

    let reference = format!("{SLOW}/three:v1");
    let mut seen = Vec::new();
    let mut see = |pulled: Pulled| seen.push(pulled);
    let pulled = machine.host.pull(&reference, &mut see).await.unwrap();
    let pulled = pulled.expect("it was not there");
    assert_eq!((pulled.done, pulled.layers), (4, 4), "{seen:?}");
    // Three of them came; their content does not compress.
    assert!(
        (12_000_000..13_000_000).contains(&pulled.bytes),
        "{pulled:?}"
    );
    assert_eq!(pulled.total, Some(pulled.bytes));
    let is_under_way = |at: &Pulled| at.bytes > 0 && at.total.is_some_and(|total| at.bytes < total);
    assert!(seen.iter().any(is_under_way), "{seen:?}");
    assert!(seen.is_sorted_by_key(|at| (at.done, at.bytes)), "{seen:?}");
    // An image on the drive is not pulled.
    assert_eq!(pull(&machine, &reference).await.unwrap(), None);
    machine.start(Image::Reference(reference), &[]).await;
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices), the machine tree and docker-registry"]
async fn what_a_registry_does_not_give_is_distinguished() {
    let disk = Disk::new(2048);
    let machine = machine(&disk).await;
    machine.load_image().await;
    let registry = Registry::start(&machine.init());
    machine
        .sh(&publish("xdrive/image:latest", "three:v1"))
        .await;
    for (reference, expected) in [
        (format!("{PRIVATE}/three:v1"), Refused::Login),
        (format!("{OPEN}/three:v2"), Refused::NoTag),
        (format!("{OPEN}/four"), Refused::NoTag),
        (
            "registry.invalid/nothing:at-all".to_owned(),
            Refused::Unreachable,
        ),
        ("127.0.0.1:9/nothing".to_owned(), Refused::Unreachable),
    ] {
        let began = Instant::now();
        let (meaning, words) = refused(&machine, &reference).await;
        assert_eq!(meaning, expected, "{reference}: {words}");
        assert!(began.elapsed() < Duration::from_mins(1), "{reference}");
    }
    // With the machine's own login it is pulled.
    let (user, password) = USER;
    let login = format!("echo {password} | docker login -u {user} --password-stdin {PRIVATE}");
    machine.sh(&login).await;
    let pulled = pull(&machine, &format!("{PRIVATE}/three:v1")).await;
    assert_eq!(pulled.unwrap().unwrap().done, 4);
    machine.sh(&format!("docker logout {PRIVATE}")).await;

    drop(registry);
    let (meaning, words) = refused(&machine, &format!("{OPEN}/three:v3")).await;
    assert_eq!(meaning, Refused::Unreachable, "{words}");
}
