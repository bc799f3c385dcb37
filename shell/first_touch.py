"""How late the blocks of a volume come that was made from a snapshot, for `xdrive selftest --first-touch`.

    first_touch.py write | read

`write` leaves a file on the drive. `read`, on the host to which the drive came back from its snapshot, touches
the blocks of that file past every cache, at random and each for the first time, and prints a line `NAME=VALUE`
each: milliseconds of one read after the other, and MiB of blocks a second of many at once. What fails is one line,
`failed=WHY`.
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


def read():
    device = subprocess.run(["findmnt", "-n", "-o", "SOURCE", "/v1"], check=True, stdout=subprocess.PIPE, text=True)
    volume = os.open(device.stdout.strip(), os.O_RDONLY | os.O_DIRECT)
    blocks = whole_blocks()
    if len(blocks) < ALONE + 2 * MANY:
        raise Failed(f"only {len(blocks)} blocks are the file's own")
    random.shuffle(blocks)
    alone, touched, fetched = blocks[:ALONE], blocks[ALONE:][:MANY], blocks[ALONE + MANY :][:MANY]
    end = BLOCK - PAGE
    first, rest, there = ([timed(volume, block * BLOCK + at) for block in alone] for at in [0, end, end])
    say("first_ms", statistics.median(first))
    say("slowest_ms", max(first))
    say("rest_ms", statistics.median(rest))
    say("there_ms", statistics.median(there))
    say("touched_mib_s", together(volume, touched, PAGE))
    say("fetched_mib_s", together(volume, fetched, BLOCK))
    say("there_mib_s", together(volume, fetched, BLOCK))


def say(name, value):
    print(f"{name}={value:.3f}")


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


def together(volume, blocks, size):
    """Reads so much of each block, many at once: how many MiB of blocks a second that is."""
    waiting, failed = queue.SimpleQueue(), []
    for block in blocks:
        waiting.put(block)

    def take():
        with mmap.mmap(-1, size) as memory:
            try:
                while True:
                    os.preadv(volume, [memory], waiting.get_nowait() * BLOCK)
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
    return len(blocks) * BLOCK / (1 << 20) / (time.monotonic() - begun)


main(*sys.argv[1:])
