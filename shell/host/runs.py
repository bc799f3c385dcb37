"""Commands that run on this host, or ran on it: which, and what they printed.

    runs.py list
    runs.py running
    runs.py logs NAME FROM [follow] [TRY]

`list` prints a line `xdrive: run=JSON` for each: those that run, and those that are on record on
the drive, the oldest first. The JSON is what `command.py` has as the state of a command, `last`,
the last line that it printed, `is_kept`, whether a caller can attach to it, and `is_lost`, whether it
vanished with its host: nobody knows its end. `running` prints a line `xdrive: running=NAME` for each that runs.

`logs` writes what the command wrote: all that is kept where FROM is 0, what came in the last so
many seconds where it is another number, and for `OUTPUT:ERRORS` what follows so many bytes of its
standard output and of its standard error. A record has no times: of a command that ended in those
seconds all is written. With `follow` it goes on until the command has ended, or its own standard
input. Standard output has frames: a letter, the place of the first byte in eight bytes, the length
of the payload in four, the highest first, and the payload.

    o   standard output
    e   standard error
    x   the end: there is nothing more

The place is the number of bytes that the command wrote to that stream before: later than asked for
where those are not kept any more. With TRY, a number, it is of that former try of the command
(`tries.py`). The first two frames name the places of both streams, and are
empty. So is one before the `x` where the last bytes of a stream are missing. Without an `x` the end
of the output is that of the connection, and no other.
"""

import json
import os
import select
import socket
import struct
import sys
import time

# Isolated mode (-I) leaves the scripts' own folder out, which is root's.
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from spool import CHUNK, FOLDER, KINDS, RECORDS, SPOOLS, STREAMS, TRIES  # noqa: E402

HEAD = struct.Struct(">cQI")  # of a frame
LINE = 4096  # bytes at the end of an output in which its last line is looked for
TIMEOUT = 30  # seconds that a keeper may be busy: it waits for a lock, or the disk
FROZEN = "/v1/xdrive/frozen"  # as in frozen.py
PAUSE = 0.2  # seconds between two looks at what a command wrote


def main(verb="", name="", start="0", *rest):
    if verb == "list":
        return list_all()
    if verb == "running":
        return list_running()
    if verb != "logs" or not name or "/" in name:
        sys.exit("usage: runs.py list | running | logs NAME SECONDS|OUTPUT:ERRORS [follow] [TRY]")
    seen, moment = None, 0
    if ":" in start:
        seen = [int(place) for place in start.split(":")]
    elif int(start):
        moment = time.time() - int(start)
    for number in rest:
        if number != "follow":
            name = f"{name}/{TRIES}/{int(number)}"
    try:
        sys.exit(logs(name, seen, moment, "follow" in rest))
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


def on_record(name):
    """The last state that the keeper of a command had; none if it is not on record."""
    try:
        with open(f"{RECORDS}/{name}/record") as file:
            return json.load(file)
    except (OSError, ValueError):
        return None


def recorded(name, moment=0):
    """The state of a command by its record; none if there is none. Less of its outputs is kept with
    that than by a keeper."""
    state = on_record(name)
    if state is None:
        return None
    state["run"] = name
    state["is_frozen"] = os.path.exists(f"{FROZEN}/{name}/whole")
    state["is_lost"] = state["status"] is None and not state["is_frozen"]
    if state["ended"] is not None and state["ended"] < moment:
        state["since"] = list(state["written"])
    for stream, output in enumerate(STREAMS):
        try:
            length = os.path.getsize(f"{RECORDS}/{name}/{output}")
        except OSError:
            length = 0
        state["kept"][stream] = state["written"][stream] - length
    return state


def list_all():
    states = {name: recorded(name) for name in names(RECORDS)}
    for name in names(FOLDER):
        state = ask(name)
        if state:
            states[name] = {**state, "is_kept": True}
    known = [{"is_kept": False, "is_lost": False, **state} for state in states.values() if state]
    for state in sorted(known, key=lambda state: state["began"]):
        state["last"] = last_line(state)
        state["freezing"] = freezing(state)
        print(f"xdrive: run={json.dumps(state)}")


def freezing(state):
    """How a command that may be frozen would be: whether by its user, and in words by a notice."""
    if not state.get("freezes") or not state["is_kept"] or state["status"] is not None:
        return None
    import frozen  # which takes as long to load as all else

    pid, bound = state["pid"], state["bound"]
    words = frozen.fit(pid, bound, frozen.NOTICE - frozen.asked(pid))[1]
    return {"fits": frozen.fit(pid, bound, frozen.PAUSE)[0], "words": words}


def list_running():
    for name in names(FOLDER):
        state = ask(name)
        if state and state["status"] is None:
            print(f"xdrive: running={name}")


def last_line(state):
    """Of its standard output, or of its standard error if it printed nothing else."""
    for stream, written in enumerate(state["written"]):
        start = max(state["kept"][stream], written - LINE)
        text = b"".join(piece for _, piece in pieces(state, stream, start))
        text = text.decode(errors="replace")
        lines = [line for line in text.split("\n") if line.strip()]
        if lines:
            return lines[-1].split("\r")[-1].strip()[:200]
    return ""


def pieces(state, stream, start):
    """What it wrote from byte `start` on, or from a later one: places, and what is there."""
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
                yield start, piece
                start += len(piece)
    except FileNotFoundError:
        # The end of it is on record. The command may have written more since it had this state.
        final = on_record(state["run"])
        if final is None:
            return
        try:
            with open(f"{RECORDS}/{state['run']}/{name}", "rb") as file:
                tail = file.read()
        except FileNotFoundError:
            return
        first = final["written"][stream] - len(tail)
        start = max(start, first)
        if start < written:
            yield start, tail[start - first : written - first]


def logs(name, seen, moment, follows):
    state = ask(name, moment) or recorded(name, moment)
    if state is None:
        print(f"there is no run {name} here", file=sys.stderr)
        return 1
    first = state.get("first", [0, 0])
    at = seen or [max(pair) for pair in zip(state["since"] if moment else first, first)]
    # A former try's begin with it; those of one that goes on count on over its tries here.
    base = first if f"/{TRIES}/" in name else [0, 0]
    for stream, kind in enumerate(KINDS):
        at[stream] = max(at[stream], state["kept"][stream])
        write(kind, at[stream] - base[stream], b"")
    ends = list(at)  # of what was written here: `at` is later where bytes are missing
    while True:
        for stream, written in enumerate(state["written"]):
            start = max(at[stream], state["kept"][stream])
            for place, piece in pieces(state, stream, start):
                # While it was read, or before, something newer may have been written over it.
                kept = (ask(name) or on_record(name) or state)["kept"][stream]
                late = min(max(0, kept - place), len(piece))
                if late < len(piece):
                    write(KINDS[stream], place + late - base[stream], piece[late:])
                    ends[stream] = place + len(piece)
            at[stream] = max(start, written)
        if state.get("is_lost"):
            print(f"{name} vanished with its host, and its end is not on record", file=sys.stderr)
            return 1
        if not follows or is_over(state):
            break
        if has_no_reader(PAUSE):
            return 1
        state = ask(name) or recorded(name)
        if state is None:
            print(f"{name} is not here any more, and its end is not on record", file=sys.stderr)
            return 1
    for stream, kind in enumerate(KINDS):
        if ends[stream] < at[stream]:
            write(kind, at[stream] - base[stream], b"")
    write(b"x", 0, b"")
    return 0


def is_over(state):
    """Whether a command has ended, and all that it wrote was read. A keeper of an earlier version
    does not say the latter."""
    return state["status"] is not None and state.get("is_settled", True)


def has_no_reader(pause):
    """Waits that long, or until standard input ends: sshd closes it with the connection, which an
    output without anything to write does not notice."""
    ends, _, _ = select.select([0], [], [], pause)
    return bool(ends) and not os.read(0, CHUNK)


def write(kind, place, payload):
    frame = HEAD.pack(kind, place, len(payload)) + payload
    while frame:
        frame = frame[os.write(1, frame) :]


main(*sys.argv[1:])
