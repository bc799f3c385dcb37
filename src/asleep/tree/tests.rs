use std::collections::VecDeque;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use super::super::ext4::Disk;
use super::*;

/// A disk in memory.
struct Bytes(Vec<u8>);

impl Disk for Bytes {
    fn read(&mut self, start: u64, into: &mut [u8]) -> Result<(), String> {
        let start = usize::try_from(start).unwrap();
        let found = self.0.get(start..start + into.len());
        into.copy_from_slice(found.ok_or("beyond the end")?);
        Ok(())
    }
}

fn run(program: &str, words: &[&str]) {
    let done = Command::new(program).args(words).output().unwrap();
    let errors = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{program} {words:?}: {errors}");
}

/// A file system with these files, which debugfs then changed by these commands.
pub(in crate::asleep) fn file_system(
    fill: impl FnOnce(&Path),
    commands: &str,
) -> Result<Ext4, SftpError> {
    let dir = tempfile::tempdir().unwrap();
    let (files, image) = (dir.path().join("files"), dir.path().join("image"));
    fs::create_dir(&files).unwrap();
    fill(&files);
    let (files, image) = (files.to_str().unwrap(), image.to_str().unwrap());
    let words = ["-q", "-t", "ext4", "-b", "1024", "-d", files, image, "16M"];
    run("mke2fs", &words);
    for command in commands.lines() {
        run("debugfs", &["-w", "-R", command, image]);
    }
    let disk = Bytes(fs::read(image).unwrap());
    Ext4::load(Box::new(disk)).map_err(failed)
}

/// The container's files of a drive with those files ([`file_system`]).
fn tree(fill: impl FnOnce(&Path), commands: &str) -> Result<Tree, SftpError> {
    Tree::open(file_system(fill, commands)?, "demo".parse().unwrap())
}

fn write(root: &Path, path: &str, content: impl AsRef<[u8]>) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

fn names(tree: &Tree, path: &str) -> Vec<String> {
    let entries = tree.list(path.as_bytes()).unwrap().into_iter();
    let names = entries.map(|entry| String::from_utf8(entry.name).unwrap());
    names.collect()
}

fn shown(tree: &Tree, path: &str) -> String {
    let file = tree.file(path.as_bytes()).unwrap();
    let mut content = vec![0; file.size.try_into().unwrap()];
    let length = tree.fs.read(&file, 0, &mut content).unwrap();
    String::from_utf8(content[..length].to_vec()).unwrap()
}

/// The drive of a container with one layer below its own, and a volume at /data.
fn with_a_volume(root: &Path) {
    write(root, "xdrive/format", "1");
    write(root, "work/kept", "kept");
    write(root, "docker/overlay2/own/diff/etc/own", "own");
    write(root, "docker/overlay2/own/lower", "l/BELOW\n");
    write(root, "docker/overlay2/below/diff/data/seeded", "old");
    write(root, "docker/overlay2/below/diff/etc/below", "below");
    fs::create_dir_all(root.join("docker/overlay2/l")).unwrap();
    symlink("../below/diff", root.join("docker/overlay2/l/BELOW")).unwrap();
    write(
        root,
        "docker/image/overlay2/layerdb/mounts/id/mount-id",
        "own",
    );
    write(root, "docker/volumes/named/_data/seeded", "new");
    write(root, "docker/volumes/named/_data/mine", "mine");
    let container = r#"{"Name":"/xdrive-demo","MountPoints":{
        "/data":{"Source":"","Destination":"/data","RW":true,"Name":"named","Driver":"local","Type":"volume"},
        "/out":{"Destination":"/out","Name":"../../../work","Driver":"local","Type":"volume"},
        "/gone":{"Destination":"/gone","Name":"missing","Driver":"local","Type":"volume"},
        "/work":{"Source":"/v1/work","Destination":"/work","RW":true,"Type":"bind"}}}"#;
    write(root, "docker/containers/id/config.v2.json", container);
}

#[test]
fn a_file_of_an_images_volume_is_read_where_it_is() {
    let tree = tree(with_a_volume, "").unwrap();
    assert_eq!(names(&tree, "/data"), ["mine", "seeded"]);
    assert_eq!(shown(&tree, "/data/seeded"), "new");
    assert_eq!(shown(&tree, "/data/mine"), "mine");
    assert_eq!(shown(&tree, "/etc/below"), "below");
    assert_eq!(shown(&tree, "kept"), "kept");
    // A name that is none leads nowhere, and what is missing is not shown.
    assert_eq!(names(&tree, "/"), ["data", "etc", "work"]);
    assert!(tree.look(b"/out/kept", true).is_err());
}

#[test]
fn an_adopted_disk_has_its_files_before_its_first_connect() {
    let fill = |root: &Path| {
        write(root, "notes", "notes");
        write(root, "project/code", "code");
    };
    let tree = tree(fill, "").unwrap();
    assert_eq!(names(&tree, ""), ["v1"]);
    assert_eq!(names(&tree, "/"), ["v1", "work"]);
    for at in ["v1", "/v1", "/work/v1"] {
        assert_eq!(names(&tree, at), ["notes", "project"], "{at}");
        assert_eq!(shown(&tree, &format!("{at}/project/code")), "code");
    }
    assert_eq!(tree.look(b"other", true), Err(SftpError::Missing));
}

#[test]
fn a_folder_in_itself_or_in_two_places_ends_a_walk() {
    let fill = |root: &Path| {
        write(root, "xdrive/format", "1");
        write(root, "work/a/b/file", "file");
        let mut twice = String::from("work/twice");
        for _ in 0..30 {
            twice.push_str("/x");
            fs::create_dir_all(root.join(&twice)).unwrap();
        }
    };
    let mut commands = "ln /work/a /work/a/self\nln /work/a /work/a/b/above\n".to_owned();
    let mut path = "/work/twice".to_owned();
    for _ in 0..30 {
        writeln!(commands, "ln {path}/x {path}/y").unwrap();
        path.push_str("/x");
    }
    let tree = tree(fill, &commands).unwrap();
    let mut folders = VecDeque::from([b"/work".to_vec()]);
    let (mut listed, mut refusals) = (0, 0);
    while let Some(path) = folders.pop_front() {
        match tree.list(&path) {
            Ok(entries) => {
                listed += 1;
                for entry in entries {
                    if entry.attributes.kind() == crate::host::sftp::Kind::Folder {
                        folders.push_back([&path, &b"/"[..], &entry.name].concat());
                    }
                }
            }
            Err(error) => {
                assert!(error.to_string().contains("a folder is in "), "{error}");
                refusals += 1;
            }
        }
        assert!(listed < 100, "the walk does not end");
    }
    // Each folder once: work, a, b, and the thirty-one below.
    assert_eq!((listed, refusals), (34, 32));
    assert_eq!(shown(&tree, "a/b/file"), "file");
}

/// The fault: the listing had a name with a NUL, or `..`, and was refused as a whole.
#[test]
fn a_mount_at_what_is_no_name_is_none() {
    let fill = |root: &Path| {
        with_a_volume(root);
        let config = "docker/containers/id/config.v2.json";
        let record = fs::read_to_string(root.join(config)).unwrap();
        let record = record.replace("tion\":\"/data\"", "tion\":\"/da\\u0000ta\"");
        write(root, config, record);
        let long = "x".repeat(256);
        let record = format!("rw:a:/a\0b\nrw:a:/..\nrw:a:/.\nrw:a:/{long}\nrw:a:/kept\n");
        write(root, "xdrive/mounts", record);
        write(root, "work/a/file", "file");
    };
    let tree = tree(fill, "").unwrap();
    assert_eq!(names(&tree, "/"), ["data", "etc", "kept", "work"]);
    assert_eq!(shown(&tree, "/kept/file"), "file");
}

#[test]
fn a_record_of_terabytes_is_refused_and_not_read() {
    let fill = |root: &Path| {
        write(root, "xdrive/format", "1");
        write(root, "work/kept", "kept");
        let record = fs::File::create(root.join("xdrive/mounts")).unwrap();
        record.set_len(6 << 30).unwrap();
    };
    let error = tree(fill, "").map(drop).unwrap_err();
    assert!(error.to_string().contains("is too long"), "{error}");
}

#[test]
fn an_inode_that_makes_no_sense_takes_its_own_name_with_it_and_no_other() {
    let fill = |root: &Path| {
        write(root, "xdrive/format", "1");
        write(root, "work/whole", "whole");
        write(root, "work/broken", "broken");
    };
    let tree = tree(fill, "sif /work/broken mode 0").unwrap();
    let entries = tree.list(b"").unwrap();
    let of = |name: &[u8]| {
        let entry = entries.iter().find(|entry| entry.name == name).unwrap();
        entry.attributes
    };
    assert_eq!(of(b"whole").size, 5);
    assert_eq!(of(b"broken"), UNREADABLE);
    assert!(tree.file(b"broken").is_err());
}
