//! Variants of `recipe`, which `shell/test.sh --all` runs: a hub that is up, with students who come.

use std::cell::RefCell;
use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use harness::eventually_within;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::{ask, hub};
use crate::session::json::document;
use crate::session::site::{Running, Site};
use crate::session::workers::joined::process;

/// The root file system that stands for the recipe's base image, made once.
fn base() -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("shell/local/hub.sh");
    let made = Command::new(script).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    String::from_utf8(made.stdout).unwrap().trim().to_owned()
}

/// The recipe's image, but for what the network brings: that is in the base.
fn local_image(dir: &Path) {
    let dockerfile = dir.join("Dockerfile");
    let text = fs::read_to_string(&dockerfile).unwrap();
    let (brought, rest) = text.split_once("ENV PATH=").unwrap();
    assert!(brought.contains("requirements.txt"), "{brought}");
    fs::write(
        &dockerfile,
        format!("FROM xdrive/image:latest\nENV PATH={rest}"),
    )
    .unwrap();
}

/// How long students are without their seats at most.
const ANSWER: Duration = Duration::from_mins(2);

/// Kills the hub's process, and not this one, which has its name too.
const KILL: &str = "for each in /proc/[0-9]*; do
    if tr '\\0' ' ' <$each/cmdline | grep -q 'jupyterhub --con[f]ig'; then kill -9 ${each#/proc/}; echo killed; fi
done";

/// A hub's site, with the forward by which students come to it.
struct Hub {
    site: Site,
    dir: PathBuf,
    at: String,
    _forward: Running,
}

impl Hub {
    /// Brings a hub up, with the homes on a share and on these workers.
    fn begin(workers: &str) -> Self {
        let site = Site::new();
        let dir = hub(&site);
        local_image(&dir);
        let settings = fs::read_to_string(dir.join("hub.env")).unwrap();
        let settings = settings
            .replace("MEMORY=2G", "MEMORY=400M")
            .replace("CPUS=2", "CPUS=1");
        fs::write(dir.join("hub.env"), settings).unwrap();
        let image = base();
        site.run(&[
            "connect",
            "hub",
            "--no-jupyter",
            "--image",
            &image,
            "--",
            "true",
        ])
        .is(0);
        site.run(&["share", "create", "class"]).is(0);
        let words = [
            "connect",
            "hub",
            "--no-jupyter",
            "--image",
            dir.to_str().unwrap(),
            "--docker",
            "--share",
            "class",
        ];
        let mut command = site.command(&[&words[..], &["--", "/hub/settings"]].concat());
        command.stdin(File::open(dir.join("hub.env")).unwrap());
        site.start_command(command)
            .end()
            .is(0)
            .prints("the settings are in place");
        let run = [
            "run",
            "hub",
            "-d",
            "--restart",
            "--max",
            "1d",
            "--no-jupyter",
            "--",
            "/hub/start",
        ];
        site.run(&run).is(0);
        let words = [
            "workers", "hub", workers, "--max", "1d", "--", "sleep", "infinity",
        ];
        site.run(&words).is(0);
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let forward = format!("{port}:127.0.0.1:8000");
        let words = [
            "connect",
            "hub",
            "--no-jupyter",
            "--exact-ports",
            "-L",
            &forward,
            "--",
        ];
        let mut forward =
            site.start(&[&words[..], &["sh", "-c", "echo there; sleep 3600"]].concat());
        forward.prints("there\n");
        Self {
            site,
            dir,
            at: format!("http://127.0.0.1:{port}"),
            _forward: forward,
        }
    }

    /// Has so many students sign in, and run a cell each. Whether all did, and what was printed.
    fn try_rehearsal(&self, number: &str, flags: &[&str]) -> (bool, String) {
        let words = [&[number, "--at", &self.at], flags].concat();
        let rehearsed = ask(&self.site, "rehearse", &words);
        let printed = String::from_utf8_lossy(&rehearsed.stdout).into_owned();
        let all = format!("{number} of {number} ran a cell, 0 failed");
        let is_done = rehearsed.status.success() && printed.contains(&all);
        (is_done, format!("{printed}{rehearsed:?}"))
    }

    fn rehearse(&self, number: &str, flags: &[&str]) {
        let (is_done, printed) = self.try_rehearsal(number, flags);
        assert!(is_done, "{printed}");
    }

    fn in_container(&self, script: &str) -> String {
        let words = ["connect", "hub", "--no-jupyter", "--", "sh", "-c", script];
        self.site.run(&words).is(0).stdout.clone()
    }
}

#[test]
#[ignore = "needs root (namespaces, loop devices), the machine tree and what shell/local/hub.sh needs"]
fn four_students_keep_their_seats_and_files_through_the_loss_of_a_worker_and_of_the_hub() {
    let hub = Hub::begin("2");
    hub.rehearse("4", &["--keep"]);
    let site = &hub.site;
    let rows = document("workers", &site.run(&["workers", "hub", "--json"]));
    let taken = rows[0]["instance"].as_str().unwrap();
    let supervisor = process(site, taken, "supervisor.json");
    kill_process(Pid::from_raw(supervisor).unwrap(), Signal::KILL).unwrap();
    let killed = hub.in_container(KILL);
    assert_eq!(killed, "killed\n");
    // They sign in again, and have their seats, wherever those are now.
    let said = RefCell::new(String::new());
    let have_seats = || {
        let (are_there, printed) = hub.try_rehearsal("4", &["--keep"]);
        said.replace(printed);
        are_there
    };
    eventually_within(ANSWER, || said.borrow().clone(), have_seats);
    let kept = hub.in_container("ls /data/class/homes/*/rehearsed.txt | wc -l");
    assert_eq!(kept.trim(), "4");
    let status = ask(site, "status", &["--json"]);
    let status: Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!(status["seats"].as_array().unwrap().len(), 4, "{status}");
    // Nothing of a rehearsal is left.
    hub.rehearse("4", &[]);
    assert_eq!(hub.in_container("ls /data/class/homes | wc -l").trim(), "0");
    assert!(hub.dir.join("README.md").exists());
    site.run(&["workers", "hub", "0"]).is(0);
    site.run(&["stop", "hub"]).is(0);
    site.run(&["share", "delete", "class", "--yes"]).is(0);
    let kinds = site.kinds("hub");
    assert!(kinds.iter().all(|kind| kind == "snapshot"), "{kinds:?}");
}
