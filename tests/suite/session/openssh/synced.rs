//! The files that `xdrive sync` sends, deletes and leaves alone.

mod wide;

use std::fs;
use std::path::Path;

use rustix::process::Signal;

use super::copied::work;
use super::{end, leading};
use crate::session::site::{SESSION, Site};
use harness::eventually_within;

/// The paths below a folder, without those of folders.
fn files(top: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![top.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.is_symlink() {
                folders.push(path);
            } else {
                let below = path.strip_prefix(top).unwrap();
                found.push(below.to_str().unwrap().to_owned());
            }
        }
    }
    found.sort();
    found
}

fn write(folder: &Path, files: &[(&str, &str)]) {
    for (path, content) in files {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_folder_is_sent_as_git_sees_it_and_only_what_is_asked_for_is_deleted() {
    let site = Site::new();
    let lead = leading(&site, &site.image());
    let here = site.path("project");
    write(
        &here,
        &[
            (".git/HEAD", "ref: refs/heads/main\n"),
            (".gitignore", "*.log\nbuild/\n!kept.log\n"),
            ("main.py", "print()"),
            ("kept.log", "kept"),
            ("other.log", "ignored"),
            ("build/out", "ignored"),
            ("a/.gitignore", "data\n"),
            ("a/data/x", "ignored"),
            ("a/code", "code"),
            ("b/moved", "moved"),
        ],
    );
    let there = work(&site).join("src/project");
    let sync = ["sync", "project", "demo:src/project"];
    site.run(&sync)
        .is(0)
        .reports("sent 6 files, 48 bytes\n")
        .reports("3 files or folders stay here, as git ignores them; ");
    let sent = [
        ".gitignore",
        "a/.gitignore",
        "a/code",
        "b/moved",
        "kept.log",
        "main.py",
    ];
    assert_eq!(files(&there), sent);
    site.run(&sync)
        .is(0)
        .reports("sent 0 files, 0 bytes; 6 were there already\n");

    // What was made there, and what is here no more.
    write(
        &there,
        &[
            ("build/model", "made there"),
            ("a/data/set", "made there"),
            ("b/deep/run.log", "made there"),
            ("b/deep/more", "in the way"),
            ("extra", "in the way"),
        ],
    );
    fs::remove_dir_all(here.join("b")).unwrap();
    write(&here, &[("b", "a file now")]);
    fs::remove_file(here.join("a/code")).unwrap();
    write(&here, &[("a/code/within", "a folder now")]);
    site.run(&sync)
        .is(1)
        .reports("b was not copied: a folder has its name in the container\n");
    assert!(there.join("extra").exists() && there.join("a/code/within").exists());
    fs::remove_file(here.join("b")).unwrap();
    let delete = [&sync[..], &["--delete"]].concat();
    site.run(&delete).is(0).reports("; deleted 3\n");
    assert_eq!(
        files(&there),
        [
            ".gitignore",
            "a/.gitignore",
            "a/code/within",
            "a/data/set",
            "b/deep/run.log",
            "build/model",
            "kept.log",
            "main.py",
        ]
    );

    keeps_what_rules_may_keep(&site, &delete, &here, &there);
    let watching = site.start(&[&delete[..], &["--watch"]].concat());
    write(&here, &[("new/file", "new"), ("new/x.log", "ignored")]);
    fs::remove_file(here.join("kept.log")).unwrap();
    let is_there = || there.join("new/file").exists() && !there.join("kept.log").exists();
    eventually_within(SESSION, || "what changed".to_owned(), is_there);
    write(&here, &[("new/file", "newer")]);
    let is_newer = || fs::read(there.join("new/file")).is_ok_and(|it| it == b"newer");
    eventually_within(SESSION, || "what changed again".to_owned(), is_newer);
    assert!(!there.join("new/x.log").exists() && there.join("build/model").exists());
    watching.signal(Signal::INT);
    watching.end().is(130);

    for (words, error) in [
        (
            ["sync", "nothing", "demo:"],
            "nothing is no folder on this computer",
        ),
        (
            ["sync", "demo:", "project"],
            "demo: is no folder on this computer",
        ),
        (["sync", "project", "there"], "there names no drive"),
    ] {
        site.run(&words)
            .is(2)
            .reports(&format!("error: {error}\n\nhint: xdrive --local sync"));
    }
    end(&site, lead);
    site.is_saved("demo", 1);
}

/// Checks that nothing is deleted where rules cannot be read.
fn keeps_what_rules_may_keep(site: &Site, delete: &[&str], here: &Path, there: &Path) {
    let rules = here.join("a/.gitignore");
    // Larger than git reads them.
    let file = fs::File::create(&rules).unwrap();
    file.set_len(101 << 20).unwrap();
    site.run(delete)
        .is(1)
        .reports("/project/a/.gitignore cannot be read: ");
    assert!(there.join("a/data/set").exists());
    fs::remove_file(&rules).unwrap();
    write(here, &[("a/.gitignore", "data\n")]);
}
