"""The TCP connections of a program that is frozen: which lead out of its container, and their end."""

import contextlib
import socket
import subprocess
import time

import processes

CUT = 5  # seconds that the end of a connection may take
ESTABLISHED, LISTENING = "01", "0A"  # in the kernel's tables of connections (proc(5))
# Addresses there, where both ends are the container's: 127.0.0.1, ::1, and the former as one of IPv6.
LOOPBACK = ("0100007F:", "00000000000000000000000001000000:", "0000000000000000FFFF00000100007F:")
IN_FLIGHT = "--skip-in-flight"  # one that the command has not accepted yet ends
# criu's flags for TCP connections: those within the command's own processes go on.
CONNECTIONS = {
    "kept": ["--tcp-established", "--network-lock", "nftables", IN_FLIGHT],
    "closed": ["--tcp-close", "--network-lock", "nftables", IN_FLIGHT],
}


def connections(init, pid):
    """What becomes of the TCP connections of the command: `kept` if all are among its own processes; else
    `closed`, since one to elsewhere would not be answered any more."""
    return "closed" if any(state == ESTABLISHED for state, _, _ in elsewhere(init, pid)) else "kept"


def elsewhere(init, pid):
    """The state and both ends of each connection of a process, and of what it started, that leads out of the
    container."""
    own = {link for process in processes.family(pid) for link in processes.links(process)}
    found = []
    for table in ["tcp", "tcp6"]:
        with contextlib.suppress(OSError):
            with open(f"/proc/{init}/net/{table}") as text:
                for line in list(text)[1:]:
                    words = line.split()
                    leads_out = words[3] != LISTENING and not words[2].startswith(LOOPBACK)
                    if leads_out and f"socket:[{words[9]}]" in own:
                        found.append((words[3], address(words[1]), address(words[2])))
    return found


def address(text):
    """An address as ss(8) has it, of one as those tables have it: its words are as in memory, the port is not."""
    host, port = text.split(":")
    words = b"".join(bytes.fromhex(host[at : at + 8])[::-1] for at in range(0, len(host), 8))
    family = socket.AF_INET if len(words) == 4 else socket.AF_INET6
    shown = socket.inet_ntop(family, words)
    return f"{f'[{shown}]' if family == socket.AF_INET6 else shown}:{int(port, 16)}"


def cut(init, pid, end):
    """Ends a process's connections that lead out of the container, so that its other ones are kept. A kernel
    without CONFIG_INET_DIAG_DESTROY ends none."""
    for _, own, other in elsewhere(init, pid):
        if time.monotonic() >= end:
            break
        words = ["nsenter", "-t", str(init), "-n", "ss", "-K", "-tn", "src", own, "dst", other]
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=CUT)
