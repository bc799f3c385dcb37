"""What the teacher's commands share: xdrive on this computer, and by it the hub's container."""

import json
import os
import shlex
import subprocess
import sys

# The drive of the hub; HUB_DRIVE names another one, XDRIVE another program or `xdrive --local`.
DRIVE = os.environ.get("HUB_DRIVE", "hub")
PROGRAM = shlex.split(os.environ.get("XDRIVE", "xdrive"))


def xdrive(*words, may_fail=False):
    """What it prints; None where it failed and may."""
    ended = subprocess.run([*PROGRAM, *words], capture_output=True, text=True)
    if ended.returncode == 0:
        return ended.stdout
    if may_fail:
        return None
    sys.exit(reason(ended.stderr) or f"xdrive ended with {ended.returncode}")


def reason(said):
    """Why it failed, in words: with --json it says so as a document."""
    try:
        return json.loads(said.strip().splitlines()[-1])["error"]
    except (IndexError, KeyError, TypeError, ValueError):
        return said.strip()


def document(*words, may_fail=False):
    """The JSON document that it prints."""
    printed = xdrive(words[0], "--json", *words[1:], may_fail=may_fail)
    return None if printed is None else json.loads(printed)


def in_the_hub(*command):
    """What a command prints in the hub's container, of a hub that is up: nothing is launched for it."""
    drives = {drive["drive"]: drive["state"] for drive in document("list")}
    if drives.get(DRIVE) != "running":
        sys.exit(f"{DRIVE} is not up: it is {drives.get(DRIVE, 'no drive')}")
    return xdrive("--quiet", "connect", DRIVE, "--no-jupyter", "--", *command)
