//! Commands in the container: word for word, with their own streams, exit codes and signals.

use std::time::Duration;

use xdrive::host::container::{CommandId, Container, ContainerSignal};
use xdrive::host::facts::ScriptError;
use xdrive::host::runs::{Attempt, CommandOrder, Retry};
use xdrive::host::scripts::Image;
use xdrive::host::tries::{TriedCommand, Tries};

use harness::DEADLINE;

use super::machine::{Disk, Machine};

/// Prints what a process has of its container and its user.
const STATE: &str = "while read -r line; do case \"$line\" in \
    Uid*|Gid*|Groups*|Cap*|NoNewPrivs*|Seccomp*|Cpus_allowed*|SigIgn*) echo \"$line\";; esac; \
    done < /proc/self/status; cat /proc/self/limits /proc/self/cgroup /proc/self/oom_score_adj; \
    cat /proc/self/attr/current 2>&1; stat -Lc '%n %i' /proc/self/ns/*; umask; pwd; export";

/// The changes that leave the commands to runc, and then those that leave them to `docker exec`,
/// each with its undoing. `src/host/scripts/tests/enter.rs` has every reason.
const WAYS: [(&str, &str); 5] = [
    ("true", "true"),
    (
        "mv /v1/xdrive/layer /v1/xdrive/layer.away",
        "mv /v1/xdrive/layer.away /v1/xdrive/layer",
    ),
    (
        "sed -i.away 's/\"Runtime\":\"runc\"/\"Runtime\":\"nvidia\"/' /v1/docker/containers/*/hostconfig.json",
        "cd /v1/docker/containers/*/ && mv hostconfig.json.away hostconfig.json",
    ),
    (
        "sed -i.away 's/\"DeviceRequests\":[^,]*/\"DeviceRequests\":[{}]/' /v1/docker/containers/*/hostconfig.json",
        "cd /v1/docker/containers/*/ && mv hostconfig.json.away hostconfig.json",
    ),
    (
        "printf '#!/bin/sh\ncase \"$*\" in *xdrive/entered*) exit 1 ;; esac\nexec %s \"$@\"\n' \
         \"$(command -v runc)\" > /root/runc; chmod 755 /root/runc; mv /root/runc /usr/local/bin/runc",
        "rm /usr/local/bin/runc",
    ),
];

/// Commands are in the container as `docker exec` has them, and that is used where runc is not.
async fn are_the_same_by_docker(machine: &Machine, container: &Container) {
    let id = || CommandId::new().unwrap();
    let (mut states, mut parents) = (Vec::new(), Vec::new());
    for (begin, end) in WAYS {
        machine.sh(begin).await;
        let command = container.command(
            &id(),
            &["NAME=VALUE".to_owned()],
            &["sh", "-c", STATE].map(str::to_owned),
        );
        let output = machine.ssh.run(&command, b"").await.unwrap();
        assert_eq!(output.status, 0, "{output:?}");
        states.push(String::from_utf8(output.stdout).unwrap());
        let command = container.command(
            &id(),
            &["NAME=VALUE".to_owned()],
            &["sh", "-c", "kill -9 $$"].map(str::to_owned),
        );
        assert_eq!(machine.ssh.run(&command, b"").await.unwrap().status, 137);
        let command = container.command(
            &id(),
            &["NAME=VALUE".to_owned()],
            &["sleep", "43"].map(str::to_owned),
        );
        // What starts it is its parent at first, and ends.
        let parent = format!(
            "{command} > /dev/null & until pid=$(pgrep -xf 'sleep 43') && \
             parent=$(ps -o comm= -p \"$(ps -o ppid= -p $pid | tr -d ' ')\") && \
             case $parent in runc*) false ;; esac; do sleep 0.02; done; \
             echo \"$parent\"; kill $pid; wait"
        );
        parents.push(machine.sh(&parent).await);
        machine.sh(end).await;
    }
    assert!(states.iter().all(|it| *it == states[0]), "{states:#?}");
    assert!(
        states[0].contains("CapEff:") && states[0].contains("PATH="),
        "{}",
        states[0]
    );
    assert!(parents[0].starts_with("python3"), "{parents:?}");
    let by_docker = |it: &String| it.starts_with("containerd-shim");
    assert!(parents[1..].iter().all(by_docker), "{parents:?}");
}

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
        .run(
            &container.command(&id(), &["NAME=VALUE".to_owned()], &argv),
            b"",
        )
        .await
        .unwrap();
    let expected = typed.join("\0") + "\0";
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);

    let argv = words(&["sh", "-c", "cat; pwd; echo to-stderr >&2; exit 37"]);
    let output = machine
        .ssh
        .run(
            &container.command(&id(), &["NAME=VALUE".to_owned()], &argv),
            b"in\0\xff\n",
        )
        .await
        .unwrap();
    assert_eq!(output.stdout, b"in\0\xff\n/work\n");
    assert_eq!(
        (output.stderr.as_slice(), output.status),
        (&b"to-stderr\n"[..], 37)
    );
    let output = machine
        .ssh
        .run(
            &container.command(&id(), &["NAME=VALUE".to_owned()], &words(&["no-such"])),
            b"",
        )
        .await
        .unwrap();
    assert_eq!(output.status, 127);

    are_the_same_by_docker(&machine, &container).await;

    // A signal reaches the command and what it started.
    let id = id();
    let argv = words(&[
        "bash",
        "-c",
        "trap 'echo got it; exit 9' INT; sleep 60; echo slept",
    ]);
    let command = container.command(&id, &["NAME=VALUE".to_owned()], &argv);
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
        .signal(None, &id, ContainerSignal::Interrupt)
        .await
        .unwrap();
    let output = running.await.unwrap();
    assert_eq!(
        (output.stdout.as_slice(), output.status),
        (&b"got it\n"[..], 9)
    );
    machine
        .host
        .signal(None, &id, ContainerSignal::Interrupt)
        .await
        .unwrap();
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn each_try_of_a_command_begins_once_whoever_begins_it() {
    let disk = Disk::new(64);
    let mut machine = Machine::boot().await;
    machine.attach(&disk);
    machine.host.mount(&disk.order(1, true)).await.unwrap();
    let id = CommandId::new().unwrap();
    let words = ["sh", "-c", "echo 'it'"].map(str::to_owned);
    let order = TriedCommand {
        tries: 5,
        ..TriedCommand::new(&words, Duration::from_secs(30), 4096)
    };
    machine.host.keep_order(&id, &order).await.unwrap();
    let begin = async |number| {
        let command = machine.host.command(&CommandOrder {
            id: &id,
            label: "it",
            client: "",
            limit: None,
            attempt: Some(Attempt {
                number,
                retry: &Retry::default(),
            }),
            freezes: false,
            command: "echo it",
            kept: 4096,
        });
        machine.host.begin(&command).await
    };
    begin(1).await.unwrap();
    let name = id.as_str();
    let record = format!("/v1/xdrive/runs/{name}");
    // As on another host, which has nothing of it but the drive.
    let forget = format!(
        "until [ -e {record}/output ]; do sleep 0.1; done; \
         pkill -f 'command[.]py'; rm -f /run/xdrive/commands/{name}"
    );
    machine.sh(&forget).await;
    let again = begin(1).await;
    assert!(matches!(again, Err(ScriptError::Begun(_))), "{again:?}");
    begin(2).await.unwrap();
    let tries = machine.host.tries(&id).await.unwrap();
    let order = Some(order);
    assert_eq!(
        tries,
        Tries {
            order,
            begun: 2,
            failed: 0
        }
    );
    let former = format!("cat {record}/tries/1/output; ls {record}/tries");
    assert_eq!(machine.sh(&former).await, "it\n1\n2\n");
}
