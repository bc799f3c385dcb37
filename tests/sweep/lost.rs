//! A run that loses its line and its laptops at seeded moments, and whose output arrives whole all
//! the same.
//!
//! It prints numbered lines until it is asked to end. Meanwhile the network is cut without a word,
//! for a second to ten minutes, or xdrive is killed and another laptop attaches. A client that gave
//! up attaches again. What any client has printed is the beginning of the one whole output; the last
//! client has all of it, and the run's exit code.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use harness::pace::Pace;

use crate::host::Host;
use crate::running::{Ended, Running};
use crate::site::Site;

/// How long a whole sweep goes on.
const HOUR: Duration = Duration::from_hours(1);
/// How long a session may take to the run's first line, on a busy machine.
const BEGUN: Duration = Duration::from_mins(2);
/// The longest cut.
const LONGEST: Duration = Duration::from_mins(10);
/// How long clients of the EC2 in a folder reconnect; those of AWS do so for [`LONGEST`].
const GRACE: Duration = Duration::from_mins(1);
/// The exit code of a client that gave up.
const DISCONNECTED: i32 = 255;
/// A cut lasts for up to 2 to the power of less than this, in seconds; the second is for a bounded
/// sweep.
const POWERS: [usize; 2] = [11, 4];

const DRIVE: &str = "lost";
const LINE: &str = "of the lines that a training prints into its log";
const OVER: &str = "over\n";
const EXIT: i32 = 9;

/// A run, and the laptop that is attached to it.
struct Attached {
    site: Site,
    laptop: usize,
    client: Running,
    /// Whether it was cut off for so long that it may have given up. It still tries to save, and ends
    /// later.
    may_give_up: bool,
}

pub(crate) fn line_and_laptops(pace: &mut Pace) -> anyhow::Result<()> {
    println!("trouble: seconds, lines that had arrived before it");
    let mut attached = Attached::begin()?;
    let began = Instant::now();
    let all = pace.count(usize::MAX);
    let mut taken = 0;
    while taken < all && began.elapsed() < HOUR {
        pace.check()?;
        sleep(Duration::from_millis(500 + pace.random(5000) as u64));
        let lines = arrived(&attached.client.printed(), false)?;
        if pace.random(4) == 0 {
            attached.lose_laptop()?;
            println!("laptop       {lines:8}");
        } else {
            let [long, short] = POWERS;
            let power = pace.random(if pace.is_long() { long } else { short });
            let length = Duration::from_millis(1000 + pace.random(1000 << power) as u64);
            attached.cut(length.min(LONGEST))?;
            println!("line  {:6.1} {lines:8}", length.min(LONGEST).as_secs_f64());
        }
        taken += 1;
    }
    let (laptops, lines) = attached.end()?;
    println!(
        "{taken} troubles in {:.0} s, {laptops} laptops, {lines} lines: whole",
        began.elapsed().as_secs_f64()
    );
    Ok(())
}

impl Attached {
    fn begin() -> anyhow::Result<Self> {
        let site = Site::new(false)?;
        let image = site.image("small.tar")?;
        let print = format!(
            "n=0; until [ -e /work/end ]; do n=$((n+1)); echo \"$n {LINE}\"; sleep 0.1; done; \
             printf '{OVER}'; exit {EXIT}"
        );
        let words = ["run", DRIVE, "--no-jupyter", "--image", &image, "--"];
        let client = site.laptop("laptop-1", &[&words[..], &["sh", "-c", &print]].concat())?;
        let mut attached = Self {
            site,
            laptop: 1,
            client,
            may_give_up: false,
        };
        attached.see_a_line()?;
        Ok(attached)
    }

    fn see_a_line(&mut self) -> anyhow::Result<()> {
        let began = Instant::now();
        while !self.client.printed().contains('\n') {
            let reported = || self.client.reported();
            ensure!(
                began.elapsed() < BEGUN,
                "nothing is printed:\n{}",
                reported()
            );
            sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Kills xdrive, and attaches from a laptop that was never here.
    fn lose_laptop(&mut self) -> anyhow::Result<()> {
        self.laptop += 1;
        self.client.kill()?;
        self.attach().map(drop)
    }

    /// Attaches with a new client; returns the end of the one before.
    fn attach(&mut self) -> anyhow::Result<Ended> {
        let home = format!("laptop-{}", self.laptop);
        let next = self.site.laptop(&home, &["attach", DRIVE])?;
        let before = std::mem::replace(&mut self.client, next).end()?;
        self.may_give_up = false;
        arrived(&before.stdout, false).with_context(|| before.stderr.clone())?;
        self.see_a_line()?;
        Ok(before)
    }

    /// Drops all packets for so long. Neither end learns of it. A client may give up then.
    fn cut(&mut self, length: Duration) -> anyhow::Result<()> {
        let host = Host::find(&self.site)?;
        let rules = |what| {
            format!(
                "iptables -w -{what} INPUT ! -i lo -j DROP && \
                 iptables -w -{what} OUTPUT ! -o lo -j DROP"
            )
        };
        host.run(&rules("I"))?;
        sleep(length);
        host.run(&rules("D"))?;
        self.may_give_up |= length > GRACE;
        if self.client.is_over()? {
            let may_give_up = self.may_give_up;
            let Ended { code, stderr, .. } = self.attach()?;
            let gave_up = may_give_up && code == DISCONNECTED;
            ensure!(gave_up, "a client ended with {code}:\n{stderr}");
        }
        Ok(())
    }

    /// Ends the run; the number of laptops, and of lines.
    fn end(mut self) -> anyhow::Result<(usize, usize)> {
        if self.may_give_up {
            self.lose_laptop()?;
        }
        Host::find(&self.site)?.run("touch /v1/work/end")?;
        let Ended {
            code,
            stdout,
            stderr,
            ..
        } = self.client.end()?;
        ensure!(code == EXIT, "it ended with {code}:\n{stderr}");
        let lines = arrived(&stdout, true).context(stderr)?;
        let left = self.site.left()?;
        ensure!(left.is_empty(), "left: {}", left.join("\n"));
        Ok((self.laptop, lines))
    }
}

/// Checks that `printed` is the beginning of the run's output, or all of it if `is_whole`; the number
/// of its whole lines.
fn arrived(printed: &str, is_whole: bool) -> anyhow::Result<usize> {
    let printed = match printed.strip_suffix(OVER) {
        Some(lines) => lines,
        None if is_whole => anyhow::bail!("its end is missing"),
        None => printed,
    };
    let mut number = 0;
    let mut rest = printed;
    while let Some((line, after)) = rest.split_once('\n') {
        number += 1;
        let due = format!("{number} {LINE}");
        ensure!(line == due, "line {number} is {line:?}");
        rest = after;
    }
    let due = format!("{} {LINE}", number + 1);
    ensure!(due.starts_with(rest), "line {} is {rest:?}", number + 1);
    ensure!(!is_whole || rest.is_empty(), "its last line is cut off");
    Ok(number)
}
