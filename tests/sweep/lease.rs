//! Hosts that lose their laptop: each switches itself off soon after its lease, and the drive is
//! safe.
//!
//! A session writes lines and goes on; then the client's sign of life ends, and more: the process
//! is stopped as by a sleeping laptop, the network is cut, dockerd or the watch is killed, the host
//! reboots. From then on the host is on its own.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use rustix::process::Signal;

use crate::host::Host;
use crate::jobs::side_by_side;
use crate::journal::{WRITE, acknowledged};
use crate::month::Month;
use crate::running::Running;
use crate::site::Site;
use harness::pace::Pace;

/// The lease, for `--keep`, and in seconds.
const KEEP: (&str, u64) = ("15s", 15);
/// The promise: by when a host is off.
const OFF_BY: Duration = Duration::from_secs(KEEP.1 + 6 * 60);
/// How long a session may take to its first lines of output.
const BEGUN: Duration = Duration::from_mins(2);

/// A trouble: its name, whether the laptop stops as well, and the script on the host.
struct Trouble {
    name: &'static str,
    /// Whether the laptop stops as well; else only the host's script runs.
    is_stopped: bool,
    on_the_host: &'static str,
    /// Whether only the last timer, minutes after the lease, ends the host.
    is_slow: bool,
}

/// The slow one first: the others happen beside it.
const TROUBLES: [Trouble; 6] = [
    Trouble {
        name: "watch gone",
        is_stopped: true,
        on_the_host: "systemctl disable --quiet --now xdrive-watch.service",
        is_slow: true,
    },
    Trouble {
        name: "laptop asleep",
        is_stopped: true,
        on_the_host: "true",
        is_slow: false,
    },
    Trouble {
        name: "network cut",
        is_stopped: false,
        on_the_host: "ip link set eth0 down",
        is_slow: false,
    },
    Trouble {
        name: "dockerd killed",
        is_stopped: true,
        on_the_host: "systemctl kill --signal=KILL docker.service",
        is_slow: false,
    },
    Trouble {
        name: "watch killed",
        is_stopped: true,
        on_the_host: "systemctl kill --signal=KILL xdrive-watch.service",
        is_slow: false,
    },
    Trouble {
        name: "host rebooted",
        is_stopped: true,
        on_the_host: "systemctl reboot",
        is_slow: false,
    },
];

pub(crate) fn without_a_laptop(pace: &mut Pace) -> anyhow::Result<()> {
    println!(
        "lease {} s; trouble: seconds until the host was off, lines kept",
        KEEP.1
    );
    let is_long = pace.is_long();
    let troubles = TROUBLES
        .iter()
        .filter(|trouble| is_long || !trouble.is_slow);
    let troubles = pace.choose(troubles.collect());
    let begin = || {
        let (site, mut month) = (Site::new(false)?, Month::new("month".to_owned()));
        month.reference_run(&site, &["1"])?;
        Ok((site, month))
    };
    side_by_side(pace, &troubles, begin, |(site, month), _, trouble| {
        let outcome = trouble
            .happen(site, month)
            .with_context(|| trouble.name.to_owned())?;
        println!("{:16} {outcome}", trouble.name);
        Ok(())
    })?;
    Ok(())
}

impl Trouble {
    fn happen(&self, site: &Site, month: &mut Month) -> anyhow::Result<String> {
        let tag = format!("{}-{}", self.name.replace(' ', "-"), month.lines());
        let script = format!("{WRITE}; sleep 1000");
        let command = ["sh", "-c", &script, &tag, "1 2 3"];
        let flags = ["--keep", KEEP.0];
        let mut client = site.start_with(&flags, &month.drive, &command, None)?;
        wait_for_lines(&mut client)?;
        // The laptop stops first, so that no sign of life follows the trouble.
        if self.is_stopped {
            client.signal(Signal::STOP)?;
        }
        Host::find(site)?.run(self.on_the_host)?;
        let began = Instant::now();
        while site.is_running()? {
            ensure!(began.elapsed() < OFF_BY, "the host is still on");
            std::thread::sleep(Duration::from_millis(100));
        }
        let off = began.elapsed();
        client.kill()?;
        let ended = client.end()?;
        month.recover(site, &tag, &ended)?;
        Ok(format!("{:6.1}  {}", off.as_secs_f64(), month.lines()))
    }
}

fn wait_for_lines(client: &mut Running) -> anyhow::Result<()> {
    let began = Instant::now();
    while acknowledged(&client.printed()) < 3 {
        ensure!(!client.is_over()?, "the session ended by itself");
        ensure!(began.elapsed() < BEGUN, "the session did not begin");
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}
