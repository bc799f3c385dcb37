"""Whether anything is done on this host: a sample of it, and what was used since the one before.

    idle.py

The watch calls it each minute, or oftener where less is asked for, once a client has said how long this
host may be idle (`session hold`), or where there are GPUs. Busy it is if since the sample before

  - the containers took more of one core than LIMITS has, in percent;
  - a GPU is in use for more than that, by nvidia-smi;
  - the containers, or SSH connections (forwards, copies), moved more bytes a second than that;
  - something was typed in a terminal of the host's, where sessions have theirs, or of a container's;
  - a client has come;

and while a run lives or a script is at work. What cannot be measured counts as busy, and is logged once,
until it can be. After as long as the host may be idle without a busy sample, OVER has the reason to close,
with the highest of what was measured, for the watch. Where nobody has said how long that is, attached
clients get an event for each full hour of idle GPUs: `idle_gpu SECONDS`.

LIMITS are above what was measured where nothing was done: a shell and JupyterLab take 0.003 % of a core
and 53 bytes a second (xdrive's and sshd's keep-alives), a page of JupyterLab's that is only open asks for
740 a second, and `top` draws 450. The watch and what it calls are in no container, and use no SSH.
"""

import fcntl
import itertools
import json
import os
import re
import subprocess
import sys
import time

# Isolated mode (-I) leaves the scripts' own folder out, which is root's.
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from inside import STATES, UNREADABLE, lives  # noqa: E402

RUN = "/run/xdrive"
WANTED = f"{RUN}/idle"  # "SECONDS SESSION", a line for each session that said so; the last one counts
OVER = f"{RUN}/idle.over"  # why this host is to close
STATE = f"{RUN}/idle.state"  # the last sample, and since when nothing was done
SETTINGS = "/etc/xdrive"
GPUS_READY = f"{RUN}/gpus.ready"  # as gpu has it: there is no container on a host with GPUs before
LIMITS = {"cpu": 5, "gpu": 5, "traffic": 2048}
HOUR = 3600  # seconds, unless SETTINGS have a `gpu_hour`
ANSWER = 5  # seconds that nvidia-smi may take
MOST = 4096  # terminals that are looked at, of the host and of each container

FAILED = (*UNREADABLE, subprocess.SubprocessError)


def main():
    with open(f"{RUN}/idle.lock", "a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return  # the one before is at work
        wanted, state = time_wanted(), recorded()
        now = sample(state)
        seen = compare(state.get("sample"), now)
        judge(state, now, seen)
        record(STATE, json.dumps(state))
        if wanted is None:
            tell_of_gpus(state)
        elif wanted and now["at"] - state["since"] >= wanted:
            record(OVER, reason(wanted, state["most"]))


def time_wanted():
    """How many seconds this host may be idle: 0 for ever, none if nobody has said."""
    try:
        with open(WANTED) as lines:
            return int(lines.readlines()[-1].split()[0])
    except UNREADABLE:
        return None


def recorded():
    try:
        with open(STATE) as text:
            return json.load(text)
    except UNREADABLE:
        return {"logged": []}


def record(path, text):
    with open(f"{path}.new", "w") as file:
        file.write(f"{text}\n")
    os.rename(f"{path}.new", path)


def sample(state):
    """All that is counted, as it is now; none for what cannot be measured."""

    def measured(what, measure, *words):
        try:
            value, why = measure(*words), None
        except FAILED as error:
            value, why = None, error
        if why and what not in state["logged"]:
            print(f"{what} cannot be measured and counts as busy: {why}", file=sys.stderr)
        state["logged"] = [it for it in state["logged"] if it != what] + ([what] if why else [])
        return value

    def inside(what, measure):
        return None if found is None else measured(what, measure, found)

    found = measured("what containers do", containers)
    return {
        "at": time.clock_gettime(time.CLOCK_BOOTTIME),
        "cpu": inside("processor time", cpu),
        "net": inside("containers' traffic", net),
        "ssh": measured("SSH's traffic", ssh),
        "typed": inside("input", typed),
        "gpu": measured("the GPUs' use", gpu, state) if os.path.exists(GPUS_READY) else 0,
        "clients": clients(),
        "at_work": is_locked(f"{RUN}/lock"),
    }


def containers():
    """All containers of dockerd's that run, as runc has them: first process and cgroups, by id."""
    found = {}
    for folder in STATES.values():
        for name in names(folder):
            try:
                with open(f"{folder}/{name}/state.json") as text:
                    state = json.load(text)
            except FileNotFoundError:
                continue  # it ends just now
            if lives(state["init_process_pid"]):
                found[name] = (state["init_process_pid"], state["cgroup_paths"])
    if not any(map(os.path.isdir, STATES.values())):
        raise LookupError("dockerd has run none")
    return found


def names(folder):
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []


def cpu(found):
    """The seconds of a core that each has taken."""
    return {name: seconds(groups) for name, (_, groups) in found.items()}


def seconds(groups):
    """Of a cgroup of either version (kernel documentation, cgroup-v1/cpuacct and cgroup-v2)."""
    if "cpuacct" in groups:
        with open(f"{groups['cpuacct']}/cpuacct.usage") as nanoseconds:
            return int(nanoseconds.read()) / 1e9
    with open(f"{groups['']}/cpu.stat") as lines:
        return int(dict(line.split() for line in lines)["usage_usec"]) / 1e6


def net(found):
    """The bytes that the network devices of each have received and sent."""
    return {name: device_bytes(f"/proc/{pid}/net/dev") for name, (pid, _) in found.items()}


def device_bytes(path):
    total = 0
    with open(path) as lines:
        for line in list(lines)[2:]:
            name, _, counts = line.partition(":")
            counts = counts.split()
            if name.strip() != "lo":
                total += int(counts[0]) + int(counts[8])
    return total


def ssh():
    """The bytes that each connection to sshd has moved."""
    words = ["ss", "-tinH", "state", "established", "sport = :22"]
    listed = subprocess.run(words, capture_output=True, timeout=ANSWER, check=True)
    return connection_bytes(listed.stdout.decode())


def connection_bytes(text):
    """By the other side's address and port; the numbers stand on a line of their own below it."""
    found, peer = {}, None
    for line in text.splitlines():
        if not line[:1].isspace():
            peer = line.split()[3]
        moved = re.findall(r"\bbytes_(?:acked|received):(\d+)", line)
        found[peer] = found.get(peer, 0) + sum(map(int, moved))
    return found


def typed(found):
    """When each terminal was last read, as w(1) has it: the kernel's driver writes it in steps of 8 seconds."""
    roots = ["", *(f"/proc/{pid}/root" for pid, _ in found.values())]
    times = {}
    for root in roots:
        with os.scandir(f"{root}/dev/pts") as terminals:
            for it in itertools.islice((it for it in terminals if it.name.isdigit()), MOST):
                try:
                    times[it.path] = os.lstat(it.path).st_atime_ns
                except FileNotFoundError:
                    pass  # it was closed just now
    return times


def gpu(state):
    """The highest of the GPUs', in percent. One that hangs in the kernel hears no signal: while it is there
    no other is started."""
    late = TimeoutError(f"nvidia-smi does not answer within {ANSWER} s")
    asking = state.get("asking")
    if asking and comm(asking) == "nvidia-smi":
        raise late
    words = ["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits"]
    nothing = subprocess.DEVNULL
    asked = subprocess.Popen(words, stdin=nothing, stdout=subprocess.PIPE, stderr=nothing)
    state["asking"] = asked.pid
    try:
        return max(map(int, asked.communicate(timeout=ANSWER)[0].split()))
    except subprocess.TimeoutExpired:
        asked.kill()
        raise late from None


def comm(pid):
    try:
        with open(f"/proc/{pid}/comm") as name:
            return name.read().strip()
    except OSError:
        return None


def clients():
    folder = f"{RUN}/clients"
    return sorted(name for name in names(folder) if is_locked(f"{folder}/{name}"))


def is_locked(path):
    try:
        with open(path) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True


def compare(before, now):
    """What was used since the sample `before`, by the names of LIMITS; none for what is not known."""

    def rate(kind):
        if not before or before[kind] is None or now[kind] is None:
            return None
        grown = (max(0, count - before[kind].get(name, 0)) for name, count in now[kind].items())
        return sum(grown) / max(now["at"] - before["at"], 0.1)

    core, traffic = rate("cpu"), [rate("net"), rate("ssh")]
    return {
        "cpu": None if core is None else core * 100,
        "gpu": now["gpu"],
        "traffic": None if None in traffic else max(traffic),
    }


def is_busy(before, now, seen):
    if not before or any(seen[kind] is None or seen[kind] > most for kind, most in LIMITS.items()):
        return True
    terminals = before["typed"], now["typed"]
    if None in terminals or any(terminals[0].get(path) != at for path, at in terminals[1].items()):
        return True
    has_run = any(client.startswith("run-") for client in now["clients"])
    return has_run or now["at_work"] or not set(now["clients"]) <= set(before["clients"])


def judge(state, now, seen):
    """Brings the state up to date: since when nothing was done, with the most that was seen, and since when
    no GPU was in use."""
    if is_busy(state.get("sample"), now, seen):
        state["since"], state["most"] = now["at"], {}
    else:
        state["most"] = {kind: max(state["most"].get(kind, 0), seen[kind]) for kind in LIMITS}
    if seen["gpu"] is None or seen["gpu"] > LIMITS["gpu"] or "sample" not in state:
        state["gpu_since"], state["hours"] = now["at"], 0
    state["sample"] = now


def tell_of_gpus(state):
    hours, idle = state["hours"], state["sample"]["at"] - state["gpu_since"]
    state["hours"] = int(idle // hour())
    if os.path.exists(GPUS_READY) and state["hours"] > hours:
        with open(f"{RUN}/events", "a") as events:
            events.write(f"xdrive: event=idle_gpu {int(idle)}\n")


def hour():
    with open(SETTINGS) as lines:
        settings = dict(line.rstrip("\n").split("=", 1) for line in lines if "=" in line)
    return int(settings.get("gpu_hour", HOUR))


def reason(wanted, most):
    gpu = [f"GPU {most['gpu']:.0f} %"] if os.path.exists(GPUS_READY) else []
    parts = [f"CPU {most['cpu']:.1f} %", *gpu, "no input", f"{most['traffic']:.0f} B/s"]
    return f"idle for {words(wanted)}: {', '.join(parts)}"


def words(seconds):
    for length, unit in ((3600, "h"), (60, "min")):
        if seconds % length == 0:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"


if __name__ == "__main__":
    main()
