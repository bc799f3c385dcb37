"""What a container has on a tmpfs, as /dev/shm, which is in no image of criu's: into an archive, and back.

The host's root works there, and what is there is the container's: no link of it is followed, at no place of a
path, and nothing that is there already is written to.
"""

import contextlib
import os
import subprocess
import time

import criu

PLACE = ("dev", "shm")
FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
CHANGED = 1  # the exit code of tar(1) where a file changed, or went, while it was read: another program's
PIECE = 1 << 20
MOST = 100_000  # files and folders in an archive


@contextlib.contextmanager
def folder_of(init):
    """A descriptor of the folder; no link leads there (see `inside.tmpfs`)."""
    folder = os.open(f"/proc/{init}/root", os.O_RDONLY | os.O_DIRECTORY)
    try:
        for name in PLACE:
            folder = below(folder, name)
        yield folder
    finally:
        os.close(folder)


def below(folder, name):
    """A descriptor of a folder in a folder, in whose place it comes."""
    try:
        return os.open(name, FLAGS, dir_fd=folder)
    finally:
        os.close(folder)


def used(process):
    """The bytes in that of a process's container; 0 if that is not known."""
    with contextlib.suppress(OSError), folder_of(process) as folder:
        status = os.fstatvfs(folder)
        return (status.f_blocks - status.f_bfree) * status.f_frsize
    return 0


def pack(folder, archive, seconds, names=(".",)):
    """Archives what has these names in a folder, a descriptor."""
    words = ["tar", "-C", f"/proc/self/fd/{folder}", "--sparse", "--numeric-owner", "-cf", archive, *names]
    began = subprocess.Popen(words, pass_fds=[folder], stderr=subprocess.DEVNULL)
    late = criu.ended(began, time.monotonic() + seconds)
    if late or began.returncode not in [0, CHANGED]:
        raise criu.Failed(f"the files that it has in memory cannot be archived{f': {late}' if late else ''}")


def unpack(root, archive):
    """Makes what is in an archive in a folder, a descriptor."""
    import tarfile  # which takes as long to load as all else

    # An archive that cannot be read has nothing.
    with contextlib.suppress(tarfile.TarError), tarfile.open(archive, "r:") as members:
        status = os.fstatvfs(root)
        free = status.f_bavail * status.f_frsize
        for count, member in enumerate(members):
            names = [name for name in member.name.split("/") if name not in ["", "."]]
            # Holes of one that is longer than all the room would take for ever to read.
            if not names or ".." in names or count > MOST or member.size > free:
                continue
            # What cannot be there is missed by a program that goes on, and by no other.
            with contextlib.suppress(OSError, OverflowError):
                place(os.dup(root), names, member, members)


def place(folder, names, member, members):
    """Makes one of them, unless something of that name is there."""
    for name in names[:-1]:
        folder = below(folder, name)
    try:
        if member.isdir():
            os.mkdir(names[-1], 0o700, dir_fd=folder)
            made = os.open(names[-1], FLAGS, dir_fd=folder)
        elif member.isreg():
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            made = os.open(names[-1], flags, 0o600, dir_fd=folder)
        else:
            return
    finally:
        os.close(folder)
    with os.fdopen(os.dup(made), "wb", closefd=True) if member.isreg() else contextlib.nullcontext() as file:
        if file:
            copy(members.extractfile(member), file, member.size)
    os.fchown(made, member.uid, member.gid)
    os.fchmod(made, member.mode & 0o7777)
    os.close(made)


def copy(source, file, size):
    """Copies a file with its holes."""
    while True:
        piece = source.read(PIECE)
        if not piece:
            break
        if piece.strip(b"\0"):
            file.write(piece)
        else:
            file.seek(len(piece), os.SEEK_CUR)
    file.truncate(size)
