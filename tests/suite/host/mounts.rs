//! What of the host is in a container: mounts, and Docker's socket.

use xdrive::host::container::Came;
use xdrive::host::facts::ScriptError;
use xdrive::host::places::Places;
use xdrive::host::scripts::{ContainerOrder, Image};

use super::machine::{Disk, Machine, order};

fn with(image: Image, mounts: Option<&[&str]>, docker: Option<bool>) -> ContainerOrder {
    let mounts = mounts.map(|all| all.iter().map(|it| it.parse().unwrap()).collect());
    ContainerOrder {
        places: Places { mounts, docker },
        ..order(image, &[])
    }
}

/// The message of a mount that was refused.
fn refused(answer: Result<impl std::fmt::Debug, ScriptError>) -> String {
    match answer {
        Err(ScriptError::Mount(words)) => words,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn a_mount_stays_in_work_and_belongs_to_the_images_user() {
    let disk = Disk::new(2048);
    let machine = Machine::with_drive(&disk).await;
    machine.load_image().await;
    machine
        .sh(
            "cd /tmp && docker create --name made xdrive/image:latest sh > /dev/null && \
             docker commit --change 'USER 1000:1000' made user:1 > /dev/null && docker rm made",
        )
        .await;
    let image = Image::Reference("user:1".into());
    machine
        .sh("mkdir -p /v1/work/old && touch /v1/work/one")
        .await;
    let mounts = ["old:/old", "new/a/b:/new:ro", "one:/etc/one"];
    let start = with(image, Some(&mounts), None);
    let made = machine.host.container(&start).await.unwrap();
    assert_eq!((made.came, made.docker), (Came::Created, false));
    let owners = machine
        .sh("cd /v1/work && stat -c %u:%g old new new/a new/a/b one | tr '\\n' ' '")
        .await;
    assert_eq!(owners, "0:0 1000:1000 1000:1000 1000:1000 0:0 ");
    let seen = machine
        .sh("docker exec xdrive-demo sh -c '[ -f /etc/one ] && ls -d /old /new | cat'")
        .await;
    assert_eq!(seen, "/new\n/old\n");

    // A start follows links: neither one that leads out, nor one below which a folder would be made.
    for link in ["/etc", "../docker", "/v1/xdrive", "/nowhere"] {
        machine
            .sh(&format!(
                "docker stop -t 0 xdrive-demo > /dev/null; cd /v1/work && rm -rf new && ln -s {link} new"
            ))
            .await;
        let words = refused(machine.host.container(&with(Image::Kept, None, None)).await);
        assert_eq!(words, "a link in /work leads the mount new/a/b out of it");
        machine
            .sh("[ ! -e /etc/a ] && [ ! -e /nowhere ] && [ ! -e /v1/docker/a ]")
            .await;
    }
    machine.sh("cd /v1/work && rm new && mkfifo new").await;
    let fifo = with(Image::Kept, Some(&["new:/new"]), None);
    let words = refused(machine.host.container(&fifo).await);
    assert_eq!(words, "the mount new is neither a folder nor a file");
    machine.sh("cd /v1/work && rm new && ln -s old new").await;
    let within = machine.host.container(&with(Image::Kept, None, None)).await;
    assert_eq!(within.unwrap().came, Came::Started);
    machine.sh("[ -d /v1/work/old/a/b ]").await;

    // What docker refuses leaves the drive with its layer and the mounts that it had.
    machine
        .sh("docker exec -u 0 xdrive-demo sh -c 'echo layer > /note'")
        .await;
    let file = with(Image::Kept, Some(&["old:/etc/one"]), None);
    machine.host.container(&file).await.unwrap_err();
    let after = machine.host.container(&with(Image::Kept, None, None)).await;
    assert!(matches!(after.unwrap().came, Came::Recreated(_)));
    let layer = machine
        .sh("docker exec xdrive-demo sh -c 'cat /note; [ -d /new ] && [ -d /old ] && echo both'")
        .await;
    assert_eq!(layer, "layer\nboth\n");
}

/// The fault: `/work` of an adopted disk was root's.
#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn beside_the_files_of_an_adopted_disk_work_is_the_images_users() {
    let disk = Disk::new(2048);
    let machine = Machine::with_drive(&disk).await;
    machine.load_image().await;
    machine
        .sh(
            "cd /tmp && docker create --name made xdrive/image:latest sh > /dev/null && \
             docker commit --change 'USER 1000:1000' made user:1 > /dev/null && docker rm made; \
             mkdir -p /v1/work/v1/old",
        )
        .await;
    let start = with(Image::Reference("user:1".into()), Some(&["v1:/v1"]), None);
    machine.host.container(&start).await.unwrap();
    let owners = machine
        .sh("cd /v1/work && stat -c %u:%g . v1 v1/old | tr '\\n' ' '")
        .await;
    assert_eq!(owners, "1000:1000 0:0 0:0 ");
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn what_dockers_socket_starts_is_stopped_and_not_committed() {
    let disk = Disk::new(2048);
    let machine = Machine::with_drive(&disk).await;
    let archive = machine
        .archive("sh bash cat env id ls mkdir ps rm sleep stat touch docker")
        .await;
    let image = machine
        .host
        .load_image("docker", &archive[..])
        .await
        .unwrap();
    let start = with(Image::Loaded(image), None, Some(true));
    let made = machine.host.container(&start).await.unwrap();
    assert!(made.docker);
    // From its own image: the container has the labels of the drive's.
    machine
        .sh("docker exec xdrive-demo sh -c 'echo mine > /note'; \
             docker commit xdrive-demo own:1 > /dev/null; \
             docker exec xdrive-demo docker run -d --name other --network none \
             --entrypoint sh own:1 -c 'echo other > /note; trap : TERM; while :; do sleep 1; done'")
        .await;
    let runs = "docker ps --format '{{.Names}}' | sort";
    assert_eq!(machine.sh(runs).await, "other\nxdrive-demo\n");
    let found = machine.host.running(None).await.unwrap().unwrap();
    assert_eq!((found.name.as_str(), found.docker), ("xdrive-demo", true));
    let same = machine.host.container(&with(Image::Kept, None, None)).await;
    assert_eq!(same.unwrap().came, Came::Running);

    let closed = machine.host.close("test").await.unwrap();
    assert!(closed.unmounted, "{closed:?}");
    drop(machine);
    assert!(disk.is_clean());

    let mut second = Machine::boot().await;
    second.attach(&disk);
    second.host.mount(&disk.order(2, false)).await.unwrap();
    let again = second.host.container(&with(Image::Kept, None, None)).await;
    let again = again.unwrap();
    assert!(again.docker && again.came != Came::Created, "{again:?}");
    let both = second
        .sh("docker exec xdrive-demo cat /note; docker ps -a --format '{{.Names}} {{.State}}' | sort")
        .await;
    assert_eq!(both, "mine\nother exited\nxdrive-demo running\n");
    second.sh("docker start other > /dev/null").await;
    let layer = second
        .sh("sleep 1; docker exec other cat /note; docker image inspect -f ok xdrive/drive:latest || :")
        .await;
    assert!(layer.starts_with("other\n"), "{layer}");

    // Another group has the socket on another machine.
    second.sh("chgrp 4321 /run/docker.sock").await;
    let moved = second.host.container(&with(Image::Kept, None, None)).await;
    assert!(matches!(moved.unwrap().came, Came::Recreated(_)));
    let groups = second.sh("docker exec xdrive-demo id -G").await;
    assert!(groups.split_whitespace().any(|it| it == "4321"), "{groups}");
    let taken = second
        .host
        .container(&with(Image::Kept, None, Some(false)))
        .await;
    assert!(!taken.unwrap().docker);
}
