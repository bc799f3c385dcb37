"""The tries of a command that is begun again where its host was lost: its order, and which tries
have begun.

    tries.py order NAME
    tries.py ordered NAME

`order` keeps its standard input, a line, on the drive: the order by which any laptop begins the next
try. `ordered` prints it, unless there is none, as `xdrive: order=…`, the number of the last try
that has begun as `xdrive: begun=N`, 0 if none has, and how many of them are followed by another one
because they failed by themselves as `xdrive: failed=N`.

Tries are numbered from 1. Whoever begins one makes the folder `tries/NUMBER` in the record of the
command first (`take`): there is one drive, so each try begins once at most, whoever else means to begin
it. A try that has begun leaves its record there once the next one begins.
"""

import contextlib
import json
import os
import sys

# Isolated mode (-I) leaves the scripts' own folder out, which is root's.
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from spool import ORDER, RECORDS, STREAMS, TRIES, replace  # noqa: E402

BEGUN = 93  # the exit status where a try has begun already, as in the prelude
FULL = 92  # the exit status where the drive has no room, likewise
MOST = 2 << 20  # bytes of an order: a command has one MiB, and JSON doubles a quote


def main(verb="", name="", *rest):
    if verb not in ["order", "ordered"] or not name or "/" in name or rest:
        sys.exit("usage: tries.py order NAME | ordered NAME")
    if verb == "order":
        return keep(name)
    with contextlib.suppress(FileNotFoundError):
        with open(f"{RECORDS}/{name}/{ORDER}") as file:
            print(f"xdrive: order={file.read().strip()}")
    print(f"xdrive: begun={last(name)}")
    print(f"xdrive: failed={len(failed(name))}")


def keep(name):
    """Keeps the order that is on standard input."""
    order = sys.stdin.buffer.read(MOST + 1)
    if len(order) > MOST:
        sys.exit(f"an order has {MOST} bytes at most")
    with room_on_drive():
        os.makedirs(f"{RECORDS}/{name}", mode=0o700, exist_ok=True)
        replace(f"{RECORDS}/{name}/{ORDER}", order, "part")


def last(name):
    """The number of the last try that has begun; 0 if none has."""
    with contextlib.suppress(FileNotFoundError):
        return max([int(number) for number in os.listdir(f"{RECORDS}/{name}/{TRIES}")], default=0)
    return 0


def take(name, number):
    """Takes the try `number` of a command, which the caller then begins. Ends this process if it has
    begun already, or a later one. The record of the one before goes to its own folder."""
    folder = f"{RECORDS}/{name}"
    if last(name) >= number:
        print(f"try {number} of {name} has begun already", file=sys.stderr)
        sys.exit(BEGUN)
    with room_on_drive():
        os.makedirs(f"{folder}/{TRIES}/{number}", mode=0o700)
        for path in [f"{folder}/{TRIES}", folder, RECORDS]:
            sync(path)
        for part in ["record", *STREAMS] if number > 1 else []:
            with contextlib.suppress(FileNotFoundError):
                os.replace(f"{folder}/{part}", f"{folder}/{TRIES}/{number - 1}/{part}")


def failed(name):
    """The former tries of a command that failed by themselves: how many seconds each took, by its
    number."""
    lengths = {}
    folder = f"{RECORDS}/{name}/{TRIES}"
    with contextlib.suppress(FileNotFoundError):
        for number in os.listdir(folder):
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                with open(f"{folder}/{number}/record") as file:
                    state = json.load(file)
                if state["status"] and state["closing"] is None:
                    lengths[int(number)] = state["ended"] - state["began"]
    return lengths


@contextlib.contextmanager
def room_on_drive():
    """Ends this process where the drive has no room for what is written in it, or is not mounted."""
    if not os.path.isdir(os.path.dirname(RECORDS)):
        sys.exit("the drive is not mounted")
    try:
        yield
    except OSError as error:
        print(f"the order of a command cannot be kept on the drive: {error}", file=sys.stderr)
        sys.exit(FULL)


def sync(folder):
    """Has what is in a folder reach the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


if __name__ == "__main__":
    main(*sys.argv[1:])
