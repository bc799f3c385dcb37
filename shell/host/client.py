"""The client that this host has while a command runs, so that the host does not count as unused."""

import os
import subprocess
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
AWAY = 30  # seconds without a caller until a command is a client: a session that ends saves sooner
RUN_ENDED = "/run/xdrive/run-ended"  # as presence has it


class Client:
    """A client's line. After a `?` the host has the client only while no caller is attached to the
    command, from AWAY on; else from the beginning. With an empty line it never has one."""

    def __init__(self, line):
        self.is_for_later = line.startswith("?")
        self.line = line.lstrip("?")
        self.holds = None  # the process that has the client's lock
        self.away = time.monotonic()  # since when there is no caller
        if self.line and not self.is_for_later:
            self.attach()

    def words(self):
        """The line of it, as it would be given now."""
        return f"?{self.line}" if self.is_for_later else self.line

    def attach(self):
        """Returns once the host has the client."""
        script = 'sh "$0" hold | { grep -m 1 "^xdrive: attached="; exec cat > /dev/null; }'
        # It hangs up with no connection.
        inputs = {"XDRIVE_OWNER": self.line, "XDRIVE_ROLE": "guest", "XDRIVE_LEASE": "60"}
        inputs["SSH_CONNECTION"] = ""
        self.holds = subprocess.Popen(
            ["sh", "-c", script, f"{HERE}/session"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **inputs},
        )
        if not self.holds.stdout.readline():
            self.release()
            raise OSError("the host attaches no client")

    def release(self):
        holds, self.holds = self.holds, None
        if holds:
            holds.stdin.close()
            holds.stdout.close()
            holds.wait()

    def change(self, line):
        """The host has this client from now on, or none."""
        self.line = line
        if not line:
            self.release()
            return end_lease_if_unused()
        self.is_for_later = False
        if not self.holds:
            self.attach()

    def due(self):
        """When it attaches, if no caller comes before."""
        return self.away + AWAY if self.is_for_later and self.line and not self.holds else None

    def come(self):
        """A caller has come."""
        if self.is_for_later:
            self.release()

    def go(self):
        """A caller has gone."""
        self.away = time.monotonic()

    def attach_if_due(self):
        """Whether it was due, and the host has the client now."""
        due = self.due()
        if due is None or time.monotonic() < due:
            return False
        self.go()  # the next try's time, if this one fails
        try:
            self.attach()
            return True
        except OSError:
            traceback.print_exc()  # the host closes, or is busy
            return False

    def end(self):
        """The command has ended, and what it wrote was read."""
        had_one = self.holds is not None
        self.release()
        if had_one and not self.is_for_later:
            end_lease_if_unused()
            # It asks this process too, so it is not waited for here.
            subprocess.Popen(["sh", f"{HERE}/unused"], stdin=subprocess.DEVNULL)

    def leave(self):
        """Nobody waits for the exit status any more."""
        if self.is_for_later:
            end_lease_if_unused()


def end_lease_if_unused():
    """Has the watch end the lease as soon as the host is unused (`unused`): it is long where a command
    may be left."""
    with open(RUN_ENDED, "a"):
        os.utime(RUN_ENDED)  # it may be there since an earlier end
