//! Variants of `containers`, which `shell/test.sh --all` runs.

use std::time::{Duration, Instant};

use xdrive::host::container::Came;
use xdrive::host::facts::ScriptError;
use xdrive::host::scripts::{ContainerOrder, Image};

use super::inside;
use crate::host::machine::{Disk, Machine, order};

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn an_image_that_cannot_be_had_or_used_is_a_clear_error_in_seconds() {
    let disk = Disk::new(2048);
    let machine = Machine::with_drive(&disk).await;
    let image_error = |answer: Result<_, ScriptError>| match answer {
        Err(ScriptError::Image(words)) => words,
        Err(other) => panic!("{other}"),
        Ok(()) => panic!("it worked"),
    };

    let began = Instant::now();
    let missing = Image::Reference("registry.invalid/nothing:at-all".into());
    let words = image_error(machine.host.container(&order(missing, &[])).await.map(drop));
    assert!(words.contains("is not on the drive"), "{words}");
    assert!(
        began.elapsed() < Duration::from_secs(30),
        "{:?}",
        began.elapsed()
    );

    let words = image_error(
        machine
            .host
            .load_image("x", &vec![b'x'; 70_000][..])
            .await
            .map(drop),
    );
    assert!(words.contains("not an image archive"), "{words}");
    let words = image_error(machine.host.load_image("x", &b""[..]).await.map(drop));
    assert!(words.contains("not an image archive"), "{words}");

    let bare = machine.archive("cat").await;
    let bare = machine.host.load_image("bare", &bare[..]).await.unwrap();
    let words = image_error(
        machine
            .host
            .container(&order(Image::Loaded(bare), &[]))
            .await
            .map(drop),
    );
    assert!(words.contains("no shell"), "{words}");

    // A compressed archive of `docker save` works as well.
    machine.load_image().await;
    let saved = machine
        .ssh
        .run("docker save xdrive/image:latest | gzip -1", b"")
        .await
        .unwrap();
    let loaded = machine
        .host
        .load_image("saved", &saved.stdout[..])
        .await
        .unwrap();
    assert_eq!(loaded.id, "xdrive/image:latest");
    assert_eq!(
        machine.start(Image::Loaded(loaded), &[]).await.came,
        Came::Created
    );
}

/// The fault: a docker that did not answer was taken for one that has no container, and what had the
/// name was removed.
#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn a_container_that_docker_does_not_list_is_not_removed() {
    let disk = Disk::new(2048);
    let machine = Machine::with_drive(&disk).await;
    machine.load_image().await;
    let image = || Image::Reference("xdrive/image:latest".into());
    machine
        .sh("docker create --name xdrive-demo xdrive/image:latest sh > /dev/null")
        .await;
    machine
        .host
        .container(&order(image(), &[]))
        .await
        .unwrap_err();
    machine.sh("docker rm xdrive-demo").await;

    machine.start(image(), &[]).await;
    inside(&machine, "echo layer > /note").await;
    machine
        .sh("mv /usr/bin/docker /usr/bin/docker.real; \
             printf '#!/bin/sh\\n[ \"$1\" != ps ] || exit 1\\nexec docker.real \"$@\"\\n' > /usr/bin/docker; \
             chmod +x /usr/bin/docker")
        .await;
    let error = machine.host.container(&order(Image::Kept, &[])).await;
    let error = error.unwrap_err().to_string();
    assert!(error.contains("docker does not list"), "{error}");
    machine.sh("mv /usr/bin/docker.real /usr/bin/docker").await;
    assert_eq!(machine.start(Image::Kept, &[]).await.came, Came::Running);
    assert_eq!(inside(&machine, "cat /note").await, "layer\n");
}

/// The fault: the helper that makes one layer had the name of its container.
#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn a_drive_called_flatten_is_made_one_layer_like_any_other() {
    let disk = Disk::new(2048);
    let machine = Machine::with_drive(&disk).await;
    let image = Image::Loaded(machine.load_image().await);
    let called = ContainerOrder {
        drive: "flatten".parse().unwrap(),
        ..order(image, &[])
    };
    machine.host.container(&called).await.unwrap();
    let seen = machine
        .sh("docker exec xdrive-flatten sh -c 'echo layer > /note'; \
             XDRIVE_MOST_LAYERS=2 XDRIVE_NAME=flatten XDRIVE_ENVIRONMENT=A=1 \
             sh /var/lib/xdrive/scripts/*/container start > /dev/null; \
             docker exec xdrive-flatten cat /note; \
             docker image inspect -f '{{len .RootFS.Layers}}' xdrive/drive:latest")
        .await;
    assert_eq!(seen, "layer\n1\n");
}

/// The fault: the start ended with its caller at its next line, after docker's files were synced. Who had
/// joined worked on in a container that was on no record, and the next mount removed docker's store.
#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn a_first_container_is_on_record_although_its_caller_goes_away_and_nobody_is_in_it_before() {
    let disk = Disk::new(2048);
    let machine = Machine::with_drive(&disk).await;
    machine.load_image().await;
    let scripts = "/var/lib/xdrive/scripts/*";
    // The caller reads on until dockerd is there.
    let first = format!(
        "XDRIVE_NAME=demo XDRIVE_IMAGE=xdrive/image:latest XDRIVE_SOURCE=small \
         sh {scripts}/container start | head -n 1"
    );
    let first = machine.sh(&first).await;
    assert!(first.starts_with("xdrive: ms.dockerd="), "{first}");
    assert_eq!(machine.sh("cat /v1/xdrive/source").await, "small\n");
    assert_eq!(machine.start(Image::Kept, &[]).await.came, Came::Running);

    let seen = format!(
        "cd /v1/xdrive; mv source away; sh {scripts}/container running; \
         mv away source; sh {scripts}/container running"
    );
    let seen = machine.sh(&seen).await;
    let facts = seen.lines();
    let names: Vec<_> = facts
        .filter_map(|line| line.strip_prefix("xdrive: container="))
        .collect();
    assert_eq!(names, ["none", "xdrive-demo"]);
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn no_program_waits_for_a_metadata_service_that_it_cannot_reach_unless_its_user_says_so() {
    const NAME: &str = "AWS_EC2_METADATA_DISABLED";
    let disk = Disk::new(2048);
    let machine = Machine::with_drive(&disk).await;
    let says = format!("echo ${NAME}");
    let image = Image::Loaded(machine.load_image().await);
    machine.start(image, &[]).await;
    assert_eq!(inside(&machine, &says).await, "true\n");
    machine.start(Image::Kept, &[(NAME, "false")]).await;
    assert_eq!(inside(&machine, &says).await, "false\n");
    machine.start(Image::Kept, &[]).await;
    assert_eq!(inside(&machine, &says).await, "true\n");
}
