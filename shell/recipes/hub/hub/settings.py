"""The hub's settings: parsed and checked here, and nowhere else.

What is used as a path, a name of a service or a word of a command has passed one of PATTERNS. A setting
of the environment outranks that of the file.
"""

import os
import re
import secrets
from datetime import datetime
from pathlib import Path

STATE = Path("/work/hub")
FILE = STATE / "hub.env"

# A name of a person here: a folder's name, a service's, and a word in addresses. Docker takes 63 letters.
USER = r"[a-z][a-z0-9-]{0,30}"
NUMBER = r"[1-9][0-9]{0,4}"
PATTERNS = {
    "NAME": r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?",
    "CERTIFICATE": r"own|acme",
    "SIGN_IN": r"list|password|github",
    "USERS": rf"({USER}(,{USER})*)?",
    "TEACHERS": rf"({USER}(,{USER})*)?",
    "PASSWORD": r"[!-~]{8,128}",
    "TEACHER_PASSWORD": r"[!-~]{32,128}",
    "GITHUB_ID": r"[A-Za-z0-9._]{1,64}",
    "GITHUB_SECRET": r"[A-Za-z0-9_]{1,128}",
    "LESSONS": r"(https://[A-Za-z0-9.-]+(:[0-9]+)?/|/work/)[A-Za-z0-9._~/-]*",
    "BRANCH": r"[A-Za-z0-9][A-Za-z0-9._/-]{0,99}",
    "MEMORY": rf"{NUMBER}[MG]",
    "CPUS": NUMBER,
    "GPU": r"yes|no",
    "IDLE": NUMBER,
    "ENDS": r"[0-9T:.+Z-]{16,32}",
    "SHARE": r"[a-z0-9][a-z0-9-]{0,62}",
}
DEFAULTS = {
    "CERTIFICATE": "own",
    "SIGN_IN": "list",
    "USERS": "",
    "TEACHERS": "",
    "BRANCH": "main",
    "MEMORY": "2G",
    "CPUS": "2",
    "GPU": "no",
    "IDLE": "60",
    "SHARE": "class",
}


class BadSetting(ValueError):
    """A setting that cannot be used, in a sentence."""


def parse(text):
    """The settings in the lines `NAME=VALUE` of `text`, checked, with what they leave out."""
    found = dict(DEFAULTS)
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        key, sign, value = line.partition("=")
        if not sign or key not in PATTERNS:
            raise BadSetting(f"line {number}: {key} is no setting")
        found[key] = value
    found.update((key, os.environ[f"HUB_{key}"]) for key in PATTERNS if f"HUB_{key}" in os.environ)
    for key, value in found.items():
        # Secrets are not shown.
        if not re.fullmatch(PATTERNS[key], value):
            raise BadSetting(f"{key} cannot be used: it does not match {PATTERNS[key]}")
    check(found)
    return found


def check(found):
    for key in needed(found):
        if not found.get(key):
            raise BadSetting(f"{key} is missing: SIGN_IN={found['SIGN_IN']} needs it")
    if not found.get("NAME"):
        raise BadSetting("NAME is missing: the name or address that browsers use")
    if ".." in found.get("LESSONS", "") or ".." in found["BRANCH"]:
        raise BadSetting("LESSONS and BRANCH have no ..")
    if found["CERTIFICATE"] == "acme" and not re.search("[A-Za-z]", found["NAME"]):
        raise BadSetting("CERTIFICATE=acme needs a name in DNS as NAME, not an address")
    ends_at(found)


def needed(found):
    """The settings that the way to sign in needs."""
    return {
        "list": ["USERS"],
        "password": ["PASSWORD"],
        "github": ["USERS", "GITHUB_ID", "GITHUB_SECRET"],
    }[found["SIGN_IN"]]


def names(found, key):
    return {name for name in found[key].split(",") if name}


def ends_at(found):
    """The time at which the class ends; None if it has none."""
    if not found.get("ENDS"):
        return None
    try:
        time = datetime.fromisoformat(found["ENDS"])
    except ValueError as error:
        raise BadSetting(f"ENDS is no time: {error}") from error
    if time.tzinfo is None:
        raise BadSetting("ENDS needs its distance from UTC, such as 2030-06-28T17:00+02:00")
    return time


def demand_future(found):
    """Refuses an end that is over: the class would end at once."""
    ends = ends_at(found)
    if ends and ends <= datetime.now().astimezone():
        raise BadSetting(f"ENDS is over: {found['ENDS']}")


def load():
    try:
        text = FILE.read_text()
    except FileNotFoundError:
        raise BadSetting(f"{FILE} is missing: xdrive connect hub -- /hub/settings < hub.env") from None
    return parse(text)


def secret(name):
    """A secret that is made once, and kept on the drive, for root alone."""
    path = STATE / name
    if not path.exists():
        path.touch(mode=0o600)
        path.write_text(secrets.token_hex(32))
    return path.read_text()


def token(service):
    """By which a service asks the hub."""
    return secret(f"{service}_token")


def root(found):
    """Where homes and shared data are in the hub's container, and on each host; whether that is a share."""
    share = found["SHARE"]
    if os.path.ismount(f"/data/{share}"):
        return Path(f"/data/{share}"), Path(f"/run/xdrive/shares/{share}"), True
    return Path("/work/class"), Path("/v1/work/class"), False
