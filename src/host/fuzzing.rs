//! The output of a host's scripts, as a fuzzer makes it up.

use jiff::Timestamp;

use super::client_lock::{HostEvent, Role};
use super::closed::CloseReport;
use super::contact::{HostState, Mounted, Remaining};
use super::facts::{Facts, STILL_MOUNTED};
use super::logs::Frames;
use super::mount::MountedDrive;
use super::on_record::{ContainerState, OnRecord};
use super::ports::Listener;
use super::pull::{Pulled, Refused};
use super::runs::Run;
use crate::ids::{MAIN, VolumeId};
use crate::ssh::Output;

/// Exit codes of the scripts.
const STATUSES: [u32; 16] = [0, 0, 0, 0, 1, 80, 81, 82, 83, 84, 85, 86, 87, 89, 90, 92];

/// Reads the input as the output of a script: its exit code's place, standard output, and behind a
/// NUL standard error. Returns the texts in it that may be shown.
pub(crate) fn facts(input: &[u8]) -> Vec<String> {
    let Some((status, rest)) = input.split_first() else {
        return Vec::new();
    };
    let mut parts = rest.splitn(2, |byte| *byte == 0);
    let output = Output {
        status: STATUSES[usize::from(*status) % STATUSES.len()],
        stdout: parts.next().unwrap_or_default().to_vec(),
        stderr: parts.next().unwrap_or_default().to_vec(),
    };
    let facts = match Facts::read("x", &output, &[STILL_MOUNTED]) {
        Ok(facts) => facts,
        Err(error) => {
            let words = String::from_utf8_lossy(&output.stderr).into_owned();
            // What is recognised in them is only told apart.
            let _ = Refused::from_error(&words);
            return vec![error.to_string(), words];
        }
    };
    let mut texts = Vec::new();
    if let Ok(report) = CloseReport::read(&facts) {
        let closed = report.closed();
        assert_eq!(closed.is_none(), !report.unmounted && !report.frozen);
        texts.extend(report.commands.iter().map(ToString::to_string));
        texts.extend(report.silent.iter().map(ToString::to_string));
        texts.extend(report.why);
        volume(report.whole.as_ref());
    }
    if let Ok(state) = HostState::read(&facts) {
        if let Mounted::Volume(id) | Mounted::Frozen(id) = &state.mounted {
            volume(Some(id));
        }
        volume(state.whole.as_ref());
        for (role, line) in &state.clients {
            let client = format!("{} {line}", role.name());
            assert_eq!(Role::parse(&client), Some((*role, line.clone())));
        }
        texts.extend(state.clients.into_iter().map(|(_, line)| line));
        texts.extend(state.closing.into_iter().chain(state.attached));
        texts.extend(state.notice.map(|(action, at)| format!("{action} {at}")));
    }
    if let Ok(drive) = MountedDrive::read(&facts) {
        let uuid = drive.uuid.to_string();
        assert_eq!(uuid.parse(), Ok(drive.uuid), "{uuid}");
        if let Some(room) = drive.room {
            let _ = (room.lacks_bytes(), room.lacks_inodes());
        }
        texts.extend(drive.source);
    }
    if let Ok(remaining) = Remaining::read(&facts) {
        texts.extend(remaining.attached.into_iter().chain(remaining.closing));
    }
    texts.extend(
        facts
            .timings()
            .into_iter()
            .map(|(step, took)| format!("{step} {took:?}")),
    );
    texts.extend(facts.all("listed").filter_map(on_record));
    texts.extend(facts.all("event").filter_map(event));
    for listeners in facts.all("listening").filter_map(Listener::parse) {
        for it in &listeners {
            for text in it.addresses.iter().chain([&it.program]) {
                assert!(text.chars().all(|c| matches!(c, ' '..='~')), "{text:?}");
            }
            texts.push(it.name().to_owned());
        }
    }
    let _ = facts.get("pulled").map(str::parse::<Pulled>);
    frames(&output.stderr);
    texts
}

/// An id that came from outside: it is part of commands.
fn volume(id: Option<&VolumeId>) {
    if let Some(id) = id {
        let text = id.to_string();
        let is_safe = |c: char| c.is_ascii_alphanumeric() || c == '-';
        assert!(
            text.starts_with("vol-") && text.chars().all(is_safe),
            "{text:?}"
        );
    }
}

fn on_record(fact: &str) -> Option<String> {
    let found = OnRecord::parse(fact)?;
    let state = match found.state {
        ContainerState::Running => "running",
        ContainerState::Stopped => "stopped",
        ContainerState::Gone | ContainerState::Asleep => "gone",
    };
    let name = found.name.as_ref().map_or(MAIN, |name| name.as_str());
    assert_eq!(format!("{state} {name} {}", found.source), fact);
    Some(found.source)
}

fn event(text: &str) -> Option<String> {
    let found = HostEvent::parse(text)?;
    Some(match &found {
        HostEvent::Notice { action, at } => {
            let again = HostEvent::parse(&format!("notice {action} {at}"));
            assert_eq!(again.as_ref(), Some(&found));
            action.clone()
        }
        HostEvent::Rebalance { at } => at.to_string(),
        HostEvent::Closing(why) => why.clone(),
        HostEvent::Freeze(frozen) => frozen.to_string(),
        HostEvent::IdleGpu(time) => format!("{time:?}"),
        HostEvent::Unmounted => "unmounted".to_owned(),
    })
}

/// Frames are the same however they are split.
fn frames(stream: &[u8]) {
    let read = |size: usize| {
        let (mut frames, mut count) = (Frames::default(), 0);
        for data in stream.chunks(size) {
            frames.arrived(data);
            loop {
                match frames.next() {
                    Ok(Some(_)) => count += 1,
                    Ok(None) => break,
                    Err(_) => return (count, false),
                }
            }
        }
        (count, true)
    };
    assert_eq!(read(7), read(stream.len().max(1)));
}

/// Reads the input as the record of a run. Returns the texts in it that are shown.
pub(crate) fn runs(input: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(input);
    let Some(run) = Run::parse(&text) else {
        return Vec::new();
    };
    let written = serde_json::to_string(&run).expect("a run can be written");
    let again = Run::parse(&written).expect("a run is read again");
    // Numbers of many digits are read to the last but one.
    let is_near = |one: f64, other: f64| (one - other).abs() <= one.abs() * 1e-12;
    let ended = run.ended.zip(again.ended);
    assert!(is_near(run.began, again.began), "{written}");
    assert!(ended.is_none_or(|it| is_near(it.0, it.1)), "{written}");
    let (began, is_ended) = (run.began, run.ended.is_some());
    let again = Run {
        began,
        ended: run.ended.filter(|_| again.ended.is_some() == is_ended),
        ..again
    };
    assert_eq!(again, run, "{written}");
    let moments = [Timestamp::UNIX_EPOCH, Timestamp::MAX, Timestamp::MIN];
    for now in moments.into_iter().chain([run.began_at()]) {
        assert!(!run.is_lost || run.length(now) == 0);
        let _ = run.length(now);
    }
    if let Some(id) = run.command_id() {
        assert!(id.as_str().bytes().all(|it| it.is_ascii_hexdigit()));
        assert_eq!(id.as_str(), run.id);
    }
    if let Some(name) = run.container_name() {
        assert_eq!(name.as_str(), run.container);
    }
    let _ = run.runs();
    vec![run.id, run.command, run.container, run.last]
}
