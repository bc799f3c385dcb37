"""The next try of a command that failed by itself: on the same host, after a pause. `running.py` begins
it.

The words of a try: its number; how often the command is begun again after a failure of its own; and
the exit codes of such a failure, with commas between them; without them any but 0 and that of Ctrl-C. Which tries failed is on
the drive (`tries.py`), so that they are counted over all hosts.
"""

import time

from spool import TRIES, record
from tries import failed, take

FIRST = 60  # seconds until the next try; they double with each one that failed
LONGEST = 900  # seconds that they reach
SHORT = 600  # seconds that a try takes at least which is not counted as short
INTERRUPTED = 130  # the exit status after Ctrl-C, which is its user's
STREAK = 3  # short tries in a row that end the run: it fails at its start


class Retries:
    """The tries of a command after failures of its own; none where the words are empty, or have no
    number of such tries."""

    def __init__(self, name, words):
        number, times, codes = [*words.split(" "), "", ""][:3]
        self.name, self.times = name, int(times or 0)
        self.number = int(number) if number else None
        self.codes = {int(code) for code in codes.split(",") if code}
        self.status = None  # of the try that failed, while the next one waits
        self.due = None  # when that begins
        self.is_taken = False

    def words(self, is_elsewhere):
        """The words by which another keeper goes on with the try; where it `is_elsewhere`, and could not begin
        the next, without more of them."""
        codes = ",".join(str(code) for code in sorted(self.codes))
        times = 0 if is_elsewhere else self.times
        return f"{self.number} {times} {codes}" if self.number else ""

    def follow(self, status, seconds, errors):
        """Whether another try follows one that ended with `status` after so many `seconds`, which is
        said in its standard error."""
        is_meant = status in self.codes if self.codes else status not in [0, INTERRUPTED]
        if not self.times or not is_meant:
            return False
        lengths = failed(self.name)
        retried = len(lengths)
        lengths[self.number] = seconds
        last = [lengths.get(self.number - back, SHORT) for back in range(STREAK)]
        begins = f"xdrive: the command failed (exit code {status})"
        pause = None
        if retried >= self.times:
            text = f"{begins}, and was begun again as often as --retry allows"
        elif max(last) < SHORT:
            text = f"{begins}, as {STREAK} times in a row within {SHORT // 60} minutes: it is not begun again"
        else:
            pause = min(FIRST << min(retried, 10), LONGEST)
            text = f"{begins}: try {self.number + 1} begins in {pause} s"
        errors.take(f"{text}\n".encode())
        if pause is not None:
            self.status, self.due, self.is_taken = status, time.monotonic() + pause, False
        return pause is not None

    def take(self, state, outputs):
        """Takes the next try, which leaves the record of the one that failed as a former one. False
        where the drive has no room for that."""
        former = f"{self.name}/{TRIES}/{self.number}"
        try:
            take(self.name, self.number + 1)
        except SystemExit:
            return False
        record({**state, "run": former, "status": self.status, "is_settled": True}, outputs)
        self.number += 1
        self.is_taken = True
        return True

    def command(self, words):
        """The command's words, with the number of its try in its environment."""
        own = f"XDRIVE_TRY={self.number}"
        return [
            own if flag == "-e" and word.startswith("XDRIVE_TRY=") else word
            for flag, word in zip(["", *words], words)
        ]
