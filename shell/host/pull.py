"""Pulls an image, and prints its progress.

    pull.py REFERENCE

It asks dockerd itself (Docker Engine API, "Create an image"): docker's client prints the bytes of
each layer only to a terminal. About twice a second, if anything changed, it prints a fact:

    xdrive: pull=DONE LAYERS BYTES TOTAL

DONE of LAYERS are in place. BYTES of the missing layers were downloaded, of TOTAL, which is 0 until
the size of each is known. It ends with 0, or with dockerd's message on standard error and 87. A
caller that is gone ends it, and dockerd then gives up the pull.

Standard input has the login for this pull, as dockerd takes it (Docker Engine API, "Authentication"),
if the caller has one: it is written nowhere, and gone with this process. Without it the credentials
are root's, as docker's own client finds them, where the machine's image has some.
"""

import base64
import http.client
import json
import os
import socket
import subprocess
import sys
import time
import urllib.parse

SOCKET = "/var/run/docker.sock"
NOT_PULLED = 87
EVERY = 0.4  # seconds between two facts
SILENCE = 600  # seconds without an event, which unpacking a large layer on a slow volume may take
HUB = "https://index.docker.io/v1/"  # Docker Hub's name in the settings of docker's client


class Docker(http.client.HTTPConnection):
    """An HTTP connection to dockerd's socket."""

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(SILENCE)
        self.sock.connect(SOCKET)


class Layers:
    """The state of an image's layers, from dockerd's events."""

    def __init__(self):
        self.size, self.came, self.fetched, self.done = {}, {}, set(), set()

    def update(self, event):
        layer, status = event.get("id"), event.get("status", "")
        # The first event has the tag for an id.
        if not layer or status.startswith("Pulling from"):
            return
        self.came.setdefault(layer, 0)
        detail = event.get("progressDetail") or {}
        if status == "Downloading":
            self.fetched.add(layer)
            self.came[layer] = detail.get("current", 0)
            if detail.get("total", 0) > 0:
                self.size[layer] = detail["total"]
        elif status in ("Verifying Checksum", "Download complete"):
            self.arrived(layer)
        elif status == "Extracting":
            # Its total is of the same compressed bytes; a small layer may have no event before it.
            self.size.setdefault(layer, detail.get("total", 0))
            self.arrived(layer)
        elif status == "Pull complete":
            self.arrived(layer)
            self.done.add(layer)
        elif status == "Already exists":
            self.size[layer] = 0
            self.done.add(layer)

    def arrived(self, layer):
        self.fetched.add(layer)
        self.came[layer] = self.size.get(layer, self.came[layer])

    def fact(self):
        is_known = all(layer in self.size or layer in self.done for layer in self.came)
        total = sum(self.size.values()) if is_known else 0
        return f"{len(self.done)} {len(self.came)} {sum(self.came.values())} {total}"


def main(reference):
    name = reference.rsplit("/", 1)[-1]
    # Without a tag dockerd would pull every tag.
    query = {"fromImage": reference} if ":" in name or "@" in name else {"fromImage": reference, "tag": "latest"}
    docker = Docker("docker")
    try:
        docker.request("POST", "/images/create?" + urllib.parse.urlencode(query), headers=authority(reference))
        answer = docker.getresponse()
        if answer.status != 200:
            refuse(message(answer.read()))
        follow(answer)
    except socket.timeout:
        refuse(f"dockerd reported nothing about the pull for {SILENCE} s")
    except (OSError, http.client.HTTPException) as error:
        if isinstance(error, BrokenPipeError):
            sys.exit(NOT_PULLED)
        refuse(f"dockerd broke the pull off: {error}")


def follow(answer):
    layers, printed, due = Layers(), None, 0
    for line in answer:
        event = json.loads(line)
        if "error" in event or "errorDetail" in event:
            refuse((event.get("errorDetail") or {}).get("message") or event.get("error"))
        layers.update(event)
        if time.monotonic() >= due and layers.fact() != printed:
            printed, due = layers.fact(), time.monotonic() + EVERY
            print_fact(printed)
    if layers.fact() != printed:
        print_fact(layers.fact())


def print_fact(fact):
    sys.stdout.write(f"xdrive: pull={fact}\n")
    sys.stdout.flush()


def message(answer):
    try:
        return json.loads(answer)["message"]
    except (ValueError, KeyError, TypeError):
        return answer.decode(errors="replace")


def refuse(why):
    sys.stderr.write(f"{why}\n")
    sys.exit(NOT_PULLED)


def registry(reference):
    """The registry: the first component, if it looks like a host (distribution's reference grammar)."""
    first, slash, _ = reference.partition("/")
    if first in ("docker.io", "index.docker.io"):
        return HUB
    if slash and (first == "localhost" or "." in first or ":" in first or first != first.lower()):
        return first
    return HUB


def authority(reference):
    """The header with the credentials for the registry, if there are some."""
    server = registry(reference)
    known = given(server) or roots(server)
    if not known:
        return {}
    return {"X-Registry-Auth": base64.urlsafe_b64encode(json.dumps(known).encode()).decode()}


def given(server):
    """The login on standard input, if it is one at this registry."""
    text = sys.stdin.buffer.read()
    login = json.loads(text) if text else {}
    return login if login.get("serveraddress") == server else None


def roots(server):
    try:
        with open(os.path.expanduser("~/.docker/config.json"), encoding="utf-8") as file:
            return credentials(json.load(file), server)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, subprocess.SubprocessError):
        return None


def credentials(settings, server):
    helper = settings.get("credHelpers", {}).get(server) or settings.get("credsStore")
    if helper:
        asked = subprocess.run(
            [f"docker-credential-{helper}", "get"], input=server, capture_output=True, text=True, timeout=60, check=True
        )
        stored = json.loads(asked.stdout)
        if stored["Username"] == "<token>":
            return {"identitytoken": stored["Secret"], "serveraddress": server}
        return {"username": stored["Username"], "password": stored["Secret"], "serveraddress": server}
    entry = settings.get("auths", {}).get(server, {})
    if entry.get("identitytoken"):
        return {"identitytoken": entry["identitytoken"], "serveraddress": server}
    if not entry.get("auth"):
        return None
    user, _, password = base64.b64decode(entry["auth"]).decode().partition(":")
    return {"username": user, "password": password, "serveraddress": server}


main(sys.argv[1])
