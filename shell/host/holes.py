"""Holes in a container's layer: the parts of files that were never written and take no room.

    holes.py weigh LAYER           prints `BYTES HOLES FILE`
    holes.py dig LAYER FOLDERS     makes the holes of files in FOLDERS again in LAYER

docker writes holes out where it copies a layer: into a commit, and when it makes one layer of several.
`weigh` prints how much room the files of LAYER take, how much more their holes would, and the file with
the most; that is empty without holes. `dig` looks at the files of LAYER that have holes in FOLDERS, paths
with colons between them, the topmost layer first; it makes holes of what is only zeros in them, so no
byte of a file changes.
"""

import os
import stat
import subprocess
import sys

BLOCK = 512  # the unit of st_blocks (stat(2))
LEAST = 1 << 20  # a file with fewer bytes of holes is as good as one without


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
    shown = "".join(c if c.isprintable() else "?" for c in name.encode(errors="replace").decode(errors="replace"))
    print(room, holes, f"/{shown}" if name else "")


def dig(layer, folders):
    for path, found in files(layer):
        if found.st_size < LEAST or holes_of(found):
            continue
        source = topmost(path, folders)
        if source and holes_of(source):
            words = ["fallocate", "--dig-holes", os.path.join(layer, path)]
            subprocess.run(words, check=False)


def topmost(path, folders):
    """The regular file of this path in the first folder that has the path."""
    for folder in folders:
        try:
            found = os.lstat(os.path.join(folder, path))
        except OSError:
            continue
        return found if stat.S_ISREG(found.st_mode) else None
    return None


def main(verb="", layer="", folders=None, *rest):
    if verb == "weigh" and layer and folders is None:
        weigh(layer)
    elif verb == "dig" and layer and folders and not rest:
        dig(layer, folders.split(":"))
    else:
        sys.exit("usage: holes.py weigh LAYER | dig LAYER FOLDERS")


if __name__ == "__main__":
    main(*sys.argv[1:])
