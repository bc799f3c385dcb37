"""Removes seats that the hub does not know: it may have been killed between making one and writing that down."""

import json
import os
import sys
import time
import urllib.request

sys.path.insert(0, "/hub")
import machine
from dockerspawner import DockerSpawner

EVERY = 30
PAGE = 200


def known():
    """The names of the seats that the hub has, or is about to have."""
    found, offset = set(), 0
    while True:
        address = f"{os.environ['JUPYTERHUB_API_URL']}/users?state=active&limit={PAGE}&offset={offset}"
        token = os.environ["JUPYTERHUB_API_TOKEN"]
        request = urllib.request.Request(address, headers={"Authorization": f"token {token}"})
        with urllib.request.urlopen(request, timeout=20) as answer:
            users = json.load(answer)
        found |= {f"{machine.SEAT}-{DockerSpawner._escape(user['name'])}" for user in users}
        offset += PAGE
        if len(users) < PAGE:
            return found


def main():
    client = machine.connect()
    suspects = set()
    while True:
        time.sleep(EVERY)
        try:
            # First what there is: what is made meanwhile is none of these.
            there = set(machine.seats(client))
            hub = known()
        except Exception as error:  # noqa: BLE001 (without an answer nothing is removed)
            print(f"reaper: {error}", file=sys.stderr, flush=True)
            suspects = set()
            continue
        orphans = {(kind, name) for kind, name in there if name not in hub}
        # One that was there at the look before, too: a seat that is ending is gone by then.
        for kind, name in orphans & suspects:
            print(f"reaper: the hub does not know {name}, which is removed", file=sys.stderr, flush=True)
            machine.remove(client, kind, name)
        suspects = orphans


main()
