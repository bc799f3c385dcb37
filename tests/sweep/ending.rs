//! The endings of a busy day's sessions, and how each is brought about.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use rustix::process::Signal;

use crate::cut::Switch;
use crate::host::Host;
use crate::journal::{READ, WRITE, Writer, acknowledged};
use crate::running::{Ended, Running};
use crate::site::Site;
use harness::pace::Pace;

/// The error of a session whose host has closed by itself.
const LEASE_ENDED: &str = "error: the host closed the drive: the lease ended";

/// The shortest lease, for `--keep`.
const KEEP: &str = "10s";
/// By when a host with that lease has mostly closed.
const CLOSED: Duration = Duration::from_secs(25);
/// By when a container is mostly remade.
const REMADE: Duration = Duration::from_secs(5);
/// How long a session may take to its first lines of output.
const BEGUN: Duration = Duration::from_mins(2);
/// The separator between the lines that a session found and those it writes.
const FOUND: &str = "==\n";
/// At how many layers a container that is remade here is flattened.
const MOST_LAYERS: usize = 6;
/// Prints the layers of the container's image, all images, and the journal's lines in the container
/// replaced last. (Without running that: it would be taken for the drive's.)
const LOOK: &str = "container=\"$(docker ps --quiet --filter label=xdrive.drive)\"
    image=\"$(docker inspect --format '{{.Image}}' \"$container\")\"
    docker inspect --format '{{len .RootFS.Layers}}' \"$image\"
    docker images --all --quiet --no-trunc | sort -u | wc -l
    image=\"$(docker images --quiet xdrive/replaced | head -n 1)\"
    [ -n \"$image\" ] || exit 0
    layers='{{.GraphDriver.Data.UpperDir}}:{{.GraphDriver.Data.LowerDir}}'
    for layer in $(docker inspect --format \"$layers\" \"$image\" | tr : ' '); do
        [ ! -e \"$layer/journal\" ] || { wc -l <\"$layer/journal\"; exit; }
    done";

/// How a session ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ending {
    /// By itself, with this code.
    Exit(u8),
    /// By itself, after a checkpoint.
    Checkpoint,
    /// By SIGTERM, at any moment.
    Terminated,
    /// By SIGKILL, at any moment.
    Killed,
    /// By a notice from EC2, and the end that it announced.
    Notice,
    /// By a power cut of the host; the laptop may go with it.
    Cut,
    /// A second laptop joins, and one of them is the last to leave.
    Joined,
    /// The laptop sleeps for longer than the lease, or for about as long.
    Asleep,
    /// By SIGKILL; then the container is made anew with another environment.
    Remade,
    /// By SIGKILL; then the container is made anew, and the power is cut meanwhile.
    CutRemaking,
}

impl Ending {
    /// The endings, each as often as it shall come among these.
    pub(crate) const DECK: [Self; 13] = [
        Self::Exit(0),
        Self::Exit(7),
        Self::Checkpoint,
        Self::Terminated,
        Self::Killed,
        Self::Killed,
        Self::Notice,
        Self::Cut,
        Self::Joined,
        Self::Joined,
        Self::Asleep,
        Self::Remade,
        Self::CutRemaking,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Exit(0) => "exit",
            Self::Exit(_) => "exit 7",
            Self::Checkpoint => "checkpoint",
            Self::Terminated => "terminated",
            Self::Killed => "killed",
            Self::Notice => "notice",
            Self::Cut => "power cut",
            Self::Joined => "joined",
            Self::Asleep => "asleep",
            Self::Remade => "remade",
            Self::CutRemaking => "cut remade",
        }
    }

    /// Whether the session always reaches its first line.
    pub(crate) fn is_inside(self) -> bool {
        !matches!(self, Self::Terminated | Self::Killed)
    }

    /// Whether it always saves the drive.
    fn saves(self) -> bool {
        matches!(
            self,
            Self::Exit(_) | Self::Checkpoint | Self::Notice | Self::Joined
        )
    }
}

/// A session to be ended so.
pub(crate) struct Session<'a> {
    pub(crate) site: &'a Site,
    pub(crate) drive: &'a str,
    /// The tag of its lines.
    pub(crate) tag: String,
    pub(crate) ending: Ending,
    /// The other image, if the session gets one.
    pub(crate) image: Option<String>,
    /// How long undisturbed sessions take.
    pub(crate) usual: Duration,
}

/// The result of a session.
pub(crate) struct SessionRecord {
    /// The session's output before it wrote; `None` if it did not get so far.
    pub(crate) found: Option<String>,
    /// The writers.
    pub(crate) writers: Vec<Writer>,
    pub(crate) code: i32,
    pub(crate) stderr: String,
    pub(crate) took: Duration,
    /// Whether the drive is saved, by the output or by the ending.
    pub(crate) is_saved: bool,
    /// Whether it reported that the drive is as it was before.
    pub(crate) is_undone: bool,
    /// The findings on the host.
    pub(crate) seen: Option<Seen>,
}

/// Docker's images on the drive.
#[derive(Debug)]
pub(crate) struct Seen {
    /// The layers of the container's image.
    pub(crate) layers: usize,
    pub(crate) images: usize,
    /// How many journal lines the layer replaced last has.
    pub(crate) replaced: usize,
}

impl Session<'_> {
    /// Runs it, ends it, and reports.
    pub(crate) fn run(&self, pace: &mut Pace) -> anyhow::Result<SessionRecord> {
        let lines = 2 + pace.random(6);
        let busy = if self.ending == Ending::Cut && pace.random(2) == 0 {
            "busy"
        } else {
            ""
        };
        let leaves_first = pace.random(2) == 0;
        let pause = pace.random(1500);
        let script = format!(
            "{READ}; echo ==; {WRITE}; {}",
            self.then(leaves_first, pause)
        );
        let numbers = numbers(lines);
        let command = ["sh", "-c", &script, &self.tag, &numbers, busy];
        let mut lead = self
            .site
            .start_from("home", &self.flags(), self.drive, &command, None)?;
        let mut seen = None;
        let mut guest = None;
        let mut printed = None;
        match self.ending {
            Ending::Exit(_) | Ending::Checkpoint => {}
            Ending::Terminated | Ending::Killed => {
                let signal = match self.ending {
                    Ending::Killed => Signal::KILL,
                    _ => Signal::TERM,
                };
                self.after_a_while(&mut lead, pace)?;
                // A session that is over already was not ended.
                if !lead.is_over()? {
                    lead.signal(signal)?;
                }
            }
            Ending::Notice => {
                seen = Some(self.wait_inside(&mut lead, 1 + pace.random(lines))?);
                let seconds = 5 + pace.random(30);
                self.site.interrupt(Duration::from_secs(seconds as u64))?;
            }
            Ending::Cut => {
                let mut switch = Switch::new(self.site)?;
                seen = Some(self.wait_inside(&mut lead, 1 + pace.random(lines))?);
                printed = Some(lead.printed());
                switch.flip()?;
                if pace.random(2) == 0 {
                    lead.kill()?;
                }
            }
            Ending::Joined => {
                seen = Some(self.wait_inside(&mut lead, 1)?);
                guest = Some(self.join(!leaves_first, pause)?);
            }
            Ending::Asleep => {
                seen = Some(self.wait_inside(&mut lead, lines)?);
                lead.signal(Signal::STOP)?;
                std::thread::sleep(at_random(CLOSED, pace));
                lead.signal(if pace.random(2) == 0 {
                    Signal::KILL
                } else {
                    Signal::CONT
                })?;
            }
            Ending::Remade => {
                self.wait_inside(&mut lead, lines)?;
                lead.kill()?;
                self.remake(&Host::find(self.site)?)?;
                seen = Some(self.look()?);
            }
            Ending::CutRemaking => {
                let mut switch = Switch::new(self.site)?;
                seen = Some(self.wait_inside(&mut lead, lines)?);
                lead.kill()?;
                let (host, moment) = (Host::find(self.site)?, at_random(REMADE, pace));
                std::thread::scope(|scope| {
                    // Its error about a host that is gone does not matter.
                    scope.spawn(|| self.remake(&host).ok());
                    std::thread::sleep(moment);
                    switch.flip()
                })?;
            }
        }
        let guest = guest.map(Running::end).transpose()?;
        let mut ended = lead.end()?;
        // An `fsync` acknowledged after the power cut does not count.
        if let Some(printed) = printed {
            ended.stdout = printed;
        }
        self.record(&ended, guest.as_ref(), seen)
    }

    fn record(
        &self,
        lead: &Ended,
        guest: Option<&Ended>,
        seen: Option<Seen>,
    ) -> anyhow::Result<SessionRecord> {
        let output = || format!("{}\n{}\n{}", lead.code, lead.stdout, lead.stderr);
        if let Some(guest) = guest {
            ensure!(guest.code == 0, "the guest: {guest:?}\nbeside {}", output());
        }
        let codes: &[i32] = match self.ending {
            Ending::Exit(code) => &[i32::from(code)],
            Ending::Checkpoint | Ending::Joined => &[0],
            Ending::Terminated => &[143, 0],
            // The host of a session that slept may close as this one comes.
            Ending::Killed if lead.stderr.contains(LEASE_ENDED) => &[255],
            Ending::Killed => &[137, 0],
            Ending::Remade | Ending::CutRemaking => &[137],
            // 75 for a session that EC2 ended; 255 if the host was gone before its notice arrived.
            Ending::Notice => &[75, 255],
            // It may wake up in time; else it may learn of its command's end before the host's.
            Ending::Asleep => &[137, 255, 143, 0],
            Ending::Cut => &[],
        };
        ensure!(
            codes.is_empty() || codes.contains(&lead.code),
            "expected one of {codes:?}: {}",
            output()
        );
        let (found, wrote) = match lead.stdout.split_once(FOUND) {
            Some((found, wrote)) => (Some(found.to_owned()), wrote),
            None => (None, ""),
        };
        ensure!(
            found.is_some() || !self.ending.is_inside(),
            "never inside: {}",
            output()
        );
        let mut writers = vec![Writer {
            tag: self.tag.clone(),
            acknowledged: acknowledged(wrote),
        }];
        writers.extend(guest.map(|guest| Writer {
            tag: self.guest(),
            acknowledged: acknowledged(&guest.stdout),
        }));
        let stderr = match guest {
            Some(guest) => format!("{}\nthe guest:\n{}", lead.stderr, guest.stderr),
            None => lead.stderr.clone(),
        };
        let is_undone = stderr.contains("cancelled: ");
        let is_saved = self.ending.saves() || stderr.contains(" is saved: its snapshot (snap-");
        // A session that gets its signal before it handles any ends as any program does, without
        // output.
        ensure!(
            self.ending != Ending::Terminated || is_saved || is_undone || stderr.is_empty(),
            "asked to end, and it does not say how: {}",
            output()
        );
        Ok(SessionRecord {
            found,
            writers,
            code: lead.code,
            took: lead
                .took
                .max(guest.map_or(Duration::ZERO, |guest| guest.took)),
            is_saved,
            is_undone,
            stderr,
            seen,
        })
    }

    fn flags(&self) -> Vec<&str> {
        let mut flags = Vec::new();
        if let Some(image) = &self.image {
            flags.extend(["--image", image]);
        }
        match self.ending {
            Ending::Checkpoint => flags.extend(["--checkpoint", "15s"]),
            Ending::Asleep => flags.extend(["--keep", KEEP]),
            _ => {}
        }
        flags
    }

    fn guest(&self) -> String {
        format!("{}-guest", self.tag)
    }

    /// The session's script after it has written its lines.
    fn then(&self, leaves_first: bool, pause: usize) -> String {
        let tag = &self.tag;
        match self.ending {
            Ending::Exit(code) => format!("exit {code}"),
            Ending::Checkpoint => "sleep 17; exit 0".to_owned(),
            Ending::Terminated | Ending::Killed => "exit 0".to_owned(),
            Ending::Asleep => "sleep 30; exit 0".to_owned(),
            Ending::Joined => format!(
                "until [ -e /work/joined-{tag} ]; do sleep 0.1; done; {}",
                self.leave(leaves_first, pause)
            ),
            _ => "sleep 1000".to_owned(),
        }
    }

    /// The script of one of two that leave: the second so many milliseconds after the first.
    fn leave(&self, is_first: bool, pause: usize) -> String {
        let tag = &self.tag;
        if is_first {
            format!("touch /work/left-{tag}; exit 0")
        } else {
            format!(
                "until [ -e /work/left-{tag} ]; do sleep 0.1; done; sleep {}.{:03}; \
                 rm /work/left-{tag} /work/joined-{tag}; exit 0",
                pause / 1000,
                pause % 1000
            )
        }
    }

    fn join(&self, leaves_first: bool, pause: usize) -> anyhow::Result<Running> {
        let script = format!(
            "touch /work/joined-{}; {WRITE}; {}",
            self.tag,
            self.leave(leaves_first, pause)
        );
        let command = ["sh", "-c", &script, &self.guest(), &numbers(3)];
        self.site
            .start_from("other-home", &[], self.drive, &command, None)
    }

    /// Waits for a moment of the whole session, the save included, or for its end.
    fn after_a_while(&self, lead: &mut Running, pace: &mut Pace) -> anyhow::Result<()> {
        let moment = at_random(self.usual, pace);
        let began = Instant::now();
        while began.elapsed() < moment && !lead.is_over()? {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Waits for so many lines, and inspects the host.
    fn wait_inside(&self, lead: &mut Running, lines: usize) -> anyhow::Result<Seen> {
        let began = Instant::now();
        while acknowledged(&lead.printed()) < lines {
            ensure!(!lead.is_over()?, "it ended by itself: {}", lead.reported());
            ensure!(
                began.elapsed() < BEGUN,
                "it did not begin: {}",
                lead.reported()
            );
            std::thread::sleep(Duration::from_millis(1));
        }
        self.look()
    }

    fn look(&self) -> anyhow::Result<Seen> {
        let printed = Host::find(self.site)?.run(LOOK)?;
        let mut numbers = printed.lines().map(|line| line.trim().parse());
        let mut next = || numbers.next().transpose().context(printed.clone());
        Ok(Seen {
            layers: next()?.context("no layers")?,
            images: next()?.context("no images")?,
            replaced: next()?.unwrap_or_default(),
        })
    }

    /// Remakes the container with another environment on a host that was left behind, as a newer
    /// xdrive may; the next session changes it back.
    fn remake(&self, host: &Host) -> anyhow::Result<String> {
        host.run(&format!(
            "XDRIVE_NAME={} XDRIVE_ENVIRONMENT=DAY={} XDRIVE_MOST_LAYERS={MOST_LAYERS} \
             sh /var/lib/xdrive/watch/container start",
            self.drive, self.tag
        ))
    }
}

/// The most layers a container may have: the limit for flattening here, one more, and those that
/// the next session adds, which has the users' limit.
pub(crate) const LAYERS: usize = MOST_LAYERS + 2;

fn numbers(last: usize) -> String {
    let numbers: Vec<_> = (1..=last).map(|number| number.to_string()).collect();
    numbers.join(" ")
}

fn at_random(limit: Duration, pace: &mut Pace) -> Duration {
    let micros = usize::try_from(limit.as_micros()).unwrap_or(usize::MAX);
    Duration::from_micros(pace.random(micros) as u64)
}
