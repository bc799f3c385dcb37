"""Holes in a container's layer: the parts of files that were never written and take no room.

    holes.py weigh LAYER            prints `BYTES HOLES FILE`
    holes.py dig LAYER FOLDERS      makes the holes of files in FOLDERS again in LAYER
    holes.py follow STORE FOLDERS   the same, while a layer is written, in what is new in STORE

docker writes holes out where it copies a layer: into a commit, and when it makes one layer of several.
`weigh` prints how much room the files of LAYER take, how much more their holes would, and the file with
the most; that is empty without holes. `dig` looks at the files of LAYER that have holes in FOLDERS, paths
with colons between them, the topmost layer first; it makes holes of what is only zeros in them, so no
byte of a file changes. `follow` does so behind docker, which then needs no room for them, until it is
killed.
"""

import contextlib
import ctypes
import os
import stat
import sys
import time

BLOCK = 512  # the unit of st_blocks (stat(2))
LEAST = 1 << 20  # a file with fewer bytes of holes is as good as one without
STEP = 64 << 10  # bytes of zeros that become a hole
ZEROS = bytes(STEP)
PUNCH_HOLE, KEEP_SIZE = 2, 1  # FALLOC_FL_… (fallocate(2))
PAUSE = 0.1  # seconds between two looks at what docker has written


def files(layer):
    """The regular files below a folder: their paths in it, and what stat(2) has of them."""
    folders = [""]
    while folders:
        folder = folders.pop()
        try:
            entries = list(os.scandir(os.path.join(layer, folder)))
        except OSError:
            continue
        for entry in entries:
            path = os.path.join(folder, entry.name)
            if entry.is_dir(follow_symlinks=False):
                folders.append(path)
            elif entry.is_file(follow_symlinks=False):
                yield path, entry.stat(follow_symlinks=False)


def holes_of(found):
    holes = found.st_size - found.st_blocks * BLOCK
    return holes if holes >= LEAST else 0


def weigh(layer):
    room = holes = most = 0
    name, seen = "", set()
    for path, found in files(layer):
        if found.st_nlink > 1:
            if found.st_ino in seen:
                continue
            seen.add(found.st_ino)
        room += found.st_blocks * BLOCK
        own = holes_of(found)
        holes += own
        if own > most:
            most, name = own, path
    name = name.encode(errors="replace").decode()
    shown = "".join(c if c.isprintable() else "?" for c in name)
    print(room, holes, f"/{shown}" if name else "")


def dig(layer, folders):
    for path, found in files(layer):
        source = topmost(path, folders) if found.st_size >= LEAST else None
        if source and holes_of(source) > holes_of(found) + LEAST:
            punch(os.path.join(layer, path), 0, found.st_size)


def punch(path, begin, end):
    """Makes holes of what is only zeros from `begin`, a multiple of STEP, to `end`. fallocate(1) would do
    that, too, but goes a block beyond the end that it is given."""
    libc = ctypes.CDLL(None)
    with contextlib.suppress(OSError):
        file = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
        try:
            while begin + STEP <= end:
                data = os.lseek(file, begin, os.SEEK_DATA)  # fails where there is none
                begin = max(begin, data // STEP * STEP)
                if begin + STEP <= end and os.pread(file, STEP, begin) == ZEROS:
                    place = map(ctypes.c_longlong, (begin, STEP))
                    libc.fallocate(file, PUNCH_HOLE | KEEP_SIZE, *place)
                begin += STEP
        finally:
            os.close(file)


def topmost(path, folders):
    """The regular file of this path in the first folder that has the path."""
    for folder in folders:
        try:
            found = os.lstat(os.path.join(folder, path))
        except OSError:
            continue
        return found if stat.S_ISREG(found.st_mode) else None
    return None


def follow(store, folders):
    caller, known, dug = os.getppid(), set(os.listdir(store)), {}
    holed = {path for folder in folders for path, found in files(folder) if holes_of(found)}
    while os.getppid() == caller:
        layers = set(os.listdir(store))
        for layer in layers - known:
            # In the layer of a container, and in one that is mounted, programs may write.
            if f"{layer}-init" in layers or os.path.exists(os.path.join(store, layer, "merged")):
                continue
            for path in holed:
                dig_new(os.path.join(store, layer, "diff", path), dug)
        time.sleep(PAUSE)


def dig_new(path, dug):
    """Digs in what was written to a file since the last look."""
    try:
        found = os.lstat(path)
    except OSError:
        return
    begin, end = dug.get(path, 0), found.st_size // STEP * STEP
    if stat.S_ISREG(found.st_mode) and begin < end:
        punch(path, begin, end)
        dug[path] = end


def main(verb="", layer="", folders=None, *rest):
    if verb == "weigh" and layer and folders is None:
        weigh(layer)
    elif verb in ("dig", "follow") and layer and folders and not rest:
        {"dig": dig, "follow": follow}[verb](layer, folders.split(":"))
    else:
        sys.exit("usage: holes.py weigh LAYER | dig LAYER FOLDERS | follow STORE FOLDERS")


if __name__ == "__main__":
    main(*sys.argv[1:])
