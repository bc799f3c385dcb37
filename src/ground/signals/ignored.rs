//! The signals that this process ignored from its start.
//!
//! sigaction(2) would need unsafe code; the other sources differ from system to system.

/// Bit *n* - 1 stands for signal *n*; 0 if they are not known.
#[cfg(target_os = "linux")]
pub(super) fn at_start() -> u64 {
    // proc(5).
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let set = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    set.map_or(0, mask)
}

/// Bit *n* - 1 stands for signal *n*; 0 if they are not known.
#[cfg(not(target_os = "linux"))]
pub(super) fn at_start() -> u64 {
    by_ps(std::process::id())
}

/// The signals that a process ignores, as ps(1) of the BSDs (macOS's is one) and procps has it.
#[cfg(any(test, not(target_os = "linux")))]
fn by_ps(process: u32) -> u64 {
    let process = process.to_string();
    let mut ps = std::process::Command::new("ps");
    let output = ps.args(["-o", "sigignore=", "-p", &process]).output();
    output.map_or(0, |output| mask(&String::from_utf8_lossy(&output.stdout)))
}

fn mask(digits: &str) -> u64 {
    u64::from_str_radix(digits.trim(), 16).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn ps_knows_what_a_process_ignores() {
        let mut shell = Command::new("sh")
            .args(["-c", "trap '' HUP TERM; trap - INT; echo; read end"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut begun = [0];
        let mut stdout = shell.stdout.take().unwrap();
        stdout.read_exact(&mut begun).unwrap();
        let ignored = by_ps(shell.id());
        shell.stdin.take().unwrap().write_all(b"\n").unwrap();
        shell.wait().unwrap();
        let [hup, term, usr1] = [1, 15, 10].map(|signal| ignored >> (signal - 1) & 1);
        assert_eq!((hup, term, usr1), (1, 1, 0), "{ignored:x}");
    }
}
