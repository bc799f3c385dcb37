//! The settings that an image has for its containers outlive that they are made again.

use std::time::Instant;

use serde_json::Value;

use xdrive::host::Committed;
use xdrive::host::container::Came;
use xdrive::host::facts::ScriptError;
use xdrive::host::scripts::Image;

use crate::host::machine::{Disk, Machine, order};

/// An image with all that a Dockerfile can say, and a variable of several lines.
const MAKE: &str = r#"docker create --name made \
    --stop-signal SIGINT --health-cmd true --health-interval 1h -e "LINES=$(printf 'one\n  "two" $x\\\n=three')" \
    -e 'QUOTES=it'"'"'s "$HOME"' xdrive/image:latest sh > /dev/null &&
    docker commit --change 'USER 1000:1000' --change 'WORKDIR /srv/a b' \
        --change 'LABEL org.example="some thing"' --change 'EXPOSE 80/tcp' --change 'EXPOSE 53/udp' \
        --change 'VOLUME /data' --change 'ENTRYPOINT ["/bin/own", "x y"]' \
        made xdrive/build:1 > /dev/null && docker rm made > /dev/null"#;

/// The container's configuration, but for what is xdrive's own.
async fn configuration(machine: &Machine) -> Value {
    let text = machine
        .sh("docker inspect -f '{{json .Config}}' xdrive-demo")
        .await;
    let mut found: Value = serde_json::from_str(&text).unwrap();
    let settings = found.as_object_mut().unwrap();
    settings.remove("Image");
    let labels = settings["Labels"].as_object_mut().unwrap();
    labels.retain(|label, _| !label.starts_with("xdrive."));
    let variables = settings["Env"].as_array_mut().unwrap();
    variables.retain(|variable| !variable.as_str().unwrap().starts_with("DAY="));
    variables.sort_by_key(ToString::to_string);
    found
}

async fn data(machine: &Machine) -> String {
    machine
        .sh("docker exec xdrive-demo cat /data/file /own")
        .await
}

/// A number that a command prints.
async fn number(machine: &Machine, command: &str) -> u64 {
    machine.sh(command).await.trim().parse().unwrap()
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn a_month_of_sessions_changes_no_setting_and_takes_little_room() {
    // Each makes the container again from what the one before committed. A short run has more than
    // one layer's worth of them, too.
    let is_long = std::env::var_os("XDRIVE_LONG").is_some();
    let (sessions, most) = if is_long { (130, 100) } else { (9, 5) };
    let disk = Disk::new(2048);
    let machine = Machine::with_drive(&disk).await;
    machine.load_image().await;
    machine.sh(MAKE).await;
    machine
        .start(Image::Reference("xdrive/build:1".into()), &[("DAY", "0")])
        .await;
    let before = configuration(&machine).await;
    let (mut deepest, mut flattened) = (0, 0);
    for day in 1..=sessions {
        let changes = format!(
            "head -c 400000 /dev/urandom | docker exec -i -u 0 xdrive-demo sh -c \
             'cat > /day-{day}; echo {day} >> /days; echo {day} > /latest'"
        );
        machine.sh(&changes).await;
        let again = format!(
            "XDRIVE_MOST_LAYERS={most} XDRIVE_NAME=demo XDRIVE_ENVIRONMENT=DAY={day} \
             sh /var/lib/xdrive/scripts/*/container start"
        );
        let again = machine.sh(&again).await;
        assert!(again.contains("xdrive: came=recreated\n"), "{again}");
        let layers = "docker image inspect -f '{{len .RootFS.Layers}}' xdrive/drive:latest";
        let layers = number(&machine, layers).await;
        flattened += u32::from(layers == 1);
        deepest = deepest.max(layers);
    }
    assert_eq!(configuration(&machine).await, before);
    let days = number(&machine, "docker exec xdrive-demo cat /days | wc -l").await;
    let files = number(
        &machine,
        "docker exec xdrive-demo sh -c 'ls /day-*' | wc -l",
    )
    .await;
    let latest = number(&machine, "docker exec xdrive-demo cat /latest").await;
    assert_eq!([days, files, latest], [sessions; 3]);
    assert!(flattened > 0 && deepest <= most, "{flattened}, {deepest}");

    let root = "docker inspect -f '{{.GraphDriver.Data.MergedDir}}' xdrive-demo";
    let data = number(&machine, &format!("du -sx -B1 $({root}) | cut -f 1")).await;
    let size = number(&machine, "sync -f /v1; du -sx -B1 /v1/docker | cut -f 1").await;
    println!(
        "{sessions} sessions: {deepest} layers at most, made one {flattened} times; {size} bytes on \
         the drive for {data} in the container"
    );
    assert!(size * 10 <= data * 13, "{size} bytes for {data}");
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn its_configuration_and_its_volumes_outlive_recreate_and_flatten() {
    let disk = Disk::new(2048);
    let machine = Machine::with_drive(&disk).await;
    machine.load_image().await;
    machine.sh(MAKE).await;
    let image = Image::Reference("xdrive/build:1".into());
    let made = machine.start(image, &[("DAY", "1")]).await;
    assert_eq!(made.came, Came::Created);
    let before = configuration(&machine).await;
    for (key, value) in [
        ("User", r#""1000:1000""#),
        ("WorkingDir", r#""/srv/a b""#),
        ("Labels", r#"{"org.example":"some thing"}"#),
        ("ExposedPorts", r#"{"53/udp":{},"80/tcp":{}}"#),
        ("Volumes", r#"{"/data":{}}"#),
        ("StopSignal", r#""SIGINT""#),
    ] {
        assert_eq!(before[key].to_string(), value, "{before}");
    }
    let lines = machine
        .sh("docker exec xdrive-demo sh -c 'echo \"$LINES|$QUOTES\"'")
        .await;
    assert_eq!(lines, "one\n  \"two\" $x\\\n=three|it's \"$HOME\"\n");
    machine
        .sh("docker exec -u 0 xdrive-demo sh -c 'echo kept > /data/file; echo own > /own'")
        .await;

    let again = machine.start(Image::Kept, &[("DAY", "2")]).await;
    assert!(matches!(again.came, Came::Recreated(_)), "{again:?}");
    assert_eq!(configuration(&machine).await, before);
    assert_eq!(data(&machine).await, "kept\nown\n");

    machine
        .sh("docker exec -u 0 xdrive-demo sh -c 'echo more > /own'; \
             XDRIVE_MOST_LAYERS=2 XDRIVE_NAME=demo XDRIVE_ENVIRONMENT=DAY=3 \
             sh /var/lib/xdrive/scripts/*/container start")
        .await;
    let layers = machine
        .sh(
            "docker image inspect -f '{{len .RootFS.Layers}}' xdrive/drive:latest; \
             docker ps -aq | wc -l",
        )
        .await;
    assert_eq!(layers, "1\n1\n", "one layer, and no other container");
    assert_eq!(configuration(&machine).await, before);
    assert_eq!(data(&machine).await, "kept\nmore\n");

    // As after a cut between the old container's end and the new one's start.
    machine.sh("docker rm -f xdrive-demo").await;
    let lost = machine.start(Image::Kept, &[("DAY", "3")]).await;
    assert!(matches!(lost.came, Came::Recreated(_)), "{lost:?}");
    assert_eq!(configuration(&machine).await, before);
    assert_eq!(data(&machine).await, "kept\nmore\n");
}

/// The faults: where a container could not be made again, and another image came then, nothing was left
/// of its layer; and nobody knew which volumes had been its.
#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn a_container_that_another_image_replaces_is_kept_with_its_volumes() {
    let disk = Disk::new(2048);
    let machine = Machine::with_drive(&disk).await;
    machine.load_image().await;
    machine.sh(MAKE).await;
    let image = Image::Reference("xdrive/build:1".into());
    machine.start(image, &[]).await;
    machine
        .sh("mkdir /v1/work/folder; \
             docker exec -u 0 xdrive-demo sh -c 'echo kept > /data/file; echo own > /own'")
        .await;
    // A folder is nothing that can be mounted on a file; the old container is gone when docker says so.
    let mut refused = order(Image::Kept, &[]);
    refused.places.mounts = Some(["folder:/own".parse().unwrap()].into());
    machine.host.container(&refused).await.unwrap_err();
    let bare = machine.archive("cat").await;
    let bare = machine.host.load_image("bare", &bare[..]).await.unwrap();
    let bare = order(Image::Loaded(bare), &[]);
    machine.host.container(&bare).await.unwrap_err();
    assert_eq!(machine.sh("docker ps -aq | wc -l").await, "0\n");
    let back = machine.start(Image::Kept, &[]).await;
    assert!(matches!(back.came, Came::Recreated(_)), "{back:?}");
    assert_eq!(data(&machine).await, "kept\nown\n");

    machine.host.container(&refused).await.unwrap_err();
    let other = Image::Loaded(machine.load_image().await);
    let made = machine.start(other, &[]).await;
    // Made again, which removes the commits that are replaced.
    machine
        .sh("docker exec xdrive-demo sh -c 'echo new > /new'")
        .await;
    let again = machine.start(Image::Kept, &[("DAY", "1")]).await;
    assert!(matches!(again.came, Came::Recreated(_)), "{again:?}");
    let replaced = machine
        .sh("docker images --format '{{.Repository}}:{{.Tag}}' xdrive/replaced")
        .await;
    let Came::Replaced(former) = made.came else {
        panic!("{made:?}")
    };
    assert_eq!(replaced, format!("{former}\n"));
    let made = machine.start(Image::Reference(former), &[]).await;
    assert!(matches!(made.came, Came::Replaced(_)), "{made:?}");
    assert_eq!(data(&machine).await, "kept\nown\n");
}

/// Has docker describe no image by its id.
const DESCRIBES_NO_IMAGE: &str = r#"mv /usr/bin/docker /usr/bin/docker.real
{ echo '#!/bin/sh' && cat; } > /usr/bin/docker << 'END'
case "$*" in inspect*sha256:*) exit 1 ;; esac
exec docker.real "$@"
END
chmod 755 /usr/bin/docker"#;

/// The drive on a new machine, where its container is started as it was.
async fn moved(disk: &Disk, generation: u64) -> Machine {
    let mut machine = Machine::boot().await;
    machine.attach(disk);
    machine
        .host
        .mount(&disk.order(generation, false))
        .await
        .unwrap();
    assert_eq!(machine.start(Image::Kept, &[]).await.came, Came::Started);
    machine
}

/// The fault: the container was removed although what it was to be made again from was gone. After a
/// commit it is still one of the image before, so the new image is among those that no container has.
#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn a_container_whose_commit_was_pruned_is_committed_again() {
    let prune = "docker system prune --all --force";
    let note = "docker exec xdrive-demo cat /note";
    let disk = Disk::new(2048);
    let machine = Machine::with_container(&disk).await;
    machine
        .sh("docker exec xdrive-demo sh -c 'echo layer > /note'")
        .await;
    let closed = machine.host.close("test").await.unwrap();
    assert_eq!(closed.committed, Committed::Yes);
    drop(machine);

    let machine = moved(&disk, 2).await;
    machine.sh(prune).await;
    let closed = machine.host.close("test").await.unwrap();
    assert_eq!(closed.committed, Committed::Yes);
    drop(machine);

    let machine = moved(&disk, 3).await;
    machine.sh(prune).await;
    let again = machine.start(Image::Kept, &[("DAY", "1")]).await;
    assert!(matches!(again.came, Came::Recreated(_)), "{again:?}");
    assert_eq!(machine.sh(note).await, "layer\n");

    // Nothing is removed either while docker does not say that the image is there.
    machine.sh(DESCRIBES_NO_IMAGE).await;
    let refused = order(Image::Kept, &[("DAY", "2")]);
    let error = machine.host.container(&refused).await.unwrap_err();
    let error = error.to_string();
    assert!(error.contains("docker does not describe"), "{error}");
    machine.sh("mv /usr/bin/docker.real /usr/bin/docker").await;
    let again = machine.start(Image::Kept, &[("DAY", "2")]).await;
    assert!(matches!(again.came, Came::Recreated(_)), "{again:?}");
    assert_eq!(machine.sh(note).await, "layer\n");
}

/// The file, in its layer, of a container that runs.
const HOLED: &str = "$(docker inspect -f '{{.GraphDriver.Data.MergedDir}}' xdrive-demo)/lmdb.mdb";

/// The fault: docker wrote 3 GiB of zeros at each save, for good.
#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn holes_in_a_containers_layer_take_no_room() {
    let used = "sync -f /v1; du -sx -BM /v1/docker | cut -d M -f 1";
    // Of 2 GiB: there is no room for them.
    let disk = Disk::new(2048);
    let machine = Machine::with_container(&disk).await;
    let before = number(&machine, used).await;
    machine
        .sh(&format!(
            "echo data > {HOLED}; truncate -s 3G {HOLED}; echo end >> {HOLED}"
        ))
        .await;
    let closed = machine.host.close("test").await.unwrap();
    println!("closed: {:?}", closed.timings);
    assert_eq!(closed.committed, Committed::Failed);
    let why = closed.why.unwrap();
    assert!(why.contains("its holes, 2.9 GiB (/lmdb.mdb)"), "{why}");
    drop(machine);

    let machine = moved(&disk, 2).await;
    assert!(number(&machine, used).await < before + 50);
    // Made again, it has to be committed.
    let began = Instant::now();
    let again = machine.start(Image::Kept, &[("DAY", "1")]).await;
    assert!(matches!(again.came, Came::Recreated(_)), "{again:?}");
    println!("made again in {:?}", began.elapsed());
    let read = format!("stat -c %s {HOLED}; head -c 5 {HOLED}; tail -c 4 {HOLED}");
    assert_eq!(machine.sh(&read).await, "3221225476\ndata\nend\n");
    let after = number(&machine, used).await;
    assert!(after < before + 100, "{before} MiB before, {after} after");
}

/// The fault: only that it could not be committed was said.
#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn a_layer_that_does_not_fit_a_second_time_is_not_committed_and_that_is_named() {
    let disk = Disk::new(1024);
    let machine = Machine::with_container(&disk).await;
    machine
        .sh(&format!("head -c 600M /dev/zero > {HOLED}; sync -f /v1"))
        .await;
    let refused = machine
        .host
        .container(&order(Image::Kept, &[("DAY", "1")]))
        .await;
    let Err(ScriptError::Full(words)) = refused else {
        panic!("{refused:?}")
    };
    assert!(
        words.contains("no space is left on the drive for its 0.5 GiB"),
        "{words}"
    );
    let closed = machine.host.close("test").await.unwrap();
    assert_eq!(
        (closed.committed, closed.unmounted),
        (Committed::Failed, true)
    );
    let why = closed.why.unwrap();
    assert!(
        why.starts_with("no space is left on the drive for its 0.5 GiB"),
        "{why}"
    );
}
