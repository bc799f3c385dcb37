//! Tags that somebody else wrote: what they say becomes no file, no command, no login and no name here,
//! and what they call a drive is not taken over unasked.

use std::fs;

use xdrive::ec2::LaunchOrder;
use xdrive::ids::SnapshotId;

use super::simulated::{
    connect, count, dry_run, in_the_cloud, paper, traced, with_snapshot, with_volume,
};
use super::site::{SESSION, Site};
use super::tree::inside;
use harness::cloud::{self, made_snapshot, until_available};
use harness::evidence::may_delete;
use harness::{DEADLINE, eventually_within};

const T3: &[&str] = &["--type", "t3.medium"];
const ONE: &str = "11111111-1111-1111-1111-111111111111";
const TWO: &str = "22222222-2222-2222-2222-222222222222";

/// A snapshot with the tags of demo's volume and these: as a backup of that is, or a save.
fn snapshot_with(site: &Site, of_volume: &[(&str, &str)], own: &[(&str, &str)]) -> SnapshotId {
    let volume = with_volume(site, "us-east-1a", of_volume);
    in_the_cloud(site, async |ec2| {
        let mut tags = until_available(&ec2, &volume).await.unwrap().tags;
        tags.extend(cloud::tags(own));
        tags.retain(|_, value| value != "-");
        let snapshot = made_snapshot(&ec2, &volume, &tags).await.unwrap();
        ec2.delete_volume(may_delete(&volume)).await.unwrap();
        snapshot
    })
}

fn generation(number: &str) -> (&str, &str) {
    ("xdrive:generation", number)
}

#[test]
fn a_backup_of_a_drive_stops_nothing_and_is_left_alone() {
    let site = paper();
    let saved = with_snapshot(&site, &[]);
    let backup = snapshot_with(&site, &[generation("7")], &[("backup-plan", "daily")]);
    let root = snapshot_with(&site, &[("xdrive:disk", "root")], &[("xdrive:op", "op")]);
    let ids = [&backup, &root];

    let list = site.run(&["list", "demo"]);
    list.is(0)
        .prints("demo   saved, generation 1, at most $0.40 a month\n");
    for id in ids {
        list.prints(&format!(
            "backup     {id}  completed, 8 GiB, somebody else's"
        ));
    }
    dry_run(&site, T3).is(0).prints(&format!(
        "demo is restored from its snapshot ({saved}), generation 1"
    ));
    site.run(&["stop", "demo"]).is(0);
    site.run(&["log", "demo"]).is(0);
    site.run(&["gc", "demo"]).is(0).prints("demo: ");
    site.run(&["fork", "demo", "other"])
        .is(0)
        .reports("other is a copy of demo@1");
    // Not to be chosen as if it were the drive's, but copied as what it is.
    traced(
        &site,
        &["connect", "demo", "--from", backup.as_str(), "--dry-run"],
    )
    .is(76)
    .reports("this drive has no such volume or snapshot");
    let look = site.run(&["adopt", backup.as_str(), "third"]);
    assert!(
        !look.stderr.contains("of the drive demo already"),
        "{}",
        look.stderr
    );
    let deleted = site.run(&["delete", "demo", "--yes"]);
    deleted
        .is(0)
        .reports("somebody else's backups of it stay, and are billed as theirs: snap-");
    for id in ids {
        assert!(deleted.stderr.contains(id.as_str()), "{}", deleted.stderr);
        let there = in_the_cloud(&site, async |ec2| ec2.snapshot(id).await.unwrap());
        assert_eq!(there.unwrap().tags["xdrive:drive"], "demo");
    }
    site.run(&["list", "demo"])
        .is(69)
        .reports("there is no drive demo");
    // The name is free.
    dry_run(&site, T3)
        .is(0)
        .prints("demo is new: an empty volume");
}

#[test]
fn a_save_whose_tags_cannot_be_read_is_no_backup_and_a_dry_run_is_refused_as_a_connect() {
    let site = paper();
    with_snapshot(&site, &[("xdrive:generation", "many")]);
    for ended in [connect(&site, T3), dry_run(&site, T3)] {
        ended
            .is(76)
            .reports("of these the tags cannot be read: snap-")
            .reports("its tag xdrive:generation is \"many\"");
        assert!(!ended.stdout.contains("is new"), "{}", ended.stdout);
        assert_eq!(count(&ended, "RunInstances"), 0);
    }
    site.run(&["delete", "demo", "--yes"]).is(76);
}

#[test]
fn a_snapshot_that_is_only_tagged_as_the_newest_is_not_taken_over_unasked() {
    for (own, why) in [
        (
            [("xdrive:uuid", TWO), ("xdrive:kind", "clean")],
            "its file system is 22222222-2222-2222-2222-222222222222, and the drive's was 11111111",
        ),
        (
            [("xdrive:uuid", "-"), ("xdrive:kind", "clean")],
            "it does not say that it has the drive's file system, 11111111",
        ),
        (
            [("xdrive:uuid", ONE), ("xdrive:owner", "-")],
            "it has no owner, and the drive has one",
        ),
    ] {
        let site = paper();
        let was = with_snapshot(&site, &[("xdrive:uuid", ONE), generation("3")]);
        let save = [("xdrive:op", "another"), ("xdrive:kind", "clean")];
        let tags = [&own[..], &save].concat();
        let newest = snapshot_with(&site, &[generation("4")], &tags);
        let taken = format!(
            "its snapshot ({newest}), of generation 4, may be none that xdrive made of this drive, and is \
             not taken over unasked: {why}"
        );
        for ended in [connect(&site, T3), dry_run(&site, T3)] {
            ended
                .is(76)
                .reports(&taken)
                .reports(&format!("xdrive --local connect demo --from {was}"))
                .reports(&format!("xdrive --local connect demo --from {newest}"));
            assert_eq!(count(&ended, "RunInstances"), 0);
        }
        // Nor is it read, or copied, as the drive.
        for words in [&["fork", "demo", "new"][..], &["ls", "demo:"]] {
            site.run(words)
                .is(76)
                .reports("may be none that xdrive made of this drive");
        }
        site.run(&["stop", "demo"])
            .is(76)
            .reports("not taken over unasked");
        let pruned = site.run(&["delete", "demo@3", "--yes"]);
        if why.contains("file system") {
            assert_ne!(pruned.code(), 0, "{}", pruned.stderr);
        }
        // Whoever names it has it.
        dry_run(&site, &[T3, &["--from", newest.as_str()]].concat()).is(0);
        dry_run(&site, &[T3, &["--from", was.as_str()]].concat()).is(if pruned.code() == 0 {
            76
        } else {
            0
        });
    }
}

#[test]
fn an_image_that_a_tag_names_is_no_file_and_gets_no_login() {
    let site = paper();
    let secret = site.home().join("credentials");
    fs::write(&secret, "aws_secret_access_key = hush\n").unwrap();
    let words = ["connect", "demo", "--type", "t3.medium", "--dry-run"];
    with_snapshot(&site, &[("xdrive:image", "ghcr.io/evil/image:v1")]);
    traced(&site, &words).is(0).prints(
        "the container is made from ghcr.io/evil/image:v1, which a tag of the drive names: pulled by the \
         instance, without a login, if it has none yet\n",
    );
    // Typed here it is the user's own wish.
    traced(
        &site,
        &[&words[..], &["--image", "ghcr.io/evil/image:v1"]].concat(),
    )
    .is(0)
    .prints("pulled by the instance, with this computer's login at ghcr.io, if there is one");
    let image = site.image();
    traced(&site, &[&words[..], &["--image", &image]].concat())
        .is(0)
        .prints("bytes, ")
        .prints("), sent from here, unless it was made from that\n");

    let other = paper();
    with_snapshot(&other, &[("xdrive:image", secret.to_str().unwrap())]);
    let ended = traced(&other, &words);
    assert!(
        !ended.is(0).stdout.contains("credentials"),
        "{}",
        ended.stdout
    );
    assert!(!ended.stderr.contains("credentials"), "{}", ended.stderr);
}

#[test]
fn no_path_of_this_computer_is_written_into_a_tag() {
    let site = paper();
    // Up to the wait for a host, which never comes: by then the volume has its tags.
    let words = ["connect", "demo", "--type", "t3.medium", "--image"];
    let image = site.image();
    let session = site.start(&[&words[..], &[&image, "--", "true"]].concat());
    let mut tags = None;
    let look = || {
        let volumes = in_the_cloud(&site, async |ec2| {
            ec2.volumes(&"demo".parse().unwrap()).await.unwrap()
        });
        let mut all = volumes.into_iter().map(|it| it.tags);
        tags = all.find(|tags| !tags.contains_key("xdrive:disk"));
        tags.is_some()
    };
    eventually_within(DEADLINE, || "a volume".to_owned(), look);
    let tags = tags.unwrap();
    assert_eq!(tags["xdrive:image"], "@file");
    assert!(
        tags.values()
            .all(|value| !value.contains('/') || value.starts_with("arn:")),
        "{tags:?}"
    );
    session.signal(rustix::process::Signal::KILL);
    session.end();
}

#[test]
fn an_instance_of_nobodys_is_not_joined_for_a_drive_that_has_an_owner() {
    let site = paper();
    with_snapshot(&site, &[]);
    let order = LaunchOrder {
        tags: cloud::tags(&[("xdrive:drive", "demo")]),
        ..cloud::launch_order("nobody's")
    };
    in_the_cloud(&site, async |ec2| ec2.launch(&order).await.unwrap());
    connect(&site, T3)
        .is(77)
        .reports("has no owner, and the drive has one")
        .reports("hint: --shared uses it all the same");
}

#[test]
fn an_instance_of_nobodys_is_not_looked_after_for_a_run_whose_drive_has_an_owner() {
    let site = paper();
    with_snapshot(
        &site,
        &[
            ("xdrive:run", "1f00c2"),
            ("xdrive:run-state", "wanted"),
            ("xdrive:run-launch", ""),
            ("xdrive:run-until", "2999-01-01T00:00:00Z"),
        ],
    );
    let order = LaunchOrder {
        tags: cloud::tags(&[("xdrive:drive", "demo")]),
        ..cloud::launch_order("nobody's")
    };
    in_the_cloud(&site, async |ec2| ec2.launch(&order).await.unwrap());
    site.run(&["tend", "--once"])
        .is(75)
        .reports("has no owner, and the drive has one");
}

#[test]
fn a_tag_that_is_no_drives_name_is_not_completed_and_in_no_hint() {
    let site = paper();
    let evil = "demo$(touch x);id";
    with_snapshot(&site, &[("xdrive:drive", evil)]);
    with_snapshot(&site, &[]);
    let list = site.run(&["list"]);
    assert!(!list.is(0).stdout.contains(&format!("connect {evil}")));
    let cache = site.path("cache/names");
    for ask in 0..2 {
        let mut command = site.words(&["--", "xdrive", "--local", "connect", "d"]);
        command
            .env("COMPLETE", "bash")
            .env("_CLAP_COMPLETE_INDEX", "3")
            .env("XDRIVE_CACHE", site.path("cache"));
        let offered = super::site::Ended::from_output(command.output().unwrap());
        assert!(
            ["demo", ""].contains(&&*offered.is(0).stdout),
            "{ask}: {}",
            offered.stdout
        );
        // As an earlier xdrive may have kept it.
        for file in fs::read_dir(&cache).into_iter().flatten() {
            fs::write(file.unwrap().path(), format!("[\"{evil}\", \"demo\"]")).unwrap();
        }
    }
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_file_that_a_tag_names_stays_on_this_computer() {
    let site = Site::new();
    let image = site.image();
    let mut pty = site.in_terminal(&["connect", "demo", "--image", &image]);
    pty.see_within(SESSION, "# ");
    pty.type_in("\r~d");
    assert_eq!(pty.wait_within(SESSION), 0, "{}", pty.contents());
    // As a drive whose container was never made, or somebody's who wants one made of that file.
    inside(&site, "rm /v1/xdrive/source");
    site.run(&["stop", "demo"]).is(0);
    let secret = site.home().join("credentials");
    fs::write(&secret, "aws_secret_access_key = hush\n").unwrap();
    in_the_cloud(&site, async |ec2| {
        let saved = ec2
            .snapshots(&"demo".parse().unwrap())
            .await
            .unwrap()
            .remove(0);
        let tags = cloud::tags(&[("xdrive:image", secret.to_str().unwrap())]);
        ec2.tag(saved.id.as_str(), &tags).await.unwrap();
    });
    let ended = site.run(&["connect", "demo", "--", "true"]);
    ended
        .is(78)
        .reports("demo has no container yet, and its tag xdrive:image stands for a file")
        .reports("hint: --image names it");
    assert!(!ended.stderr.contains("load the image"), "{}", ended.stderr);
    let made = ["connect", "demo", "--image", &image, "--", "cat", "/work/x"];
    assert_ne!(site.run(&made).code(), 78);
}
