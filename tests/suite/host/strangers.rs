//! What dockerd would start by itself, and xdrive did not make.

use std::fs;
use std::path::Path;
use std::process::Command;

use xdrive::host::container::Came;
use xdrive::host::scripts::{ContainerOrder, Image};

use super::machine::{Disk, Machine, order};

fn hold(store: &Path) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("shell/host/engine_store.py");
    let mut command = Command::new("python3");
    let held = command.args(["-I", "-S"]).arg(script).arg(store).output();
    let held = held.unwrap();
    assert!(held.status.success(), "{held:?}");
    String::from_utf8(held.stdout).unwrap()
}

#[test]
fn a_store_has_nothing_left_that_dockerd_starts_by_itself() {
    let store = tempfile::tempdir().unwrap();
    let path = |name: &str| store.path().join(name);
    assert_eq!(hold(store.path()), "", "none yet");
    let containers = [
        (
            "0plain",
            r#"{"RestartPolicy": {"Name": "no", "MaximumRetryCount": 0}, "Binds": ["/a:/b"]}"#,
        ),
        (
            "1always",
            r#"{"RestartPolicy": {"Name": "always"}, "Binds": ["/:/host"]}"#,
        ),
        // As Go reads them, and Python does not.
        ("2case", r#"{"restartpolicy": {"name": "unless-stopped"}}"#),
        ("3fold", "{\"Re\u{17f}tartPolicy\": {\"Name\": \"always\"}}"),
        (
            "4twice",
            r#"{"RestartPolicy": {"Name": "no"}, "RESTARTPOLICY": {"Name": "on-failure"}}"#,
        ),
        ("5escape", r#"{"\u0052estartPolicy": {"Name": "always"}}"#),
        (
            "6behind",
            r#"{"RestartPolicy": {"Name": "always"}} and more"#,
        ),
        (
            "7bytes",
            "\u{feff}{\"RestartPolicy\": {\"Name\": \"always\"}}",
        ),
        ("8deep", &"[".repeat(100_000)),
    ];
    for (id, settings) in containers {
        fs::create_dir_all(path("containers").join(id)).unwrap();
        fs::write(
            path("containers").join(id).join("hostconfig.json"),
            settings,
        )
        .unwrap();
    }
    fs::create_dir_all(path("containers/9link")).unwrap();
    let outside = store.path().join("outside");
    fs::write(&outside, r#"{"RestartPolicy": {"Name": "always"}}"#).unwrap();
    std::os::unix::fs::symlink(&outside, path("containers/9link/hostconfig.json")).unwrap();
    fs::create_dir_all(path("plugins/abc")).unwrap();
    fs::write(path("plugins/abc/config.json"), "{}").unwrap();
    fs::create_dir_all(path("swarm")).unwrap();
    fs::write(path("swarm/docker-state.json"), "{}").unwrap();
    let held = hold(store.path());
    for id in [
        "1always", "2case", "3fold", "4twice", "5escape", "6behind", "7bytes", "8deep", "9link",
    ] {
        assert!(
            held.contains(&format!("container '{id}'\n")),
            "{id}: {held}"
        );
        let settings = path("containers").join(id).join("hostconfig.json");
        let text = fs::read_to_string(settings).unwrap_or_default();
        assert!(
            !text.contains("always") && !text.contains('-'),
            "{id}: {text}"
        );
    }
    assert!(!held.contains("0plain"), "{held}");
    assert!(held.ends_with("plugin 'abc'\nswarm\n"), "{held}");
    assert!(!path("plugins").exists() && !path("swarm").exists());
    assert!(path("plugins.aside-1/abc").exists() && path("swarm.aside-1").exists());
    let kept = fs::read_to_string(path("containers/1always/hostconfig.json")).unwrap();
    assert!(
        kept.contains("/:/host"),
        "only its policy is another: {kept}"
    );
    // What a link leads to is nobody's here.
    assert!(fs::read_to_string(outside).unwrap().contains("always"));
    assert_eq!(hold(store.path()), "", "once is enough");
}

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
