use super::*;

fn line(kind: &'static str, id: &str, generation: Option<u64>) -> Row {
    Row {
        kind,
        id: id.to_owned(),
        state: "completed",
        detail: String::new(),
        gib: Some(8),
        generation,
        since: String::new(),
        billed: true,
        used: false,
        is_thrown_away: false,
        dollars_a_month: None,
        dollars_an_hour: None,
    }
}

#[test]
fn only_what_was_used_is_being_saved_while_its_instance_ends() {
    let ending = Row {
        billed: false,
        ..line(INSTANCE, "i-1", None)
    };
    let state = |used| {
        let volume = Row {
            used,
            ..line(VOLUME, "vol-1", Some(3))
        };
        let mut entry = Entry {
            things: vec![ending.clone(), volume],
            ..Entry::default()
        };
        entry.sum_up();
        entry.state
    };
    assert_eq!(state(true), "saving");
    assert_eq!(state(false), "volume", "made for a launch that is undone");
}

#[test]
fn a_failed_snapshot_saves_nothing_unless_a_whole_one_has_as_much() {
    let state = |snapshots: &[(&'static str, &str, u64)]| {
        let things = snapshots.iter().map(|(state, kind, generation)| Row {
            state,
            detail: (*kind).to_owned(),
            ..line(SNAPSHOT, "snap-1", Some(*generation))
        });
        let mut entry = Entry {
            drive: "demo".to_owned(),
            things: things.collect(),
            ..Entry::default()
        };
        entry.sum_up();
        entry.advise("xdrive");
        assert_eq!(entry.advice.is_some(), entry.state == "failed");
        entry.state
    };
    let (error, whole) = (("error", "clean", 2), ("completed", "clean", 1));
    assert_eq!(state(&[error]), "failed");
    assert_eq!(state(&[error, whole]), "failed");
    assert_eq!(state(&[error, ("completed", "checkpoint", 2)]), "failed");
    assert_eq!(state(&[error, ("completed", "crashed", 2)]), "saved");
    assert_eq!(state(&[whole, ("error", "checkpoint", 1)]), "saved");
    assert_eq!(state(&[whole]), "saved");
}

#[test]
fn the_newest_generation_comes_first_among_snapshots() {
    let mut entry = Entry {
        things: vec![
            line(VOLUME, "vol-5", Some(1)),
            line(SNAPSHOT, "snap-odd", None),
            line(SNAPSHOT, "snap-9", Some(9)),
            line(SNAPSHOT, "snap-10", Some(10)),
        ],
        ..Entry::default()
    };
    entry.sum_up();
    let ids: Vec<_> = entry.things.iter().map(|line| line.id.as_str()).collect();
    assert_eq!(ids, ["vol-5", "snap-10", "snap-9", "snap-odd"]);
}

#[test]
fn a_drive_of_which_only_a_throwaway_volume_is_in_use_is_not_running() {
    let thrown = Row {
        is_thrown_away: true,
        ..line(INSTANCE, "i-1", None)
    };
    let state = |things: &[Row]| {
        let mut entry = Entry {
            things: things.to_vec(),
            ..Entry::default()
        };
        entry.sum_up();
        (entry.state, entry.generation)
    };
    let volume = line(THROWAWAY, "vol-1", None);
    let snapshot = line(SNAPSHOT, "snap-1", Some(3));
    let all = [thrown.clone(), volume.clone(), snapshot.clone()];
    assert_eq!(state(&all), ("throwaway", 3));
    assert_eq!(state(&[volume, snapshot]), ("saved", 3));
    assert_eq!(
        state(&[line(INSTANCE, "i-2", None), thrown]),
        ("running", 0)
    );
}

#[test]
fn rows_have_the_committed_schema() {
    let (title, description) = ("xdrive list --json", "Every drive.");
    crate::report::schema::check::<Vec<Entry>>("list", title, description);
}
