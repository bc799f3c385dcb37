//! Adoption: a drive of a volume or snapshot that xdrive has not made.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use xdrive::ec2::{Encryption, SnapshotState, VolumeOrder, VolumeState};
use xdrive::ids::{SnapshotId, VolumeId};
use xdrive::local::Fault;
use xdrive::local::plane::PaperSuperblock;
use xdrive::local::wire::Params;

use super::simulated::{count, in_the_cloud, paper, plant, traced, with_snapshot};
use super::site::Site;
use harness::cloud::{made_snapshot, made_volume, tags, until_available, volume_order};
use harness::{DEADLINE, eventually_within};

type Tags = BTreeMap<String, String>;

/// Makes a volume that has a name and no other tag, as the first xdrive did.
fn old_volume(site: &Site, name: &str) -> VolumeId {
    let order = VolumeOrder {
        size: 1,
        ..volume_order(name, tags(&[("Name", name)]))
    };
    in_the_cloud(site, async |ec2| made_volume(&ec2, &order).await.unwrap())
}

/// Makes a completed snapshot of it, with a name and no other tag.
fn old_snapshot(site: &Site, volume: &VolumeId, name: &str) -> SnapshotId {
    let tags = tags(&[("Name", name)]);
    in_the_cloud(site, async |ec2| {
        made_snapshot(&ec2, volume, &tags).await.unwrap()
    })
}

fn tags_of_volume(site: &Site, id: &VolumeId) -> Tags {
    in_the_cloud(site, async |ec2| {
        let volume = ec2.volume(id).await.unwrap().unwrap();
        assert_eq!(volume.state, VolumeState::Available);
        volume.tags.into_iter().collect()
    })
}

fn tags_of_snapshot(site: &Site, id: &SnapshotId) -> Tags {
    in_the_cloud(site, async |ec2| {
        let snapshot = ec2.snapshot(id).await.unwrap().unwrap();
        snapshot.tags.into_iter().collect()
    })
}

fn name_tag(name: &str) -> Tags {
    [("Name".to_owned(), name.to_owned())].into()
}

/// An ext4 on paper.
fn ext4() -> PaperSuperblock {
    PaperSuperblock::clean(*b"0123456789abcdef")
}

#[test]
fn a_snapshot_is_copied_and_stays_as_it_is() {
    let site = paper();
    let volume = old_volume(&site, "demo");
    site.local().write(volume.as_str(), ext4()).unwrap();
    let snapshot = old_snapshot(&site, &volume, "demo");
    let adopted = traced(&site, &["adopt", snapshot.as_str(), "demo"]);
    adopted
        .is(0)
        .reports(&format!(
            "demo is a copy of {snapshot}: its snapshot (snap-"
        ))
        .reports("connect demo goes on from generation 1")
        .reports(&format!("{snapshot} is as it was"))
        .reports("a month");
    assert_eq!(count(&adopted, "CopySnapshot"), 1);
    for call in [
        "CreateTags",
        "CreateSnapshot",
        "DeleteSnapshot",
        "RunInstances",
    ] {
        assert_eq!(count(&adopted, call), 0, "{call}");
    }
    assert_eq!(tags_of_snapshot(&site, &snapshot), name_tag("demo"));
    assert_eq!(site.kinds("demo"), ["snapshot"]);
    site.run(&["log", "demo"])
        .is(0)
        .prints(&format!("clean, adopted from {snapshot}"));
    site.run(&["adopt", snapshot.as_str(), "demo"])
        .is(2)
        .reports(&format!(
            "there is a drive demo already, a copy of {snapshot}"
        ));
    // It is no drive's, so that another one may begin with it too.
    site.run(&["adopt", snapshot.as_str(), "other"]).is(0);
}

/// Makes an unencrypted snapshot with an ext4, as those of 2016 are.
fn plain_snapshot(site: &Site) -> SnapshotId {
    let local = site.local();
    let make = |call: &str, pairs: &[(&str, &str)]| {
        let pairs = pairs.iter();
        let pairs = pairs.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        format!("{:?}", local.call(call, &Params::new(pairs)).unwrap())
    };
    let id = |answer: &str, prefix: &str| {
        let rest = &answer[answer.find(prefix).unwrap()..];
        rest.split('"').next().unwrap().to_owned()
    };
    let volume = make(
        "CreateVolume",
        &[("AvailabilityZone", "us-east-1a"), ("Size", "1")],
    );
    let volume = id(&volume, "vol-");
    let available = || {
        let volume = volume.parse::<VolumeId>().unwrap();
        in_the_cloud(site, async |ec2| {
            until_available(&ec2, &volume).await.unwrap()
        })
    };
    available();
    local.write(&volume, ext4()).unwrap();
    let snapshot = make("CreateSnapshot", &[("VolumeId", &volume)]);
    let snapshot: SnapshotId = id(&snapshot, "snap-").parse().unwrap();
    eventually_within(
        DEADLINE,
        || "completed".to_owned(),
        || {
            in_the_cloud(site, async |ec2| {
                let found = ec2.snapshot(&snapshot).await.unwrap().unwrap();
                found.state == SnapshotState::Completed
            })
        },
    );
    snapshot
}

#[test]
fn the_copy_of_what_is_not_encrypted_is_and_it_is_said_that_it_is_a_whole_one() {
    let site = paper();
    let snapshot = plain_snapshot(&site);
    site.run(&["adopt", snapshot.as_str(), "demo"])
        .is(0)
        .reports("not encrypted; the copy is, as drives are, and so a whole one: at most");
    in_the_cloud(&site, async |ec2| {
        let copy = ec2
            .snapshots(&"demo".parse().unwrap())
            .await
            .unwrap()
            .remove(0);
        let encrypted = ec2.encryption(&copy.id).await.unwrap();
        assert!(matches!(encrypted, Some(Encryption::By(_))));
        let plain = ec2.encryption(&snapshot).await.unwrap();
        assert_eq!(plain, Some(Encryption::None));
    });
}

#[test]
fn a_volume_gets_a_snapshot_of_the_drives_and_stays_as_it_is() {
    let site = paper();
    let volume = old_volume(&site, "old");
    let mounted = PaperSuperblock::mounted(*b"0123456789abcdef");
    site.local().write(volume.as_str(), mounted).unwrap();
    plant(&site, Fault::answer_lost("CreateSnapshot"));
    let adopted = traced(&site, &["adopt", volume.as_str(), "demo"]);
    adopted
        .is(0)
        .reports("trying again")
        .reports(&format!("demo is a copy of {volume}"));
    assert_eq!(count(&adopted, "CreateSnapshot"), 1);
    for call in ["DeleteVolume", "AttachVolume", "DeleteSnapshot"] {
        assert_eq!(count(&adopted, call), 0, "{call}");
    }
    assert_eq!(tags_of_volume(&site, &volume), name_tag("old"));
    assert_eq!(site.kinds("demo"), ["snapshot"]);
    // It was taken from its host by force, which only the look into its copy shows.
    let copies = in_the_cloud(&site, async |ec2| {
        ec2.snapshots(&"demo".parse().unwrap()).await.unwrap()
    });
    assert_eq!(copies[0].tags["xdrive:kind"], "crashed");
    // One that was stopped before the look is looked into by the same again.
    site.run(&["adopt", volume.as_str(), "demo"])
        .is(0)
        .reports(&format!("demo is a copy of {volume}"));
    assert_eq!(site.kinds("demo"), ["snapshot"]);
}

#[test]
fn a_snapshot_without_ext4_is_refused_before_its_copy_and_a_volume_after_it() {
    let site = paper();
    let volume = old_volume(&site, "old");
    let snapshot = old_snapshot(&site, &volume, "old");
    let refused = traced(&site, &["adopt", snapshot.as_str(), "demo"]);
    refused
        .is(2)
        .reports(&format!("{snapshot} holds nothing at its beginning"));
    assert_eq!(count(&refused, "CopySnapshot"), 0);
    assert!(site.kinds("demo").is_empty());
    site.run(&["adopt", volume.as_str(), "demo"])
        .is(2)
        .reports(&format!("{volume} holds nothing at its beginning"))
        .reports("delete demo deletes the copy that was made");
    assert_eq!(site.kinds("demo"), ["snapshot"]);
    site.run(&["delete", "demo", "--yes"]).is(0);
    assert_eq!(tags_of_volume(&site, &volume), name_tag("old"));
    assert_eq!(tags_of_snapshot(&site, &snapshot), name_tag("old"));
}

#[test]
fn without_the_right_to_look_it_is_said_that_nobody_looked() {
    let site = paper();
    let volume = old_volume(&site, "old");
    let snapshot = old_snapshot(&site, &volume, "old");
    let fault = Fault {
        times: 1000,
        ..Fault::new(
            "ListSnapshotBlocks",
            403,
            "AccessDeniedException",
            "not you",
        )
    };
    plant(&site, fault);
    site.run(&["adopt", snapshot.as_str(), "demo"])
        .is(0)
        .reports("whether it holds an ext4 was not looked into")
        .reports("connect demo goes on from generation 1");
}

#[test]
fn missing_resources_and_those_of_a_drive_are_not_adopted() {
    let site = paper();
    for missing in ["snap-0123456789abcdef0", "vol-0123456789abcdef0"] {
        site.run(&["adopt", missing, "demo"])
            .is(69)
            .reports(&format!("there is no {missing} in us-east-1"));
    }
    site.run(&["adopt", "demo", "new"])
        .is(2)
        .reports("neither a snapshot's id (snap-…) nor a volume's (vol-…)");
    let own = with_snapshot(&site, &[("Name", "lab"), ("xdrive:drive", "lab")]);
    site.run(&["adopt", own.as_str(), "new"])
        .is(2)
        .reports(&format!("{own} is of the drive lab already"))
        .reports("fork lab@1 new");
    let volume = old_volume(&site, "old");
    site.local().write(volume.as_str(), ext4()).unwrap();
    site.run(&["adopt", volume.as_str(), "lab"])
        .is(2)
        .reports("there is a drive lab already");
    assert_eq!(site.kinds("lab"), ["snapshot"]);
    assert!(site.kinds("new").is_empty());
}

#[test]
fn no_empty_drive_begins_where_an_old_one_has_its_name() {
    let site = paper();
    let image = site.image();
    let connect = |flags: &[&str]| {
        let words = ["connect", "demo", "--image", &image, "--dry-run"];
        site.run(&[&words, flags, &["--", "true"]].concat())
    };
    connect(&[]).is(0);
    let volume = old_volume(&site, "demo");
    let refused = |id: &str| {
        connect(&[])
            .is(2)
            .reports("there is no drive demo, but the ")
            .reports(&format!("adopt {id} demo makes the drive of a copy"))
            .reports("connect demo --from empty begins an empty one");
    };
    refused(volume.as_str());
    connect(&["--from", "empty"]).is(0);
    let other = old_volume(&site, "another");
    let snapshot = old_snapshot(&site, &other, "demo");
    refused(volume.as_str());
    in_the_cloud(&site, async |ec2| {
        let renamed = [("Name".to_owned(), "elsewhere".to_owned())].into();
        ec2.tag(volume.as_str(), &renamed).await.unwrap();
    });
    refused(snapshot.as_str());
    // Once there is the drive, its name is nobody else's.
    site.local().write(other.as_str(), ext4()).unwrap();
    site.run(&["adopt", other.as_str(), "demo"]).is(0);
    connect(&[]).is(0);
}

/// Does `what` with the file of a volume; while nothing is attached, the disks are not mounted.
fn with_disk<T>(site: &Site, id: &VolumeId, what: impl FnOnce(&Path) -> T) -> T {
    let [folder, store] = ["disks", "disks.xfs"].map(|name| site.dir().join(name));
    let is_stored = store.exists();
    if is_stored {
        let mut mount = Command::new("mount");
        done(mount.args(["-o", "loop"]).args([&store, &folder]));
    }
    let result = what(&folder.join(format!("{id}.img")));
    if is_stored {
        done(Command::new("umount").arg(&folder));
    }
    result
}

fn done(command: &mut Command) -> String {
    let ended = command.output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    String::from_utf8(ended.stdout).unwrap()
}

fn checksum(site: &Site, id: &VolumeId) -> String {
    with_disk(site, id, |disk| done(Command::new("sha256sum").arg(disk)))
}

/// Formats the volume, as it would be elsewhere, with a Docker's store and files on it.
fn fill(site: &Site, id: &VolumeId) {
    let folder = site.path("old");
    for (path, text) in [
        ("docker/overlay2/0123/diff/etc/old", "of an old image\n"),
        ("docker/image/overlay2/repositories.json", "{}\n"),
        ("work/notes", "an old note\n"),
        ("data/one two", "spaced\n"),
        (".hidden", "hidden\n"),
    ] {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let mut make = Command::new("mke2fs");
    make.args(["-q", "-F", "-t", "ext4", "-d"]).arg(&folder);
    with_disk(site, id, |disk| done(make.arg(disk)));
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn the_files_of_an_old_volume_and_of_its_snapshot_are_at_v1_and_the_originals_stay() {
    let site = Site::new();
    let volume = old_volume(&site, "demo");
    fill(&site, &volume);
    let snapshot = old_snapshot(&site, &volume, "demo");
    let before = checksum(&site, &volume);
    site.session("demo", &["true"])
        .is(2)
        .reports(&format!("adopt {volume} demo"));

    site.run(&["adopt", volume.as_str(), "demo"]).is(0);
    // They are there before anything was laid out.
    for path in ["demo:v1/work/notes", "demo:/v1/work/notes"] {
        let shown = site.run(&["cat", path]);
        assert_eq!(shown.is(0).stdout, "an old note\n", "{path}");
    }
    site.run(&["ls", "demo:"]).is(0).prints(" v1/\n");
    let look = "set -e; cd /v1; cat work/notes 'data/one two' .hidden; \
                cat docker/overlay2/0123/diff/etc/old docker/image/overlay2/repositories.json; \
                echo more >>work/notes; ls -A /work";
    let seen = site.session("demo", &["sh", "-c", look]);
    assert_eq!(
        seen.is(0).stdout,
        "an old note\nspaced\nhidden\nof an old image\n{}\nv1\n"
    );
    site.is_saved("demo", 2);
    let again = site.run(&["connect", "demo", "--", "cat", "/v1/work/notes"]);
    assert_eq!(again.is(0).stdout, "an old note\nmore\n");
    site.is_saved("demo", 3);
    let asleep = site.run(&["cat", "demo:/v1/work/notes"]);
    assert_eq!(asleep.is(0).stdout, "an old note\nmore\n");

    site.run(&["adopt", snapshot.as_str(), "other"]).is(0);
    let other = site.session("other", &["cat", "/v1/work/notes"]);
    assert_eq!(other.is(0).stdout, "an old note\n");
    site.is_saved("other", 2);

    assert_eq!(checksum(&site, &volume), before);
    assert_eq!(tags_of_volume(&site, &volume), name_tag("demo"));
    assert_eq!(tags_of_snapshot(&site, &snapshot), name_tag("demo"));
}
