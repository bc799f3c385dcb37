//! Variants of `copied`, which `shell/test.sh --all` runs.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::process::{Signal, kill_process};

use super::{part, work};
use crate::session::connection_lost::connections;
use crate::session::openssh::{leading, noise};
use crate::session::site::{Running, SESSION, Site};
use harness::eventually_within;

/// Starts a copy, and waits until its large file is there by a part of it.
fn begun(site: &Site, words: &[&str], into: &Path) -> (Running, PathBuf) {
    let running = site.start(words);
    let mut found = None;
    eventually_within(
        SESSION,
        || format!("a part in {}", into.display()),
        || {
            found = part(into, 4 << 20);
            found.is_some()
        },
    );
    (running, found.unwrap())
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_copy_that_is_stopped_leaves_no_half_file_and_goes_on() {
    let site = Site::new();
    let lead = leading(&site, &site.image());
    let work = work(&site);
    let content = noise(300 << 20);
    fs::write(site.path("huge"), &content).unwrap();
    fs::create_dir(site.path("here")).unwrap();
    let (there, here) = (work.join("huge"), site.path("here/huge"));
    let up = ["cp", "huge", "demo:"];
    let down = ["cp", "demo:huge", "here"];
    for (words, folder, path) in [(up, &*work, &there), (down, &*site.path("here"), &here)] {
        // By Ctrl-C, and at once.
        let (running, part) = begun(&site, &words, folder);
        running.signal(Signal::INT);
        running
            .end()
            .is(130)
            .reports("the same command goes on with it\n");
        assert!(!path.exists() && part.exists());
        let kept = fs::metadata(&part).unwrap().ino();
        let (running, _) = begun(&site, &words, folder);
        running.signal(Signal::KILL);
        running.end();
        assert!(!path.exists());
        let length = fs::metadata(&part).unwrap().len();
        assert!(length >= 4 << 20, "{length}");
        site.run(&words).is(0).reports("copied 1 file, 300 MiB\n");
        assert!(fs::read(path).unwrap() == content);
        // The part itself, not another one.
        assert_eq!(fs::metadata(path).unwrap().ino(), kept);
        assert_eq!(self::part(folder, 0), None);
        fs::remove_file(path).unwrap();

        // What does not begin like the source is none of it.
        let (running, part) = begun(&site, &words, folder);
        running.signal(Signal::KILL);
        running.end();
        fs::write(&part, vec![0; 4 << 20]).unwrap();
        site.run(&words).is(0);
        assert!(fs::read(path).unwrap() == content);
    }
    fs::remove_file(&there).unwrap();

    // A connection that goes silent: over another one, from where it stopped.
    let (mut running, _) = begun(&site, &up, &work);
    for connection in connections(&site) {
        kill_process(connection, Signal::STOP).unwrap();
    }
    running.reports("the connection was lost: ");
    let kept = fs::metadata(part(&work, 0).unwrap()).unwrap().ino();
    running
        .end()
        .is(0)
        .reports(" again after ")
        .reports("copied 1 file, 300 MiB\n");
    assert!(fs::read(&there).unwrap() == content);
    assert_eq!(fs::metadata(&there).unwrap().ino(), kept);
    assert_eq!(part(&work, 0), None);

    // A host that begins to close is the end of it.
    fs::remove_file(&there).unwrap();
    let (running, _) = begun(&site, &up, &work);
    site.run(&["stop", "demo"]).is(0);
    let ended = running.end();
    if ended.code() != 0 {
        ended.is(255).reports("the host closed the drive: ");
    }
    lead.end();
    assert_eq!(site.drive("demo")["state"], "saved");
    site.has_no_leaks();
}
