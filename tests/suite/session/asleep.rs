//! The files of a drive that is asleep: read from its snapshot, with no instance.

mod wide;

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::process::Command;

use super::json::document;
use super::site::Site;
use harness::image_with;
use rustix::process::Signal;
use serde_json::Value;

/// The files that a user leaves on a drive: in /work, and in the container's own layers.
const LEFT: &str = "
    set -e; mkdir -p /root; cd /work; mkdir -p a/deep; echo first >a/b && echo note >/root/note
    ln -s /root/note link && ln -s ../a/b a/up && ln -s nowhere dangling && ln -s loop loop
    chmod 640 a/b && touch -d '2001-02-03 04:05:06' a/b
    dd if=/dev/urandom of=noise bs=65536 count=50 && sha256sum noise
    truncate -s 64M sparse && echo end >>sparse
    rm /bin/stat && mkdir -p /srv/made && echo made >/srv/made/file
";

/// The programs that it takes.
const PROGRAMS: [&str; 6] = ["chmod", "dd", "ln", "sha256sum", "touch", "truncate"];

/// The files of generation `demo@1`, which a session left.
fn left() -> (Site, String) {
    let site = Site::new();
    let tar = site.path("tools.tar");
    fs::write(&tar, image_with(&PROGRAMS)).unwrap();
    let image = tar.to_str().unwrap();
    let words = ["connect", "demo", "--image", image, "--", "sh", "-c", LEFT];
    let ended = site.run(&words);
    ended.is(0);
    let digest = ended.stdout.split(' ').next().unwrap().to_owned();
    site.is_saved("demo", 1);
    (site, digest)
}

fn instances(site: &Site) -> usize {
    let folder = site.dir().join("instances");
    fs::read_dir(folder).map_or(0, Iterator::count)
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn files_of_a_drive_that_is_asleep_are_listed_shown_and_copied_without_an_instance() {
    let (site, digest) = left();
    let before = instances(&site);

    let listed = site.run(&["ls", "demo:"]);
    listed.is(0);
    let names: Vec<&str> = listed
        .stdout
        .lines()
        .map(|line| line.rsplit_once("  ").map_or(line, |(_, it)| it))
        .collect();
    assert_eq!(names.len(), 6, "{}", listed.stdout);
    listed.prints(" a/\n").prints(" link -> /root/note\n");
    listed.reports("generation 1: ").reports(" cents");
    let found = document("files", site.run(&["ls", "demo:a", "--json"]).is(0));
    assert_eq!(found[0]["name"], "b");
    assert_eq!(found[0]["mode"], "640");
    assert_eq!(found[0]["size"], 6);
    assert_eq!(found[0]["changed"], "2001-02-03T04:05:06Z");
    assert_eq!(found[1]["kind"], "folder");
    assert_eq!(found[2]["target"], "../a/b");

    // Links lead where they lead in the container.
    for (place, content) in [
        ("demo:a/b", "first\n"),
        ("demo:a/up", "first\n"),
        ("demo:/work/a/../a/b", "first\n"),
        ("demo:link", "note\n"),
        ("demo:~/note", "note\n"),
        ("demo:/srv/made/file", "made\n"),
        ("demo@1:a/b", "first\n"),
    ] {
        let shown = site.run(&["cat", place]);
        assert_eq!(shown.is(0).stdout, content, "{place}");
    }
    // The image's programs are there, but for the one that was deleted.
    let programs = site.run(&["ls", "demo:/bin"]);
    programs.is(0).prints(" sh");
    assert!(!programs.stdout.contains(" stat"), "{}", programs.stdout);
    let root = site.run(&["ls", "demo:/"]);
    root.is(0).prints(" work/\n").prints(" bin");

    let to = site.path("copy");
    let copied = site.run(&["cp", "demo:/work/.", to.to_str().unwrap()]);
    copied.is(0).reports("copied ");
    let sparse = fs::metadata(to.join("sparse")).unwrap();
    assert_eq!(sparse.len(), (64 << 20) + 4);
    assert!(
        sparse.blocks() * 512 < 2 << 20,
        "{} blocks",
        sparse.blocks()
    );
    assert_eq!(fs::read_to_string(to.join("a/b")).unwrap(), "first\n");
    assert_eq!(fs::metadata(to.join("a/b")).unwrap().mtime(), 981_173_106);
    let sum = Command::new("sha256sum")
        .arg(to.join("noise"))
        .output()
        .unwrap();
    let sum = String::from_utf8(sum.stdout).unwrap();
    assert!(sum.starts_with(&digest), "{sum}");
    // What is there is not read again.
    let again = site.run(&["cp", "demo:/work/.", to.to_str().unwrap()]);
    again.is(0).reports("were there already");
    assert_eq!(instances(&site), before);
    site.is_saved("demo", 1);
}

/// The changes that the next session makes to those files.
const CHANGED: &str = "
    set -e; echo again >a/b; rm dangling; rm link && ln -s noise link; mkdir e; echo new >e/f
    chmod 700 a/deep; rm sparse; mkdir sparse; echo in >sparse/g; echo made >/srv/more; rm -r /srv/made
";

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn differences_between_two_generations_are_listed_by_path() {
    let (site, _) = left();
    let words = ["connect", "demo", "--", "sh", "-c", CHANGED];
    site.run(&words).is(0);
    site.is_saved("demo", 2);
    let before = instances(&site);
    let expected = "M  a/b  6 bytes\nM  a/deep/\nD  dangling\nA  e/\nA  e/f  4 bytes\nM  link\n\
                    M  sparse/  64.0 MiB\nA  sparse/g  3 bytes\n";
    let compared = site.run(&["diff", "demo@1", "demo@2"]);
    assert_eq!(compared.is(0).stdout, expected);
    compared.reports("generation 1: ").reports("generation 2: ");
    let newest = site.run(&["diff", "demo@1", "demo"]);
    assert_eq!(newest.is(0).stdout, expected);
    for (path, expected) in [
        ("a", "M  a/b  6 bytes\nM  a/deep/\n"),
        ("a/b", "M  a/b  6 bytes\n"),
        ("noise", ""),
        (
            "/srv",
            "D  /srv/made/\nD  /srv/made/file  5 bytes\nA  /srv/more  5 bytes\n",
        ),
    ] {
        let compared = site.run(&["diff", "demo@1", "demo@2", path]);
        assert_eq!(compared.is(0).stdout, expected, "{path}");
    }
    let whole = site.run(&["diff", "demo@1", "demo@2", "/"]);
    whole
        .is(0)
        .prints("D  /srv/made/\n")
        .prints("A  /work/e/\n");
    let compared = site.run(&["diff", "demo@1", "demo@2", "a/b", "--json"]);
    let rows = document("diff", compared.is(0));
    assert_eq!(rows[0]["change"], "changed");
    assert_eq!([&rows[0]["size"], &rows[0]["was"]], [6, 6]);
    let saved = document("log", site.run(&["log", "demo", "--json"]).is(0));
    let differs = saved[0]["differs"].as_u64().unwrap();
    assert!(
        differs > 0 && differs.is_multiple_of(512 << 10),
        "{differs}"
    );
    assert_eq!(saved[1]["differs"], Value::Null);
    assert_eq!(instances(&site), before);

    for (words, code, error) in [
        (
            &["demo", "demo@2"][..],
            2,
            "the first of the two is a generation: demo@N",
        ),
        (&["demo@1", "other@2"], 2, "the two have to be of one drive"),
        (
            &["demo@9", "demo@2"],
            69,
            "demo has no snapshot of generation 9",
        ),
        (&["demo@1", "demo@2", "nowhere"], 1, "nowhere: "),
    ] {
        let words = [&["diff"][..], words].concat();
        site.run(&words).is(code).reports(error);
    }
    // With what the drive has now, while it is up.
    let script = "echo up >u; echo begun; sleep 1000";
    let mut running = site.start(&["connect", "demo", "--", "sh", "-c", script]);
    running.prints("begun\n");
    let compared = site.run(&["diff", "demo@2", "demo"]);
    assert_eq!(compared.is(0).stdout, "A  u  3 bytes\n");
    running.signal(Signal::TERM);
    drop(running.end());
    site.is_saved("demo", 3);
}
