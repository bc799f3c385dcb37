//! The drive's container: made, found, made again; and unfit images.

mod wide;

use xdrive::host::container::Came;
use xdrive::host::facts::ScriptError;
use xdrive::host::scripts::{Image, LoadedImage};

use super::machine::{Disk, Machine, order};

async fn inside(machine: &Machine, command: &str) -> String {
    machine
        .sh(&format!("docker exec xdrive-demo sh -c '{command}'"))
        .await
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn a_container_keeps_its_own_layer_whatever_it_is_made_again_for() {
    let disk = Disk::new(2048);
    let machine = Machine::with_drive(&disk).await;
    let none = machine.host.container(&order(Image::Kept, &[])).await;
    assert!(matches!(none, Err(ScriptError::Image(_))), "{none:?}");

    let image = Image::Loaded(machine.load_image().await);
    let container = machine
        .start(image.clone(), &[("A", "1"), ("B", "x y")])
        .await;
    assert_eq!(
        (container.came, container.name.as_str()),
        (Came::Created, "xdrive-demo")
    );
    assert_eq!(
        inside(&machine, "echo $A-$B; cat /proc/sys/kernel/hostname").await,
        "1-x y\ndemo\n"
    );
    inside(&machine, "echo layer > /note; echo drive > /work/note").await;
    assert_eq!(machine.sh("cat /v1/work/note").await, "drive\n");
    let driver = machine
        .sh("docker info -f '{{.Driver}} {{.DockerRootDir}}'")
        .await;
    assert_eq!(driver, "overlay2 /v1/docker\n");

    let same = machine
        .start(image.clone(), &[("A", "1"), ("B", "x y")])
        .await;
    assert_eq!(same.came, Came::Running);
    let changed = machine.start(Image::Kept, &[("B", "2")]).await;
    assert!(matches!(changed.came, Came::Recreated(why) if why.contains("environment")));
    assert_eq!(
        inside(&machine, "echo ${A-unset}-$B; cat /note").await,
        "unset-2\nlayer\n"
    );

    // As after a cut between the old container's end and the new one's start.
    machine.sh("docker rm -f xdrive-demo").await;
    let lost = machine.start(Image::Kept, &[("B", "2")]).await;
    assert!(matches!(lost.came, Came::Recreated(why) if why.contains("gone")));
    assert_eq!(inside(&machine, "cat /note").await, "layer\n");

    // Too many layers become one, with its configuration.
    inside(&machine, "echo more > /more").await;
    let directory = machine.sh("ls -d /var/lib/xdrive/scripts/*").await;
    machine
        .sh(&format!(
            "XDRIVE_MOST_LAYERS=2 XDRIVE_NAME=demo XDRIVE_ENVIRONMENT=B=3 sh {}/container start",
            directory.trim()
        ))
        .await;
    assert_eq!(
        inside(&machine, "echo $B; cat /note /more").await,
        "3\nlayer\nmore\n"
    );
    let layers = machine
        .sh("docker image inspect -f '{{len .RootFS.Layers}}' xdrive/drive:latest")
        .await;
    assert_eq!(layers, "1\n");

    // With that the image is gone that it was made from, which would be there twice.
    let image = machine.sh("docker images -q xdrive/image").await;
    assert_eq!(image, "");

    // Another image: a new container, and the old one's layer kept as an image.
    let LoadedImage { id, .. } = machine.load_image().await;
    let other = Image::Loaded(LoadedImage {
        id,
        source: "another".into(),
    });
    let made = machine.start(other, &[("B", "3")]).await;
    assert!(matches!(made.came, Came::Replaced(_)), "{made:?}");
    assert_eq!(
        inside(&machine, "cat /note 2>/dev/null || echo new").await,
        "new\n"
    );
    let replaced = machine.sh("docker images -q xdrive/replaced | wc -l").await;
    assert_eq!(replaced, "1\n");
}
