"""Who is attached to a command, as its keeper has it."""

import os

from keeper import TAKEN
from piped import ready


class Caller:
    """The attached caller: a socket, its standard streams, and what it was given."""

    def __init__(self, sock, source, sink, given):
        self.sock, self.source, self.sink = sock, source, sink
        self.given = given  # the next byte of each output
        self.pending = []  # pieces of what is written to it now
        self.arrived = bytearray()  # the beginning of a frame of its own
        self.reported = 0  # bytes of input that it knows the command was given
        self.has_status = False
        ready(source)
        ready(sink)

    def give_way(self):
        """Says that another caller takes its place."""
        try:
            self.sock.send(str(TAKEN).encode())
        except OSError:
            pass  # it has ended

    def close(self):
        self.sock.close()
        os.close(self.source)
        os.close(self.sink)
