"""The results of a run: what is in /work/results goes to S3, every so often and at the run's end.

    results.py ready      prints `xdrive: results=yes`, or `no` where there is no AWS CLI
    results.py sync URL   brings what is new there to URL, and ends with the AWS CLI's exit status

`running.py` has a `Results` for each command whose order (`tries.py`) has such a URL. A sync that fails
never fails a command: its record says so. None runs while the host closes: the next try begins with one.

The AWS CLI runs as root, under the role of the instance, and any program of the container may have put
a link into that folder. So it sees the drive by a mount of its own on which no link is followed
(mount(2), MS_NOSYMFOLLOW), read-only.
"""

import contextlib
import ctypes
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time

# Isolated mode (-I) leaves the scripts' own folder out, which is root's.
sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from binds import MS_BIND, MS_PRIVATE, NO_LINK, mount  # noqa: E402
from keeper import closing  # noqa: E402
from spool import ORDER, RECORDS  # noqa: E402

URL = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[!-~]{0,500})?")
WORK = os.environ.get("XDRIVE_WORK", "/v1/work")
FOLDER = "results"  # below that
LOG = "/run/xdrive/results-log"  # and a name
LAST = 3600  # seconds that the syncs at the end of a command may take
TRIES = 3  # of them
BETWEEN = 10  # seconds between two
SKIPPED = 2  # the AWS CLI's exit status where all is done but for devices, pipes and the like
SPEAKS = 4096  # bytes of what the AWS CLI says last that are read
MOST_SPOKEN = 64 << 10  # bytes that it can say: in /run, where a close needs room
NEW_MOUNTS = 0x20000  # CLONE_NEWNS (unshare(2))
DIES_WITH_PARENT = 1  # PR_SET_PDEATHSIG (prctl(2))
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32  # mount(2)
MS_NOSYMFOLLOW, MS_REC = 1 << 8, 1 << 14


def main(verb="", url=""):
    if verb == "ready" and not url:
        return ready()
    if verb != "sync" or not URL.fullmatch(url):
        sys.exit("usage: results.py ready | sync s3://BUCKET[/PREFIX]")
    sync(url)


def ready():
    print(f"xdrive: results={'yes' if shutil.which('aws') else 'no'}")


def sync(url):
    """This process becomes the AWS CLI."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(DIES_WITH_PARENT, signal.SIGKILL)
    os.nice(10)
    if libc.unshare(NEW_MOUNTS) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    mount(None, b"/", MS_REC | MS_PRIVATE)
    work = os.open(WORK, NO_LINK | os.O_DIRECTORY)
    # Over itself, for this process alone.
    mount(b"/proc/self/fd/%d" % work, os.fsencode(WORK), MS_BIND)
    flags = MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_NOSYMFOLLOW
    mount(None, os.fsencode(WORK), MS_BIND | MS_REMOUNT | flags)
    os.close(work)
    source = f"{WORK}/{FOLDER}"
    try:
        os.listdir(source)
    except FileNotFoundError:
        sys.exit(0)  # none yet
    except OSError as error:
        sys.exit(f"/work/{FOLDER} is a link, or no folder: {error.strerror}")
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_SPOKEN, MOST_SPOKEN))
    quiet = ["--only-show-errors", "--no-follow-symlinks"]
    os.execvp("aws", ["aws", "s3", "sync", *quiet, f"{source}/", f"{url}/"])


class Results:
    """The syncs of a command's results, beside it; none where its order has no URL for them."""

    def __init__(self, name):
        self.url, self.every = ordered(name)
        self.log = f"{LOG}.{name}"
        self.process = self.due = None
        self.at = self.why = None  # when the last good sync began, and why the last one failed
        self.began = 0
        self.left = TRIES
        self.until = None  # when the syncs at the end of the command have to end

    def begin(self, is_first):
        """The command begins; unless it `is_first` a former try may have left something."""
        if self.url:
            self.due = time.monotonic() + (self.every if is_first else 0)

    def act(self):
        """Begins what is due, and reads the end of what has ended."""
        if self.process is not None and closing() is not None:
            self.stop("its host closes")
        if self.process is not None and self.process.poll() is not None:
            self.ended(self.process.wait(), self.spoken())
        if self.due is not None and self.process is None and time.monotonic() >= self.due:
            self.start()

    def pause(self):
        """How many seconds nothing is to be done; none: for ever."""
        if self.process is not None:
            return 0.5
        return None if self.due is None else max(0, self.due - time.monotonic())

    def is_at_end(self, errors):
        """Whether the last sync of a command that has ended is still to come: it is begun by the first
        call, which says so in the command's standard error."""
        if not self.url or closing() is not None:
            self.stop("its host closes")
            self.due = None
            return False
        if self.until is None:
            # What runs may have passed by what was written last.
            self.stop("the command has ended")
            errors.take(f"xdrive: the last results go to {self.url}\n".encode())
            self.until = time.monotonic() + LAST
            self.due = time.monotonic()
        if time.monotonic() >= self.until:
            self.stop(f"it took more than {LAST // 60} min")
            self.due = None
        return self.process is not None or self.due is not None

    def start(self):
        self.due = None
        self.began = time.time()
        words = [sys.executable, "-I", "-S", f"{HERE}/results.py", "sync", self.url]
        try:
            with open(os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as log:
                streams = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log}
                self.process = subprocess.Popen(words, start_new_session=True, **streams)
        except OSError as error:  # a host without room or memory goes on with the command
            self.ended(None, str(error))

    def ended(self, status, spoken):
        self.process = None
        self.why = None if status == 0 else spoken or f"the AWS CLI ended with {status}"
        if status in [0, SKIPPED]:
            self.at = self.began
        if self.until is None:
            self.due = time.monotonic() + self.every
        elif status not in [0, SKIPPED]:
            self.left -= 1
            self.due = time.monotonic() + BETWEEN if self.left else None

    def stop(self, why):
        """Ends a sync that runs."""
        if self.process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process, self.why = None, why

    def spoken(self):
        """The last line that the AWS CLI printed."""
        with contextlib.suppress(OSError):
            with open(self.log, "rb") as log:
                log.seek(max(0, os.fstat(log.fileno()).st_size - SPEAKS))
                text = log.read(SPEAKS).decode(errors="replace")
            lines = [line.strip() for line in text.splitlines() if line.strip()]
            return lines[-1][:200] if lines else ""
        return ""

    def state(self):
        """What a record has of it; none where nothing is synced."""
        return {"at": self.at, "why": self.why} if self.url else None

    def report(self, errors):
        """Says in the command's standard error that not all of its results were brought away."""
        if self.url and self.why:
            errors.take(f"xdrive: the results are not all in {self.url}: {self.why}\n".encode())

    def close(self):
        with contextlib.suppress(OSError):
            os.unlink(self.log)


def ordered(name):
    """The URL in a command's order, and how many seconds two syncs are apart; none without one."""
    try:
        with open(f"{RECORDS}/{name}/{ORDER}") as file:
            results = json.load(file)["results"]
        url, every = results["url"], max(60, int(results["every"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None, 0
    return (url, every) if isinstance(url, str) and URL.fullmatch(url) else (None, 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
