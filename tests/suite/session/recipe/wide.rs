//! Variants of `recipe`, which `shell/test.sh --all` runs: a hub that is up, with students who come.

use std::cell::RefCell;
use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use harness::eventually_within;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::{ask, hub, start};
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

/// A hub's site.
struct Hub {
    site: Site,
    dir: PathBuf,
}

/// A forward by which students come to a hub.
struct Way {
    at: String,
    _session: Running,
}

impl Hub {
    /// Brings a hub up on a computer with these `settings`, with others of the hub's in place of those that it
    /// has, with the homes on a share and on the workers that these flags describe.
    fn begin(settings: &str, others: &[(&str, &str)], workers: &[&str]) -> Self {
        let site = Site::with_settings(settings);
        let dir = hub(&site);
        local_image(&dir);
        let mut given = fs::read_to_string(dir.join("hub.env")).unwrap();
        for (from, to) in [
            &[("MEMORY=2G", "MEMORY=400M"), ("CPUS=2", "CPUS=1")],
            others,
        ]
        .concat()
        {
            assert!(given.contains(from), "{from}");
            given = given.replace(from, to);
        }
        fs::write(dir.join("hub.env"), given).unwrap();
        let image = base();
        let words = ["connect", "hub", "--no-jupyter", "--image"];
        site.run(&[&words[..], &[&image, "--", "true"]].concat())
            .is(0);
        site.run(&["share", "create", "class"]).is(0);
        let of_it = [dir.to_str().unwrap(), "--docker", "--share", "class"];
        let of_it = [&words[..], &of_it, &["--", "/hub/settings"]].concat();
        let mut command = site.command(&of_it);
        command.stdin(File::open(dir.join("hub.env")).unwrap());
        site.start_command(command)
            .end()
            .is(0)
            .prints("the settings are in place");
        let run = ["run", "hub", "-d", "--restart", "--max", "1d"];
        site.run(&[&run[..], &["--no-jupyter", "--", "/hub/start"]].concat())
            .is(0);
        let command = ["--max", "1d", "--", "sleep", "infinity"];
        site.run(&[&["workers", "hub"], workers, &command].concat())
            .is(0);
        Self { site, dir }
    }

    /// Leads a port of this computer to the hub.
    fn way(&self) -> Way {
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let forward = format!("{port}:127.0.0.1:8000");
        let words = ["connect", "hub", "--no-jupyter", "--exact-ports", "-L"];
        let command = [&forward, "--", "sh", "-c", "echo there; sleep 3600"];
        let mut session = self.site.start(&[&words[..], &command].concat());
        session.prints("there\n");
        Way {
            at: format!("http://127.0.0.1:{port}"),
            _session: session,
        }
    }

    /// Has so many students sign in, and run a cell each. Whether all did, and what was printed.
    fn try_rehearsal(&self, way: &Way, number: &str, flags: &[&str]) -> (bool, String) {
        let words = [&[number, "--at", &way.at], flags].concat();
        let rehearsed = ask(&self.site, "rehearse", &words);
        let printed = String::from_utf8_lossy(&rehearsed.stdout).into_owned();
        let all = format!("{number} of {number} ran a cell, 0 failed");
        let is_done = rehearsed.status.success() && printed.contains(&all);
        (is_done, format!("{printed}{rehearsed:?}"))
    }

    fn rehearse(&self, way: &Way, number: &str, flags: &[&str]) {
        let (is_done, printed) = self.try_rehearsal(way, number, flags);
        assert!(is_done, "{printed}");
        println!("{printed}");
    }

    /// Has so many students sign in, and do so again until all have seats within [`ANSWER`].
    fn has_seats_again(&self, way: &Way, number: &str) {
        let said = RefCell::new(String::new());
        let have_seats = || {
            let (are_there, printed) = self.try_rehearsal(way, number, &["--keep"]);
            said.replace(printed);
            are_there
        };
        eventually_within(ANSWER, || said.borrow().clone(), have_seats);
    }

    /// The document of `status`.
    fn status(&self) -> Value {
        let status = ask(&self.site, "status", &["--json"]);
        serde_json::from_slice(&status.stdout).unwrap_or_else(|_| panic!("{status:?}"))
    }

    /// Gives it other settings, while it goes on.
    fn set(&self, others: &[(&str, &str)]) {
        let path = self.dir.join("hub.env");
        let mut given = fs::read_to_string(&path).unwrap();
        for (from, to) in others {
            assert!(given.contains(from), "{from}");
            given = given.replace(from, to);
        }
        fs::write(&path, given).unwrap();
        let words = ["connect", "hub", "--no-jupyter", "--", "/hub/settings"];
        let mut command = self.site.command(&words);
        command.stdin(File::open(&path).unwrap());
        self.site.start_command(command).end().is(0);
    }

    /// Has one student run [`SLOW`].
    fn slow_cell(&self, way: &Way) -> Output {
        let xdrive = format!("{} --local", env!("CARGO_BIN_EXE_xdrive"));
        let rehearse = self.dir.join("rehearse");
        let words = [
            "python3",
            "-c",
            SLOW,
            rehearse.to_str().unwrap(),
            "1",
            "--keep",
            "--at",
            &way.at,
        ];
        self.site
            .of_user(&words)
            .env("XDRIVE", xdrive)
            .output()
            .unwrap()
    }

    /// Ends all of it: only snapshots are left.
    fn end(&self) {
        let site = &self.site;
        site.run(&["workers", "hub", "0"]).is(0);
        site.run(&["stop", "hub"]).is(0);
        site.run(&["share", "delete", "class", "--yes"]).is(0);
        let kinds = site.kinds("hub");
        assert!(kinds.iter().all(|kind| kind == "snapshot"), "{kinds:?}");
    }

    fn in_container(&self, script: &str) -> String {
        let words = ["connect", "hub", "--no-jupyter", "--", "sh", "-c", script];
        self.site.run(&words).is(0).stdout.clone()
    }
}

#[test]
#[ignore = "needs root (namespaces, loop devices), the machine tree and what shell/local/hub.sh needs"]
fn four_students_keep_their_seats_and_files_through_the_loss_of_a_worker_and_of_the_hub() {
    let hub = Hub::begin("", &[], &["2"]);
    let way = hub.way();
    hub.rehearse(&way, "4", &["--keep"]);
    let site = &hub.site;
    let rows = document("workers", &site.run(&["workers", "hub", "--json"]));
    let taken = rows[0]["instance"].as_str().unwrap();
    let supervisor = process(site, taken, "supervisor.json");
    kill_process(Pid::from_raw(supervisor).unwrap(), Signal::KILL).unwrap();
    let killed = hub.in_container(KILL);
    assert_eq!(killed, "killed\n");
    // They sign in again, and have their seats, wherever those are now.
    hub.has_seats_again(&way, "4");
    let kept = hub.in_container("ls /data/class/homes/*/rehearsed.txt | wc -l");
    assert_eq!(kept.trim(), "4");
    let status = hub.status();
    assert_eq!(status["seats"].as_array().unwrap().len(), 4, "{status}");
    // Nothing of a rehearsal is left.
    hub.rehearse(&way, "4", &[]);
    assert_eq!(hub.in_container("ls /data/class/homes | wc -l").trim(), "0");
    assert!(hub.dir.join("README.md").exists());
    // A cell that computes for longer than IDLE, and says nothing meanwhile, has its seat until it is done; then the
    // seat ends by itself.
    hub.set(&[("IDLE=60", "IDLE=1")]);
    let slow = hub.slow_cell(&way);
    let said = String::from_utf8_lossy(&slow.stdout);
    assert!(said.contains("1 of 1 ran a cell, 0 failed"), "{slow:?}");
    let is_empty = || hub.status()["seats"].as_array().is_some_and(Vec::is_empty);
    eventually_within(IDLE, || hub.status().to_string(), is_empty);
    hub.set(&[("IDLE=1\n", "IDLE=60\n")]);
    // A whole class.
    hub.rehearse(&way, "12", &[]);
    if std::env::var_os("XDRIVE_LONG").is_some_and(|long| long != "0") {
        hub.rehearse(&way, "50", &[]);
    }
    hub.end();
}

/// A rehearsal whose cell is silent for a while.
const SLOW: &str = r"import sys, pathlib, importlib.machinery, importlib.util
path = sys.argv.pop(1)
sys.path.insert(0, str(pathlib.Path(path).parent))
loader = importlib.machinery.SourceFileLoader('rehearse', path)
rehearse = importlib.util.module_from_spec(importlib.util.spec_from_loader('rehearse', loader))
loader.exec_module(rehearse)
rehearse.CELL = 'import time; time.sleep(150); print(6 * 7)'
rehearse.main()";

/// How long an idle seat may stay, with IDLE=1: each of kernel and server is looked at once a minute.
const IDLE: Duration = Duration::from_mins(6);

/// Adds a file with this text to the lessons, or replaces it.
const PUSH: &str = r#"set -e
git clone -q /work/lessons.git /root/lessons; cd /root/lessons
git config user.name teacher; git config user.email teacher@example.org
git checkout -q -B main; printf '%s\n' "$2" >"$1"; git add "$1"; git commit -q -m "$1"
git push -q origin main; cd /; rm -r /root/lessons"#;

/// How long a push may take to every seat.
const PUSHED: Duration = Duration::from_mins(1);

#[test]
#[ignore = "needs root (namespaces, loop devices), the machine tree and what shell/local/hub.sh needs"]
fn slices_are_waited_for_lessons_come_and_all_of_it_goes_on_on_another_machine() {
    let gpus = ["1", "--type", "g4dn.xlarge", "--slices", "3"];
    let hub = Hub::begin(
        "[gpu]\ndriver = \"ready\"\n",
        &[("GPU=no", "GPU=yes")],
        &gpus,
    );
    let site = &hub.site;
    let tender = site.other_laptop();
    let _tender = tender.start(&["tend"]);
    let way = hub.way();
    hub.rehearse(&way, "3", &["--keep"]);

    // The fourth slice.
    let mut fourth = start(site, "rehearse", &["4", "--keep", "--at", &way.at]);
    let waits = || {
        hub.status()["waiting"]
            .as_array()
            .is_some_and(|all| all.len() == 1)
    };
    eventually_within(ANSWER, || hub.status().to_string(), waits);
    assert!(fourth.try_wait().unwrap().is_none());
    hub.in_container("/hub/forget rehearsal-1");
    let ended = fourth.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(
        said.contains("4 of 4 ran a cell, 0 failed, 1 waited for a place"),
        "{ended:?}"
    );

    // Lessons.
    let push = |name: &str, text: &str| {
        let words = [
            "connect",
            "hub",
            "--no-jupyter",
            "--",
            "sh",
            "-c",
            PUSH,
            "sh",
            name,
            text,
        ];
        site.run(&words).is(0);
    };
    let lessons = "/data/class/homes/rehearsal-2/lessons";
    let comes = |name: &str, text: &str| {
        let read = || hub.in_container(&format!("cat {lessons}/{name} 2>&1 || :"));
        eventually_within(PUSHED, read, || read().trim() == text);
    };
    push("one.md", "first");
    comes("one.md", "first");
    hub.in_container(&format!(
        "echo mine >{lessons}/one.md; chown 1000:1000 {lessons}/one.md"
    ));
    push("one.md", "second");
    push("two.md", "more");
    comes("two.md", "more");
    comes("one.md", "mine");

    // The machine of the hub.
    site.interrupt("hub", 0);
    let is_elsewhere = || ask(site, "status", &["--json"]).status.success();
    eventually_within(
        Duration::from_mins(5),
        || "no hub is up".to_owned(),
        is_elsewhere,
    );
    drop(way);
    let way = hub.way();
    hub.has_seats_again(&way, "3");
    let kept = hub.in_container("cat /data/class/homes/rehearsal-2/lessons/one.md");
    assert_eq!(kept, "mine\n");
    drop(way);
    hub.end();
}
