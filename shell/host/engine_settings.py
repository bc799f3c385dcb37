"""Adds xdrive's settings to dockerd's own, and keeps the others.

Called as `python3 -I engine_settings.py PATH JSON` with the host's routes on standard input (as `ip
route` or /proc/net/route has them). JSON has the settings that xdrive needs. Docker's networks are
chosen here: one that overlaps a network of the host would hide it, and perhaps the connected client
with it. Taken are the networks of the host's routes and addresses, those of its VPC (EC2's metadata
lists also those without a route on the host), the peers of the host's connections, and its name
servers. dockerd itself checks the routes of one table only.
"""

import http.client
import ipaddress
import json
import os
import sys

# dockerd's own networks, in its order and sizes, then the other private ones (RFC 1918).
CANDIDATES = (
    [f"172.{second}.0.0/16" for second in range(17, 32)]
    + [f"192.168.{third}.0/20" for third in range(0, 256, 16)]
    + [f"10.{second}.0.0/16" for second in range(255, -1, -1)]
)
# The number of networks that can be made besides the bridge.
POOLS = 30
# The interfaces of Docker's own networks.
DOCKERS = ("docker", "br-")
CONNECTED = "01"


def network(word):
    """The IPv4 network, or the address as one; None if it is neither."""
    try:
        found = ipaddress.ip_network(word, strict=False)
    except ValueError:
        return None
    return found if found.version == 4 else None


def from_hex(word):
    """The address in a column of /proc/net: a number in this machine's byte order."""
    return ipaddress.ip_address(int(word, 16).to_bytes(4, sys.byteorder))


def of_routes(lines):
    """The networks in `[TYPE] NETWORK … dev INTERFACE …`, or in /proc/net/route's columns."""
    for line in lines:
        words = line.split()
        if len(words) == 11 and len(words[1]) == len(words[7]) == 8:
            interface, found = words[0], f"{from_hex(words[1])}/{from_hex(words[7])}"
        elif "dev" in words[:-1]:
            interface = words[words.index("dev") + 1]
            found = next(filter(network, words[:2]), None)
        else:
            interface, found = "", next(filter(network, words[:2]), None)
        if found and not interface.startswith(DOCKERS):
            yield found


def of_vpc():
    """The networks of the VPCs of the instance's interfaces; none without a metadata service."""
    service = http.client.HTTPConnection("169.254.169.254", timeout=1)

    def ask(method, path, header):
        service.request(method, f"/latest/{path}", headers=dict([header]))
        answer = service.getresponse()
        text = answer.read().decode()
        return text.split() if answer.status == 200 else []

    macs = "meta-data/network/interfaces/macs"
    try:
        token = ask("PUT", "api/token", ("X-aws-ec2-metadata-token-ttl-seconds", "60"))
        header = ("X-aws-ec2-metadata-token", "".join(token))
        for mac in ask("GET", f"{macs}/", header):
            yield from ask("GET", f"{macs}/{mac.strip('/')}/vpc-ipv4-cidr-blocks", header)
    except (OSError, http.client.HTTPException, UnicodeDecodeError):
        return
    finally:
        service.close()


def of_connections():
    """The peers of this host's TCP connections (proc_net(5)): also over IPv4 in an IPv6 socket."""
    for name in ("tcp", "tcp6"):
        try:
            with open(f"/proc/net/{name}") as file:
                rows = [line.split() for line in file][1:]
        except OSError:
            continue
        for row in rows:
            address = row[2].split(":")[0]
            if row[3] == CONNECTED and (len(address) == 8 or address[16:24] == "FFFF0000"):
                yield str(from_hex(address[-8:]))


def of_name_servers():
    try:
        with open("/etc/resolv.conf") as file:
            rows = [line.split() for line in file]
    except OSError:
        return
    yield from (row[1] for row in rows if len(row) > 1 and row[0] == "nameserver")


def choose(settings, taken):
    """Puts Docker's networks into `settings`; one already there stays if it overlaps none."""

    def is_free(word):
        found = network(word)
        return found is not None and not any(found.overlaps(other) for other in taken)

    free = [word for word in CANDIDATES if is_free(word)]
    if not is_free(settings.get("bip", "")):
        for key in ("bip", "fixed-cidr", "default-gateway"):
            settings.pop(key, None)
        if free:
            first = network(free.pop(0))
            settings["bip"] = f"{first[1]}/{first.prefixlen}"
    bridge = network(settings.get("bip", ""))
    if bridge:
        taken = [*taken, bridge]
    pools = settings.pop("default-address-pools", [])
    if not pools or not all(is_free(pool.get("base", "")) for pool in pools):
        others = [network(word) for word in free if is_free(word)]
        pools = [{"base": str(other), "size": other.prefixlen} for other in others[:POOLS]]
    if pools:
        settings["default-address-pools"] = pools


def main():
    path, needed = sys.argv[1], json.loads(sys.argv[2])
    settings = {}
    if os.path.exists(path) and os.path.getsize(path) > 0:
        with open(path) as file:
            settings = json.load(file)
    for key, value in needed.items():
        if isinstance(value, dict):
            value = {**settings.get(key, {}), **value}
        settings[key] = value
    words = [*of_routes(sys.stdin), *of_vpc(), *of_connections(), *of_name_servers()]
    # No network of Docker's hides a loopback address.
    taken = [found for found in map(network, words) if found and not found.is_loopback]
    taken = [found for found in taken if found.prefixlen > 0]
    # Where the machine's image names a bridge of its own, dockerd does not number it.
    if "bridge" not in settings:
        choose(settings, taken)
    with open(f"{path}.new", "w") as file:
        json.dump(settings, file, indent=1)
    os.replace(f"{path}.new", path)


main()
