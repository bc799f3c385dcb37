//! The uses of OpenSSH's clients: files, repositories, forwards, an agent.

mod wide;

use sha2::{Digest as _, Sha256};
use std::fs;
use std::path::PathBuf;

use super::{agent, client, configured, end, fed, leading, noise, ran, refused};
use crate::session::site::Site;
use harness::image_with;

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn files_and_repositories_come_and_go() {
    let site = Site::new();
    let tar = site.path("tools.tar");
    let programs = [
        "git",
        "git-receive-pack",
        "git-upload-pack",
        "rsync",
        "ssh-add",
    ];
    fs::write(&tar, image_with(&programs)).unwrap();
    let lead = leading(&site, tar.to_str().unwrap());
    configured(&site);
    let folder = site.path("things");
    fs::create_dir_all(folder.join("deep/er")).unwrap();
    let large = noise(20 << 20);
    fs::write(folder.join("large"), &large).unwrap();
    fs::write(folder.join("deep/er/gr\u{fc}n"), "x").unwrap();
    let things = folder.to_str().unwrap();
    let digest = |data: &[u8]| hex::encode(Sha256::digest(data));
    let same = |name: &str| {
        let back = site.path(name);
        assert_eq!(
            digest(&fs::read(back.join("large")).unwrap()),
            digest(&large),
            "{name}"
        );
        assert_eq!(
            fs::read(back.join("deep/er/gr\u{fc}n")).unwrap(),
            b"x",
            "{name}"
        );
        let modified = |path: PathBuf| {
            let since = fs::metadata(path).unwrap().modified().unwrap();
            since
                .duration_since(std::time::UNIX_EPOCH)
                .unwrap()
                .as_secs()
        };
        assert_eq!(
            modified(back.join("large")),
            modified(folder.join("large")),
            "{name}"
        );
    };
    ran(&site, &["scp", "-rpq", things, "demo.xdrive:by-scp"]);
    ran(&site, &["scp", "-rpq", "demo.xdrive:by-scp", "back-by-scp"]);
    same("back-by-scp");
    ran(
        &site,
        &["rsync", "-a", &format!("{things}/"), "demo.xdrive:by-rsync"],
    );
    ran(
        &site,
        &["rsync", "-a", "demo.xdrive:by-rsync/", "back-by-rsync"],
    );
    same("back-by-rsync");
    let batch = "pwd\nput -rp things by-sftp\nrename by-sftp/large by-sftp/larger\n\
                 ln -s larger by-sftp/link\nls -l by-sftp\nget by-sftp/link back-by-sftp\n\
                 chmod 640 by-sftp/larger\nmkdir empty\nrmdir empty\n-rm nothing\ndf\n";
    let output = fed(
        client(&site, &["sftp", "-b", "-", "demo.xdrive"]),
        batch.as_bytes(),
    );
    let listed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{output:?}");
    assert!(
        listed.contains("Remote working directory: /work\n"),
        "{listed}"
    );
    assert!(listed.contains(&format!("{} ", large.len())), "{listed}");
    assert_eq!(
        digest(&fs::read(site.path("back-by-sftp")).unwrap()),
        digest(&large)
    );
    let mode = ran(
        &site,
        &[
            "ssh",
            "demo.xdrive",
            "stat -c '%a %F' by-sftp/larger by-sftp/link",
        ],
    );
    assert_eq!(mode, "640 regular file\n777 symbolic link\n");
    let denied = refused(&site, &["scp", "-q", "demo.xdrive:nothing", "."]);
    assert!(
        String::from_utf8_lossy(&denied.stderr).contains("No such file"),
        "{denied:?}"
    );

    pushes_and_clones(&site, &large[..1 << 20]);
    has_the_agent(&site);
    end(&site, lead);
    site.is_saved("demo", 1);
}

/// Checks that a repository is pushed, and cloned again.
fn pushes_and_clones(site: &Site, content: &[u8]) {
    let repository = site.path("repository");
    let at = repository.to_str().unwrap();
    let me = ["-c", "user.name=me", "-c", "user.email=me@example.com"];
    ran(site, &["git", "init", "-q", "-b", "main", at]);
    fs::write(repository.join("file"), content).unwrap();
    ran(site, &["git", "-C", at, "add", "file"]);
    let commit = [
        &["git", "-C", at][..],
        &me,
        &["commit", "-q", "-m", "first"],
    ]
    .concat();
    ran(site, &commit);
    ran(
        site,
        &[
            "ssh",
            "demo.xdrive",
            "git init -q --bare -b main repository.git",
        ],
    );
    let there = "demo.xdrive:repository.git";
    ran(site, &["git", "-C", at, "push", "-q", there, "main"]);
    ran(site, &["git", "clone", "-q", there, "cloned"]);
    assert_eq!(fs::read(site.path("cloned/file")).unwrap(), content);
}

/// Checks that a forwarded agent is in the container, for one connection.
fn has_the_agent(site: &Site) {
    let (agent, socket) = agent(site);
    let mut asking = client(
        site,
        &["ssh", "-A", "demo.xdrive", "ssh-add -l; ls /run/xdrive"],
    );
    let output = asking.env("SSH_AUTH_SOCK", &socket).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(
        printed.contains("(ED25519)") && printed.contains("agent."),
        "{output:?}"
    );
    let left = ran(
        site,
        &[
            "ssh",
            "demo.xdrive",
            "ls /run/xdrive; echo ${SSH_AUTH_SOCK-none}",
        ],
    );
    assert!(left.contains("none") && !left.contains("agent"), "{left}");
    drop(agent);
}
