//! The tags of an account's resources, as a fuzzer makes them up: what was read and is written again
//! reads back as the same.

use jiff::Timestamp;

use super::pools::Requirements;
use super::tags::{
    self, Carried, Identity, Leaving, OWN_MOST, Record, Settings, SnapshotTags, VolumeTags,
    read_snapshot, read_volume,
};
use crate::ec2::Tags;
use crate::ids::{DriveName, SessionId};

/// The keys that tags are given by number; others are text.
const KEYS: [&str; 34] = [
    "Name",
    "xdrive:session",
    "xdrive:disk",
    "xdrive:kind",
    "xdrive:op",
    "xdrive:drive",
    "xdrive:owner",
    "xdrive:host-key",
    "xdrive:until",
    "xdrive:blank",
    "xdrive:formatted",
    "xdrive:uuid",
    "xdrive:base",
    "xdrive:generation",
    "xdrive:number",
    "xdrive:ami",
    "xdrive:arch",
    "xdrive:deleting",
    "xdrive:renaming",
    "xdrive:scratch",
    "xdrive:forked-from",
    "xdrive:host",
    "xdrive:since",
    "xdrive:price",
    "xdrive:note",
    "xdrive:image",
    "xdrive:type",
    "xdrive:size",
    "xdrive:throughput",
    "xdrive:iops",
    "xdrive:warm",
    "xdrive:discard",
    "aws:x",
    "team",
];

/// The tags of an input: a line each, `KEY=VALUE`, where a key may be one letter for one of [`KEYS`].
fn given(input: &[u8]) -> Tags {
    let text = String::from_utf8_lossy(input);
    let lines = text.split('\n').filter_map(|line| line.split_once('='));
    let known = |key: &str| {
        let letter = key.bytes().next().filter(|_| key.len() == 1)?;
        KEYS.get(usize::from(letter.wrapping_sub(b'A')))
    };
    lines
        .map(|(key, value)| (known(key).map_or(key, |it| it).to_owned(), value.to_owned()))
        .collect()
}

/// Reads the input as the tags of a volume, of a snapshot and of an instance.
pub(crate) fn read(input: &[u8]) {
    let given = given(input);
    let who = Identity::new(tags::session(&given), tags::owner(&given).to_owned());
    let drive = tags::drive(&given);
    let settings = settings(&given);
    let name = || {
        drive
            .clone()
            .unwrap_or_else(|| "demo".parse().expect("a name"))
    };
    volume(&given, &name(), &who, &settings);
    snapshot(&given, &name(), &who, &settings);
    let record = Record::read(&given);
    // The time is written to the second.
    let written = Record::read(&record.tags());
    assert_eq!(Record::read(&written.tags()), written);
    let same = |it: &Record| (it.host.clone(), it.price, it.note.clone());
    assert_eq!(same(&record), same(&written));
    for end in [Timestamp::MIN, Timestamp::MAX, Timestamp::UNIX_EPOCH] {
        let cost = record.dollars(end);
        assert!(
            cost.is_none_or(|it| it.is_finite() && it >= 0.0),
            "{cost:?}"
        );
    }
    if let Some((kind, _, zone)) = record.pool() {
        let is_safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
        let (kind, zone) = (kind.chars(), zone.0.chars());
        assert!(kind.chain(zone).all(is_safe), "{:?}", record.host);
    }
    let note = record.note.map(|it| it.to_string());
    let is_line = |it: &String| !it.chars().any(char::is_control) && it.chars().count() <= 256;
    assert!(note.as_ref().is_none_or(is_line), "{note:?}");
    if let Some(until) = tags::until(&given) {
        let again = tags::until(&tags::lease(until)).expect("a lease reads back");
        assert!(
            again.duration_since(until).abs().as_secs() < 1,
            "{until} {again}"
        );
        assert!(
            again <= until,
            "a lease lasts longer than it was: {until} {again}"
        );
    }
    if let Some(Leaving::Renamed(to)) = Leaving::read(&given) {
        let again = Leaving::read(&Leaving::Renamed(to.clone()).tags(&who));
        assert_eq!(again, Some(Leaving::Renamed(to)));
    }
    if let Some(name) = &drive {
        let text = name.as_str();
        let is_safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
        assert!(text.len() <= 64 && text.chars().all(is_safe), "{text:?}");
    }
    let _ = (
        tags::forked_from(&given),
        tags::newest([&given].into_iter(), |it| it),
    );
}

fn settings(given: &Tags) -> Settings {
    let settings = Settings::read(given);
    assert_eq!(Settings::read(&settings.tags()), settings);
    assert!(
        settings.own_tags().len() <= OWN_MOST,
        "too many tags of its own"
    );
    assert_eq!(settings.over(&settings), settings);
    if let Ok(Some(image)) = settings.image() {
        let text = image.to_string();
        let is_path = text.starts_with(['/', '.', '~', '-', '@'])
            || text.split(['/', ':']).any(|it| it == "..");
        assert!(
            !is_path && text.bytes().all(|it| it.is_ascii_graphic()),
            "{text:?}"
        );
        assert_eq!(
            Settings::new(Some(&text), None, None).image(),
            Ok(Some(image))
        );
    }
    if let Ok(Some(requirements)) = settings.requirements() {
        let text = requirements.to_string();
        assert_eq!(text.parse::<Requirements>(), Ok(requirements), "{text:?}");
    }
    if let Ok(Some(arch)) = settings.arch() {
        let again = Settings::read(&tags::arch(arch)).arch();
        assert_eq!(again, Ok(Some(arch)));
    }
    if let Ok(speed) = settings.speed() {
        let again = Settings::default().with_speed(speed);
        assert_eq!(again.speed(), Ok(speed));
    }
    let _ = settings.size();
    settings
}

fn volume(given: &Tags, drive: &DriveName, who: &Identity, settings: &Settings) {
    match read_volume(given) {
        Ok(VolumeTags::Drive {
            base,
            generation,
            blank,
            uuid,
            ..
        }) => {
            assert!(generation >= base, "a generation is less than its base");
            let mut written = tags::volume(drive, who, base, blank, uuid, &settings.clone().into());
            written.extend(tags::raised(who, generation));
            let expected = VolumeTags::Drive {
                base,
                generation,
                blank,
                formatted: false,
                uuid,
                session: who.session.clone(),
            };
            assert_eq!(read_volume(&written), Ok(expected));
            assert_eq!(Settings::read(&written), *settings);
        }
        Ok(VolumeTags::Throwaway {
            base,
            uuid,
            session,
        }) => {
            let none = Carried::default();
            let mut written = tags::volume(drive, who, base, false, uuid, &none);
            written.extend(tags::throwaway(&session));
            let expected = VolumeTags::Throwaway {
                base,
                uuid,
                session,
            };
            assert_eq!(read_volume(&written), Ok(expected));
        }
        Ok(VolumeTags::Root) => assert_eq!(given.get(tags::DISK).map(String::as_str), Some("root")),
        Err(error) => assert!(!error.problem.is_empty()),
    }
    let none = Identity {
        session: SessionId(String::new()),
        ..who.clone()
    };
    assert_eq!(tags::session(&tags::claim(&none)).0, "");
}

fn snapshot(given: &Tags, drive: &DriveName, who: &Identity, settings: &Settings) {
    let Ok(own) = read_snapshot(given) else {
        return;
    };
    let written = tags::snapshot(drive, who, &own, &settings.clone().into());
    assert_eq!(
        read_snapshot(&written).as_ref(),
        Ok::<&SnapshotTags, _>(&own)
    );
    assert_eq!(Settings::read(&written), *settings);
    assert_eq!(tags::drive(&written).as_ref(), Some(drive));
}
