//! Containers that dockerd would start by itself, and xdrive did not make.

mod wide;

use std::fs;
use std::path::Path;
use std::process::Command;

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
