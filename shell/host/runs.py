"""Commands that run on this host, or ran on it: which, and what they printed.

    runs.py list
    runs.py logs NAME SECONDS [follow]

`list` prints a line `xdrive: run=JSON` for each: those that run, and those that are on record on
the drive, the oldest first. The JSON is what `command.py` has as the state of a command, `last`, the
last line that it printed, and `is_kept`, whether a caller can attach to it.

`logs` writes what the command wrote to standard output and standard error to its own: all that is
kept, or what came in the last SECONDS if they are not 0. With `follow` it goes on until the command
has ended.
"""

import json
import os
import socket
import sys
import time

# Isolated mode (-I) leaves the scripts' own folder out, which is root's.
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from spool import CHUNK, FOLDER, RECORDS, SPOOLS, STREAMS  # noqa: E402

LINE = 4096  # bytes at the end of an output in which its last line is looked for
TIMEOUT = 30  # seconds that a keeper may be busy: it waits for a lock, or the disk
PAUSE = 0.2  # seconds between two looks at what a command wrote


def main(verb="", name="", seconds="0", *rest):
    if verb == "list":
        return list_all()
    if verb != "logs" or not name or "/" in name:
        sys.exit("usage: runs.py list | logs NAME SECONDS [follow]")
    moment = time.time() - int(seconds) if int(seconds) else 0
    try:
        sys.exit(logs(name, moment, "follow" in rest))
    except BrokenPipeError:
        sys.exit(1)


def names(folder):
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []


def ask(name, moment=0):
    """The state of a command by its keeper; none if it has none. Exits where the keeper does not
    answer: its command may run."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as keeper:
        keeper.settimeout(TIMEOUT)
        try:
            keeper.connect(f"{FOLDER}/{name}")
            keeper.send(f"?{moment}".encode())
            return json.loads(keeper.recv(1 << 20))
        except socket.timeout:
            sys.exit(f"the process that keeps {name} does not answer")
        except (OSError, ValueError):
            return None


def recorded(name):
    try:
        with open(f"{RECORDS}/{name}/record") as file:
            return json.load(file)
    except (OSError, ValueError):
        return None


def list_all():
    states = {name: recorded(name) for name in names(RECORDS)}
    for name in names(FOLDER):
        state = ask(name)
        if state:
            states[name] = {**state, "is_kept": True}
    known = [{"is_kept": False, **state} for state in states.values() if state]
    for state in sorted(known, key=lambda state: state["began"]):
        state["last"] = last_line(state)
        print(f"xdrive: run={json.dumps(state)}")


def last_line(state):
    """Of its standard output, or of its standard error if it printed nothing else."""
    for stream, written in enumerate(state["written"]):
        start = max(state["kept"][stream], written - LINE)
        text = b"".join(pieces(state, stream, start)).decode(errors="replace")
        lines = [line for line in text.split("\n") if line.strip()]
        if lines:
            return lines[-1].split("\r")[-1].strip()[:200]
    return ""


def pieces(state, stream, start):
    """What it wrote from byte `start` on."""
    written, bound = state["written"][stream], state["bound"]
    name = STREAMS[stream]
    try:
        with open(f"{SPOOLS}/{state['run']}/{name}", "rb", buffering=0) as file:
            while start < written:
                place = start % bound
                length = min(CHUNK, written - start, bound - place)
                piece = os.pread(file.fileno(), length, place)
                if not piece:
                    return
                yield piece
                start += len(piece)
    except FileNotFoundError:
        # The end of it is on record.
        try:
            with open(f"{RECORDS}/{state['run']}/{name}", "rb") as file:
                tail = file.read()
                yield tail[max(0, len(tail) - (written - start)) :]
        except FileNotFoundError:
            pass


def logs(name, moment, follows):
    state = ask(name, moment) or recorded(name)
    if state is None:
        print(f"there is no run {name} here", file=sys.stderr)
        return 1
    at = list(state["since"]) if moment else [0, 0]
    while True:
        for stream, written in enumerate(state["written"]):
            start = max(at[stream], state["kept"][stream])
            for piece in pieces(state, stream, start):
                write(stream + 1, piece)
            at[stream] = written
        if not follows or state["status"] is not None:
            return 0
        time.sleep(PAUSE)
        state = ask(name) or recorded(name)
        if state is None:
            return 0


def write(stream, piece):
    while piece:
        piece = piece[os.write(stream, piece) :]


main(*sys.argv[1:])
