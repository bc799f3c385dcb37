//! Copies to the drive and back: `xdrive cp` beside the best of scp, sftp and rsync.
//!
//! xdrive's end in the container, as its users' do; the others' in the folder on the host that the
//! container has as `/work`. This computer's are in memory: the first 10 000 files in a part of a disk
//! that is new take it seconds, whoever makes them.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};

use super::compared::{Row, less};
use super::ends;
use harness::bench::Program;
use harness::bench::program::{SSH, succeeded};

pub(crate) const ROWS: [Row; 4] = [
    less("cp of 10 000 small files, up", "s", 0.5),
    less("cp of 10 000 small files, down", "s", 0.5),
    less("cp of 1 GiB, up", "s", 1.0),
    less("cp of 1 GiB, down", "s", 1.0),
];

const FOLDERS: usize = 100;
const FILES: usize = 100;
const SMALL: u64 = 1 << 10;
const LARGE: u64 = 1 << 30;
/// The host's folder that the container has as `/work`.
const WORK: &str = "/v1/work";
/// Where the host has rsync, which it does not come with.
const RSYNC: &str = "/opt/rsync";

/// The source and the destination of the copies.
pub(crate) struct Copies {
    dir: PathBuf,
    drive: String,
    xdrive: Command,
    ssh: Vec<String>,
    rsync: String,
}

impl Copies {
    /// Makes the files in `memory`, and takes rsync to the host.
    pub(crate) async fn new(memory: &Path, program: &Program, drive: &str) -> anyhow::Result<Self> {
        let dir = memory.join("copies");
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

    /// The seconds of each copy, in the order of [`ROWS`]: xdrive's (0), or the shortest of the others.
    pub(crate) fn take(&self, side: usize) -> anyhow::Result<Vec<f64>> {
        let tools: &[Tool] = match side {
            0 => &[Tool::Xdrive],
            _ => &[Tool::Scp, Tool::Sftp, Tool::Rsync],
        };
        let mut times = Vec::new();
        for (what, bytes) in [("many", SMALL * (FOLDERS * FILES) as u64), ("large", LARGE)] {
            let mut best = [f64::INFINITY; 2];
            for tool in tools {
                let up = ends::run(&mut self.copy(*tool, what, Way::Up)?)?;
                let arrived = self.on_host(&count(&format!("{WORK}/copied")))?;
                ensure!(arrived == bytes.to_string(), "{arrived} of {bytes} bytes");
                let down = ends::run(&mut self.copy(*tool, what, Way::Down)?)?;
                let back = self.dir.join("back");
                let script = count(&back.display().to_string());
                let output = Command::new("sh").args(["-c", &script]).output()?;
                let arrived = String::from_utf8(succeeded(output)?.stdout)?;
                ensure!(arrived == bytes.to_string(), "{arrived} of {bytes} bytes");
                self.on_host(&format!("rm -r {WORK}/copied"))?;
                Command::new("rm").arg("-r").arg(back).status()?;
                best = [best[0].min(up), best[1].min(down)];
            }
            times.extend(best);
        }
        Ok(times)
    }

    /// The command that copies `what` to the drive, or what was copied there back to `back`.
    fn copy(&self, tool: Tool, what: &str, way: Way) -> anyhow::Result<Command> {
        let (flags, host) = self.flags();
        let (from, back) = (self.dir.join(what), self.dir.join("back"));
        let mut command = Command::new(match tool {
            Tool::Xdrive => self.xdrive.get_program(),
            Tool::Scp => "scp".as_ref(),
            Tool::Sftp => "sftp".as_ref(),
            Tool::Rsync => "rsync".as_ref(),
        });
        let mut there = match tool {
            Tool::Xdrive => format!("{}:copied", self.drive),
            _ => format!("{host}:{WORK}/copied"),
        };
        let mut from = from.into_os_string();
        match tool {
            Tool::Xdrive => {
                command.args(self.xdrive.get_args());
                let set = |(name, value): (_, Option<_>)| Some((name, value?));
                command.envs(self.xdrive.get_envs().filter_map(set));
                command.args(["-q", "cp"]);
            }
            Tool::Scp => {
                command.args(flags).args(["-q", "-r"]);
            }
            Tool::Sftp => {
                let batch = self.dir.join("sftp");
                let (from, back) = (from.display(), back.display());
                let order = match way {
                    Way::Up => format!("put -r {from} {WORK}/copied\n"),
                    Way::Down => format!("get -r {WORK}/copied {back}\n"),
                };
                fs::write(&batch, order)?;
                command.args(flags).arg("-q").arg("-b").arg(batch).arg(host);
                return Ok(command);
            }
            Tool::Rsync => {
                command
                    .arg("-a")
                    .arg(format!("--rsh=ssh {}", flags.join(" ")))
                    .arg(format!("--rsync-path={}", self.rsync));
                if self.dir.join(what).is_dir() {
                    // Its content.
                    from.push("/");
                    there.push('/');
                }
            }
        }
        match way {
            Way::Up => command.arg(from).arg(there),
            Way::Down => command.arg(there).arg(back),
        };
        Ok(command)
    }

    /// The flags of OpenSSH's tools, and the host.
    fn flags(&self) -> (&[String], &str) {
        let program = self.ssh.iter().position(|word| word == SSH);
        let flags = &self.ssh[program.map_or(0, |at| at + 1)..];
        flags
            .split_last()
            .map_or((flags, ""), |(host, flags)| (flags, host.as_str()))
    }

    /// Runs a script on the host; returns its output.
    fn on_host(&self, script: &str) -> anyhow::Result<String> {
        let output = Command::new(&self.ssh[0])
            .args(&self.ssh[1..])
            .arg(script)
            .output()?;
        Ok(String::from_utf8(succeeded(output)?.stdout)?)
    }
}

/// The script that prints how many bytes the files there have.
fn count(path: &str) -> String {
    format!("find {path} -type f -printf '%s\\n' | awk '{{ n += $1 }} END {{ printf \"%d\", n }}'")
}

/// The tool that copies.
#[derive(Debug, Clone, Copy)]
enum Tool {
    Xdrive,
    Scp,
    Sftp,
    Rsync,
}

/// Where to.
#[derive(Debug, Clone, Copy)]
enum Way {
    /// To the drive.
    Up,
    /// Back from it.
    Down,
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
