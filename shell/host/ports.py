"""The ports on which something in a container of the drive listens: in the main one unless another is
named.

    ports.py list [CONTAINER]
    ports.py watch [CONTAINER]

`list` prints them as one line `xdrive: listening=JSON`, a list of objects:

    port        the port
    addresses   where it listens
    program     the name of the process, `` if it is not known
    is_chosen   whether it is in the range that the system chooses from, where a program asks for any
    is_forward  whether it is known to be no program of the container's: the end of a forward

`watch` does so once, and again whenever they have changed, until standard input ends. What listens
for less than PAUSE is not seen. It prints an empty list where no container runs.

The ports are read from the kernel's tables of the container's network (proc(5), /proc/PID/net/tcp),
which takes no process; programs are looked for only when the ports have changed.
"""

import fcntl
import ipaddress
import json
import os
import select
import sys
import time

# Isolated mode (-I) leaves the scripts' own folder out, which is root's.
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import inside  # noqa: E402

PAUSE = 1  # seconds between two looks
LOOK = 5  # seconds between two searches for a container that does not run
LISTENING = "0A"  # TCP_LISTEN in the kernel's tables
NS_GET_PARENT = 0xB702  # linux/nsfs.h; ioctl_ns(2)


def main(verb="", named=""):
    if verb == "list":
        init = inside.init(named)
        return report(described(init, sockets(init)))
    if verb != "watch":
        sys.exit("usage: ports.py list | watch")
    watch(named)


def watch(named):
    init, before, reported = inside.init(named), set(), None
    again = time.monotonic() + LOOK
    while True:
        now = sockets(init)
        # What is there at the first look, or at two: a server that restarts has another socket.
        lasting = now if reported is None else both(now, before | reported)
        if lasting != reported:
            report(described(init, lasting))
            reported = lasting
        before = now
        if select.select([0], [], [], PAUSE)[0] and not os.read(0, 4096):
            return
        if not inside.lives(init) and time.monotonic() > again:
            init, again = inside.init(named), time.monotonic() + LOOK


def both(now, before):
    """What listens now where something did before."""
    places = {(port, address) for port, address, _ in before}
    return {it for it in now if it[:2] in places}


def report(listening):
    print(f"xdrive: listening={json.dumps(listening)}", flush=True)


def sockets(init):
    """What listens: (port, address, inode)."""
    found = set()
    for table in ("tcp", "tcp6"):
        try:
            with open(f"/proc/{init}/net/{table}") as lines:
                next(lines, None)
                for line in lines:
                    words = line.split()
                    if words[3] == LISTENING:
                        address, port = words[1].split(":")
                        found.add((int(port, 16), address, words[9]))
        except OSError:
            pass  # no container, or no IPv6
    return found


def described(init, found):
    programs = programs_of(init, {inode for _, _, inode in found}) if found else {}
    first, last = chosen()
    ports = {}
    for port, address, inode in sorted(found):
        it = ports.setdefault(port, {"port": port, "addresses": [], "program": ""})
        it["addresses"].append(readable(address))
        it["is_chosen"] = first <= port <= last
        # What forks or ends just now may not be found.
        program, is_own = programs.get(inode, ("", True))
        it["program"] = it["program"] or program
        it["is_forward"] = it.get("is_forward", True) and not is_own
    return list(ports.values())


def readable(address):
    """An address as the kernel prints it: words of 32 bits, each in this machine's order."""
    words = [address[at : at + 8] for at in range(0, len(address), 8)]
    packed = b"".join(int(word, 16).to_bytes(4, sys.byteorder) for word in words)
    it = ipaddress.ip_address(packed)
    return str(getattr(it, "ipv4_mapped", None) or it)


def chosen():
    """The first and the last port that the system chooses: of this network, and so of a new one."""
    try:
        with open("/proc/sys/net/ipv4/ip_local_port_range") as words:
            first, last = words.read().split()
        return int(first), int(last)
    except (OSError, ValueError):
        return 32768, 60999


def programs_of(init, inodes):
    """By inode: the name of the process that has the socket, and whether it is the container's."""
    found = {}
    network = link(f"/proc/{init}/ns/net")
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if link(f"/proc/{pid}/ns/net") != network:
            continue
        try:
            for end in os.scandir(f"/proc/{pid}/fd"):
                target = link(end.path)
                inode = target[8:-1] if target.startswith("socket:[") else ""
                if inode in inodes and inode not in found:
                    found[inode] = (name(pid), is_within(init, pid))
        except OSError:
            pass  # it has ended
    return found


def is_within(init, pid):
    """Whether the process is in the container's PID namespace, or in one below it."""
    own = os.stat(f"/proc/{init}/ns/pid")
    space = os.open(f"/proc/{pid}/ns/pid", os.O_RDONLY)
    try:
        while not os.path.samestat(os.fstat(space), own):
            above = fcntl.ioctl(space, NS_GET_PARENT)  # fails at this process's own
            os.close(space)
            space = above
        return True
    except OSError:
        return False
    finally:
        os.close(space)


def name(pid):
    try:
        with open(f"/proc/{pid}/comm", errors="replace") as comm:
            words = comm.read().rstrip("\n")
    except OSError:
        return ""
    return "".join(c if " " < c <= "~" else "?" for c in words)


def link(path):
    try:
        return os.readlink(path)
    except OSError:
        return ""


main(*sys.argv[1:])
