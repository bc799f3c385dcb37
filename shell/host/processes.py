"""Processes of this host, and all that they started."""

import contextlib
import os
import signal
import time

STOP = 5  # seconds that they may take to stop, or to end
EXITING = 4  # PF_EXITING, among the flags of a thread (proc(5))


def parents():
    """The processes of this host, by their parents."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError, ValueError):
            with open(f"/proc/{pid}/stat") as text:
                parent = int(text.read().rpartition(")")[2].split()[1])
            found.setdefault(parent, []).append(int(pid))
    return found


def children(parent):
    return parents().get(parent, [])


def family(pid):
    """The process, and all that it started."""
    below, found = parents(), [pid]
    for process in found:
        found += below.get(process, [])
    return found


def number_within(pid, init):
    """The number of a process as the container counts whose first process is `init`; none if it is in no such
    container, or not in its process namespace itself."""
    try:
        if os.readlink(f"/proc/{pid}/ns/pid") != os.readlink(f"/proc/{init}/ns/pid"):
            return None
        with open(f"/proc/{pid}/status") as text:
            return next(int(line.split()[-1]) for line in text if line.startswith("NSpid:"))
    except (OSError, StopIteration):
        return None


def numbers_within(pids, init):
    """The numbers of those that have one there."""
    return [number for pid in pids if (number := number_within(pid, init))]


def numbered(number, init):
    """The process of this host that has this number in a container; none if there is none."""
    every = map(int, filter(str.isdigit, os.listdir("/proc")))
    return next((pid for pid in every if number_within(pid, init) == number), None)


def descriptors(pid):
    try:
        return os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return []


def links(pid):
    found = []
    for descriptor in descriptors(pid):
        with contextlib.suppress(OSError):
            found.append(os.readlink(f"/proc/{pid}/fd/{descriptor}"))
    return found


def stop(pid, end, stopped):
    """Stops a process, and then all that it started: one that waits in vfork(2) for its child's program to
    begin would not stop before. Those that were so already are `stopped`, by whoever is at its terminal. False
    if one runs on at `end`, or too long."""
    until = min(end, time.monotonic() + STOP)
    waiting = [pid]
    while waiting:
        process = waiting.pop()
        if has_stopped(process):
            stopped.add(process)
        send([process], signal.SIGSTOP)
        # One that its terminal has stopped (SIGTTIN) is stopped anew: criu knows no such stop.
        while not has_stopped(process) or has_pending(process, signal.SIGSTOP):
            if time.monotonic() > until:
                return False
            if has_stopped(process):
                send([process], signal.SIGCONT)
                send([process], signal.SIGSTOP)
            time.sleep(0.001)
        waiting += children(process)
    return True


def has_stopped(pid):
    """Whether no thread of a process runs: it is stopped, or has ended."""
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError):
                with open(f"/proc/{pid}/task/{thread}/stat") as text:
                    if text.read().rpartition(")")[2].split()[0] not in "TtZX":
                        return False
    return True


def has_pending(pid, number):
    """Whether a signal waits for a process to run; one that has ended waits for none."""
    with contextlib.suppress(OSError):
        with open(f"/proc/{pid}/status") as text:
            fields = dict(line.rstrip("\n").split(":\t", 1) for line in text if ":\t" in line)
            has_ended = fields["State"][0] in "ZX"
            return not has_ended and bool(int(fields["ShdPnd"], 16) >> (number - 1) & 1)
    return False


def is_ending(pid):
    """Whether a process has ended, or cannot but end, with all its threads."""
    if has_pending(pid, signal.SIGKILL):
        return True
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError):
                with open(f"/proc/{pid}/task/{thread}/stat") as text:
                    if not int(text.read().rpartition(")")[2].split()[6]) & EXITING:
                        return False
    return True


def let_go_on(pid, stopped):
    """Has a process go on that was stopped, with all that it started but those that were `stopped` before. The
    latter first: a shell that finds its command stopped takes the terminal back."""
    send([it for it in reversed(family(pid)) if it not in stopped], signal.SIGCONT)


def end_below():
    """Ends all that this process has started, and what comes to it of theirs (`enter.adopts`), also what begins
    just then."""
    until = time.monotonic() + STOP
    while (below := family(os.getpid())[1:]) and time.monotonic() < until:
        send(below, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.01)


def send(processes, number):
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, number)
