//! Commands in the container: word for word, with their own streams, exit codes and signals.

use std::time::Duration;

use xdrive::host::container::{CommandId, ContainerSignal};
use xdrive::host::scripts::Image;

use harness::DEADLINE;

use super::machine::{Disk, Machine};

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn commands_run_in_the_container_as_they_were_typed() {
    let disk = Disk::new(2048);
    let machine = Machine::with_drive(&disk).await;
    let image = Image::Loaded(machine.load_image().await);
    let container = machine.start(image, &[]).await;
    let words = |words: &[&str]| {
        words
            .iter()
            .map(|word| (*word).to_owned())
            .collect::<Vec<_>>()
    };
    let id = || CommandId::new().unwrap();

    let every_byte: String = (1..=127_u8).map(char::from).collect();
    let typed = [
        "",
        "a b",
        "it's",
        "\n",
        "$(ls)",
        "*",
        "größe 🚀",
        &every_byte,
    ];
    let mut argv = words(&["sh", "-c", r#"printf '%s\0' "$@""#, "sh"]);
    argv.extend(words(&typed));
    let output = machine
        .ssh
        .run(&container.command(&id(), &argv), b"")
        .await
        .unwrap();
    let expected = typed.join("\0") + "\0";
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);

    let argv = words(&["sh", "-c", "cat; pwd; echo to-stderr >&2; exit 37"]);
    let output = machine
        .ssh
        .run(&container.command(&id(), &argv), b"in\0\xff\n")
        .await
        .unwrap();
    assert_eq!(output.stdout, b"in\0\xff\n/work\n");
    assert_eq!(
        (output.stderr.as_slice(), output.status),
        (&b"to-stderr\n"[..], 37)
    );
    let output = machine
        .ssh
        .run(&container.command(&id(), &words(&["no-such"])), b"")
        .await
        .unwrap();
    assert_eq!(output.status, 127);

    // A signal reaches the command and what it started.
    let id = id();
    let argv = words(&[
        "bash",
        "-c",
        "trap 'echo got it; exit 9' INT; sleep 60; echo slept",
    ]);
    let command = container.command(&id, &argv);
    let other = machine.login().await;
    let running = tokio::spawn(async move { other.run(&command, b"").await.unwrap() });
    let sleeps = "docker exec xdrive-demo ps -e | grep -q sleep";
    let asleep = async {
        while machine.ssh.run(sleeps, b"").await.unwrap().status != 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(DEADLINE, asleep).await.unwrap();
    machine
        .host
        .signal(&id, ContainerSignal::Interrupt)
        .await
        .unwrap();
    let output = running.await.unwrap();
    assert_eq!(
        (output.stdout.as_slice(), output.status),
        (&b"got it\n"[..], 9)
    );
    machine
        .host
        .signal(&id, ContainerSignal::Interrupt)
        .await
        .unwrap();
}
