//! Freezing and thawing beside bare criu: the seconds for each GiB of a program's memory.
//!
//! xdrive's side is a run that its host's scripts freeze and have go on, as the end of one session and the
//! beginning of the next do. The other is the same program on the same host, outside of the container:
//! `criu dump` to the same disk and a sync of that, and `criu restore`. Both take turns, and both read
//! images that are still in the host's memory.

use std::fmt;

use anyhow::{Context as _, ensure};
use tokio::process::Command;

use harness::bench::program::succeeded;
use harness::bench::{Program, Spread};

/// How often each is measured.
const TIMES: usize = 5;
/// The memory of the program, in GiB.
const GIB: u32 = 1;
/// How many times as long as bare criu each of xdrive's scripts may take.
const GOAL: f64 = 1.5;
const DRIVE: &str = "frozen";

/// The seconds for each GiB of (criu, xdrive), time by time: to freeze, and to thaw.
#[derive(Default)]
pub(crate) struct Freezes([Vec<(f64, f64)>; 2]);

/// A host with the same program twice: in its container, and outside.
struct Host {
    ssh: Vec<String>,
}

/// Begins a run, and compares the two on its host.
pub(crate) async fn measure(program: &Program) -> anyhow::Result<Freezes> {
    let held = format!("m = bytearray(b'x') * ({GIB} << 30)");
    let script = format!("import time; {held}; open('/tmp/frozen-here', 'w'); time.sleep(1e9)");
    let mut run = program.command();
    run.args(["run", DRIVE, "-d", "--freeze", "--no-jupyter", "--"]);
    succeeded(run.args(["python3", "-c", &script]).output().await?)?;
    let host = Host {
        ssh: program.ssh(DRIVE).await?,
    };
    host.begin(&script).await?;
    let mut measured = Freezes::default();
    for time in 0..TIMES {
        let sides = if time % 2 == 0 {
            let bare = host.bare().await?;
            [bare, host.scripts().await?]
        } else {
            let scripts = host.scripts().await?;
            [host.bare().await?, scripts]
        };
        for (row, (bare, own)) in measured
            .0
            .iter_mut()
            .zip(sides[0].into_iter().zip(sides[1]))
        {
            row.push((bare / f64::from(GIB), own / f64::from(GIB)));
        }
        eprintln!("time {} of {TIMES}: criu and xdrive {sides:.2?}", time + 1);
    }
    succeeded(program.command().args(["stop", DRIVE]).output().await?)?;
    Ok(measured)
}

impl Host {
    /// Begins the program outside of the container; returns once both have their memory.
    async fn begin(&self, script: &str) -> anyhow::Result<()> {
        let begin = format!(
            "mkdir /v1/bare; echo \"{script}\" >/v1/bare.py; \
             setsid python3 /v1/bare.py </dev/null >/dev/null 2>&1 & \
             root=$(docker inspect --format /proc/{{{{.State.Pid}}}}/root xdrive-{DRIVE}); \
             for i in $(seq 600); do [ -e /tmp/frozen-here ] && [ -e $root/tmp/frozen-here ] && exit 0; \
             sleep 0.1; done; exit 1"
        );
        self.sh(&begin).await.map(drop)
    }

    /// The seconds of criu's dump, synced, and of its restore.
    async fn bare(&self) -> anyhow::Result<[f64; 2]> {
        let criu = "cd /var/lib/xdrive/criu; criu() { verb=$1; shift; ./ld.so --library-path lib --argv0 criu ./criu \
                    $verb -D /v1/bare -o $verb.log --shell-job --no-default-config --libdir $PWD/plugins \
                    --manage-cgroups=ignore $@ >&2 || { tail -n 5 /v1/bare/*.log >&2; false; }; }";
        let freeze = format!("{criu}; criu dump -t $(pgrep -f '[/]v1/bare.py') && sync -f /v1");
        let thaw = format!("{criu}; criu restore -d");
        let frozen = self.timed(&freeze).await?;
        // A machine of `--local` may set no clocks.
        self.sh("rm /v1/bare/timens-0.img").await?;
        let thawed = self.timed(&thaw).await?;
        self.sh("rm -r /v1/bare/*").await?;
        Ok([frozen, thawed])
    }

    /// The seconds of xdrive's scripts.
    async fn scripts(&self) -> anyhow::Result<[f64; 2]> {
        let script = |words: &str, word: &str| {
            format!("python3 -I -S /var/lib/xdrive/scripts/*/{words} | grep '{word}=' >&2")
        };
        let freeze = self.timed(&script("freeze.py all 100", "froze")).await?;
        let next = "g=$(sed -n 's/^generation=//p' /run/xdrive/volume); pkill -9 -f '[c]ommand.py'; \
                    rm -rf /run/xdrive/commands /var/lib/xdrive/commands; \
                    sed -i \"s/^generation=.*/generation=$((g + 1))/\" /run/xdrive/volume";
        self.sh(next).await?;
        let thaw = self.timed(&script("command.py thaw", "thawed")).await?;
        Ok([freeze, thaw])
    }

    /// The seconds that a script takes on the host.
    async fn timed(&self, script: &str) -> anyhow::Result<f64> {
        let timed = format!("b=$(date +%s%N); {{ {script}; }} && echo $(($(date +%s%N) - b))");
        let nanoseconds: f64 = self.sh(&timed).await?.trim().parse()?;
        Ok(nanoseconds / 1e9)
    }

    async fn sh(&self, script: &str) -> anyhow::Result<String> {
        let mut ssh = Command::new(&self.ssh[0]);
        let output = ssh.args(&self.ssh[1..]).arg(script).output().await?;
        ensure!(output.status.success(), "{script}: {output:?}");
        String::from_utf8(output.stdout).context("no text")
    }
}

impl fmt::Display for Freezes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\na program with {GIB} GiB: seconds for each GiB, medians of {TIMES} times (lowest to highest)\n\n\
             {:<34} {:>20} {:>20} {:>20} {:>12}",
            "", "criu", "xdrive", "ratio", "goal"
        )?;
        for (name, row) in ["freeze", "thaw"].into_iter().zip(&self.0) {
            let of = |value: fn(&(f64, f64)) -> f64| Spread::from_values(row.iter().map(value));
            let ratio = of(|(bare, own)| own / bare);
            writeln!(
                f,
                "{name:<34} {:>20} {:>20} {:>20} {:>12}",
                of(|(bare, _)| *bare),
                of(|(_, own)| *own),
                ratio,
                ratio.against(GOAL),
            )?;
        }
        Ok(())
    }
}
