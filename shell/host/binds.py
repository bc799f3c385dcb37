"""The folders and files of the drive that are mounted into a container.

    binds.py make WORK [PLACE]   mounts on standard input, as `mounts` has them; makes the folders that
                                 are missing and prints their paths below WORK, a line each
    binds.py own WORK UID:GID    gives folders to a user, by the lines that `make` printed

A program in another container of the drive may replace any part of a path in WORK by a link, at any
moment. Once it is known where a path leads, it is therefore opened part by part, each below the one
before, and none that is a link by then: what was opened is below WORK, and no container can move it out
(rename(2), EXDEV). From there on only its descriptor is used.

dockerd takes paths alone, and looks them up itself. With PLACE what was opened is mounted at PLACE/N for
the Nth mount, where no container reaches; the caller unmounts it.
"""

import ctypes
import os
import stat
import sys

BAD_MOUNT = 88  # as in the prelude
NO_LINK = os.O_PATH | os.O_NOFOLLOW  # opens a link itself; no device or pipe notices
MS_BIND, MS_PRIVATE = 1 << 12, 1 << 18  # mount(2)


class Leads(Exception):
    """A link leads out of WORK."""


def names(work, path):
    """The names of folders from WORK to where the path leads; none is a link by now."""
    try:
        real = os.path.realpath(os.path.join(work, path)) + b"/"
    except OSError as error:  # a link that is none any more
        raise Leads from error
    # No mount has a name with a new line: it would be a link's.
    if not real.startswith(work + b"/") or b"\n" in real:
        raise Leads
    return [name for name in real[len(work) :].split(b"/") if name]


def opened(work, path, made=None):
    """A descriptor of what is there. With `made` what is missing is made, as folders, which are added to
    that list."""
    found = os.open(work, NO_LINK | os.O_DIRECTORY)
    for depth, name in enumerate(path, 1):
        folder = found
        if made is not None:
            try:
                os.mkdir(name, dir_fd=folder)
                made.append(b"/".join(path[:depth]))
            except FileExistsError:
                pass
        found = os.open(name, NO_LINK, dir_fd=folder)
        os.close(folder)
        if stat.S_ISLNK(os.fstat(found).st_mode):
            raise Leads
    return found


def mount(source, target, flags):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(source, target, None, ctypes.c_ulong(flags), None) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), target)


def bind(descriptor, target):
    """Mounts it. Privately: what is done to this mount is not done to the drive's own."""
    for remove in os.rmdir, os.unlink:  # neither removes what something is mounted on
        try:
            remove(target)
        except OSError:
            pass
    if stat.S_ISDIR(os.fstat(descriptor).st_mode):
        os.mkdir(target)
    else:
        os.close(os.open(target, os.O_CREAT | os.O_EXCL))
    mount(b"/proc/self/fd/%d" % descriptor, target, MS_BIND)
    mount(None, target, MS_PRIVATE)


def refuse(message):
    sys.stderr.buffer.write(message + b"\n")
    sys.exit(BAD_MOUNT)


def make(work, place=None):
    if place:
        os.makedirs(place, mode=0o700, exist_ok=True)
    lines = sys.stdin.buffer.read().split(b"\n")
    lines = [line for line in lines if line.startswith((b"ro:", b"rw:"))]
    for number, line in enumerate(lines, 1):
        path, made = line.split(b":")[1], []
        try:
            found = opened(work, names(work, path), made)
        except Leads:
            refuse(b"a link in /work leads the mount %s out of it" % path)
        except OSError:
            refuse(b"the mount %s cannot be made on the drive" % path)
        mode = os.fstat(found).st_mode
        if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
            refuse(b"the mount %s is neither a folder nor a file" % path)
        sys.stdout.buffer.writelines(folder + b"\n" for folder in made)
        if place:
            try:
                bind(found, b"%s/%d" % (place, number))
            except OSError as error:
                refuse(b"the mount %s cannot be made: %s" % (path, os.fsencode(str(error))))
        os.close(found)


def own(work, owner):
    user, group = map(int, owner.split(b":"))
    for path in filter(None, sys.stdin.buffer.read().split(b"\n")):
        try:
            os.chown(b".", user, group, dir_fd=opened(work, path.split(b"/")))
        except (OSError, Leads):
            pass  # it was removed or replaced: by somebody who decides whose it is


def main(verb, *arguments):
    {"make": make, "own": own}[verb](*map(os.fsencode, arguments))


if __name__ == "__main__":
    main(*sys.argv[1:])
