"""The Docker of this machine, as the hub uses it: its own container, the front, the seats."""

import re
from pathlib import Path

import docker

# Every seat's name begins so, and nothing else's does.
SEAT = "jy"
FRONT = "hub-front"
# xdrive's network of a leader and its workers (xdrive help workers).
NETWORK = "xdrive"


def connect():
    return docker.APIClient(timeout=60)


def own_container(client):
    """The container that this runs in: Docker mounts its files here from a folder named by its id."""
    found = re.search(r"/containers/([0-9a-f]{64})/", Path("/proc/self/mountinfo").read_text())
    if not found:
        raise RuntimeError("this is not a container of Docker's")
    return client.inspect_container(found[1])


def address(container):
    return container["NetworkSettings"]["Networks"]["bridge"]["IPAddress"]


def leads(client):
    """Whether workers can come: this machine leads their swarm, and has their network."""
    swarm = client.info()["Swarm"]
    if swarm["LocalNodeState"] != "active" or not swarm["ControlAvailable"]:
        return False
    return any(network["Name"] == NETWORK for network in client.networks(names=[NETWORK]))


def seats(client):
    """The seats that there are, known to the hub or not: `service` or `container`, and each one's name."""
    found = []
    for one in client.containers(all=True, filters={"name": f"^/{SEAT}-"}):
        # A service's containers are Swarm's.
        if "com.docker.swarm.service.name" not in one["Labels"]:
            found.append(("container", one["Names"][0].lstrip("/")))
    if leads(client):
        names = [service["Spec"]["Name"] for service in client.services()]
        found += [("service", name) for name in names if name.startswith(f"{SEAT}-")]
    return found


def remove(client, kind, name):
    try:
        if kind == "service":
            client.remove_service(name)
        else:
            client.remove_container(name, force=True)
    except docker.errors.NotFound:
        pass


def keep_front(client, image, caddyfile_folder):
    """Starts Caddy in a container of its own, whose port 443 is the machine's, unless it runs."""
    try:
        if client.inspect_container(FRONT)["State"]["Running"]:
            return
        client.remove_container(FRONT, force=True)
    except docker.errors.NotFound:
        pass
    made = client.create_container(
        image,
        ["caddy", "run", "--config", "/front/Caddyfile", "--adapter", "caddyfile"],
        name=FRONT,
        ports=[443],
        environment={"XDG_DATA_HOME": "/front", "XDG_CONFIG_HOME": "/front"},
        host_config=client.create_host_config(
            binds=[f"{caddyfile_folder}:/front"],
            port_bindings={443: 443},
            log_config={"type": "json-file", "config": {"max-size": "5m", "max-file": "2"}},
        ),
    )
    client.start(made["Id"])
