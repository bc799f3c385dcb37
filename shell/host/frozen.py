"""Commands of the drive that are frozen: each is on the drive, with its memory, and goes on once, on a host
that mounts it next and has it go on.

    /v1/xdrive/frozen/NAME/whole      how it goes on, and where: written last
                           images/    criu's files
                           output     what is kept of its outputs, as in `spool.py`; of a shell,
                           errors     the end of what its terminal showed
                           shm.tar    what its container had in /dev/shm

The record says for which drive and generation it is: one that was forked or renamed does not match. The next
mount makes it one of its own generation (`sweep`), if it may go on at all: so a session that ends before
that leaves it to the next one, and so does one on another processor (criu(8) compares only part of that), with
another version of xdrive or while its container does not run, for so many mounts. Whoever has it go on
renames the record first, so nobody does a second time, also after a power cut.

All that may fail is done while the command is stopped and nothing of it is lost; then criu writes its memory
and ends it, and what is left is a sync, which the drive's own makes up for, and the record's name.
"""

import contextlib
import fcntl
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import time

import criu
import cuda
import inside
import processes
import ptmx
import shm
import sockets
from enter import Order, Started, adopts
from keeper import closing
from piped import PIPE, ready
from spool import KINDS, SPOOLS, STREAMS, Stream, replace

DRIVE = "/v1"
FOLDER = f"{DRIVE}/xdrive/frozen"
VOLUME = "/run/xdrive/volume"  # the record of the mounted volume, as `drive mount` writes it
MOUNTED = f"{DRIVE}/xdrive/generation"  # that of the last mount, likewise, once `sweep` has read it
MARK = "/run/xdrive/freezes"  # there once a command was begun that may be frozen: `close` looks for it
SWEPT = "/run/xdrive/swept"  # the names of those that this mount has made its own
NAME = re.compile(r"[A-Za-z0-9_.-]{1,200}")
LONGEST = 1 << 20  # bytes of a record
RECORD = "whole"
TAKEN = "taken"  # the record's name from then on
WHY = "why"
VERSION = 2
RESTORE = 600  # seconds that criu may take: the memory is read from a volume that may load slowly
ROOM = 64 << 20  # bytes that are left on the drive
UNWRITTEN = 20  # seconds in which the volume writes what may be unwritten, as in src/drive/mount.rs
RATE = 125 << 20  # bytes a second of a volume of which none are known: gp3's baseline
PAUSE = 540  # seconds that a close without a notice has at least for what its user freezes
NOTICE = 58  # seconds that a notice leaves for it, without those that programs ask for, as in `close`
ASKED = re.compile(rb"XDRIVE_NOTICE=([1-9][0-9]{0,3})")
SPREAD = 20  # seconds that the next process number may take
LOOK = 0.05  # between two looks whether something is about to go on
STEP = 1000  # process numbers for each generation
MOUNTS = 20  # mounts for which one stays that cannot go on there
NAMED = 200  # characters of a processor's name
ID = re.compile(r"[0-9a-f]{1,64}")
THERE = "another one of its name is frozen"
PREFIX = "terminal-"  # before a terminal's name, where its shell is frozen
TERMINAL = re.compile(PREFIX + r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,127}")
TTY = re.compile(r"tty\[[0-9a-f]{1,16}:[0-9a-f]{1,16}\]")
WORDS = re.compile(r"/run/xdrive/words/[0-9a-f]{1,64}")
CONTAINER = re.compile(r"([a-z0-9][a-z0-9_.-]{0,62})?")


class Left(Exception):
    """It does not go on, with the reason."""


def names(kind=ID):
    """Those of a kind that this mount has made its own, the latest first: what its container had in memory is the
    latest, too."""
    found, now = [], volume("generation")
    with contextlib.suppress(OSError), open(SWEPT) as swept:
        for name in filter(kind.fullmatch, swept.read().split()):
            with contextlib.suppress(*inside.UNREADABLE):
                if record(name)["generation"] == now:
                    found.append((os.stat(f"{FOLDER}/{name}/shm.tar").st_mtime, name))
    return [name for _, name in sorted(found, reverse=True)]


def record(name):
    """A record. No link leads to it: whoever wrote the drive would mean something of this host's by that."""
    folder = os.open(f"{FOLDER}/{name}", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        file = os.open(RECORD, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    finally:
        os.close(folder)
    with open(file, "rb") as text:
        return json.loads(text.read(LONGEST))


def place():
    """Which drive is mounted here, and as which generation."""
    return {"drive": inside.drive(), "generation": volume("generation")}


def volume(key):
    """A number of the mounted volume's; 0 where an earlier version has mounted it."""
    with open(VOLUME) as text:
        return int(dict(line.rstrip("\n").partition("=")[::2] for line in text).get(key, 0))


def mark():
    """Has a close freeze what may be frozen."""
    with open(MARK, "a"):
        pass


# --- writing


def freeze(name, process, outputs, how, seconds, put_down=None):
    """Writes the command `name`, whose process on this host runs in the container `how["container"]`, and ends
    it; the bytes of its images. If it fails, or takes longer than so many seconds, the command goes on. What
    else there is of it `put_down` writes to its folder once it is stopped, and says what is to be known of that."""
    end = time.monotonic() + seconds
    folder, stopped, on_gpu = f"{FOLDER}/{name}", set(), []
    if is_there(name):
        raise criu.Failed(THERE)
    try:
        init = inside.state(how["container"])
        pid = init and processes.number_within(process, init.pid)
        if not pid:
            raise criu.Failed("it is not in a container that runc alone has made")
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(f"{folder}/images", mode=0o700)
        on_gpu = cuda.users(processes.family(process))
        gpu = cuda.away(on_gpu, end) if on_gpu else {}
        if not processes.stop(process, end, stopped):
            raise criu.Failed("one of its processes does not stop")
        for stream in outputs:
            # What it has left behind may write on for ever.
            limit = stream.written + PIPE
            while stream.pipe is not None and stream.written < limit and stream.read():
                pass
        pipes = [stream.pipe for stream in outputs]
        how = {
            **how,
            **(put_down(folder) if put_down else {}),
            **place(),
            "version": VERSION,
            "processor": criu.processor(),
            "pid": pid,
            "stopped": processes.numbers_within(stopped, init.pid),
            "gpu": {**gpu, "pids": processes.numbers_within(on_gpu, init.pid)},
            "tcp": sockets.connections(init.pid, process),
            "pipes": [0 if pipe is None else os.fstat(pipe).st_ino for pipe in pipes],
            "streams": [[it.written, it.first, it.kept_in_file()] for it in outputs],
        }
        for stream, output in zip(outputs, STREAMS):
            if stream.file is not None:
                shutil.copyfile(stream.path, f"{folder}/{output}")
        flags = [*sockets.CONNECTIONS[how["tcp"]], *(["--external", how["terminal"]] if "terminal" in how else [])]
        with shm.folder_of(init.pid) as memory:
            shm.pack(memory, f"{folder}/shm.tar", end - time.monotonic())
        replace(f"{folder}/part", json.dumps(how).encode(), "new")
        criu.dump(init.pid, process, f"{folder}/images", flags, end - time.monotonic())
    except BaseException:
        # First: it may have to save what it has. It has the room for that once this is removed.
        processes.let_go_on(process, stopped)
        if on_gpu:
            with contextlib.suppress(criu.Failed):
                cuda.back(on_gpu, cuda.UNDO)
        shutil.rmtree(folder, ignore_errors=True)
        raise
    # The command is these files from here on: what is slow now is left to the sync of the whole drive.
    with contextlib.suppress(OSError):
        criu.ended(subprocess.Popen(["sync", "-f", FOLDER]), end)
    os.rename(f"{folder}/part", f"{folder}/{RECORD}")
    with contextlib.suppress(OSError):
        sync_folder(folder)
    return sum(entry.stat().st_size for entry in os.scandir(f"{folder}/images"))


def sync_folder(folder):
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(descriptor)
    os.close(descriptor)


def spread(init):
    """Has the next processes of a container get numbers that those of other generations do not have."""
    # Its own /proc: that of a machine may be read-only.
    script = (
        'mount -t proc proc /proc && most=$(cat /proc/sys/kernel/pid_max) && '
        'echo $(($1 * $2 % (most / 2) + $2)) > /proc/sys/kernel/ns_last_pid'
    )
    words = ["nsenter", "-t", str(init), "-p", "--", "unshare", "-m", "sh", "-c", script, "sh"]
    subprocess.run([*words, str(volume("generation")), str(STEP)], check=True, timeout=SPREAD)


def is_there(name):
    return os.path.exists(f"{FOLDER}/{name}/{RECORD}")


def fit(pid, bound, seconds):
    """Whether a command can be frozen within so many seconds, and in words how; `bound` bytes of each of its
    outputs are kept."""
    try:
        away = cuda.gpu()[1] if cuda.users(processes.family(pid)) else 0
    except criu.Failed as error:
        return False, str(error)
    seconds -= away / cuda.RATE
    needed = size(pid) + shm.used(pid) + away
    rate = volume("unwritten") / UNWRITTEN or RATE
    free = shutil.disk_usage(DRIVE).free
    if away > cuda.available():
        return False, f"no room in the host's memory for the GPU's {gib(away)}"
    if needed > rate * seconds:
        fits = f"{gib(rate * seconds)} fit at {rate / (1 << 20):.0f} MiB/s in {max(0, seconds):.0f} s"
        return False, f"too large: {gib(needed)}, {fits}; more --throughput would do"
    if needed + len(STREAMS) * bound > free - ROOM:
        return False, f"no room on the drive for its {gib(needed)}"
    return True, f"in about {needed / rate:.0f} s of {seconds:.0f}"


def size(pid):
    """The bytes that the images of a process and of what it started will have, about."""
    total = 0
    for process in processes.family(pid):
        with contextlib.suppress(OSError):
            with open(f"/proc/{process}/smaps_rollup") as text:
                for line in text:
                    if line.startswith(("Pss_Anon:", "Pss_Shmem:", "SwapPss:")):
                        total += int(line.split()[1]) << 10
    return total


def asked(pid):
    """The most seconds that one of these processes asks for at its end, as `asked_by` has it in `engine`."""
    found = [0]
    for process in processes.family(pid):
        with contextlib.suppress(OSError):
            with open(f"/proc/{process}/environ", "rb") as text:
                for variable in text.read().split(b"\0"):
                    match = ASKED.fullmatch(variable)
                    found.append(int(match[1]) if match else 0)
    return max(found)


def gib(size):
    return f"{max(0, size) / (1 << 30):.1f} GiB"


# --- going on


def each(kind, goes_on, is_taken=lambda _: False):
    """Has each of a kind go on that is frozen on the drive, by `goes_on`, which returns what it is called, unless
    its place `is_taken`; prints what became of it. Another process that does so waits, and finds none."""
    with open(f"{MARK}.lock", "w") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)  # unlike that of flock(2), no keeper that is begun has it
        found = names(kind)
        if found:
            mark()
        for name in found:
            # Whatever is frozen stays so: a close may have begun.
            if closing() is not None:
                return
            began = time.monotonic()
            try:
                how = checked(name)
                why_not = stays(how) or (is_taken(name) and "another one has its place")
                if why_not:
                    print(f"xdrive: stays={name} {why_not}")
                    continue
                disown(name)
                label = goes_on(name, how)
                print(f"xdrive: thawed={name} {time.monotonic() - began:.1f} {' '.join(label.split())}")
            except ConnectionError:
                print(f"xdrive: left={name} {why(name)}")
            except SystemExit:
                # It was to begin on a host that closes since.
                return own_again(name)
            except (Left, *inside.UNREADABLE) as error:
                print(f"xdrive: left={name} {' '.join(str(error).split())}")
            forget(name)


def await_thaw(end):
    """Waits until nothing is about to go on any more, but not longer than until `end`."""
    with open(f"{MARK}.lock", "w") as lock:
        while time.monotonic() < end:
            with contextlib.suppress(OSError):
                return fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            time.sleep(LOOK)


def checked(name):
    """The record of a frozen command; `Left` if by that it never goes on. Of what it says no word is one of
    criu's or of this host's."""
    try:
        how, known = record(name), place()
        if known != {key: how[key] for key in known}:
            raise Left(f"it was frozen on {how['drive']}")
        if how["version"] != VERSION:
            return how
        order = Order.of(how.get("command", ()))
        is_own = "command" not in how or order and (not order.file or WORDS.fullmatch(order.file))
        if not is_own or how["tcp"] not in sockets.CONNECTIONS or not CONTAINER.fullmatch(how["container"]):
            raise Left("its record is not one of this version")
        return how
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise Left(f"its record cannot be read: {error}") from None


def stays(how):
    """Why one that is frozen stays so on this host, for a later session; none if it can go on."""
    if how["version"] != VERSION:
        return "another version of xdrive froze it"
    here, there = criu.processor(), how["processor"]
    if there["digest"] != here["digest"]:
        return f"it began on another processor ({' '.join(there['name'].split())[:NAMED]}; here {here['name']})"
    if not criu.is_here():
        return "this host has no criu"
    # One that is not there at all cannot be waited for.
    if inside.container(how["container"]) is not None and not inside.init(how["container"]):
        return "its container does not run"
    return cuda.differs(how["gpu"]) if how["gpu"]["pids"] else None


def disown(name):
    """Sees to it that nobody has it go on from now on, also after a power cut."""
    rename(name, RECORD, TAKEN)


def own_again(name):
    """Undoes that, where nothing of it was begun."""
    rename(name, TAKEN, RECORD)


def rename(name, record, new):
    os.rename(f"{FOLDER}/{name}/{record}", f"{FOLDER}/{name}/{new}")
    sync_folder(f"{FOLDER}/{name}")


def sweep(order):
    """At a mount, before it is on record as the last one: removes what cannot go on any more, and prints how
    many of that were whole. All that the drive has, if the order is `forget`; else what was not frozen whole
    or before the last mount. What says that it is of this one, or of a later one, is never believed. `keep`
    makes what stays one of this mount, so that it may go on, for so many mounts; without it that cannot, nor at
    a later mount.

    Where this is cut off the next mount finds this one's generation or the last one's, and believes both."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(SWEPT)
    if os.path.islink(FOLDER):
        return os.unlink(FOLDER)
    now = volume("generation")
    believed, forgotten, swept = range(last_mount(now - 1), now), 0, []
    with contextlib.suppress(FileNotFoundError):
        for name in os.listdir(FOLDER):
            try:
                how = record(name)
                mounts = how.get("mounts", 0) + 1
                is_one = NAME.fullmatch(name) and isinstance(how["generation"], int) and mounts <= MOUNTS
                is_kept = is_one and order != "forget" and how["generation"] in believed
            except Exception:  # whatever it is that somebody wrote there
                how, is_kept = None, False
            if not is_kept:
                forgotten += how is not None
                forget(name)
            elif order == "keep":
                with contextlib.suppress(OSError):
                    for planted in glob.glob(f"{FOLDER}/{name}/{RECORD}?*"):
                        os.unlink(planted)
                    again = {**how, "generation": now, "mounts": mounts}
                    replace(f"{FOLDER}/{name}/{RECORD}", json.dumps(again).encode(), "new")
                    sync_folder(f"{FOLDER}/{name}")
                    swept.append(name)
    replace(SWEPT, "\n".join(swept).encode(), "new")
    if forgotten:
        print(f"xdrive: forgotten={forgotten}")


def last_mount(unknown):
    """The generation of the last mount before this one, as the drive has it."""
    try:
        with open(MOUNTED) as text:
            return int(text.read(20))
    except (OSError, ValueError):
        return unknown


def forget(name):
    shutil.rmtree(f"{FOLDER}/{name}", ignore_errors=True)
    with contextlib.suppress(OSError):
        os.unlink(f"{FOLDER}/{name}")  # if it is no folder


def why(name):
    """Why a command did not go on, as `thaw` left it."""
    try:
        with open(f"{FOLDER}/{name}/{WHY}") as text:
            return " ".join(text.read(criu.LINE).split())
    except OSError:
        return "the process that keeps it did not start"


def thaw(name, how):
    """Makes the command again; its process, this side's end of its input, which is over, and the streams of
    its outputs; or its process and the other side of its terminal. An error if it is not there then, with its
    reason also in a file."""
    try:
        again = in_terminal if "terminal" in how else between_pipes
        return again(name, how, inside.init(how["container"]))
    except (criu.Failed, OSError, subprocess.SubprocessError, *inside.UNREADABLE) as error:
        # Half of what was to be made may be there, and its next try must be alone.
        processes.end_below()
        with contextlib.suppress(OSError):
            replace(f"{FOLDER}/{name}/{WHY}", str(error).encode(), "new")
        raise


def between_pipes(name, how, init):
    give_number(init, how["pid"], name)
    own, flags, theirs = [], [], []
    for inode in how["pipes"]:
        if not inode:
            own.append(None)
            continue
        reads, writes = os.pipe()
        own.append(reads)
        theirs.append(writes)
        flags += ["--inherit-fd", f"fd[{writes}]:pipe:[{int(inode)}]"]
    pid = made_again(name, how, init, flags, theirs)
    streams = []
    for kind, pipe, output, (written, first, kept) in zip(KINDS, own, STREAMS, how["streams"]):
        if pipe is not None:
            ready(pipe)
        stream = Stream(kind, pipe, f"{SPOOLS}/{name}/{output}", how["bound"])
        stream.resume(f"{FOLDER}/{name}/{output}", written, first, kept)
        streams.append(stream)
    go_on(pid, how, init)
    return Started(pid), None, streams


def in_terminal(name, how, init):
    if not TTY.fullmatch(how["terminal"]):
        raise criu.Failed("its record names no terminal")
    master, slave = ptmx.opened(init)
    ptmx.set_modes(slave, how)
    pid = made_again(name, how, init, ["--inherit-fd", f"fd[{slave}]:{how['terminal']}"], [slave])
    go_on(pid, how, init)
    return Started(pid), master


def made_again(name, how, init, flags, theirs, *, is_child=True):
    """Has the command's processes made again, stopped, with `theirs` of this process's descriptors, which are
    closed here; the first one, which is a child of this process's or of the container's first one."""
    folder = f"{FOLDER}/{name}"
    with contextlib.suppress(OSError), shm.folder_of(init) as memory:
        shm.unpack(memory, f"{folder}/shm.tar")
    adopts()
    flags = [*flags, *sockets.CONNECTIONS[how["tcp"]]]
    try:
        criu.restore(init, f"{folder}/images", flags, theirs, RESTORE, is_child=is_child)
    finally:
        for descriptor in theirs:
            os.close(descriptor)
    pid = processes.numbered(how["pid"], init)
    if pid is None:
        raise criu.Failed("criu restore: the command ended at once")
    return pid


def go_on(pid, how, init):
    """Has what was stopped to be frozen go on."""
    family = {it: processes.number_within(it, init) for it in processes.family(pid)}
    processes.let_go_on(pid, {it for it, number in family.items() if number in how["stopped"]})
    try:
        on_gpu = [it for it, number in family.items() if number in how["gpu"]["pids"]]
        cuda.back(on_gpu, cuda.BACK, how["gpu"])
    except Exception as error:  # half of it must not go on
        processes.send(family, signal.SIGKILL)
        raise criu.Failed(str(error)) from None


def give_number(init, pid, name):
    """Writes the file by which a signal finds the command."""
    with contextlib.suppress(OSError):
        folder = inside.tmpfs(f"/proc/{init}/root")
        inside.remove(folder, f"command.{name}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        file = os.open(f"command.{name}", flags, 0o644, dir_fd=folder)
        os.write(file, f"{int(pid)}\n".encode())
        os.close(file)
        os.close(folder)
