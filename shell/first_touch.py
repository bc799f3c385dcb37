"""How late the blocks of a volume come that was made from a snapshot, for `xdrive selftest --first-touch`.

    first_touch.py write | read

`write` leaves a file on the drive, and prints `wrote=yes`. `read`, on the host to which the drive came back from
its snapshot, reads the blocks of that file past the host's own caches, at random and each for the first time. A
line `NAME=VALUE` each: of `alone` blocks, one after the other, how many were late (`late`), and after how many
milliseconds the first page of those came (`first_ms`, of all the slowest is `slowest_ms`), the last page of every
other one right behind it (`rest_ms`) and of the others once all had been touched (`later_ms`), and a page that is
there (`there_ms`). Of many at once, how many MiB of blocks a second were touched by a page of each, were fetched
whole, and came once they were there. What fails is one line, `failed=WHY`.
"""

import fcntl
import mmap
import os
import queue
import random
import statistics
import struct
import subprocess
import sys
import threading
import time

PATH = "/v1/first-touch"
SIZE = 512 << 20
BLOCK = 512 << 10  # of a snapshot (EBS user guide, *How Amazon EBS snapshots work*)
PAGE = 4096
ALONE = 64  # blocks that are read one after the other
LATE = 5  # a block that comes so many milliseconds later than one that is there is late
MANY = 256  # blocks that are read at once
DEPTH = 32  # so many, as hot.py does
FIEMAP = 0xC020660B  # ioctl_fiemap(2)
EXTENTS = 512


class Failed(Exception):
    pass


def main(verb=""):
    if verb not in ["write", "read"]:
        sys.exit("usage: first_touch.py write | read")
    try:
        write() if verb == "write" else read()
    except (Failed, OSError, subprocess.SubprocessError) as error:
        print(f"failed={' '.join(str(error).split())}")
    print("end=yes")


def write():
    with open(PATH, "xb") as file:
        # In one piece, so that whole blocks are the file's own.
        os.posix_fallocate(file.fileno(), 0, SIZE)
        for _ in range(SIZE >> 20):
            file.write(os.urandom(1 << 20))
        file.flush()
        os.fsync(file.fileno())
    print("wrote=yes")


def read():
    device = subprocess.run(["findmnt", "-n", "-o", "SOURCE", "/v1"], check=True, stdout=subprocess.PIPE, text=True)
    volume = os.open(device.stdout.strip(), os.O_RDONLY | os.O_DIRECT)
    blocks = whole_blocks()
    if len(blocks) < ALONE + 2 * MANY:
        raise Failed(f"only {len(blocks)} blocks are the file's own")
    random.shuffle(blocks)
    alone, touched, fetched = blocks[:ALONE], blocks[ALONE:][:MANY], blocks[ALONE + MANY :][:MANY]
    one_by_one(volume, alone)
    many_at_once(volume, touched, fetched)


def one_by_one(volume, blocks):
    end = BLOCK - PAGE
    first, rest = {}, {}
    for place, block in enumerate(blocks):
        first[block] = timed(volume, block * BLOCK)
        if place % 2 == 0:
            rest[block] = timed(volume, block * BLOCK + end)
    later = {block: timed(volume, block * BLOCK + end) for block in blocks if block not in rest}
    there = statistics.median(timed(volume, block * BLOCK + end) for block in blocks)
    late = [block for block in blocks if first[block] >= there + LATE]
    say("alone", len(blocks))
    say("late", len(late))
    say("slowest_ms", max(first.values()))
    say("there_ms", there)
    for name, times in [("first_ms", first), ("rest_ms", rest), ("later_ms", later)]:
        known = [times[block] for block in late if block in times]
        if known:
            say(name, statistics.median(known))


def many_at_once(volume, touched, fetched):
    say("touched_mib_s", rate(touched, together(volume, touched, 0, PAGE)))
    say("fetched_mib_s", rate(fetched, together(volume, fetched, 0, BLOCK)))
    say("there_mib_s", rate(fetched, together(volume, fetched, 0, BLOCK)))


def rate(blocks, seconds):
    return len(blocks) * BLOCK / (1 << 20) / seconds


def say(name, value):
    print(f"{name}={value:.3f}", flush=True)


def whole_blocks():
    """The numbers of the volume's blocks that have nothing but the file."""
    asked = bytearray(struct.pack("=QQIIII", 0, SIZE, 0, 0, EXTENTS, 0) + bytes(56 * EXTENTS))
    with open(PATH, "rb") as file:
        fcntl.ioctl(file, FIEMAP, asked)
    blocks = []
    for at in range(struct.unpack_from("=I", asked, 20)[0]):
        _, start, length = struct.unpack_from("=QQQ", asked, 32 + 56 * at)
        blocks += range(-(-start // BLOCK), (start + length) // BLOCK)
    return blocks


def timed(volume, offset):
    with mmap.mmap(-1, PAGE) as memory:
        begun = time.monotonic()
        os.preadv(volume, [memory], offset)
        return (time.monotonic() - begun) * 1000


def together(volume, blocks, at, size):
    """Reads so much of each block, from there on and many at once: how many seconds that takes."""
    waiting, failed = queue.SimpleQueue(), []
    for block in blocks:
        waiting.put(block)

    def take():
        with mmap.mmap(-1, size) as memory:
            try:
                while True:
                    os.preadv(volume, [memory], waiting.get_nowait() * BLOCK + at)
            except queue.Empty:
                return
            except OSError as error:
                failed.append(error)

    threads = [threading.Thread(target=take) for _ in range(DEPTH)]
    begun = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    return time.monotonic() - begun


main(*sys.argv[1:])
