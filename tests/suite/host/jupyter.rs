//! Jupyter: behind its token, and only behind it.

use std::time::Duration;

use tokio::fs::File;
use xdrive::host::Role;
use xdrive::host::scripts::Image;
use xdrive::ids::SessionId;

use super::machine::{Disk, Machine, hold, soon};
use harness::cache;

async fn status(machine: &Machine, address: &str, path: &str) -> String {
    let url = format!("http://{address}/{path}");
    machine
        .sh(&format!(
            "curl -s -o /dev/null -m 10 -w '%{{http_code}}' '{url}'"
        ))
        .await
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
        .jupyter(&SessionId("one".into()), "first-token")
        .await
        .unwrap()
        .unwrap()
        .to_string();
    machine.host.jupyter_listens().await.unwrap();
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
                .jupyter(&session, token)
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

    // The token is in no process's arguments or environment, and in no image.
    let shown = machine
        .sh("cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ | grep -ac 'second-[t]oken' || true")
        .await;
    assert_eq!(shown, "0\n");
    machine
        .sh("docker stop -t 1 xdrive-demo; docker commit xdrive-demo probe")
        .await;
    let kept = machine
        .sh("grep -rl 'first-token\\|second-token' /v1/docker /v1/xdrive --include='*' -s | grep -v '^/v1/docker/buildkit' || true")
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
            .jupyter(&SessionId("one".into()), "token")
            .await
            .unwrap(),
        None
    );
}
