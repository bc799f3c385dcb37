//! A freeze that is cut off at any point, and programs that are hard to freeze.

use xdrive::host::container::{CommandId, Container};
use xdrive::ids::SessionId;

use super::{COUNTING, ROOT, machine};
use crate::host::machine::{Disk, Machine};

/// Waits for a point of a freeze, and kills a process there: `kill.py WHO POINT`. At `start` it has
/// begun; at `ending` criu, which has written all, is about to end the program's first process, and `ended` is
/// behind that. At `notice` EC2's notice comes instead, for which the keeper gives criu up.
const KILL: &str = r#"
import ctypes, glob, os, resource, signal, sys, time
who, point = sys.argv[1:]
WORDS = {"asker": b"freeze.py\0all", "criu": b"--argv0\0criu\0"}
FILES = {"folder": "images", "part": "part", "pages": "images/pages-*.img"}
NOTICE = "/run/xdrive/notice"
SEIZE, INTERRUPT, GETREGS, SYSCALL, DETACH = 0x4206, 0x4207, 12, 24, 17  # ptrace(2)
TRACESYSGOOD, ALL, KILL = 1, 0x40000000, 62
ptrace = ctypes.CDLL(None).ptrace
ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]

def found():
    for number in sorted(map(int, filter(str.isdigit, os.listdir("/proc")))):
        try:
            with open(f"/proc/{number}/cmdline", "rb") as text:
                words = text.read()
        except OSError:
            continue
        if WORDS[who] in words and b"setsid" not in words:
            yield number

def is_there(point):
    try:
        least = 20 << 20 if point == "pages" else 0
        return any(os.stat(path).st_size >= least for path in glob.glob(f"/v1/xdrive/frozen/*/{FILES[point]}"))
    except OSError:
        return False

def step_to(pid, point):
    """Has criu go on call by call, so that it passes no point unseen."""
    registers, ends = (ctypes.c_ulong * 27)(), {"pages": 0, "ending": 1, "ended": 2}[point]
    ptrace(SEIZE, pid, None, TRACESYSGOOD)
    ptrace(INTERRUPT, pid, None, None)
    while True:
        status = os.waitpid(pid, ALL)[1]
        number = status >> 8 & 0xff
        if is_there("pages"):
            ptrace(GETREGS, pid, None, registers)
            if number == signal.SIGTRAP | 0x80 and (registers[15], registers[13]) == (KILL, signal.SIGKILL):
                ends -= 1
            if not ends:
                return
        is_signal = number & 0x7f != signal.SIGTRAP and not status >> 16
        ptrace(SYSCALL, pid, None, number if is_signal else None)

def has_given_up(pid):
    """EC2's notice comes, for which criu's limit becomes that."""
    open(NOTICE, "w").close()
    while resource.prlimit(pid, resource.RLIMIT_FSIZE)[0]:
        pass
    os.unlink(NOTICE)
    ptrace(DETACH, pid, None, None)

# Whoever mostly sleeps runs soon, however busy the computer is; criu takes half a second.
os.nice(-20)
open("/run/waits", "w").close()
while who == "asker" and not is_there("folder"):
    time.sleep(0.001)
# The first one is criu itself, of which its helpers are children.
while not (pid := next(found(), None)):
    time.sleep(0.001)
if who == "asker":
    os.kill(pid, signal.SIGSTOP)
    while not is_there(point):
        time.sleep(0.001)
if who == "criu" and point in ["pages", "ending", "ended", "notice"]:
    step_to(pid, "pages" if point == "notice" else point)
if point == "notice":
    has_given_up(pid)
else:
    os.kill(pid, signal.SIGKILL)
open("/run/killed", "w").close()
"#;

/// Counts, and has some 100 MB of memory.
const LARGE: &str = r"
import time
memory, n = bytearray(b'x') * (100 << 20), 0
while True:
    n += 1
    print(n, flush=True)
    time.sleep(0.05)
";

/// Counts, and has an instance of `io_uring`.
const RING: &str = r"
import ctypes, time
libc, n = ctypes.CDLL(None, use_errno=True), 0
ring = libc.syscall(425, 8, ctypes.create_string_buffer(120))
assert ring >= 0, ctypes.get_errno()
while True:
    n += 1
    print(n, flush=True)
    time.sleep(0.05)
";

/// Counts by a loopback connection of its own; a peer elsewhere has sent something and closed, which is read
/// once `/work/read` is there.
const LOOPBACK: &str = r"
import os, socket, time
memory = bytearray(b'x') * (100 << 20)
server = socket.create_server(('127.0.0.1', 0))
ours = socket.create_connection(server.getsockname())
theirs = server.accept()[0]
closed = socket.create_connection(('172.17.0.1', 7001))
n = 0
while True:
    n += 1
    ours.sendall(b'%d' % n)
    print(theirs.recv(64).decode(), flush=True)
    if os.path.exists('/work/read'):
        os.unlink('/work/read')
        closed.settimeout(5)
        with open('/work/heard', 'w') as file:
            print(closed.recv(64), closed.recv(64), file=file)
    time.sleep(0.05)
";

/// Counts, and writes down what a peer elsewhere sends.
const ELSEWHERE: &str = r"
import socket, time
peer = socket.create_connection(('172.17.0.1', 7002))
peer.setblocking(False)
n = 0
while True:
    n += 1
    try:
        heard = peer.recv(64)
    except BlockingIOError:
        heard = None
    if heard is not None:
        with open('/work/heard', 'a') as file:
            print(heard, file=file)
    print(n, flush=True)
    time.sleep(0.05)
";

/// The peers of both.
const PEERS: &str = r"
import socket
closes, stays = socket.create_server(('', 7001)), socket.create_server(('', 7002))
peer = closes.accept()[0]
peer.sendall(b'bye')
peer.close()
peer = stays.accept()[0]
peer.sendall(b'hello')
peer.recv(64)
";

/// Counts by three processes in turns, which share a number with its lock, and a file in /dev/shm.
const WORKERS: &str = r"
import multiprocessing, struct, time
from multiprocessing import shared_memory
shared, total = shared_memory.SharedMemory(create=True, size=4096), multiprocessing.Value('Q')

def work(number, asked):
    while True:
        asked.recv()
        with total:
            total.value += 1
        struct.pack_into('Q', shared.buf, number * 8, total.value)
        asked.send(None)

ends = []
for number in range(3):
    end, asked = multiprocessing.Pipe()
    ends.append(end)
    multiprocessing.Process(target=work, args=(number, asked), daemon=True).start()
n = 0
while True:
    n += 1
    ends[n % 3].send(None)
    ends[n % 3].recv()
    print(*struct.unpack_from('Q', shared.buf, n % 3 * 8), flush=True)
    time.sleep(0.05)
";

/// Counts, and writes down its clocks.
const CLOCKS: &str = r"
import time
n = 0
while True:
    n += 1
    with open('/work/clocks', 'a') as file:
        print(time.monotonic(), time.time(), file=file)
    print(n, flush=True)
    time.sleep(0.05)
";

impl Machine {
    /// Puts a file on the host.
    async fn write(&self, path: &str, text: &str) {
        let write = format!("cat >{path}");
        let output = self.ssh.run(&write, text.as_bytes()).await.unwrap();
        assert_eq!(output.status, 0, "{path}");
    }

    /// Copies the host's Python into the container.
    async fn bring_python(&self) {
        let copy = "library=$(python3 -c 'import os; print(os.path.dirname(os.__file__))'); \
                    program=$(readlink -f $(command -v python3)); mkdir -p $root/usr/bin $root/usr/lib; \
                    cp $program $root/usr/bin/python3; cp -r $library $root/usr/lib/; \
                    for file in $(ldd $program $library/lib-dynload/_ctypes.*.so | grep -o '/[^ ]*[.]so[^ :]*'); do \
                    [ -e $root$file ] || cp -L --parents $file $root/; done";
        self.sh(&format!("{ROOT}; {copy}")).await;
    }

    /// Begins a Python program of the container that may be frozen, and counts.
    async fn begin_python(&self, container: &Container, program: &str) -> CommandId {
        self.write("/v1/work/program.py", program).await;
        let begun = self.begin_freezable(container, "exec python3 /work/program.py");
        let id = begun.await;
        self.counts(&id, 5).await;
        id
    }

    /// Freezes the only command.
    async fn freezes(&self) {
        let printed = self.script("freeze.py all 60").await;
        assert!(printed.starts_with("xdrive: froze="), "{printed}");
    }

    /// Has it go on, as on the next host.
    async fn goes_on(&self) {
        self.next_generation().await;
        let thawed = self.host.thaw().await.unwrap();
        thawed[0].outcome.clone().unwrap();
    }

    /// Checks that a command counts on from where it is.
    async fn counts_on(&self, id: &CommandId) {
        let at = self.counted(id).await;
        self.counts(id, at + 5).await;
        self.counted(id).await;
    }

    /// Has `who` be killed at `point`; who kills waits for it by then, since one that is only just starting on a
    /// busy computer would be late for a criu of half a second.
    async fn will_kill(&self, who: &str, point: &str) {
        self.write("/run/kill.py", KILL).await;
        let kill = format!(
            "rm -f /run/killed /run/waits; nohup python3 /run/kill.py {who} {point} >/run/kill.log 2>&1 & \
             for i in $(seq 600); do [ -e /run/waits ] && exit 0; sleep 0.05; done; cat /run/kill.log >&2; exit 1"
        );
        self.sh(&kill).await;
    }

    /// Waits until that was done, no criu runs any more, and `holds` is true on the host.
    async fn has_killed(&self, holds: &str) {
        let wait = format!(
            "for i in $(seq 600); do [ -e /run/killed ] && ! pgrep -f -- '--argv0 [c]riu' >/dev/null && \
             {{ {holds}; }} && exit 0; sleep 0.05; done; cat /run/kill.log >&2; ls -R /v1/xdrive/frozen >&2; exit 1"
        );
        self.sh(&wait).await;
    }
}

/// A freeze is over: its record is whole, or nothing of it is left.
const IS_OVER: &str = "[ -e /v1/xdrive/frozen/*/whole ] || [ -z \"$(ls /v1/xdrive/frozen)\" ]";

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices), the machine tree and criu"]
async fn a_freeze_that_is_cut_off_leaves_its_program_running_or_its_record_whole() {
    let disk = Disk::new(1024);
    let (machine, container) = machine(&disk).await;
    machine.bring_python().await;
    let id = machine.begin_python(&container, LARGE).await;
    for (who, point, is_frozen) in [
        ("criu", "start", false),
        ("criu", "pages", false),
        ("criu", "ending", false),
        ("criu", "ended", true),
        ("asker", "folder", true),
        ("asker", "part", true),
        ("asker", "pages", true),
    ] {
        machine.will_kill(who, point).await;
        let printed = machine.script("freeze.py all 60").await;
        machine.has_killed(IS_OVER).await;
        let whole = machine.sh("ls /v1/xdrive/frozen/*/whole 2>/dev/null || :");
        let is_whole = !whole.await.is_empty();
        let runs = machine
            .sh("pgrep -f '^python3 /work/program.py' || :")
            .await;
        assert_eq!(is_whole, is_frozen, "{who} at {point}: {printed}");
        assert_eq!(runs.is_empty(), is_frozen, "{who} at {point}: {printed}");
        if is_frozen {
            machine.goes_on().await;
        }
        machine.counts_on(&id).await;
    }
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices), the machine tree and criu"]
async fn a_program_that_uses_io_uring_is_not_frozen_and_goes_on() {
    let disk = Disk::new(512);
    let (machine, container) = machine(&disk).await;
    machine.bring_python().await;
    let id = machine.begin_python(&container, RING).await;
    let printed = machine.script("freeze.py all 60").await;
    let named = format!("xdrive: not_frozen={} criu dump: ", id.as_str());
    assert!(printed.starts_with(&named), "{printed}");
    assert_eq!(printed.lines().count(), 1, "{printed}");
    machine.counts_on(&id).await;
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices), the machine tree and criu"]
async fn connections_of_a_program_with_itself_go_on_and_those_to_elsewhere_end() {
    let disk = Disk::new(1024);
    let (machine, container) = machine(&disk).await;
    machine.bring_python().await;
    machine.write("/run/peers.py", PEERS).await;
    let listens = "nohup python3 /run/peers.py >/dev/null 2>&1 & for i in $(seq 600); do \
                   ss -Hltn 'sport = :7002' | grep -q . && exit 0; sleep 0.05; done; exit 1";
    machine.sh(listens).await;
    let heard = "for i in $(seq 600); do [ $(cat /v1/work/heard 2>/dev/null | wc -l) -lt $lines ] || \
                 exec cat /v1/work/heard; sleep 0.05; done; exit 1";

    let loopback = machine.begin_python(&container, LOOPBACK).await;
    machine.freezes().await;
    machine.goes_on().await;
    machine.counts_on(&loopback).await;
    // One that could not be frozen has them as they were.
    machine.will_kill("criu", "notice").await;
    let printed = machine.script("freeze.py all 60").await;
    assert!(printed.contains("EC2's notice came meanwhile"), "{printed}");
    machine.has_killed(IS_OVER).await;
    machine.counts_on(&loopback).await;
    machine.sh("touch /v1/work/read").await;
    let all = machine.sh(&format!("lines=1; {heard}")).await;
    assert_eq!(all, "b'bye' b''\n");
    machine
        .sh("pkill -9 -f '^python3 /work/program.py'; rm /v1/work/heard")
        .await;

    let elsewhere = machine.begin_python(&container, ELSEWHERE).await;
    machine.freezes().await;
    machine.goes_on().await;
    machine.counts_on(&elsewhere).await;
    let all = machine.sh(&format!("lines=2; {heard}")).await;
    assert!(all.starts_with("b'hello'\nb''\n"), "{all}");
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices), the machine tree and criu"]
async fn processes_that_share_memory_go_on_together() {
    let disk = Disk::new(512);
    let (machine, container) = machine(&disk).await;
    machine.bring_python().await;
    let id = machine.begin_python(&container, WORKERS).await;
    for _ in 0..2 {
        machine.freezes().await;
        let clear = "[ $(ls $root/dev/shm | wc -l) = 1 ]; rm $root/dev/shm/*";
        machine.sh(&format!("set -e; {ROOT}; {clear}")).await;
        machine.goes_on().await;
        machine.counts_on(&id).await;
    }
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices), the machine tree and criu"]
async fn a_variable_of_a_command_is_on_the_drive_only_while_that_is_frozen() {
    const SECRET: &str = "kept-4711-in-memory";
    let disk = Disk::new(512);
    let (machine, mut container) = machine(&disk).await;
    let session = SessionId("two".into());
    let variables = format!("export SECRET='{SECRET}'\n");
    let brought = machine.host.bring(&container, &session, &variables, false);
    container.variables = Some(brought.await.unwrap().file);
    let id = machine.begin_freezable(&container, COUNTING).await;
    machine.counts(&id, 5).await;
    let having = format!("grep -rlF {SECRET} /v1 || :");
    assert_eq!(machine.sh(&having).await, "");

    machine.freezes().await;
    let images = format!("/v1/xdrive/frozen/{}/images", id.as_str());
    let found = machine.sh(&having).await;
    assert!(
        !found.is_empty() && found.lines().all(|file| file.starts_with(&images)),
        "{found}"
    );
    let modes = format!("stat -c '%a %u %g' /v1/xdrive/frozen {images}");
    assert_eq!(machine.sh(&modes).await, "700 0 0\n700 0 0\n");

    machine.goes_on().await;
    assert_eq!(machine.sh(&having).await, "");
    machine.counts_on(&id).await;
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices), the machine tree and criu"]
async fn without_the_right_to_set_clocks_all_clocks_of_a_program_have_the_gap() {
    let disk = Disk::new(512);
    let (machine, container) = machine(&disk).await;
    let may = "python3 -I -S -c 'import sys; sys.path.insert(0, sys.argv[1]); import criu; \
               print(criu.has_capability(criu.SYS_TIME))' /var/lib/xdrive/scripts/*";
    assert_eq!(machine.sh(may).await, "False\n", "a machine of `--local`");
    machine.bring_python().await;
    let id = machine.begin_python(&container, CLOCKS).await;
    machine.freezes().await;
    machine.goes_on().await;
    machine.counts_on(&id).await;
    let clocks = machine.sh("cat /v1/work/clocks").await;
    let times = clocks.split_whitespace().map(|word| word.parse().unwrap());
    let times: Vec<f64> = times.collect();
    let gaps = times
        .windows(4)
        .step_by(2)
        .map(|it| [it[2] - it[0], it[3] - it[1]]);
    let [monotonic, wall] = gaps
        .max_by(|one, other| one[1].total_cmp(&other[1]))
        .unwrap();
    assert!(
        wall > 0.2 && (wall - monotonic).abs() < 0.02,
        "{wall} {monotonic}"
    );
}
