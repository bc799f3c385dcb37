//! The points of a session at which it can be killed, from xdrive's own trace.
//!
//! A *point* is the end of a call to AWS or of a host's script, a finished step in such a script's
//! report, or the middle of either. Points have the same names in every run: changes are counted
//! (`CreateTags#2 answered`), and a call that only looks is named after the last change before it
//! (`DescribeVolumes after RunInstances#1`), once, since between two changes every such kill has
//! the same effect.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustix::process::{Signal, getpid, kill_process};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// The moment of a kill: at this point, or so long after it.
#[derive(Debug, Clone)]
pub(crate) struct Kill {
    pub(crate) point: String,
    pub(crate) after: Duration,
}

/// A point that a session passed.
#[derive(Debug, Clone)]
pub(crate) struct Passed {
    pub(crate) name: String,
    /// Since the trace began.
    pub(crate) at: Duration,
}

/// Records every point, and kills this process at one.
pub(crate) struct Points {
    began: Instant,
    kill: Option<Kill>,
    state: Mutex<State>,
}

struct State {
    file: File,
    last_change: String,
    counts: BTreeMap<String, u32>,
    passed: Vec<String>,
}

impl Points {
    pub(crate) fn new(file: &Path, kill: Option<Kill>) -> std::io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(file)?;
        Ok(Self {
            began: Instant::now(),
            kill,
            state: Mutex::new(State {
                file,
                last_change: "the start".to_owned(),
                counts: BTreeMap::new(),
                passed: Vec::new(),
            }),
        })
    }

    fn pass(&self, traced: &TraceEvent) {
        let mut state = self.state.lock().unwrap();
        let Some(name) = state.name(traced) else {
            return;
        };
        let line = format!("{}\t{name}\n", self.began.elapsed().as_micros());
        state.file.write_all(line.as_bytes()).unwrap();
        if let Some(kill) = &self.kill
            && kill.point == name
        {
            let after = kill.after;
            if after.is_zero() {
                die();
            }
            std::thread::spawn(move || {
                std::thread::sleep(after);
                die();
            });
        }
    }
}

impl State {
    /// The point's name; `None` if the event is no point, or was passed already.
    fn name(&mut self, traced: &TraceEvent) -> Option<String> {
        let TraceEvent { what, event, fact } = traced;
        if is_look(what) {
            let name = format!("{what} after {}", self.last_change);
            let is_new = event != "sending" && event != "received" && !self.passed.contains(&name);
            return is_new.then(|| {
                self.passed.push(name.clone());
                name
            });
        }
        if event == "sending" {
            *self.counts.entry(what.clone()).or_default() += 1;
        }
        let count = self.counts.get(what).copied().unwrap_or_default();
        self.last_change = format!("{what}#{count}");
        let fact = fact.split('=').next().unwrap_or_default();
        let phase = match event.as_str() {
            "sending" => "during",
            "received" if fact.starts_with("ms.") || fact == "attached" => fact,
            "received" => return None,
            ended => ended,
        };
        Some(format!("{what}#{count} {phase}"))
    }
}

/// Whether a call or script changes nothing.
fn is_look(what: &str) -> bool {
    what.starts_with("Describe")
        || ["GetCallerIdentity", "session contact", "session attached"].contains(&what)
}

fn die() {
    kill_process(getpid(), Signal::KILL).unwrap();
    // The signal is on its way; nothing may happen meanwhile.
    loop {
        std::thread::park();
    }
}

/// The points in a trace.
pub(crate) fn read(file: &Path) -> anyhow::Result<Vec<Passed>> {
    let mut all = Vec::new();
    for line in std::fs::read_to_string(file)?.lines() {
        if let Some((micros, name)) = line.split_once('\t') {
            all.push(Passed {
                name: name.to_owned(),
                at: Duration::from_micros(micros.parse()?),
            });
        }
    }
    Ok(all)
}

/// How long after `passed[index]` its middle is; zero if it has none.
pub(crate) fn middle(passed: &[Passed], index: usize) -> Duration {
    /// The longest pause after which no middle is taken.
    const LONGEST: Duration = Duration::from_millis(500);
    let begun = &passed[index];
    let Some(what) = begun.name.strip_suffix(" during") else {
        return Duration::ZERO;
    };
    let ended = passed[index..].iter().find(|later| {
        later.name == format!("{what} answered") || later.name == format!("{what} ended")
    });
    let took = ended.map_or(LONGEST, |ended| ended.at.saturating_sub(begun.at));
    (took / 2).clamp(Duration::from_micros(1), LONGEST)
}

/// An event of the trace, parsed.
#[derive(Default)]
struct TraceEvent {
    what: String,
    event: String,
    fact: String,
}

impl Visit for TraceEvent {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "call" | "script" => value.clone_into(&mut self.what),
            _ => {}
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.event = format!("{value:?}"),
            "fact" => self.fact = format!("{value:?}"),
            _ => {}
        }
    }
}

impl<S: Subscriber> Layer<S> for Points {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        if ["xdrive::ec2", "xdrive::host"].contains(&event.metadata().target()) {
            let mut traced = TraceEvent::default();
            event.record(&mut traced);
            if !traced.what.is_empty() {
                self.pass(&traced);
            }
        }
    }
}
