"""The dollars that hosts may take for a session or a run, kept by this host with nobody attached.

    budget.py set ID CENTS RATE AGE
    budget.py note

`set`: the hosts of ID may take CENTS of US dollars in all, and this one takes RATE dollars an hour, since AGE
seconds. Prints for how many seconds it may go on as `xdrive: budget=SECONDS`; the watch closes the drive
then (`presence`). `note` keeps on the drive what this host has taken, for the next one: the watch calls
it each minute.
"""

import contextlib
import json
import os
import sys
import time
import uuid

# Isolated mode (-I) leaves the scripts' own folder out, which is root's.
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from spool import replace  # noqa: E402

HELD = "/var/lib/xdrive/budget"  # as `presence` reads it; then RATE, since when it counts, HOST and ID
BOOT = "/proc/sys/kernel/random/boot_id"
DRIVE = "/v1/xdrive"  # there once the drive is mounted
NOTES = f"{DRIVE}/budget"  # what each host of one ID has taken, as JSON
UNNOTED = 120  # seconds that a former host may have been up after its last note
MOST = 1 << 16  # bytes of the notes


def main(verb="", *words):
    if verb == "set" and len(words) == 4:
        name, cents, rate, age = words
        return hold(name, int(cents) / 100, float(rate), float(age))
    if verb == "note" and not words:
        return note()
    sys.exit("usage: budget.py set ID CENTS RATE AGE | note")


def hold(name, dollars, rate, age):
    now = time.clock_gettime(time.CLOCK_BOOTTIME)
    held = holds()
    if held and held["name"] == name:
        began, host = held["began"], held["host"]
    else:
        began, host = now - age, uuid.uuid4().hex
    spent = sum(taken for other, taken in notes(name).items() if other != host)
    left = (dollars - spent) / rate * 3600 - (now - began)
    left = max(0, min(left, 10 * 365 * 86400))
    words = [boot(), int(now + left), int(time.time() + left), f"{dollars:.2f}"]
    words += [f"{rate:.6f}", f"{began:.0f}", host, name]
    replace(HELD, (" ".join(map(str, words)) + "\n").encode(), "part")
    note()
    print(f"xdrive: budget={int(left)}")


def note():
    """Keeps on the drive what this host has taken. Where the drive is away, or full, the next minute does."""
    held = holds()
    if not held or not os.path.isdir(DRIVE):
        return
    up = time.clock_gettime(time.CLOCK_BOOTTIME) - held["began"] + UNNOTED
    taken = notes(held["name"])
    taken[held["host"]] = round(up * held["rate"] / 3600, 6)
    with contextlib.suppress(OSError):
        replace(NOTES, json.dumps({"id": held["name"], "hosts": taken}).encode(), "part")


def notes(name):
    """The dollars that each host of this ID has taken, by the drive."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        with open(NOTES) as file:
            kept = json.loads(file.read(MOST))
        if kept["id"] == name:
            return {str(host): max(0, float(taken)) for host, taken in kept["hosts"].items()}
    return {}


def holds():
    """The budget that this host keeps since it booted; none if it keeps none."""
    with contextlib.suppress(OSError, ValueError):
        with open(HELD) as file:
            on, _, _, _, rate, began, host, name = file.read().split()
        if on == boot():
            return {"rate": float(rate), "began": float(began), "host": host, "name": name}
    return None


def boot():
    with open(BOOT) as file:
        return file.read().strip()


if __name__ == "__main__":
    main(*sys.argv[1:])
