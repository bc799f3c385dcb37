//! Images from a real registry: the progress of pulls, and the errors of those that fail.

use std::time::{Duration, Instant};

use xdrive::host::facts::ScriptError;
use xdrive::host::pull::{Pulled, Refused};
use xdrive::host::registry::RegistryLogin;
use xdrive::host::scripts::Image;

use crate::host::machine::{Disk, Machine};
use harness::registry::{OPEN, PRIVATE, Registry, SLOW, USER, publish};

async fn machine(disk: &Disk) -> Machine {
    let mut machine = Machine::boot().await;
    machine.attach(disk);
    machine.mount_blank(disk).await;
    machine
}

async fn pull(machine: &Machine, reference: &str) -> Result<Option<Pulled>, ScriptError> {
    machine.host.pull(reference, None, &mut |_| {}).await
}

/// A login at the private registry.
fn login(password: &str) -> RegistryLogin {
    RegistryLogin {
        server: PRIVATE.to_owned(),
        username: USER.0.to_owned(),
        password: password.to_owned(),
        identity_token: String::new(),
        registry_token: String::new(),
    }
}

/// The reason for a refused pull, and dockerd's message.
async fn refused(
    machine: &Machine,
    reference: &str,
    login: Option<&RegistryLogin>,
) -> (Refused, String) {
    match machine.host.pull(reference, login, &mut |_| {}).await {
        Err(ScriptError::NotPulled(words)) => (Refused::from_error(&words), words),
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
    let pulled = machine.host.pull(&reference, None, &mut see).await.unwrap();
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
async fn the_reasons_why_a_registry_gives_no_image_are_distinguished() {
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
        let (meaning, words) = refused(&machine, &reference, None).await;
        assert_eq!(meaning, expected, "{reference}: {words}");
        assert!(began.elapsed() < Duration::from_mins(1), "{reference}");
    }
    // With a login it is pulled, with a wrong one or one at another registry not.
    let reference = format!("{PRIVATE}/three:v1");
    let (user, password) = USER;
    let elsewhere = RegistryLogin {
        server: OPEN.to_owned(),
        ..login(password)
    };
    for wrong in [&login("guessed"), &elsewhere] {
        let (meaning, words) = refused(&machine, &reference, Some(wrong)).await;
        assert_eq!(meaning, Refused::Login, "{wrong:?}: {words}");
        assert!(!words.contains(&wrong.password), "{words}");
    }
    let login = login(password);
    let mut ignored = |_| {};
    let pulled = machine.host.pull(&reference, Some(&login), &mut ignored);
    assert_eq!(pulled.await.unwrap().unwrap().done, 4);
    machine.sh(&format!("docker rmi {reference}")).await;
    let (meaning, words) = refused(&machine, &reference, None).await;
    assert_eq!(meaning, Refused::Login, "it was kept: {words}");
    // Likewise with the machine's own.
    let own = format!("echo {password} | docker login -u {user} --password-stdin {PRIVATE}");
    machine.sh(&own).await;
    let pulled = pull(&machine, &reference).await;
    assert_eq!(pulled.unwrap().unwrap().done, 4);
    // Which a given one outranks.
    machine.sh(&format!("docker rmi {reference}")).await;
    let wrong = RegistryLogin {
        password: "guessed".to_owned(),
        ..login
    };
    let (meaning, words) = refused(&machine, &reference, Some(&wrong)).await;
    assert_eq!(meaning, Refused::Login, "{words}");
    machine.sh(&format!("docker logout {PRIVATE}")).await;

    drop(registry);
    let (meaning, words) = refused(&machine, &format!("{OPEN}/three:v3"), None).await;
    assert_eq!(meaning, Refused::Unreachable, "{words}");
}
