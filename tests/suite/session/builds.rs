//! Images that are built on the instance, from a folder of this computer.

mod wide;

use std::fs;
use std::path::PathBuf;

use harness::image_with;

use super::site::{Ended, Site};

/// A folder with a root file system, and these files.
fn folder(site: &Site, files: &[(&str, &str)]) -> PathBuf {
    let folder = site.path("project");
    fs::create_dir_all(folder.join(".devcontainer")).unwrap();
    fs::write(folder.join("root.tar"), image_with(&["chmod", "sleep"])).unwrap();
    for (name, text) in files {
        fs::write(folder.join(name), text).unwrap();
    }
    folder
}

fn session(site: &Site, image: &str, script: &str) -> Ended {
    let command = ["--", "sh", "-c", script];
    site.run(&[&["connect", "demo", "--image", image], &command[..]].concat())
}

const DOCKERFILE: &str = "FROM scratch\nADD root.tar /\nCOPY . /copied/\nENV FROM_FILE=yes\n\
                          RUN echo ran >/ran && echo a line of the build\n";

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_folders_image_is_built_once_and_again_when_it_changes() {
    let site = Site::new();
    let files = [
        ("Dockerfile", DOCKERFILE),
        (".dockerignore", "secret*\n"),
        ("secret.txt", "x"),
        ("a file's", "one"),
    ];
    let folder = folder(&site, &files);
    let script = "cat /ran \"/copied/a file's\"; echo; ls /copied; echo $FROM_FILE; echo own >/own";
    let built = session(&site, "./project", script);
    built.is(0).reports("built the image of project");
    assert_eq!(
        built.stdout,
        "ran\none\nDockerfile\na file's\nroot.tar\nyes\n"
    );
    built.reports("created the container");
    site.is_saved("demo", 1);

    // The same content, under another path and with other times, is the same image.
    let root = fs::File::open(folder.join("root.tar")).unwrap();
    root.set_modified(std::time::UNIX_EPOCH).unwrap();
    let absolute = folder.join("Dockerfile");
    let same = session(&site, absolute.to_str().unwrap(), "cat /own");
    assert_eq!(same.is(0).stdout, "own\n");
    same.reports("started the container");
    assert!(!same.stderr.contains("built the image"), "{}", same.stderr);

    // Another content: a new container.
    fs::write(folder.join("a file's"), "two").unwrap();
    let changed = session(&site, "./project", "cat \"/copied/a file's\"; ls /own; :");
    changed.reports("built the image of project");
    assert_eq!(changed.stdout, "two");

    // One that cannot be built leaves the drive as it was, and says why.
    fs::write(
        folder.join("Dockerfile"),
        "FROM scratch\nADD root.tar /\nRUN echo the reason >&2; exit 3\n",
    )
    .unwrap();
    let failed = session(&site, "./project", "true");
    failed
        .is(69)
        .reports("the image of project cannot be built")
        .reports("the reason");
    site.is_saved("demo", 4);
    let after = site.run(&["connect", "demo", "--", "cat", "/copied/a file's"]);
    assert_eq!(after.is(0).stdout, "two");
}

#[test]
fn a_folder_that_cannot_be_built_is_refused_before_anything_is_launched() {
    let site = Site::new();
    fs::create_dir(site.path("empty")).unwrap();
    fs::create_dir(site.path("odd")).unwrap();
    fs::write(site.path("odd/devcontainer.json"), "{\"image\": 7}").unwrap();
    for (image, why) in [
        ("./empty", "neither a devcontainer.json nor a Dockerfile"),
        (
            "gone/Dockerfile",
            "no image can be built from gone/Dockerfile",
        ),
        ("./odd", "image is not text"),
    ] {
        site.run(&["connect", "demo", "--image", image, "--", "true"])
            .is(69)
            .reports(why);
    }
}
