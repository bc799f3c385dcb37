"""The dollars that hosts may take for sessions and runs, kept by this host with nobody attached.

    budget.py set ID CENTS RATE AGE
    budget.py note

`set`: the hosts of ID may take CENTS of US dollars in all, and this one takes RATE dollars an hour, since AGE
seconds. Prints for how many seconds it may go on as `xdrive: budget=SECONDS`, and `xdrive: bound=DOLLARS`
where another ID's budget is the one that ends first; the watch closes the drive then (`presence`). `note`
keeps on the drive what this host has taken, for the next one: the watch calls it each minute.
"""

import contextlib
import fcntl
import json
import math
import os
import sys
import time
import uuid

# Isolated mode (-I) leaves the scripts' own folder out, which is root's.
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from spool import replace  # noqa: E402

# A line for each ID, the first to end first, which is the one that `presence` reads: BOOT END UNTIL DOLLARS RATE,
# when the count began (since that boot, and since 1970), HOST and ID.
HELD = "/var/lib/xdrive/budget"
LOCK = "/run/xdrive/budget.lock"
BOOT = "/proc/sys/kernel/random/boot_id"
DRIVE = "/v1/xdrive"  # there once the drive is mounted
NOTES = f"{DRIVE}/budget"  # by ID, as JSON: what former hosts have taken, the last one, and what that has
UNNOTED = 120  # seconds that a former host may have been up after its last note
MOST = 1 << 16  # bytes of the notes
IDS = 64  # that are kept, the latest
LONGEST = 10 * 365 * 86400


def main(verb="", *words):
    if verb == "set" and len(words) == 4:
        name, cents, rate, age = words
        with locked(fcntl.LOCK_EX):
            return hold(name, int(cents) / 100, float(rate), float(age))
    if verb == "note" and not words:
        # One that hangs on the drive is left alone.
        with contextlib.suppress(BlockingIOError), locked(fcntl.LOCK_EX | fcntl.LOCK_NB):
            note(holds())
        return None
    sys.exit("usage: budget.py set ID CENTS RATE AGE | note")


@contextlib.contextmanager
def locked(how):
    with open(LOCK, "a") as file:
        fcntl.flock(file, how)
        yield


def hold(name, dollars, rate, age):
    held = holds()
    known = held.get(name)
    up, host = (known["up"], known["host"]) if known else (age, uuid.uuid4().hex)
    before, last, taken = kept().get(name, (0, host, 0))
    left = (dollars - before - (taken if last != host else 0)) / rate * 3600 - up
    left = max(0, min(left, LONGEST))
    held[name] = {"left": left, "dollars": dollars, "rate": rate, "up": up, "host": host}
    first = sorted(held, key=lambda it: held[it]["left"])[:IDS]
    replace(HELD, "".join(line(it, held[it]) for it in first).encode(), "part")
    note(held)
    print(f"xdrive: budget={int(held[first[0]]['left'])}")
    if first[0] != name:
        print(f"xdrive: bound={held[first[0]]['dollars']:.2f}")


def line(name, held):
    now, wall = time.clock_gettime(time.CLOCK_BOOTTIME), time.time()
    words = [boot(), int(now + held["left"]), int(wall + held["left"]), f"{held['dollars']:.2f}"]
    words += [f"{held['rate']:.6f}", f"{now - held['up']:.0f}", f"{wall - held['up']:.0f}"]
    return " ".join(map(str, [*words, held["host"], name])) + "\n"


def holds():
    """The budgets that this host keeps, by ID: for how many seconds it is up, and may be from now on."""
    now, wall = time.clock_gettime(time.CLOCK_BOOTTIME), time.time()
    held = {}
    with contextlib.suppress(FileNotFoundError), open(HELD) as lines:
        for words in map(str.split, lines):
            on, end, until, dollars, rate, began, since, host, name = words
            is_now = on == boot()
            left = float(end) - now if is_now else float(until) - wall
            held[name] = {
                "left": max(0, left),
                "dollars": float(dollars),
                "rate": float(rate),
                "up": max(0, now - float(began) if is_now else wall - float(since)),
                "host": host,
            }
    return held


def note(held):
    """Keeps on the drive what this host has taken. Where the drive is away, or full, the next minute does."""
    if not held or not os.path.isdir(DRIVE):
        return
    notes = kept()
    for name, it in held.items():
        before, last, taken = notes.pop(name, (0, it["host"], 0))
        if last != it["host"]:
            before += taken
        notes[name] = (before, it["host"], round((it["up"] + UNNOTED) * it["rate"] / 3600, 6))
    latest = dict(list(notes.items())[-IDS:])
    with contextlib.suppress(OSError):
        replace(NOTES, json.dumps(latest).encode(), "part")


def kept():
    """The notes. What is there and cannot be read may be of a budget that is spent: it ends this."""
    try:
        # A pipe, which nobody writes to, is empty.
        with open(os.open(NOTES, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)) as file:
            found = json.loads(file.read(MOST + 1))
        return {
            str(name): (amount(before), str(host), amount(taken))
            for name, (before, host, taken) in found.items()
        }
    except FileNotFoundError:
        return {}
    except Exception as error:  # whatever is in it
        sys.exit(f"what budgets have taken cannot be read ({type(error).__name__}): {NOTES}")


def amount(dollars):
    dollars = float(dollars)
    if not 0 <= dollars < math.inf:
        raise ValueError(dollars)
    return dollars


def boot():
    with open(BOOT) as file:
        return file.read().strip()


if __name__ == "__main__":
    main(*sys.argv[1:])
