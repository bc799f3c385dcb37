"""The time that a command may take, after which it is ended."""

import os
import signal
import subprocess
import time

HERE = os.path.dirname(os.path.abspath(__file__))
OVERDUE = 124  # the exit status of a command that took too long, as that of timeout(1)


class Deadline:
    """`SECONDS NOTICE FLAG`: after so many seconds the command gets SIGTERM, NOTICE later SIGKILL, since the
    FLAG asks for that. Never, if it is empty."""

    def __init__(self, name, container, limit):
        self.name, self.container = name, container
        self.signals = ["TERM", "KILL"] if limit else []
        words = limit.split() or [0, 0]
        # A program that an earlier xdrive froze has no flag.
        seconds, notice, self.flag = [*words, "--max"][:3]
        self.seconds, self.notice = int(seconds), int(notice)
        self.due = time.monotonic() + self.seconds if limit else None
        self.has_passed = False
        self.sending = []

    def words(self):
        """What is left of it, for another keeper: a second at least."""
        if self.due is None:
            return ""
        return f"{max(1, int(self.due - time.monotonic()))} {self.notice} {self.flag}"

    def act(self, pid, errors):
        """Sends what is due to the command, and to what it started; says it in its standard error.
        `pid` is its process, or the one that started it."""
        if self.due is None or time.monotonic() < self.due:
            return
        if not self.has_passed:
            self.has_passed = True
            errors.take(
                f"xdrive: the command has taken as long as {self.flag} allows, and gets SIGTERM; "
                f"SIGKILL in {self.notice} s\n".encode()
            )
        sent = self.signals.pop(0)
        inputs = {"XDRIVE_COMMAND": self.name, "XDRIVE_SIGNAL": sent, "XDRIVE_NAMED": self.container}
        words = ["sh", f"{HERE}/container", "signal"]
        # It may wait for dockerd, and this process must read on.
        self.sending = [child for child in self.sending if child.poll() is None]
        self.sending.append(
            subprocess.Popen(words, env={**os.environ, **inputs}, stdin=subprocess.DEVNULL)
        )
        if sent == "KILL":
            os.kill(pid, signal.SIGKILL)
        self.due = time.monotonic() + self.notice if self.signals else None
