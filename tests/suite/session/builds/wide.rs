//! Variants of `builds`, which `shell/test.sh --all` runs.

use std::fs;

use super::{folder, session};
use crate::session::site::Site;

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_devcontainer_has_its_environment_user_ports_and_mounts_and_is_finished_once() {
    let site = Site::new();
    let description = r#"{
        // As an editor writes it.
        "build": {"dockerfile": "../Dockerfile", "context": "..", "args": {"WORD": "it's $x \"q\""}},
        "containerEnv": {"VALUE": "a \"b\" $HOME \\ ${localEnv:NOTHING:else}", "HERE": "${localWorkspaceFolder}"},
        "remoteUser": "1000:1000",
        "postCreateCommand": "echo once >>/work/once; id -u >>/work/once",
        "forwardPorts": [47101],
        "mounts": ["source=/work/sets,target=/data,type=bind"],
        "features": {},
    }"#;
    let dockerfile = "FROM scratch\nADD root.tar /\nARG WORD\nENV WORD=$WORD\n";
    let files = [
        ("Dockerfile", dockerfile),
        (".devcontainer/devcontainer.json", description),
    ];
    folder(&site, &files);
    let script = "cat /work/once; echo \"$WORD|$VALUE|${HERE-unset}\"; id -u; echo x >/data/file";
    let first = session(&site, "./project", script);
    first
        .is(0)
        .reports("built the image of project")
        .reports("ran postCreateCommand")
        .reports("47101")
        .reports("not honoured in the devcontainer.json of project: containerEnv.HERE (")
        .reports("features");
    let environment = "it's $x \"q\"|a \"b\" $HOME \\ else|unset\n1000\n";
    assert_eq!(first.stdout, format!("once\n1000\n{environment}"));
    let later = site.run(&["connect", "demo", "--", "sh", "-c", script]);
    assert_eq!(later.is(0).stdout, format!("once\n1000\n{environment}"));
    let again = session(&site, "./project", "cat /data/file /work/sets/file");
    assert_eq!(again.is(0).stdout, "x\nx\n");
    assert!(!again.stderr.contains("postCreateCommand\n"), "{again:?}");

    // What cannot be finished is reported, and the container is there.
    let failing = "{\"build\": {\"dockerfile\": \"../Dockerfile\", \"context\": \"..\"}, \
                   \"containerEnv\": {\"my.env\": \"1\"}, \"postCreateCommand\": {\
                   \"a\": \"until [ -e /work/d ]; do sleep 0.1; done; echo a >/work/a\", \
                   \"c\": [\"sh\", \"-c\", \"echo the reason; exit 7\"], \"d\": \"touch /work/d\"}}";
    fs::write(
        site.path("project/.devcontainer/devcontainer.json"),
        failing,
    )
    .unwrap();
    let unfinished = session(&site, "./project", "cat /work/a");
    assert_eq!(unfinished.is(0).stdout, "a\n");
    unfinished
        .reports("postCreateCommand c failed, and is not run again")
        .reports("the reason")
        .reports("not honoured in the devcontainer.json of project: containerEnv.my.env\n");
}
