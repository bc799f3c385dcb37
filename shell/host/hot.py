"""The blocks of the drive that a session reads at its start, fetched at once at the next one.

    hot.py DEVICE LIST SECONDS NAME

A volume made from a snapshot has each of its blocks of 512 KiB late at the first touch (EBS user guide,
*Initialize Amazon EBS volumes*), and a program that starts touches one after the other. LIST, on the drive
itself, has those that were read after the last mounts, in the order of their first use. They are touched here, many
at once, before others ask for them; for SECONDS the kernel's trace of DEVICE, which is called NAME, says what is
read now. Of both the next LIST is made: at the end, or at a notice, a close or SIGTERM.

A line of LIST is `BLOCK AGE`; AGE is in how many whole recordings since the last one with it the block was not
read. The drive may be anybody's: a line is a block that the device has, or none, and there is a limit to them.
"""

import mmap
import os
import queue
import re
import signal
import stat
import sys
import threading
import time

BLOCK = 512 << 10
PAGE = 4096
SECTOR = 512  # of the kernel's traces, whatever the device has
SHARE = 4  # of what is on the drive, a quarter is fetched at most
MOST = 4096  # and so many blocks
AGES = 3  # a block that so many whole recordings did not have is forgotten
DEPTH = 32  # reads at once
PAUSE = 0.2  # seconds between two looks at the trace
OVER = ("/run/xdrive/notice", "/run/xdrive/closing")  # there once EC2 takes the machine, or the drive is closed
TRACING = "/sys/kernel/tracing"
EVENT = "events/block/block_bio_queue"
READ = re.compile(rb"block_bio_queue: \d+,\d+ \S+ (\d+) \+ (\d+) ")


def main(device, path, seconds, name):
    ended = []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
    there = limits(device, path)
    ages = listed(path, *there)
    trace = Trace(device, name)
    reader = Reader(device, ages, trace)
    begun, seconds = time.monotonic(), float(seconds)
    while not ended and not any(map(os.path.exists, OVER)) and time.monotonic() - begun < seconds:
        time.sleep(PAUSE)
        trace.take()
    reader.is_over = True
    is_whole = time.monotonic() - begun >= seconds
    trace.take()
    trace.close()
    if trace.seen:
        write(path, merged(ages, trace.seen, is_whole, *there))
    # Without those that still wait for a disk.
    sys.stdout.flush()
    os._exit(0)


def limits(device, path):
    """How many blocks the device has, and how many of them a list may have."""
    descriptor = os.open(device, os.O_RDONLY)
    blocks = os.lseek(descriptor, 0, os.SEEK_END) // BLOCK
    os.close(descriptor)
    drive = os.statvfs(os.path.dirname(path))
    used = (drive.f_blocks - drive.f_bfree) * drive.f_frsize
    return blocks, min(MOST, used // BLOCK // SHARE)


def listed(path, blocks, most):
    """The blocks of the list, and their ages."""
    ages = {}
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return ages  # the first mount
    text = os.read(descriptor, 16 * MOST) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""
    os.close(descriptor)
    for line in text.splitlines():
        found = re.fullmatch(rb"(\d{1,9}) (\d)", line)
        if found and int(found[1]) < blocks and len(ages) < most:
            ages.setdefault(int(found[1]), int(found[2]))
    return ages


def merged(ages, seen, is_whole, blocks, most):
    """The next list: what was read now, and then what was not, for a while. A recording that was cut off says
    nothing of what was not read."""
    known = {block: 0 for block in seen if block < blocks}
    for block, age in ages.items():
        age += is_whole
        if block not in known and age < AGES:
            known[block] = age
    return dict(list(known.items())[:most])


def write(path, ages):
    folder, name = os.path.split(path)
    new = f"{name}.new"
    try:
        # Neither the folder nor the file leads anywhere else.
        there = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            try:
                os.unlink(new, dir_fd=there)
            except FileNotFoundError:
                pass
            descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=there)
            with open(descriptor, "w", encoding="ascii") as file:
                file.writelines(f"{block} {age}\n" for block, age in ages.items())
            os.replace(new, name, src_dir_fd=there, dst_dir_fd=there)
        finally:
            os.close(there)
    except OSError as error:
        print(f"the list is not written: {error}")


class Reader:
    """Touches blocks, many at once and past the page cache. One that others have read meanwhile is there.

    A page of each has a whole block come, in the folder; EBS's documents name no smaller unit than it. To read all
    of it takes the volume's throughput from those who read it then: measured there, Jupyter's first answer came
    after 23 s, and after 13 with a page (`cargo bench --bench touch`).
    """

    def __init__(self, device, blocks, trace):
        self.device = os.open(device, os.O_RDONLY | os.O_DIRECT)
        self.blocks = queue.SimpleQueue()
        for block in blocks:
            self.blocks.put(block)
        self.seen = trace.seen
        self.is_over = False
        for _ in range(min(DEPTH, len(blocks))):
            # By its name its reads are told from others: newer Pythons give it to the kernel.
            threading.Thread(target=self.read, name=trace.own, daemon=True).start()

    def read(self):
        with mmap.mmap(-1, PAGE) as memory:
            while not self.is_over:
                try:
                    block = self.blocks.get_nowait()
                    if block not in self.seen:
                        os.preadv(self.device, [memory], block * BLOCK)
                except (queue.Empty, OSError):
                    return


class Trace:
    """What the kernel says of the reads of a device (ftrace.rst, *Instances*), but for this program's own."""

    def __init__(self, device, name):
        self.folder = f"{TRACING}/instances/{name}"
        self.pipe, self.rest = None, b""
        self.seen = {}  # the blocks, in the order of their first use; no more than a list may have
        number = os.stat(device).st_rdev
        number = os.major(number) << 20 | os.minor(number)  # as the kernel has it
        with open("/proc/self/comm", encoding="ascii") as file:
            self.own = file.read().strip()
        try:
            self.remove()  # of one that was killed
            os.mkdir(self.folder)
            self.set("buffer_size_kb", "64")
            self.set(f"{EVENT}/filter", f'dev == {number} && rwbs ~ "*R*" && comm != "{self.own}"')
            self.pipe = os.open(f"{self.folder}/trace_pipe", os.O_RDONLY | os.O_NONBLOCK)
            self.set(f"{EVENT}/enable", "1")
        except OSError as error:
            print(f"the kernel does not say what is read: {error}", flush=True)
            self.close()

    def set(self, file, value):
        with open(f"{self.folder}/{file}", "w", encoding="ascii") as file:
            file.write(value)

    def take(self):
        """Takes what was read since the last time."""
        while self.pipe is not None:
            try:
                text = os.read(self.pipe, 1 << 16)
            except BlockingIOError:
                return
            *lines, self.rest = (self.rest + text).split(b"\n")
            for line in lines:
                found = READ.search(line)
                if found:
                    first, count = int(found[1]) * SECTOR, int(found[2]) * SECTOR
                    for block in range(first // BLOCK, (first + count - 1) // BLOCK + 1):
                        if len(self.seen) < MOST:
                            self.seen.setdefault(block)
            if not text:
                return

    def close(self):
        if self.pipe is not None:
            os.close(self.pipe)
            self.pipe = None
        self.remove()

    def remove(self):
        try:
            os.rmdir(self.folder)
        except OSError:
            pass  # there is none


main(*sys.argv[1:])
