"""A container of the drive as the host sees it: which it is, its first process, and its tmpfs. The
main one has an empty name, others have their own.

    inside.py remove PID NAME

`remove` removes NAME from the tmpfs of the container whose first process is PID, if it is there.
"""

import json
import os
import sys

RECORDS = "/v1/xdrive"  # the record of the main container, as `engine` writes it, is `layer` there
SETTINGS = "/v1/docker/containers"  # where dockerd has them, for each container
STATES = {  # where runc has the containers of dockerd, by the runtime that they have there
    "runc": "/run/docker/runtime-runc/moby",
    "nvidia": "/run/docker/runtime-nvidia/moby",
}
TMPFS = ("run", "xdrive")  # the container's own tmpfs, below its root
FOLDER = os.O_PATH | os.O_DIRECTORY

# What reading a record that is not there, or of another shape, may raise.
UNREADABLE = (OSError, ValueError, LookupError, TypeError, AttributeError)


class State:
    """A container that runs, as runc sees it: its own, or another runtime's that calls it."""

    def __init__(self, container, folder, state):
        self.container, self.folder = container, folder
        self.pid = state["init_process_pid"]
        groups = state["config"]["cgroups"]
        is_systemd = groups.get("Systemd", groups.get("systemd"))
        self.flags = ["--systemd-cgroup"] if is_systemd else []  # as dockerd calls runc


def names():
    """The names of the drive's containers, the main one's first."""
    yield ""
    try:
        yield from os.listdir(f"{RECORDS}/containers")
    except OSError:
        pass  # there is no other


def container(named=""):
    """The id of the container of this name; none where there is none."""
    folder = f"{RECORDS}/containers/{named}" if named else RECORDS
    try:
        with open(f"{folder}/layer") as record:
            for line in record:
                key, _, value = line.rstrip("\n").partition("=")
                if key == "container":
                    return value
    except OSError:
        pass
    return None


def drive():
    """The name of the drive, by the label of its main container."""
    with open(f"{SETTINGS}/{container()}/config.v2.json") as text:
        return json.load(text)["Config"]["Labels"]["xdrive.drive"]


def state(named=""):
    """The container of this name, if it runs and runc knows it."""
    own = container(named)
    for folder in STATES.values():
        try:
            with open(f"{folder}/{own}/state.json") as text:
                found = State(own, folder, json.load(text))
            if lives(found.pid):
                return found
        except UNREADABLE:
            pass
    return None


def enterable(container, gpus=False):
    """The container that docker knows by this name or id, if it is the drive's, runs, and `runc exec`
    gives a command what `docker exec` does. Another runtime, or GPUs, may add devices and environment
    to what docker knows, or take some away: only where that is meant, runc enters a container with `gpus`.
    """
    found = (entered(state(named), container, gpus) for named in names())
    return next((it for it in found if it), None)


def entered(found, container, gpus):
    """The container that was found, if docker knows it by this name or id, and runc may enter it."""
    try:
        with open(f"{SETTINGS}/{found.container}/config.v2.json") as text:
            name = json.load(text)["Name"].lstrip("/")
        with open(f"{SETTINGS}/{found.container}/hostconfig.json") as text:
            settings = json.load(text)
        is_plain = settings["Runtime"] == "runc" and not settings["DeviceRequests"]
        is_one = is_plain or gpus and settings["Runtime"] in STATES
        return found if is_one and container in (found.container, name) else None
    except UNREADABLE:
        return None


def init(named=""):
    """The process id of the first process of the container of this name; 0 where it does not run."""
    found = state(named)
    own = container(named)
    if found or own is None:
        return found.pid if found else 0
    import subprocess  # which takes as long to load as all else

    words = ["docker", "inspect", "--format", "{{.State.Pid}}", own]
    try:
        return int(subprocess.run(words, capture_output=True, timeout=10).stdout or 0)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return 0


def lives(pid):
    return bool(pid) and os.path.exists(f"/proc/{pid}")


def tmpfs(root):
    """A descriptor of the tmpfs of a container with this root (`/proc/PID/root`), for names in it.

    No symbolic link leads there: one of the container's would lead root to files of the host's,
    whose root an absolute one begins at. A folder that is no file system of its own is not it: the
    container has moved that, and what is made there would be on the drive.
    """
    folder = os.open(root, FOLDER)
    own = os.fstat(folder).st_dev
    for name in TMPFS:
        try:
            below = os.open(name, FOLDER | os.O_NOFOLLOW, dir_fd=folder)
        finally:
            os.close(folder)
        folder = below
    if os.fstat(folder).st_dev == own:
        os.close(folder)
        raise OSError(f"/{'/'.join(TMPFS)} of the container is not its tmpfs")
    return folder


def remove(folder, name):
    """Removes `name` from a folder, if it is there; a link itself, never what it leads to."""
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        pass


def main(verb="", pid="", name="/", *rest):
    if verb != "remove" or rest or "/" in name:
        sys.exit("usage: inside.py remove PID NAME")
    try:
        remove(tmpfs(f"/proc/{pid}/root"), name)
    except OSError as error:
        sys.exit(f"cannot remove {name}: {error}")


if __name__ == "__main__":
    main(*sys.argv[1:])
