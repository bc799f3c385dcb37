"""What a command on this host wrote: the end of each of its outputs, in a file of fixed length that is
written round and round; and what is left of it on the drive. `command.py` writes both and `runs.py`
reads them.
"""

import bisect
import collections
import contextlib
import json
import os
import shutil
import time
import traceback

FOLDER = "/run/xdrive/commands"  # a socket for each command
SPOOLS = "/var/lib/xdrive/commands"  # not on the drive: an open file would keep that mounted
RECORDS = "/v1/xdrive/runs"  # of commands that have ended, or may be lost
MOST = 50  # records that are kept, the latest; likewise of those with tries
STREAMS = ["output", "errors"]
KINDS = [b"o", b"e"]  # of the frames of each
ORDER = "order"  # in the record of a command that is begun again: `tries.py` keeps it
TRIES = "tries"  # the folder there with the records of its former tries
CHUNK = 256 << 10
TAIL = 1 << 20  # bytes of each output that a record has
GROWTH = 4 << 10  # bytes by which the state of a command that has ended may be longer
AGAIN = 1  # seconds until a record that could not be written is tried once more
PAUSE = 5  # seconds between two entries of the list of times
TIMES = 20000  # entries of that list: the last day


def record(state, outputs):
    """Leaves the state of a command, and the end of its outputs, on the drive: of one that has ended,
    and of one that runs without a caller, for when its host vanishes. Where no drive is mounted its
    folder is not there, and nothing is written."""
    folder = f"{RECORDS}/{state['run']}"
    if not os.path.isdir(os.path.dirname(RECORDS)):
        return
    for pause in [AGAIN, 0]:
        try:
            return write(folder, state, outputs)
        except OSError:
            traceback.print_exc()
            time.sleep(pause)
    for name in ["record", *STREAMS]:
        with contextlib.suppress(OSError):
            os.unlink(f"{folder}/{name}.{suffix_for(state)}")


def write(folder, state, outputs):
    os.makedirs(folder, mode=0o700, exist_ok=True)
    os.utime(folder)  # one that was on record when it began is the latest now
    kept = sorted(os.scandir(RECORDS), key=lambda entry: entry.stat().st_mtime)
    # One that waits for its next try is none of the latest.
    ordered = [entry for entry in kept if os.path.exists(f"{entry.path}/{TRIES}")]
    others = [entry for entry in kept if entry not in ordered]
    for entry in ordered[:-MOST] + others[:-MOST]:
        shutil.rmtree(entry.path)
    # The smallest first: the drive may be full.
    text = json.dumps({**state, "kept": [stream.kept for stream in outputs]}).encode()
    suffix = suffix_for(state)
    replace(f"{folder}/record", text, suffix)
    tails = zip([stream.tail() for stream in outputs], STREAMS)
    for tail, name in sorted(tails, key=lambda it: len(it[0])):
        replace(f"{folder}/{name}", tail, suffix)
    if state["status"] is None:
        rooms = [len(text) + GROWTH, TAIL, TAIL]
        for name, room in zip(["record", *STREAMS], rooms):
            keep_room(f"{folder}/{name}", room)


def suffix_for(state):
    """The suffix of the files that replace those of a record. The last record of a command takes the
    room that was kept for it; a record of a command that still runs leaves that room alone."""
    return "new" if state["status"] is None else "part"


def replace(path, content, suffix):
    """Gives a file this content, whole or not at all."""
    part = f"{path}.{suffix}"
    with open(os.open(part, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
        file.write(content)
        file.truncate()
        os.fsync(file.fileno())
    os.replace(part, path)


def keep_room(path, size):
    """Keeps the room for the next content of a file: the command may fill the drive until then."""
    with contextlib.suppress(OSError):
        with open(os.open(f"{path}.part", os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
            os.posix_fallocate(file.fileno(), 0, size)


class Stream:
    """One of the command's outputs: its pipe, and the file with the last of what came from it."""

    def __init__(self, kind, pipe, path, bound):
        self.kind, self.pipe, self.path, self.bound = kind, pipe, path, bound
        self.file = None
        self.written = 0  # bytes that the command wrote in all
        self.first = 0  # those before are a former try's
        self.kept = 0  # the first of them that can still be read
        self.last = b""  # what was read last: mostly the caller gets it without a look at the file
        self.is_lost = False  # whether only `last` has it, because the file could not be written
        self.times = collections.deque(maxlen=TIMES)  # when, and which byte came then
        self.limit = 0  # the most that there can be in all, once the command has ended

    def resume(self, path, written, first, kept):
        """Goes on as the stream whose file is at `path`, if it had one, of which these are known."""
        self.written, self.first, self.kept = written, first, kept
        with contextlib.suppress(FileNotFoundError):
            os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
            shutil.copyfile(path, self.path)
            os.chmod(self.path, 0o600)
            self.file = os.open(self.path, os.O_RDWR)

    def read(self):
        """Reads the command's output; false when there is none now."""
        try:
            data = os.read(self.pipe, CHUNK)
        except BlockingIOError:
            return False
        if not data:
            self.close()
            return False
        self.take(data)
        return True

    def take(self, data):
        """Takes `data` as the next of the output."""
        now = time.time()
        if not self.times or now - self.times[-1][0] >= PAUSE:
            self.times.append((now, self.written))
        if self.is_lost:
            self.kept = self.written
        try:
            self.keep(data)
            self.is_lost = False
            self.kept = max(self.kept, self.written + len(data) - self.bound)
        except OSError:  # the disk is full
            self.is_lost = True
            self.kept = self.written
        self.last = data
        self.written += len(data)

    def keep(self, data):
        """Writes `data`, the next of the output, round and round into the file."""
        if self.file is None:
            os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
            self.file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        at, rest = self.written, memoryview(data)
        while rest:
            place = at % self.bound
            count = os.pwrite(self.file, rest[: self.bound - place], place)
            at, rest = at + count, rest[count:]

    def from_byte(self, start):
        """Some of what is kept from byte `start` on."""
        recent = start - (self.written - len(self.last))
        if recent >= 0:
            return self.last[recent:]
        place = start % self.bound
        return os.pread(self.file, min(CHUNK, -recent, self.bound - place), place)

    def since(self, moment):
        """The first byte that came after `moment`, or up to PAUSE seconds before it."""
        later = bisect.bisect(self.times, (moment,))
        if later and moment - self.times[later - 1][0] < PAUSE:
            later -= 1
        return self.times[later][1] if later < len(self.times) else self.written

    def kept_in_file(self):
        """The first byte that other processes can still read: they have no `last`."""
        return self.written if self.is_lost else self.kept

    def tail(self):
        """The last of what this try of the command wrote."""
        at, tail = max(self.kept, self.written - TAIL, self.first), b""
        while at < self.written:
            piece = self.from_byte(at)
            tail, at = tail + piece, at + len(piece)
        return tail

    def close(self):
        if self.pipe is not None:
            os.close(self.pipe)
            self.pipe = None
