"""Seats: a container each on the hub's machine, or a service of Swarm's on the workers."""

import asyncio
import os
import re
from pprint import pformat

import machine
import settings
from docker.types import RestartPolicy
from dockerspawner import DockerSpawner, SwarmSpawner
from traitlets import Unicode

STUDENT = 1000
# What Swarm does with a task before it runs. A worker that is lost leaves its tasks to another one, where
# they go through all of these: their students still have a seat.
COMING = {"new", "pending", "assigned", "accepted", "preparing", "ready", "starting"}
EVERY = 1


def make_home(spawner):
    """Before each start: the student's folder, which is theirs alone."""
    name = spawner.user.name
    if not re.fullmatch(settings.USER, name):
        raise ValueError("this name cannot be a folder's")
    home = settings.root(settings.load())[0] / "homes" / name
    if not home.exists():
        # Docker would make the place of what is mounted there, as root's.
        for folder in (home, home / "shared"):
            folder.mkdir(mode=0o700)
            os.chown(folder, STUDENT, STUDENT)


class HereSeat(DockerSpawner):
    """A container beside the hub's."""


class WorkerSeat(SwarmSpawner):
    """A service of one task, on whichever worker has a place for it."""

    note = Unicode("Your seat is asked for.")
    # Those for whom no worker has had a place so far.
    waiting = set()

    async def progress(self):
        """What the page shows while a student waits."""
        said = None
        while True:
            if self.note != said:
                said = self.note
                yield {"message": said, "progress": 30}
            await asyncio.sleep(EVERY)

    async def create_object(self):
        while not await asyncio.to_thread(machine.leads, self.client):
            self.note = "No worker is there yet. This page goes on by itself when one has come."
            await asyncio.sleep(5)
        return await super().create_object()

    async def start_object(self):
        """Waits until its task runs, however long a place takes."""
        name = self.service_name
        try:
            while True:
                task = await self.get_task()
                if task is None:
                    raise RuntimeError(f"the service {name} is gone")
                state = task["Status"]["State"]
                if state == "running":
                    return
                if state == "pending" and "no suitable node" in task["Status"].get("Err", ""):
                    self.waiting.add(name)
                    others = len(self.waiting) - 1
                    beside = f" Others who wait: {others}." if others else ""
                    self.note = f"All places are taken: this page goes on by itself when one is free.{beside}"
                elif state in COMING:
                    self.waiting.discard(name)
                    self.note = "Your seat is being made."
                elif state in {"rejected", "failed", "orphaned"}:
                    # Swarm tries again, on another worker if it can.
                    why = task["Status"].get("Err", state)
                    self.note = f"A worker could not make your seat, and it is tried again: {why}"
                else:
                    raise RuntimeError(f"{name} has ended: {pformat(task['Status'])}")
                await asyncio.sleep(EVERY)
        finally:
            self.waiting.discard(name)

    async def get_task(self):
        """The newest task that Swarm wants, else the newest: while one is moved there are several."""
        if await self.get_object() is None:
            return None
        tasks = await self.docker("tasks", filters={"service": self.service_name})
        return max(tasks, key=lambda task: (task["DesiredState"] == "running", task["CreatedAt"]), default=None)

    async def poll(self):
        """None while it runs or is to run again; else how it ended."""
        task = await self.get_task()
        if task is None:
            return 0
        if task["Status"]["State"] in COMING | {"running"}:
            return None
        # Swarm makes up for a task that failed, after a moment.
        if task["DesiredState"] == "running":
            return None
        return pformat(task["Status"])


# A server that ends by itself (File, Shut Down) has ended; one that failed, or whose worker is lost, begins again.
BEGIN_AGAIN = RestartPolicy(condition="on-failure", delay=2 * 10**9)
