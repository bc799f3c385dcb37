"""A command that is started with pipes for its standard streams."""

import fcntl
import os

from enter import Started

PIPE = 1 << 20  # bytes that a pipe holds: fewer turns than with the kernel's 64 KiB
SET_PIPE_SIZE = 1031  # F_SETPIPE_SZ (fcntl(2)), which Python has from 3.10 on


def execute(command):
    """Starts the command; its process, and this side's ends of its standard streams."""
    pipes = [os.pipe() for _ in range(3)]
    streams = [writes if stream else reads for stream, (reads, writes) in enumerate(pipes)]
    started = Started.of(command, streams)
    own = []
    for stream, (reads, writes) in enumerate(pipes):
        os.close(writes if stream else reads)
        own.append(reads if stream else writes)
        ready(own[-1])
    return started, own


def ready(end):
    """Makes an end of a pipe fit for the keeper."""
    os.set_blocking(end, False)
    try:
        fcntl.fcntl(end, SET_PIPE_SIZE, PIPE)
    except OSError:
        pass  # a socket, or the user's pipes are many: it works as it is
