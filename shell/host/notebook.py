"""The notebook servers of a host's containers, with their kernels: frozen at a close, and going on.

    notebook.py mark NAMED
    notebook.py thaw

`mark` has a close freeze the one of the container NAMED (empty for the main one), which is to be started after
that: its process numbers begin with some that no frozen program of the drive has. `thaw` has those go on that
are frozen on the drive, each once, with a line for each as `command.py thaw` has it. It goes before a server is
started: that one would have its port.

Nobody keeps a server as a keeper keeps a command: it is a child of the container's first process, and its
output is a file on the container's tmpfs. What else it has there is frozen with it, but for the tokens: those
are its sessions'. Its connections to browsers end: they come back over another forward. Those to its kernels
go on, with all that is on its way in them.
"""

import contextlib
import os
import re
import subprocess
import sys
import time

# Isolated mode (-I) leaves the scripts' own folder out, which is root's.
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import criu  # noqa: E402
import frozen  # noqa: E402
import inside  # noqa: E402
import processes  # noqa: E402
import shm  # noqa: E402
import sockets  # noqa: E402

MARKS = "/run/xdrive/notebooks"  # a file for each that may be frozen, with its name among what is frozen
LABEL = "the notebook server"
NAME = re.compile(r"notebook(\.\.[a-z0-9][a-z0-9_.-]{0,62})?")  # its container's name follows two dots
CONFIG = b"--config=/run/xdrive/jupyter_config.py"  # a word of its command line, as `container` has it
OWN = ["jupyter.log", "jupyter.pid", "jupyter_config.py", "runtime"]  # what it has on the container's tmpfs
ARCHIVE = "run.tar"
DIGITS = 10  # bytes of its number that are read,
LONGEST = 1 << 16  # and of its command line


def main(verb="", named=None, *rest):
    if verb == "thaw" and named is None:
        return frozen.each(NAME, go_on, lambda name: server(inside.init(container_of(name))))
    if verb != "mark" or named is None or rest:
        sys.exit("usage: notebook.py mark NAMED | thaw")
    mark(named)
    state = inside.state(named)
    if state:
        frozen.spread(state.pid)


def mark(named):
    os.makedirs(MARKS, mode=0o700, exist_ok=True)
    name = f"notebook..{named}" if named else "notebook"
    with open(f"{MARKS}/{name}", "a"):
        frozen.mark()


def freezable():
    """The names of those that run and may be frozen, with their processes on this host."""
    for name in sorted(os.listdir(MARKS)) if os.path.exists(MARKS) and criu.is_here() else []:
        pid = server(inside.init(container_of(name)))
        if pid:
            yield name, pid


def container_of(name):
    return name.partition("..")[2]


def server(init):
    """The process of a container's server; none if it does not run. Its number is where the container has it,
    and says nothing but which of its own processes it may be."""
    with contextlib.suppress(OSError, ValueError), folder_of(init) as folder:
        file = os.open("jupyter.pid", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
        with open(file, "rb") as text:
            pid = processes.numbered(int(text.read(DIGITS)), init)
        with open(f"/proc/{pid}/cmdline", "rb") as words:
            return pid if CONFIG in words.read(LONGEST).split(b"\0") else None
    return None


@contextlib.contextmanager
def folder_of(init):
    folder = inside.tmpfs(f"/proc/{init}/root")
    try:
        yield folder
    finally:
        os.close(folder)


def freeze(name, pid, seconds):
    """Freezes one within so many seconds; what became of that."""
    named, end = container_of(name), time.monotonic() + seconds
    init = inside.init(named)

    def put_down(folder):
        with folder_of(init) as own:
            shm.pack(own, f"{folder}/{ARCHIVE}", end - time.monotonic(), [it for it in OWN if is_there(it, own)])
        sockets.cut(init, pid, end)
        return {}

    try:
        return {"bytes": frozen.freeze(name, pid, [], {"container": named, "pipes": []}, seconds, put_down)}
    except (criu.Failed, OSError, subprocess.SubprocessError, *inside.UNREADABLE) as error:
        return {"why": str(error)}


def is_there(name, folder):
    with contextlib.suppress(OSError):
        os.lstat(name, dir_fd=folder)
        return True
    return False


def go_on(name, how):
    init = inside.init(how["container"])
    try:
        with folder_of(init) as own:
            shm.unpack(own, f"{frozen.FOLDER}/{name}/{ARCHIVE}")
        frozen.go_on(frozen.made_again(name, how, init, [], [], is_child=False), how, init)
    except (criu.Failed, subprocess.SubprocessError) as error:
        raise frozen.Left(str(error)) from None
    mark(how["container"])
    return LABEL


if __name__ == "__main__":
    main(*sys.argv[1:])
