//! A session stays attached to its host even if that answers late, and reports when it is not.

mod wide;

use std::fs::{self, File};
use std::os::unix::fs::FileTypeExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::connection_lost::recorded;
use super::site::{Running, Site};

/// The lease: shorter than the stalls here, longer than a busy machine takes to renew it.
const LEASE: Duration = Duration::from_secs(20);
const KEEP: &str = "20s";

/// A wrapper of the script `session`: it waits at a FIFO, if there is one, before each contact, and
/// refuses to attach while a file exists.
const WRAPPER: &str = r#"case "$1" in
contact) [ ! -p "${0%/*}/stall" ] || read -r _ < "${0%/*}/stall" ;;
hold) [ ! -e "${0%/*}/refuse" ] || { echo "there is no room" >&2; exit 1; } ;;
esac
. "${0%/*}/session-itself"
"#;

/// The scripts of the only instance, wrapped.
struct Scripts(PathBuf);

impl Scripts {
    fn wrap(site: &Site) -> Self {
        let init = recorded(site, "init.json").as_raw_nonzero();
        let all = format!("/proc/{init}/root/var/lib/xdrive/scripts");
        let folder = fs::read_dir(all).unwrap().next().unwrap().unwrap().path();
        fs::write(folder.join("wrapper"), WRAPPER).unwrap();
        fs::copy(folder.join("session"), folder.join("session-itself")).unwrap();
        fs::rename(folder.join("wrapper"), folder.join("session")).unwrap();
        Self(folder)
    }

    /// From now on no contact answers; returns when the first one waits. They go on when the result
    /// is dropped.
    fn stall(&self) -> Stall {
        let fifo = self.0.join("stall");
        let made = Command::new("mkfifo").arg(&fifo).status().unwrap();
        assert!(made.success());
        assert!(fs::metadata(&fifo).unwrap().file_type().is_fifo());
        // Opens once a contact reads there.
        let open = File::options().write(true).open(&fifo).unwrap();
        Stall { fifo, _open: open }
    }

    fn refuse(&self, refused: bool) {
        let file = self.0.join("refuse");
        if refused {
            fs::write(file, "").unwrap();
        } else {
            fs::remove_file(file).unwrap();
        }
    }

    /// Kills the holds of this laptop, as a host without memory would.
    fn kill_holds(site: &Site) {
        let space = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
        let init = recorded(site, "init.json").as_raw_nonzero().to_string();
        let own = space(&init).unwrap();
        let mut killed = 0;
        for process in fs::read_dir("/proc").unwrap() {
            let name = process.unwrap().file_name().into_string().unwrap();
            let command = fs::read_to_string(format!("/proc/{name}/cmdline")).unwrap_or_default();
            if command.starts_with("sh\0")
                && command.ends_with("/session\0hold\0")
                && space(&name).as_ref() == Some(&own)
            {
                let pid = Pid::from_raw(name.parse().unwrap()).unwrap();
                kill_process(pid, Signal::KILL).unwrap();
                killed += 1;
            }
        }
        assert!(killed > 0, "nobody is attached");
    }
}

struct Stall {
    fifo: PathBuf,
    _open: File,
}

impl Drop for Stall {
    fn drop(&mut self) {
        // The host may have ended, and its files with it.
        let _ = fs::remove_file(&self.fifo);
    }
}

/// A command that ends with 5 on request.
fn working(site: &Site) -> Running {
    let script = "echo begun; until [ -e /work/end ]; do sleep 0.1; done; rm /work/end; exit 5";
    let mut running = site.start(&[
        "connect",
        "demo",
        "--keep",
        KEEP,
        "--checkpoint",
        "15s",
        "--",
        "sh",
        "-c",
        script,
    ]);
    running.prints("begun\n");
    running
}

fn end(site: &Site) {
    let init = recorded(site, "init.json").as_raw_nonzero();
    fs::write(format!("/proc/{init}/root/v1/work/end"), "").unwrap();
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_session_that_its_host_forgot_says_so_and_attaches_again() {
    let site = Site::with_a_drive();
    let mut running = working(&site);
    let scripts = Scripts::wrap(&site);
    scripts.refuse(true);
    Scripts::kill_holds(&site);
    running.reports("is not attached to it any more: ");
    running.reports("there is no room");
    scripts.refuse(false);
    running.reports("is attached to it again");
    std::thread::sleep(2 * LEASE);
    end(&site);
    running
        .end()
        .is(5)
        .reports("demo is saved: its snapshot (snap-");
    site.has_no_leaks();
}
