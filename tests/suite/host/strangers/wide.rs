//! Variants of `strangers`, which `shell/test.sh --all` runs.

use xdrive::host::container::Came;
use xdrive::host::scripts::{ContainerOrder, Image};

use crate::host::machine::{Disk, Machine, order};

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn a_container_that_xdrive_did_not_make_does_not_come_back_without_dockers_socket() {
    let disk = Disk::new(2048);
    let mut machine = Machine::with_drive(&disk).await;
    let image = Image::Loaded(machine.load_image().await);
    machine.start(image.clone(), &[]).await;
    let evil = "docker run -d --restart always --name stranger -v /:/host xdrive/image:latest sh -c \
                'echo here > /host/run/stranger; sleep 1000' > /dev/null";
    machine.sh(evil).await;
    assert!(machine.host.close("test").await.unwrap().unmounted);

    let mut next = Machine::boot().await;
    drop(std::mem::replace(&mut machine, next));
    next = machine;
    next.attach(&disk);
    let mounted = next.host.mount(&disk.order(2, false)).await.unwrap();
    assert_eq!(mounted.held, 1);
    let container = next.start(Image::Kept, &[]).await;
    assert!(matches!(container.came, Came::Started), "{container:?}");
    let ran = "docker ps --format '{{.Names}}'; ls /run/stranger 2> /dev/null || true";
    assert_eq!(next.sh(ran).await, "xdrive-demo\n");
    // Where its user has others made, they come back as docker's own user expects.
    let mut with_docker: ContainerOrder = order(Image::Kept, &[]);
    with_docker.places.docker = Some(true);
    assert!(next.host.container(&with_docker).await.unwrap().docker);
    next.sh(
        "docker update --restart always stranger > /dev/null && docker start stranger > /dev/null; \
             rm -f /run/stranger",
    )
    .await;
    assert!(next.host.close("test").await.unwrap().unmounted);
    let mut last = Machine::boot().await;
    drop(next);
    last.attach(&disk);
    let mounted = last.host.mount(&disk.order(3, false)).await.unwrap();
    assert_eq!(mounted.held, 0);
    last.start(Image::Kept, &[]).await;
    let ran = "docker ps --format '{{.Names}}' | sort";
    assert_eq!(last.sh(ran).await, "stranger\nxdrive-demo\n");
}
