//! Tags are parsed as they were written, and invalid ones are not skipped.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::*;
use crate::drive::CopySource;
use crate::ec2::Tags;
use crate::ids::{DriveName, Generation, SessionId, Uuid};

fn who() -> Identity {
    Identity::new(SessionId("s1".into()), "arn:aws:iam::1:user/me".into())
}

fn demo() -> DriveName {
    "demo".parse().unwrap()
}

#[test]
fn a_new_volume_reads_back_as_it_was_written() {
    let settings = Settings::new(Some("jupyter"), None, Some(8));
    let uuid = Uuid::from_bytes(*b"0123456789abcdef");
    let carried = settings.clone().into();
    let tags = volume(&demo(), &who(), Generation(4), false, Some(uuid), &carried);
    assert_eq!(
        read_volume(&tags),
        Ok(VolumeTags::Drive {
            base: Generation(4),
            generation: Generation(4),
            blank: false,
            formatted: false,
            uuid: Some(uuid),
            session: SessionId("s1".into()),
        })
    );
    assert_eq!(Settings::read(&tags), settings);
}

#[test]
fn every_thing_of_a_drive_says_whose_it_is() {
    let op = SnapshotTags {
        generation: Generation(1),
        kind: SnapshotKind::Clean,
        op: "o".into(),
        uuid: None,
        number: 0,
    };
    for tags in [
        instance(&demo(), &who(), "ssh-ed25519 AAAA", Timestamp::UNIX_EPOCH),
        root(&demo(), &who()),
        volume(
            &demo(),
            &who(),
            Generation::EMPTY,
            true,
            None,
            &Carried::default(),
        ),
        snapshot(&demo(), &who(), &op, &Carried::default()),
    ] {
        for (key, value) in [(NAME, "demo"), (DRIVE, "demo"), (SESSION, "s1")] {
            assert_eq!(tags.get(key).map(String::as_str), Some(value));
        }
        assert_eq!(owner(&tags), who().owner);
    }
}

#[test]
fn a_lease_reads_back_to_the_second() {
    let until: Timestamp = "2026-03-01T10:20:30.7Z".parse().unwrap();
    let read = super::until(&lease(until)).unwrap();
    assert!(
        read <= until && until.duration_since(read).as_secs() == 0,
        "{read}"
    );
    assert_eq!(
        super::until(&Tags::from([(UNTIL.into(), "soon".into())])),
        None
    );
}

#[test]
fn a_root_disk_is_never_taken_for_the_drive() {
    assert_eq!(read_volume(&root(&demo(), &who())), Ok(VolumeTags::Root));
}

#[test]
fn tags_that_make_no_sense_are_not_skipped() {
    let mut tags = volume(
        &demo(),
        &who(),
        Generation(4),
        false,
        None,
        &Carried::default(),
    );
    tags.insert(GENERATION.into(), "3".into());
    assert_eq!(read_volume(&tags).unwrap_err().tag, GENERATION);
    tags.insert(GENERATION.into(), "many".into());
    assert_eq!(read_volume(&tags).unwrap_err().tag, GENERATION);
    tags.insert(UUID.into(), "mine".into());
    tags.insert(GENERATION.into(), "4".into());
    assert_eq!(read_volume(&tags).unwrap_err().tag, UUID);
    tags.remove(BASE);
    assert_eq!(read_volume(&tags).unwrap_err().tag, BASE);
    assert_eq!(read_snapshot(&Tags::new()).unwrap_err().tag, KIND);
}

#[test]
fn a_snapshot_reads_back_as_it_was_written() {
    for kind in [
        SnapshotKind::Clean,
        SnapshotKind::Crashed,
        SnapshotKind::Checkpoint,
    ] {
        let own = SnapshotTags {
            generation: Generation(9),
            kind,
            op: "abc".into(),
            uuid: Some(Uuid::from_bytes([7; 16])),
            number: u32::from(kind == SnapshotKind::Checkpoint),
        };
        let tags = snapshot(&demo(), &who(), &own, &Carried::default());
        assert_eq!(read_snapshot(&tags), Ok(own));
    }
}

#[test]
fn an_adopted_snapshot_is_generation_1_without_the_tags_of_the_original() {
    let source: CopySource = "vol-1".parse().unwrap();
    let (own, tags) = adopt(&source, SnapshotKind::Crashed);
    assert_eq!(read_snapshot(&tags), Ok(own.clone()));
    assert_eq!(
        (own.generation, own.kind),
        (Generation(1), SnapshotKind::Crashed)
    );
    assert_eq!(forked_from(&tags), Some("vol-1"));
    let again = adopt(&source, SnapshotKind::Clean).0;
    assert_eq!(again.op, own.op);
    let other = adopt(&"snap-1".parse().unwrap(), SnapshotKind::Clean).0;
    assert_ne!(other.op, own.op);
    "demo".parse::<CopySource>().unwrap_err();
}

#[test]
fn a_throwaway_volume_is_never_taken_for_one_of_the_drive_nor_the_other_way() {
    let carried = Carried::default();
    let made = |blank| volume(&demo(), &who(), Generation(4), blank, None, &carried);
    let mut thrown = made(false);
    thrown.extend(throwaway(&who().session));
    assert_eq!(
        read_volume(&thrown),
        Ok(VolumeTags::Throwaway {
            base: Generation(4),
            uuid: None,
            session: SessionId("s1".into()),
        })
    );
    // Whoever claims it does not make it their own.
    let other = Identity {
        session: SessionId("s2".into()),
        ..who()
    };
    thrown.extend(claim(&other));
    assert_eq!(thrown_away_by(&thrown), Some(SessionId("s1".into())));
    assert_eq!(newest([thrown.clone()].iter(), |tags| tags), None);
    // A volume that was used, or made empty, is never skipped as one.
    thrown.extend(raised(&who(), Generation(5)));
    assert_eq!(read_volume(&thrown).unwrap_err().tag, DISCARD);
    let mut blank = made(true);
    blank.extend(throwaway(&who().session));
    assert_eq!(read_volume(&blank).unwrap_err().tag, DISCARD);
}

#[test]
fn no_value_of_a_tag_is_a_file_of_this_computer() {
    const IMAGE: &str = "xdrive:image";
    let read = |value: &str| Settings::read(&[(IMAGE.to_owned(), value.to_owned())].into());
    for value in [
        "/home/ada/.aws/credentials",
        "./image.tar",
        "~/.ssh/id_ed25519",
        "../x",
        "image.tar",
        "project/Dockerfile",
        "a;id",
        "",
    ] {
        let error = read(value).image().unwrap_err();
        assert_eq!(error.tag, IMAGE);
        // Nor does it go on to the drive's next volume.
        assert_eq!(read(value).tags()[IMAGE], "@file");
        let typed = Settings::new(Some(value), None, None);
        assert_eq!(typed.tags()[IMAGE], "@file", "a path is nobody else's");
    }
    let named = Settings::new(Some("ghcr.io/team/tools:v2"), None, None);
    assert_eq!(Settings::read(&named.tags()), named);
    let image = named.image().unwrap().unwrap();
    assert_eq!(image.as_str(), "ghcr.io/team/tools:v2");
    assert_eq!(Settings::default().image(), Ok(None));
}

#[test]
fn invalid_names_and_origins_in_tags_are_not_read() {
    let tags = |key: &str, value: &str| Tags::from([(key.to_owned(), value.to_owned())]);
    assert_eq!(drive(&tags(DRIVE, "demo")), Some(demo()));
    for value in ["demo;id", "$(id)", "-x", "a\nb", "\u{1b}[2J", ""] {
        assert_eq!(drive(&tags(DRIVE, value)), None);
        let began = tags(FORKED_FROM, value);
        assert_eq!((forked_from(&began), is_copy(&began)), (None, true));
    }
    for value in ["demo@3", "demo", "snap-1", "vol-1"] {
        assert_eq!(forked_from(&tags(FORKED_FROM, value)), Some(value));
    }
}

#[test]
fn tags_of_the_accounts_own_travel_with_the_settings_as_far_as_there_is_room() {
    let given = |from: usize, to: usize| -> Tags {
        let each = (from..to).map(|n| (format!("own-{n:02}"), "x".to_owned()));
        each.collect()
    };
    let mut tags = given(0, 3);
    for (key, value) in [
        ("Name", "demo"),
        ("xdrive:image", "jupyter"),
        ("aws:backup:source-resource", "vol-1"),
        ("xdrive:generation", "4"),
    ] {
        tags.insert(key.to_owned(), value.to_owned());
    }
    let settings = Settings::read(&tags);
    assert_eq!(settings.own_tags(), given(0, 3));
    assert_eq!(settings.tags()["xdrive:image"], "jupyter");
    // What is typed or configured goes before what the drive has.
    let more = settings.clone().with_own(&given(2, 2 + OWN_MOST - 1));
    assert_eq!(more.own_tags().len(), OWN_MOST);
    assert!(more.own_tags().contains_key("own-00") && !more.own_tags().contains_key("own-01"));
    assert_eq!(more.tags()["xdrive:image"], "jupyter");
    let other = Settings::default().with_own(&Tags::from([("own-00".into(), "y".into())]));
    assert_eq!(other.over(&settings).own_tags()["own-00"], "y");
    assert_eq!(other.over(&settings).own_tags().len(), 3);
    assert_eq!(Settings::read(&given(0, 40)).own_tags(), given(0, OWN_MOST));
}

/// The keys of xdrive's tags that the source of this room and of the calls names.
pub(super) fn keys_in_source() -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    let top = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut folders = vec![top.join("drive"), top.join("ec2")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(path).unwrap();
            let named = text.split("\"xdrive:").skip(1);
            let named = named.filter_map(|rest| rest.split('"').next());
            let is_key = |key: &&str| {
                !key.is_empty() && key.bytes().all(|it| it.is_ascii_lowercase() || it == b'-')
            };
            keys.extend(named.filter(is_key).map(|key| format!("xdrive:{key}")));
        }
    }
    keys
}

#[test]
fn the_accounts_own_tags_and_all_of_xdrives_are_no_more_than_a_resource_may_have() {
    // Of instances, root disks, dry runs and shares alone, and of what a worker begins with, which has nothing
    // of a run; of snapshots, and of volumes.
    let tried = concat!("xdrive:", "try");
    let share = concat!("xdrive:", "share");
    let elsewhere = [HOST_KEY, UNTIL, DISK, tried, share, WORKER_OF];
    for others in [
        &[KIND, OP, NUMBER, DELETING, RENAMING][..],
        &[BASE, BLANK, FORMATTED, DISCARD],
    ] {
        let mut keys = keys_in_source();
        keys.retain(|key| !elsewhere.contains(&key.as_str()) && !others.contains(&key.as_str()));
        // All of those, though nothing has all, and the name.
        let own = keys.len() + 1;
        assert!(own > 25, "{keys:?}");
        assert!(own + OWN_MOST <= 50, "{own} of xdrive's");
    }
}
