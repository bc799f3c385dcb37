"""Shells that are frozen in their terminals, and go on: what `terminal.py` needs for that alone."""

import json
import os
import stat
import traceback

import criu
import frozen
import processes
import ptmx
from enter import container_of

LABEL = "the shell"
MOST = 512 << 10  # bytes of output that a keeper has at most
LAST = 64 << 10  # bytes that are read once all is stopped: more than a terminal holds
TERMINALS = range(136, 144)  # the majors of pseudo-terminals (devices.txt of Linux)


def answer(keeper, asked):
    """What the keeper of a terminal answers `freeze.py`: to `?0` its state, as that of a command, and to `*`
    and so many seconds what became of a freeze."""
    told = state(keeper) if asked[:1] == b"?" else freeze(keeper, float(asked[1:]))
    return json.dumps(told).encode()


def state(keeper):
    return {
        "command": LABEL,
        "status": keeper.status,
        "bound": MOST,
        "pid": keeper.started.pid,
        "freezes": keeper.freezes,
        "is_frozen": keeper.is_frozen,
    }


def freeze(keeper, seconds):
    if not keeper.freezes or keeper.is_frozen or keeper.status is not None:
        return {"why": "it does not run"}
    container = container_of(keeper.command)
    how = {"container": container, "command": keeper.command, "pipes": [], "streams": []}
    try:
        name, pid = frozen.PREFIX + keeper.name, keeper.started.pid
        size = frozen.freeze(name, pid, [], how, seconds, lambda folder: put_down(keeper, f"{folder}/output"))
    except Exception as error:  # whatever it is, the shell runs on
        if not isinstance(error, criu.Failed):
            traceback.print_exc()
        return {"why": str(error)}
    keeper.end_frozen()
    return {"bytes": size}


def put_down(keeper, output):
    """Writes the end of what was shown to the file `output`, with what its stopped programs have written; what
    else is to be known of the terminal."""
    # What they have left behind may write on for ever.
    limit = keeper.written + LAST
    while keeper.master is not None and keeper.written < limit and keeper.read_output():
        pass
    if keeper.master is None:
        raise criu.Failed("no process has its terminal open")
    with open(output, "wb") as file:
        file.write(keeper.output)
    return {"written": keeper.written, "terminal": tty(keeper.started.pid), **ptmx.modes(keeper.master)}


def tty(pid):
    """The terminal of a process, as criu names it: its device, and that of the file system which has it."""
    for descriptor in [0, 1, 2, *processes.descriptors(pid)]:
        try:
            status = os.stat(f"/proc/{pid}/fd/{descriptor}")
        except OSError:
            continue
        if stat.S_ISCHR(status.st_mode) and os.major(status.st_rdev) in TERMINALS:
            return f"tty[{status.st_rdev:x}:{status.st_dev:x}]"
    raise criu.Failed("it has no terminal")


def thaw(go_on):
    """Has the shells go on that are frozen on the drive, by `go_on` for each, which has its terminal kept."""

    def goes_on(name, how):
        if not go_on(name.removeprefix(frozen.PREFIX), lambda: made_again(name, how)):
            raise frozen.Left(frozen.why(name))
        return LABEL

    frozen.each(frozen.TERMINAL, goes_on)


def made_again(name, how):
    """The shell of a record: its process and terminal, its command, the end of what it showed, and how much
    that was in all."""
    started, master = frozen.thaw(name, how)
    with open(f"{frozen.FOLDER}/{name}/output", "rb") as file:
        output = file.read(MOST)
    return started, master, how["command"], output, max(int(how["written"]), len(output))
