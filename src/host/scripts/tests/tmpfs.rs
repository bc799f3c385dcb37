//! The tmpfs of a container, into which root writes: no file of the host's, whatever the container does.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use super::HOST;

/// The output of `inside.py` about the tmpfs of a container with this root.
fn tmpfs(root: &Path) -> String {
    const SCRIPT: &str = "import inside, sys\n\
        try:\n    print(inside.tmpfs(sys.argv[1]))\n\
        except OSError as error:\n    print(error)\n";
    let mut python = Command::new("python3");
    python.args(["-B", "-c", SCRIPT]).arg(root);
    let output = python.env("PYTHONPATH", HOST).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn no_link_of_a_containers_leads_to_a_folder_of_the_hosts() {
    let folder = tempfile::tempdir().unwrap();
    let host = folder.path().join("host");
    fs::create_dir_all(host.join("xdrive")).unwrap();
    let root = |name: &str| {
        let root = folder.path().join(name);
        fs::create_dir(&root).unwrap();
        root
    };
    let first = root("first");
    symlink(&host, first.join("run")).unwrap();
    let answer = tmpfs(&first);
    assert!(answer.contains("Not a directory: 'run'"), "{answer}");
    let second = root("second");
    fs::create_dir(second.join("run")).unwrap();
    symlink(host.join("xdrive"), second.join("run/xdrive")).unwrap();
    let answer = tmpfs(&second);
    assert!(answer.contains("Not a directory: 'xdrive'"), "{answer}");
    // What stands in its place is on the drive.
    let third = root("third");
    fs::create_dir_all(third.join("run/xdrive")).unwrap();
    let answer = tmpfs(&third);
    assert!(answer.contains("is not its tmpfs"), "{answer}");
}
