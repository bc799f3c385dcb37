//! The round trips to its host that a session waits for, step by step: the cost of a far laptop.
//!
//! EC2's own are not counted, and a login counts with its TCP connection. Nothing is timed: the
//! relay between the two counts, and its round trip is longer than either side's work.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use portable_pty::CommandBuilder;

use super::terminal::{has_prompt, wait};
use harness::home::environment;
use harness::{Distance, Far, Pty, program};

/// The name of the measurement's directory, below the benchmark's.
pub(crate) const NAME: &str = "trips";
const DRIVE: &str = "bench";
const ROUND_TRIP: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_mins(3);

/// Each step, and the round trips until its end.
pub(crate) struct Trips {
    what: &'static str,
    steps: Vec<(String, usize)>,
}

/// A laptop and its EC2.
struct Laptop {
    dir: PathBuf,
    far: Far,
    environment: [(&'static str, String); 5],
}

/// From Enter to the prompt of a drive that was left running.
pub(crate) async fn prompt(top: &Path) -> anyhow::Result<Trips> {
    let laptop = Laptop::new(top)?;
    // Its container is made in the first session.
    let mut pty = laptop.connect(None);
    wait(&mut pty, LONGEST, "prompt", |pty| has_prompt(pty)).await?;
    pty.type_in("\r~d");
    wait(&mut pty, LONGEST, "end", |pty| pty.exit_code().is_some()).await?;

    laptop.far.moves(at(ROUND_TRIP));
    let log = laptop.dir.join("log");
    let before = laptop.far.round_trips();
    let mut pty = laptop.connect(Some(&log));
    let mut steps: Vec<(String, usize)> = Vec::new();
    wait(&mut pty, LONGEST, "prompt", |pty| {
        let until = laptop.far.round_trips() - before;
        for step in logged(&log) {
            // Of a step that is done twice in parallel the first counts.
            if !steps.iter().any(|(known, _)| *known == step) {
                steps.push((step, until));
            }
        }
        has_prompt(pty)
    })
    .await?;
    steps.push(("the prompt".to_owned(), laptop.far.round_trips() - before));
    laptop.far.moves(at(Duration::ZERO));
    pty.type_in("exit\r");
    wait(&mut pty, LONGEST, "end", |pty| pty.exit_code().is_some()).await?;
    Ok(Trips {
        what: "from Enter to the prompt on a running host",
        steps,
    })
}

impl Laptop {
    fn new(top: &Path) -> anyhow::Result<Self> {
        let dir = top.join(NAME);
        let home = dir.join("home");
        std::fs::create_dir_all(&home)?;
        Ok(Self {
            far: Far::new(at(Duration::ZERO)),
            environment: environment(&home, &dir.join("ec2")),
            dir,
        })
    }

    /// A session in a terminal, with its log of the host's scripts in `log`, if given.
    fn connect(&self, log: Option<&PathBuf>) -> Pty {
        let [enter, net] = self.far.words();
        let mut command = CommandBuilder::new(enter);
        command.env_clear();
        for (name, value) in &self.environment {
            command.env(name, value);
        }
        let log = log.map_or("/dev/null".into(), |log| log.display().to_string());
        command.env("XDRIVE_LOG", "xdrive::host=debug");
        command.env("NO_COLOR", "1");
        let connect = "exec \"$0\" --local connect \"$1\" 2> \"$2\"";
        command.args([&net, "sh", "-c", connect]);
        command.arg(program());
        command.args([DRIVE, &log]);
        Pty::start(command)
    }
}

fn at(round_trip: Duration) -> Distance {
    Distance {
        round_trip,
        up: None,
    }
}

/// The finished steps in xdrive's log.
fn logged(log: &PathBuf) -> Vec<String> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines = text.lines();
    let steps = lines.filter_map(|line| line.split_once("xdrive::host: "));
    // The relay accepts at once: what TCP costs is in the login.
    steps
        .filter(|(_, step)| !step.starts_with("sending") && !step.starts_with("reached"))
        .map(|(_, step)| {
            let (what, script) = step.split_once(" script=").unwrap_or((step, ""));
            let script = script.split(" status=").next().unwrap_or_default();
            format!("{} {what}", script.trim_matches('"'))
                .trim()
                .to_owned()
        })
        .collect()
}

impl fmt::Display for Trips {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\nround trips {}: costs, and until then\n", self.what)?;
        let mut last = 0;
        for (step, until) in &self.steps {
            writeln!(f, "{step:<32} {:>3} {until:>3}", until - last)?;
            last = *until;
        }
        Ok(())
    }
}
