"""The processes that keep terminals and commands, as their callers see them: `terminal.py` and
`command.py` have it in common."""

import fcntl
import os
import select
import signal
import socket
import termios

TERMINALS = "/run/xdrive/terminals"  # a socket for each
SIZE = 8  # bytes of a terminal's size, as the kernel has it
GONE = 255  # the exit status of a caller whose place another one took, as ssh's is
TAKEN = 91  # the same for a command's caller, which the prelude lists
CLOSING = 80  # the exit status of a caller whom a closing host refuses, as in the prelude
LATCHES = ["/run/xdrive/closing", "/var/lib/xdrive/closing"]  # as the prelude's is_closing has them


def closing():
    """Why this host closes; none if it does not."""
    for latch in LATCHES:
        try:
            with open(latch) as file:
                return file.read().strip()
        except OSError:
            continue
    return None


def start_keeper(keeper, lock, path, keep):
    """Starts the process that keeps what the socket `path` is for, and connects `keeper` to it. There `keep` has
    the socket's other side, and never returns. The new process holds no `lock`."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(path)
    listener.listen()
    keeper.connect(path)
    if os.fork() == 0:
        keeper.close()
        lock.close()
        keep(listener)


def announce_sizes():
    """A socket that can be read once this process's terminal has another size."""
    woken, waker = socket.socketpair()
    woken.setblocking(False)
    waker.setblocking(False)
    # The handler itself does nothing: Python would run it only after a call that had begun to wait.
    signal.set_wakeup_fd(waker.detach(), warn_on_full_buffer=False)
    signal.signal(signal.SIGWINCH, lambda *_: None)
    return woken


def status(keeper, resized=None):
    """Waits until the keeper ends the connection; the exit status that it sent, else GONE. Sends it
    the size of this process's terminal whenever `resized` can be read."""
    while True:
        ready, _, _ = select.select([keeper, resized] if resized else [keeper], [], [])
        if resized in ready:
            resized.recv(4096)
            try:
                keeper.send(fcntl.ioctl(0, termios.TIOCGWINSZ, bytes(SIZE)))
            except OSError:
                pass  # it has ended; an error here would take the place of its last word
        if keeper not in ready:
            continue
        try:
            sent = keeper.recv(16)
            return int(sent) if sent else GONE
        except ConnectionError:
            # It ended with a message of ours unread, such as a new size. The kernel reports that
            # before it delivers what the keeper sent (unix(7)), and once.
            continue
