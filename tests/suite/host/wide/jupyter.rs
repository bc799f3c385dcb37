//! Jupyter: behind its token, and only behind it.

use std::time::Duration;

use tokio::fs::File;
use xdrive::host::Role;
use xdrive::host::scripts::Image;
use xdrive::ids::SessionId;

use crate::host::machine::{Disk, Machine, hold, soon};
use harness::cache;

async fn status(machine: &Machine, address: &str, path: &str) -> String {
    let url = format!("http://{address}/{path}");
    machine
        .sh(&format!(
            "curl -s -o /dev/null -m 10 -w '%{{http_code}}' '{url}'"
        ))
        .await
}

/// Checks that the variables of a session are those of the kernels that begin by its token.
async fn kernels_have_variables(machine: &Machine, address: &str) {
    let container = machine.host.running(None).await.unwrap().unwrap();
    let session = SessionId("two".into());
    let variables = "export SECRET='kept-4711'\n";
    let brought = machine.host.bring(&container, &session, variables, false);
    brought.await.unwrap();
    let kernel = format!("http://{address}/api/kernels?token=second-token");
    let begun = machine
        .sh(&format!("curl -s -m 60 -X POST '{kernel}'"))
        .await;
    assert!(begun.contains("\"id\""), "{begun}");
    let has_it = "for pid in /proc/[0-9]*; do \
                  if tr '\\0' ' ' <$pid/cmdline | grep -q [i]pykernel; then \
                  tr '\\0' '\\n' <$pid/environ | grep -c '^SECRET=kept-4711$'; fi; done";
    assert_eq!(machine.sh(has_it).await, "1\n");
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices), the machine tree and the Jupyter image"]
async fn jupyter_opens_to_its_tokens_alone_and_takes_new_ones() {
    let disk = Disk::new(4096);
    let machine = Machine::with_drive(&disk).await;
    let archive = cache().join("local/jupyter.tar");
    let archive = File::open(&archive).await.unwrap_or_else(|error| {
        panic!(
            "{}: {error}: shell/local/jupyter.sh builds it",
            archive.display()
        )
    });
    let image = machine.host.load_image("jupyter", archive).await.unwrap();
    machine.start(Image::Loaded(image), &[]).await;

    let address = machine
        .host
        .jupyter(None, &SessionId("one".into()), "first-token", false)
        .await
        .unwrap()
        .unwrap()
        .to_string();
    machine.host.jupyter_listens(None).await.unwrap();
    for path in [
        "lab",
        "lab?token=wrong",
        "api/contents",
        "api",
        "login",
        "tree",
    ] {
        assert_eq!(status(&machine, &address, path).await, "403", "{path}");
    }
    for path in ["lab?token=first-token", "api/contents?token=first-token"] {
        assert_eq!(status(&machine, &address, path).await, "200", "{path}");
    }
    let takes = async |session: &str, token: &str| {
        let again = {
            let session = SessionId(session.into());
            machine
                .host
                .jupyter(None, &session, token, false)
                .await
                .unwrap()
                .unwrap()
        };
        assert_eq!(again.to_string(), address);
    };
    // Each attached session has its own token.
    let held = hold(&machine.host, "one at laptop", Role::Lead, 900)
        .await
        .unwrap();
    takes("two", "joined-token").await;
    for token in ["first-token", "joined-token"] {
        let path = format!("lab?token={token}");
        assert_eq!(status(&machine, &address, &path).await, "200", "{token}");
    }
    drop(held);
    soon(async {
        while !machine.host.look().await.unwrap().clients.is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    takes("two", "second-token").await;
    assert_eq!(
        status(&machine, &address, "lab?token=joined-token").await,
        "403"
    );
    assert_eq!(
        status(&machine, &address, "lab?token=first-token").await,
        "403"
    );
    assert_eq!(
        status(&machine, &address, "lab?token=second-token").await,
        "200"
    );

    kernels_have_variables(&machine, &address).await;

    // The value is in no process's arguments, and in no log or image; the token in no environment,
    // either.
    let shown = machine
        .sh("cat /proc/[0-9]*/cmdline | grep -ac 'kept-[4]711' || true")
        .await;
    assert_eq!(shown, "0\n");
    let shown = machine
        .sh("cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ | grep -ac 'second-[t]oken' || true")
        .await;
    assert_eq!(shown, "0\n");
    machine
        .sh("docker stop -t 1 xdrive-demo; docker commit xdrive-demo probe")
        .await;
    let kept = machine
        .sh("grep -rl 'first-token\\|second-token\\|kept-4711' /v1/docker /v1/xdrive --include='*' -s | grep -v '^/v1/docker/buildkit' || true")
        .await;
    assert_eq!(kept, "");
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn an_image_without_jupyter_says_so() {
    let disk = Disk::new(2048);
    let machine = Machine::with_drive(&disk).await;
    let image = machine.load_image().await;
    machine.start(Image::Loaded(image), &[]).await;
    assert_eq!(
        machine
            .host
            .jupyter(None, &SessionId("one".into()), "token", false)
            .await
            .unwrap(),
        None
    );
}
