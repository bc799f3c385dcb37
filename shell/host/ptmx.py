"""A new terminal of a container's, made from outside of it."""

import fcntl
import os
import stat
import struct
import termios

MASTER = os.makedev(5, 2)  # pts(4)
UNLOCK = 0x40045431  # TIOCSPTLCK (ioctl_tty(2))
PEER = 0x5441  # TIOCGPTPEER
SIZE = 8  # bytes of a terminal's size, as the kernel has it
FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW


def opened(init):
    """Both sides of a new terminal in the container whose first process is `init`. No link leads there, and
    nothing is opened but what makes terminals: the place is the container's."""
    folder = os.open(f"/proc/{init}/root", os.O_PATH | os.O_DIRECTORY)
    for name in ["dev", "pts"]:
        try:
            below = os.open(name, FOLDER, dir_fd=folder)
        finally:
            os.close(folder)
        folder = below
    try:
        place = os.open("ptmx", os.O_PATH | os.O_NOFOLLOW, dir_fd=folder)
    finally:
        os.close(folder)
    try:
        status = os.fstat(place)
        if not stat.S_ISCHR(status.st_mode) or status.st_rdev != MASTER:
            raise OSError("the container makes no terminals")
        master = os.open(f"/proc/self/fd/{place}", os.O_RDWR | os.O_NOCTTY)
    finally:
        os.close(place)
    try:
        fcntl.ioctl(master, UNLOCK, struct.pack("i", 0))
        return master, fcntl.ioctl(master, PEER, os.O_RDWR | os.O_NOCTTY)
    except OSError:
        os.close(master)
        raise


def modes(terminal):
    """The modes of a terminal and its size, as JSON has them."""
    *flags, characters = termios.tcgetattr(terminal)
    characters = [it if isinstance(it, int) else it[0] for it in characters]
    size = fcntl.ioctl(terminal, termios.TIOCGWINSZ, bytes(SIZE))
    return {"modes": [*flags, characters], "size": list(size)}


def set_modes(terminal, modes):
    """Gives a terminal the modes and the size of another."""
    try:
        termios.tcsetattr(terminal, termios.TCSANOW, modes["modes"])
    except termios.error as error:
        raise OSError(*error.args) from None
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, bytes(modes["size"][:SIZE]).ljust(SIZE, b"\0"))
