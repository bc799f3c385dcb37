//! Processes, each by its number and start time, as numbers are reused.

use std::fs;

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

use super::Up;

/// A process of this computer: its number and when it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Process {
    /// The process's id.
    pub pid: u32,
    /// The process's start in clock ticks since boot: field 22 of `/proc/PID/stat` (proc(5)).
    pub started: u64,
}

impl Process {
    /// The process that now has the number `pid`.
    pub(super) fn now(pid: u32) -> anyhow::Result<Self> {
        let (_, started) = stat(pid).with_context(|| format!("process {pid} is gone"))?;
        Ok(Self { pid, started })
    }

    /// The supervisor of a machine that is up.
    pub(super) fn from_up(up: &Up) -> Self {
        Self {
            pid: up.supervisor,
            started: up.started,
        }
    }

    /// Whether it still runs; one that only waits to be reaped does not.
    pub(super) fn is_alive(self) -> bool {
        stat(self.pid)
            .is_some_and(|(state, started)| started == self.started && !matches!(state, 'Z' | 'X'))
    }

    /// Ends it at once, if it still runs.
    pub(super) fn kill(self) {
        if self.is_alive()
            && let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw)
        {
            // It fails only for a process that has ended meanwhile.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// State and start time of a process.
fn stat(pid: u32) -> Option<(char, u64)> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The program's name, field 2, stands in parentheses and may itself hold spaces and parentheses.
fn parse_stat(line: &str) -> Option<(char, u64)> {
    let mut fields = line.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.nth(18)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_name_with_parentheses_is_no_trouble() {
        let line = "17 (a) b (c) S 1 17 17 0 -1 4194560 1 0 0 0 1 2 3 4 20 0 1 0 4711 9 9";
        assert_eq!(parse_stat(line), Some(('S', 4711)));
    }

    #[test]
    fn the_same_number_with_another_start_is_another_process() {
        let me = Process::now(std::process::id()).unwrap();
        assert!(me.is_alive());
        assert!(
            !Process {
                started: me.started + 1,
                ..me
            }
            .is_alive()
        );
    }
}
