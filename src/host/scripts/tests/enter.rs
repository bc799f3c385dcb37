//! How `enter.py` enters a container: by runc where that does what `docker exec` does, else by that.
//! Both are stand-ins here, which record that they were called; `tests/suite/host/commands.rs` has the
//! real ones.

use std::fs;
use std::process::{Command, Stdio};

use super::HOST;

/// The stand-in for docker.
const DOCKER: &str = "#!/bin/sh\necho docker >> \"$FOLDER/log\"\nexit 9\n";

/// The stand-in for runc, which does what `$RUNC` says. What it starts ends with 7, and has it or a
/// process beside it as its parent.
const RUNC: &str = r#"#!/bin/sh
echo runc >> "$FOLDER/log"
file= is_detached= before=
for word; do
    case "$before" in --pid-file) file="$word" ;; esac
    case "$word" in -d) is_detached=yes ;; esac
    before="$word"
done
start() {
    if [ -z "$is_detached" ]; then
        echo "$$" > "$file"
        return
    fi
    # It ends after this shell, which would reap it.
    /usr/bin/mkfifo "$FOLDER/alive"
    /bin/sh -c 'read -r _ < "$FOLDER/alive"; exit 7' &
    echo "$!" > "$file"
    exec 3> "$FOLDER/alive"
}
case "$RUNC" in
    starts) start; [ -n "$is_detached" ] || exit 7 ;;
    fails) exit 1 ;;
    fails-later) start; exit 1 ;;
    is-killed) kill -KILL "$$" ;;
esac
"#;

/// Calls `enter.py` as its callers do. Before that it has a container that runc may enter, and then
/// whatever differs from that.
const DRIVER: &str = r#"
import json, os, pty, subprocess, sys, termios
import enter, inside
folder, way, differs = os.environ["FOLDER"], *sys.argv[1:]
inside.RECORDS, inside.SETTINGS = folder, folder
inside.STATES = {"runc": f"{folder}/runc", "nvidia": folder} if "nvidia" in differs else {"runc": folder}
flags = []
enter.FOLDER = f"{folder}/entered"
name = "xdrive-demo"
def write(path, value):
    os.makedirs(f"{folder}/0f", exist_ok=True)
    with open(f"{folder}/{path}", "w") as file:
        file.write(value if isinstance(value, str) else json.dumps(value))
def runs(pid):
    write("0f/state.json", {"init_process_pid": pid, "config": {"cgroups": {}}})
write("layer", "container=0f\nimage=sha256:1\n")
write("0f/config.v2.json", {"Name": "/xdrive-demo"})
write("0f/hostconfig.json", {"Runtime": "runc", "DeviceRequests": None})
runs(os.getpid())
exec(differs)
if way != "kept terminal":
    enter.main(*flags, *(["-t"] if way == "terminal" else []), name, "true")
modes = termios.tcgetattr(pty.openpty()[1])
try:
    opened = enter.open_terminal(enter.Order([*flags, "-t", name, "true"]), modes, bytes(8))
    print("opened" if opened else "left to docker")
except OSError as error:
    print(error)
"#;

/// The result of an attempt to enter: who was called, the exit status, and what was printed.
#[derive(Debug, PartialEq, Eq)]
struct Entered {
    called: String,
    status: Option<i32>,
    printed: String,
}

impl Entered {
    fn as_if(called: &str, status: i32, printed: &str) -> Self {
        Self {
            called: called.trim().to_owned(),
            status: Some(status),
            printed: printed.to_owned(),
        }
    }
}

fn entered(way: &str, runc: &str, differs: &str) -> Entered {
    let folder = tempfile::tempdir().unwrap();
    let programs = folder.path().join("bin");
    fs::create_dir(&programs).unwrap();
    for (name, text) in [("docker", DOCKER), ("runc", RUNC)] {
        if (name, runc) != ("runc", "is-missing") {
            harness::write_script(&programs.join(name), text);
        }
    }
    // Python by its own path: the programs' folder is all there is.
    let python = Command::new("python3")
        .args(["-c", "import sys; print(sys.executable)"])
        .output();
    let python = String::from_utf8(python.unwrap().stdout).unwrap();
    let output = Command::new(python.trim())
        .args(["-B", "-c", DRIVER, way, differs])
        .env_clear()
        .env("FOLDER", folder.path())
        .env("PATH", &programs)
        .env("PYTHONPATH", HOST)
        .env("RUNC", runc)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let log = fs::read_to_string(folder.path().join("log")).unwrap_or_default();
    let printed = [output.stdout, output.stderr].concat();
    Entered {
        called: log.replace('\n', " ").trim().to_owned(),
        status: output.status.code(),
        printed: String::from_utf8(printed).unwrap().trim().to_owned(),
    }
}

/// The reasons that keep runc out of a container, each with the change that brings it about.
const REASONS: [(&str, &str); 11] = [
    (
        "there is no record of it",
        "os.unlink(f'{inside.RECORDS}/layer')",
    ),
    ("it is another container", "name = 'other'"),
    (
        "runc does not know it",
        "os.unlink(f'{folder}/0f/state.json')",
    ),
    (
        "it has ended",
        "p = subprocess.Popen(['docker']); p.wait(); runs(p.pid); os.unlink(f'{folder}/log')",
    ),
    (
        "another runtime has it",
        "write('0f/hostconfig.json', {'Runtime': 'nvidia', 'DeviceRequests': None})",
    ),
    (
        "it has GPUs",
        "write('0f/hostconfig.json', {'Runtime': 'runc', 'DeviceRequests': [{}]})",
    ),
    (
        "its settings are of another shape",
        "write('0f/hostconfig.json', '[')",
    ),
    ("its name is not known", "write('0f/config.v2.json', {})"),
    ("its limits cannot be had", "enter.LIMITS = {-1}"),
    (
        "the kernel lets no process adopt others",
        "enter.SET_CHILD_SUBREAPER = -1",
    ),
    (
        "there is no place for the process id",
        "open(enter.FOLDER, 'w').close()",
    ),
];

/// Every way into a container; and its exit status, what is printed and who is called where it is left
/// to docker. The keeper of a terminal calls that itself.
const WAYS: [(&str, i32, &str, &str); 3] = [
    ("pipes", 9, "", "docker"),
    ("terminal", 9, "", "docker"),
    ("kept terminal", 0, "left to docker", ""),
];

#[test]
fn a_container_that_runc_enters_is_not_entered_by_docker() {
    for way in ["pipes", "terminal"] {
        let found = entered(way, "starts", "");
        assert_eq!(found, Entered::as_if("runc", 7, ""), "{way}");
    }
    // Nor one with a name of its own, whose record is in its own folder.
    let named = "name = 'xdrive-demo..tools'; os.makedirs(f'{folder}/containers/tools'); \
                 os.rename(f'{folder}/layer', f'{folder}/containers/tools/layer'); \
                 write('0f/config.v2.json', {'Name': f'/{name}'})";
    assert_eq!(
        entered("pipes", "starts", named),
        Entered::as_if("runc", 7, "")
    );
    // Nor one with GPUs, where that is meant: of NVIDIA's runtime, or of runc with NVIDIA's hook.
    let gpus = ["nvidia", "runc"].map(|runtime| {
        format!("flags = ['-g']; write('0f/hostconfig.json', {{'Runtime': '{runtime}', 'DeviceRequests': [{{}}]}})")
    });
    for differs in gpus {
        for way in ["pipes", "terminal"] {
            let found = entered(way, "starts", &differs);
            assert_eq!(found, Entered::as_if("runc", 7, ""), "{way}: {differs}");
        }
    }
    // A command that was to have a terminal of runc's, and got none, does not go on.
    let found = entered("kept terminal", "starts", "");
    assert_eq!(found, Entered::as_if("runc", 0, "runc gave no terminal"));
}

#[test]
fn whatever_runc_would_do_otherwise_is_left_to_docker() {
    for (why, differs) in REASONS {
        for (way, status, printed, called) in WAYS {
            let found = entered(way, "starts", differs);
            let expected = Entered::as_if(called, status, printed);
            assert_eq!(found, expected, "{way}: {why}");
        }
    }
}

#[test]
fn docker_does_what_runc_could_not_begin() {
    for (runc, tried) in [("fails", "runc"), ("is-missing", "")] {
        for (way, status, printed, called) in WAYS {
            let found = entered(way, runc, "");
            let expected = Entered::as_if(&format!("{tried} {called}"), status, printed);
            assert_eq!(found, expected, "{way}: runc {runc}");
        }
    }
}

#[test]
fn a_command_that_may_have_begun_is_not_begun_again() {
    for (way, runc, status, printed) in [
        ("pipes", "fails-later", 7, ""),
        ("terminal", "fails-later", 1, ""),
        ("kept terminal", "fails-later", 0, "runc gave no terminal"),
        ("pipes", "is-killed", 137, "runc was killed"),
        ("terminal", "is-killed", 137, ""),
        ("kept terminal", "is-killed", 0, "runc was killed"),
    ] {
        let found = entered(way, runc, "");
        let expected = Entered::as_if("runc", status, printed);
        assert_eq!(found, expected, "{way}: runc {runc}");
    }
}
