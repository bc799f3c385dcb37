//! Copies to the drive: `xdrive cp` beside the best of scp, sftp and rsync.
//!
//! xdrive's go into the container, as its users' do; the others' to the folder on the host that the
//! container has as `/work`. Nobody waits for the disk.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};

use super::compared::{Row, less};
use super::ends;
use harness::bench::Program;
use harness::bench::program::{SSH, succeeded};

pub(crate) const ROWS: [Row; 2] = [
    less("cp of 10 000 small files", "s", 0.5),
    less("cp of 1 GiB", "s", 1.0),
];

const FOLDERS: usize = 100;
const FILES: usize = 100;
const SMALL: u64 = 1 << 10;
const LARGE: u64 = 1 << 30;
/// The host's folder that the container has as `/work`.
const WORK: &str = "/v1/work";
/// Where the host has rsync, which it does not come with.
const RSYNC: &str = "/opt/rsync";

/// What is copied, and where to.
pub(crate) struct Copies {
    dir: PathBuf,
    drive: String,
    xdrive: Command,
    ssh: Vec<String>,
    rsync: String,
}

impl Copies {
    /// Makes the files in `top`, and takes rsync to the host.
    pub(crate) async fn new(top: &Path, program: &Program, drive: &str) -> anyhow::Result<Self> {
        let dir = top.join("copies");
        let random = File::open("/dev/urandom")?;
        for folder in 0..FOLDERS {
            let folder = dir.join(format!("many/{folder}"));
            fs::create_dir_all(&folder)?;
            for file in 0..FILES {
                let mut file = File::create(folder.join(file.to_string()))?;
                std::io::copy(&mut (&random).take(SMALL), &mut file)?;
            }
        }
        std::io::copy(
            &mut random.take(LARGE),
            &mut File::create(dir.join("large"))?,
        )?;
        let ssh = program.ssh(drive).await?;
        Ok(Self {
            dir,
            drive: drive.to_owned(),
            xdrive: program.command().into_std(),
            rsync: bring_rsync(&ssh)?,
            ssh,
        })
    }

    /// The seconds of each copy: xdrive's (0), or the shortest of the others.
    pub(crate) fn take(&mut self, side: usize) -> anyhow::Result<Vec<f64>> {
        ["many", "large"]
            .iter()
            .map(|what| {
                let mut ways = match side {
                    0 => vec![self.xdrive(what)],
                    _ => vec![self.scp(what), self.sftp(what)?, self.rsync(what)],
                };
                let times = ways.iter_mut().map(|way| {
                    let took = ends::run(way)?;
                    self.check(what)?;
                    Ok(took)
                });
                let times: anyhow::Result<Vec<f64>> = times.collect();
                Ok(times?.into_iter().fold(f64::INFINITY, f64::min))
            })
            .collect()
    }

    fn xdrive(&self, what: &str) -> Command {
        let mut command = Command::new(self.xdrive.get_program());
        command.args(self.xdrive.get_args());
        let set = |(name, value): (_, Option<_>)| Some((name, value?));
        command.envs(self.xdrive.get_envs().filter_map(set));
        command.args(["-q", "cp"]).arg(self.dir.join(what));
        command.arg(format!("{}:copied", self.drive));
        command
    }

    /// The flags of OpenSSH's tools, and the host.
    fn flags(&self) -> (&[String], &str) {
        let program = self.ssh.iter().position(|word| word == SSH);
        let flags = &self.ssh[program.map_or(0, |at| at + 1)..];
        flags
            .split_last()
            .map_or((flags, ""), |(host, flags)| (flags, host.as_str()))
    }

    fn scp(&self, what: &str) -> Command {
        let (flags, host) = self.flags();
        let mut command = Command::new("scp");
        command
            .args(flags)
            .args(["-q", "-r"])
            .arg(self.dir.join(what));
        command.arg(format!("{host}:{WORK}/copied"));
        command
    }

    fn sftp(&self, what: &str) -> anyhow::Result<Command> {
        let (flags, host) = self.flags();
        let batch = self.dir.join(format!("{what}.sftp"));
        let from = self.dir.join(what);
        fs::write(&batch, format!("put -r {} {WORK}/copied\n", from.display()))?;
        let mut command = Command::new("sftp");
        command.args(flags).arg("-q").arg("-b").arg(batch).arg(host);
        Ok(command)
    }

    fn rsync(&self, what: &str) -> Command {
        let (flags, host) = self.flags();
        let mut from = self.dir.join(what);
        if from.is_dir() {
            // Its content.
            from.push("");
        }
        let mut command = Command::new("rsync");
        command
            .arg("-a")
            .arg(format!("--rsh=ssh {}", flags.join(" ")));
        command
            .arg(format!("--rsync-path={}", self.rsync))
            .arg(from);
        command.arg(format!("{host}:{WORK}/copied"));
        command
    }

    /// Fails unless the copy is there and whole; removes it.
    fn check(&self, what: &str) -> anyhow::Result<()> {
        let expected = if what == "large" {
            LARGE
        } else {
            SMALL * (FOLDERS * FILES) as u64
        };
        let script = format!(
            "find {WORK}/copied -type f -printf '%s\\n' | awk '{{ n += $1 }} END {{ printf \"%d\", n }}'; \
             rm -r {WORK}/copied"
        );
        let output = Command::new(&self.ssh[0])
            .args(&self.ssh[1..])
            .arg(script)
            .output()?;
        let there = String::from_utf8(succeeded(output)?.stdout)?;
        ensure!(
            there == expected.to_string(),
            "{there} bytes arrived of {expected}"
        );
        Ok(())
    }
}

/// Takes this computer's rsync and its libraries to the host; the command that runs it there.
fn bring_rsync(ssh: &[String]) -> anyhow::Result<String> {
    let script = "set -e; file=$(command -v rsync); \
        libraries=$(ldd \"$file\" | grep -o '/[^ ]*'); \
        tar -c -h -f - \"$file\" $libraries 2>/dev/null; printf '%s\\n' $libraries >&2";
    let output = succeeded(Command::new("sh").args(["-c", script]).output()?)?;
    let libraries = String::from_utf8(output.stderr)?;
    let loader = libraries.lines().find(|line| line.contains("/ld-linux"));
    let loader = loader.context("rsync has no loader")?;
    let mut folders: Vec<_> = libraries
        .lines()
        .filter_map(|line| line.rsplit_once('/'))
        .map(|(folder, _)| format!("{RSYNC}{folder}"))
        .collect();
    folders.dedup();
    let unpack = format!("mkdir -p {RSYNC} && tar -x -C {RSYNC}");
    let mut unpacking = Command::new(&ssh[0])
        .args(&ssh[1..])
        .arg(unpack)
        .stdin(Stdio::piped())
        .spawn()?;
    let mut stdin = unpacking.stdin.take().context("no input")?;
    stdin.write_all(&output.stdout)?;
    drop(stdin);
    ensure!(
        unpacking.wait()?.success(),
        "rsync was not taken to the host"
    );
    let folders = folders.join(":");
    Ok(format!(
        "{RSYNC}{loader} --library-path {folders} {RSYNC}/usr/bin/rsync"
    ))
}
