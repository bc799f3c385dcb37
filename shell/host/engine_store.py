"""Keeps dockerd from starting by itself what is in its store on the drive.

Called as `python3 -I -S engine_store.py STORE` before dockerd starts, where no container of the drive
is to have docker's socket: then xdrive made all that is to run there, and starts that by itself. The
store may have been written elsewhere, by whoever could tag a snapshot. Containers stay what they are,
but for their restart policies; managed plugins and the state of a swarm, which dockerd starts as root,
are set aside under other names. Prints a line for each of them, to standard output.

dockerd reads JSON as Go does: the names of fields in any case, and the last of several counts.

With another argument, NETWORK, what dockerd wrote there of a swarm is forgotten, and of its network of that
name (`network`): a container that is on record as in it would not start again without it.
"""

import json
import os
import shutil
import stat
import sys

# Longer settings are nobody's.
LONGEST = 4 << 20


def read(path):
    """The settings in a file, as a dict; none of what is no regular file, or cannot be read."""
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode) or found.st_size > LONGEST:
            return None
        settings = json.loads(os.read(file, LONGEST))
    except (ValueError, RecursionError):
        return None
    finally:
        os.close(file)
    return settings if isinstance(settings, dict) else None


def restarts(value):
    """Whether dockerd may restart a container with this policy."""
    if not isinstance(value, dict):
        return value is not None
    names = [value[key] for key in value if key.casefold() == "name"]
    return any(name not in ("", "no", None) for name in names)


def replace(path, settings):
    with open(f"{path}.new", "w") as file:
        json.dump(settings, file)
    os.chmod(f"{path}.new", 0o600)
    os.replace(f"{path}.new", path)


def hold(path):
    """Takes the restart policy from the settings of a container. Whether it had one."""
    try:
        settings = read(path)
    except FileNotFoundError:
        return False
    if settings is None:
        # Without the file dockerd has its defaults, and restarts nothing.
        set_aside(path)
        return True
    policies = [key for key in settings if key.casefold() == "restartpolicy"]
    if not any(restarts(settings[key]) for key in policies):
        return False
    for key in policies:
        del settings[key]
    settings["RestartPolicy"] = {"Name": "no", "MaximumRetryCount": 0}
    replace(path, settings)
    return True


def set_aside(path):
    number = 1
    while os.path.lexists(f"{path}.aside-{number}"):
        number += 1
    os.rename(path, f"{path}.aside-{number}")


def entries(path):
    try:
        return sorted(os.listdir(path))
    except (FileNotFoundError, NotADirectoryError):
        return []


def leave(path, network):
    """Takes the network from the settings of a container."""
    try:
        settings = read(path)
        networks = settings["NetworkSettings"]["Networks"]
        del networks[network]
    except (FileNotFoundError, KeyError, TypeError):
        return
    replace(path, settings)


def forget(store, network):
    containers = os.path.join(store, "containers")
    for name in entries(containers):
        if os.path.isdir(os.path.join(containers, name)):
            leave(os.path.join(containers, name, "config.v2.json"), network)
    try:
        shutil.rmtree(os.path.join(store, "swarm"))
    except FileNotFoundError:
        return


def main():
    store = sys.argv[1]
    if sys.argv[2:]:
        forget(store, sys.argv[2])
        return
    containers = os.path.join(store, "containers")
    for name in entries(containers):
        path = os.path.join(containers, name, "hostconfig.json")
        if os.path.isdir(os.path.join(containers, name)) and hold(path):
            print(f"container {name[:12]!a}")
    plugins = os.path.join(store, "plugins")
    has = [name for name in entries(plugins) if os.path.lexists(os.path.join(plugins, name, "config.json"))]
    if has:
        set_aside(plugins)
        for name in has:
            print(f"plugin {name[:12]!a}")
    swarm = os.path.join(store, "swarm")
    if os.path.lexists(os.path.join(swarm, "docker-state.json")):
        set_aside(swarm)
        print("swarm")


main()
