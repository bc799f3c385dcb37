"""Freezing the commands of this host: whether it can be, and all of them at once.

    freeze.py load
    freeze.py here
    freeze.py sweep ORDER
    freeze.py shells
    freeze.py check NAMED
    freeze.py all SECONDS

`load` unpacks criu, whose archive is on standard input. `here` says whether it is here: `xdrive: criu=yes|no`.
`check` says so, too, and whether commands of the container NAMED (empty for the main one) can be frozen, as
`xdrive: freezes=yes`, or with the reason: it freezes a small one and has it go on, since a criu that finds
nothing amiss may fail all the same. The container's process numbers begin with some that no frozen
command of the drive has. `shells` says of each shell and notebook server that may be frozen whether it can be:
`xdrive: freezes=NAME yes`, or with the reason. `sweep` is a part of `drive mount`: with its XDRIVE_FROZEN it
decides what of the frozen may go on, and removes the rest (`frozen.py`).

`all` freezes, within so many seconds, each shell, command and notebook server that may be frozen (`frozen.py`);
what does not fit in that time or on the drive runs on. A line for each: `xdrive: froze=NAME MILLISECONDS BYTES
LABEL`, or `xdrive: not_frozen=NAME WHY`, both also as events.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

# Isolated mode (-I) leaves the scripts' own folder out, which is root's.
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import criu  # noqa: E402
import cuda  # noqa: E402
import frozen  # noqa: E402
import inside  # noqa: E402
import notebook  # noqa: E402
import processes  # noqa: E402
from enter import CALL, Started, adopts, with_gpus  # noqa: E402
from keeper import TERMINALS  # noqa: E402
from spool import FOLDER as COMMANDS  # noqa: E402

EVENTS = "/run/xdrive/events"
BRIEF = 20  # seconds that the small command may take
ANSWER = 2  # seconds that a keeper may take to answer


def main(verb="", word=None, *rest):
    if verb == "load" and word is None:
        return criu.load(sys.stdin)
    if verb == "here" and word is None:
        return print(f"xdrive: criu={'yes' if criu.is_here() else 'no'}")
    if verb == "sweep" and word in ["keep", "forget", ""]:
        return frozen.sweep(word)
    if verb == "shells" and word is None:
        return shells()
    if verb not in ["check", "all"] or word is None or rest:
        sys.exit("usage: freeze.py load | here | sweep keep|forget|'' | shells | check NAMED | all SECONDS")
    if verb == "check":
        return check(word)
    freeze_all(float(word))


def check(named):
    print(f"xdrive: criu={'yes' if criu.is_here() else 'no'}")
    if not criu.is_here():
        return
    try:
        os.makedirs(frozen.FOLDER, mode=0o700, exist_ok=True)
        trial = tempfile.mkdtemp(prefix="trial.", dir=frozen.FOLDER)
        try:
            try_out(named, trial)
        finally:
            shutil.rmtree(trial, ignore_errors=True)
        print("xdrive: freezes=yes")
    except (criu.Failed, OSError, subprocess.SubprocessError) as error:
        print(f"xdrive: freezes={one_line(str(error))}")


def try_out(named, trial):
    state = inside.state(named)
    if state is None or not inside.enterable(state.container, gpus=True):
        raise criu.Failed("the container is not one that runc alone has made")
    if not inside.enterable(state.container):
        cuda.check()
    frozen.spread(state.pid)
    adopts()
    reads, writes = os.pipe()
    words = with_gpus([*CALL, state.container, "sh", "-c", "read -r _"])
    started = Started.of(words, [reads, writes, writes])
    if started.status() is not None:
        raise criu.Failed("the container runs no command")
    inode = os.fstat(reads).st_ino
    try:
        criu.dump(state.pid, started.pid, trial, [], BRIEF)
        started.wait()
        criu.restore(state.pid, trial, ["--inherit-fd", f"fd[{reads}]:pipe:[{inode}]"], [reads], BRIEF)
        os.write(writes, b"\n")
        if ended() != 0:
            raise criu.Failed("what was frozen did not go on")
    finally:
        processes.send(processes.children(os.getpid()), signal.SIGKILL)


def ended():
    """The exit status of this process's only child; none if it does not end."""
    end = time.monotonic() + BRIEF
    while time.monotonic() < end:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid:
            return status
        time.sleep(0.01)
    return None


def shells():
    for name, state, _ in freezable():
        if not frozen.ID.fullmatch(name):
            fits, words = frozen.fit(state["pid"], state["bound"], frozen.PAUSE)
            if frozen.is_there(name):
                fits, words = False, frozen.THERE
            print(f"xdrive: freezes={name} {'yes' if fits else words}")


def freeze_all(seconds):
    end = time.monotonic() + seconds
    # What is stopped just then goes on.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    noticed = os.path.exists(criu.NOTICE)
    frozen.await_thaw(end)  # what goes on just now is frozen again
    for name, state, freeze in freezable():
        began = time.monotonic()
        fits, words = frozen.fit(state["pid"], state["bound"], end - began)
        if os.path.exists(criu.NOTICE) != noticed:
            fits, words = False, "EC2's notice came meanwhile"
        answer = {"why": words} if not fits else freeze(end - time.monotonic())
        if answer and "bytes" in answer:
            spent = int((time.monotonic() - began) * 1000)
            report(f"froze={name} {spent} {answer['bytes']} {one_line(state['command'])}")
        else:
            why = answer["why"] if answer else "the process that keeps it does not answer"
            report(f"not_frozen={name} {one_line(why)}")


def freezable():
    """What runs and may be frozen: its name, its state, and what freezes it within so many seconds."""
    for before, folder in [(frozen.PREFIX, TERMINALS), ("", COMMANDS)]:
        for name in sorted(os.listdir(folder)) if os.path.exists(folder) else []:
            path = f"{folder}/{name}"
            state = ask(path, b"?0", ANSWER)
            if state and state.get("freezes") and state["status"] is None and not state["is_frozen"]:
                yield before + name, state, lambda left: ask(path, f"*{left}".encode(), left + ANSWER)
    for name, pid in notebook.freezable():
        state = {"pid": pid, "bound": 0, "command": notebook.LABEL}
        yield name, state, lambda left: notebook.freeze(name, pid, left)


def ask(path, words, seconds):
    """The answer of a keeper; none if it has none."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as keeper:
        keeper.settimeout(seconds)
        try:
            keeper.connect(path)
            keeper.send(words)
            return json.loads(keeper.recv(1 << 20))
        except (OSError, ValueError):
            return None


def report(line):
    key, _, rest = line.partition("=")
    with open(EVENTS, "a") as events:
        events.write(f"xdrive: event={key} {rest}\n")
    with contextlib.suppress(OSError):  # whoever closed may be gone
        print(f"xdrive: {line}", flush=True)


def one_line(text):
    return " ".join(text.split())


main(*sys.argv[1:])
