"""What processes have on a GPU: brought to their own memory before they are frozen, and back once they go on.

    cuda.py lock|checkpoint|restore|unlock|state PID [WORD]
    cuda.py here

Each is a call of the driver's (CUDA driver API, *CUDA Checkpointing*), which does it within the process: that has to
run meanwhile, and not to be stopped. From the lock on, which waits for WORD milliseconds, the process's own
calls of CUDA wait. Once it is brought away it has neither the GPU nor a file of the driver's open. `restore` has
the GPUs as its WORD, if they differ, as on another host they do: OLD=NEW, their UUIDs (since driver 580).
`state` prints a number, and `here` fails unless the driver can do all that. Each call has a process of its
own: it may not return.
"""

import contextlib
import os
import subprocess
import sys
import time

# Isolated mode (-I) leaves the scripts' own folder out, which is root's.
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import criu  # noqa: E402
import processes  # noqa: E402

if __name__ == "__main__":
    import ctypes  # which takes as long to load as all else

DEVICE = "/dev/nvidia"  # how the names of its devices begin
LIBRARY = "libcuda.so.1"
CALLS = {
    "lock": "cuCheckpointProcessLock",
    "checkpoint": "cuCheckpointProcessCheckpoint",
    "restore": "cuCheckpointProcessRestore",
    "unlock": "cuCheckpointProcessUnlock",
    "state": "cuCheckpointProcessGetState",
}
LOCKED, AWAY = 1, 2  # states (CUprocessState); one that runs has 0
ARGUMENTS = 8  # words of 64 bits in the structure that each call has, all zero but for its WORD
DRIVER = 580  # the first version that brings back what was on another GPU
ANSWER = 10  # seconds that the driver may take for its list, or for a state
LOCK = 10  # seconds that a process's own calls may take until they wait
BACK = 120  # seconds in which it brings back what it had: 6 GiB in each were measured
UNDO = 20  # seconds for that where a close waits
SPARE = 512 << 20  # bytes of the host's memory that are left to other programs
RATE = 1 << 30  # bytes a second that it brings away at least: 2 GiB were measured
FIELDS = ["name", "uuid", "driver_version", "memory.used", "memory.total"]
QUERY = ["nvidia-smi", f"--query-gpu={','.join(FIELDS)}", "--format=csv,noheader,nounits"]


def users(pids):
    """Those of these processes that have a GPU. One with no more than an open file of the driver's, which it has
    of its parent, has none, as the driver says."""
    return [pid for pid in pids if any(link.startswith(DEVICE) for link in processes.links(pid)) and is_known(pid)]


def is_known(pid):
    with contextlib.suppress(criu.Failed):
        return state(pid) is not None
    return False


def gpu():
    """This host's GPU: what it is, the bytes of its memory that are used, and those that are free. Fails unless
    there is just one: what was on several comes back in an order that is not known."""
    try:
        made = subprocess.run(QUERY, capture_output=True, timeout=ANSWER, text=True, check=True)
        gpus = [[word.strip() for word in line.split(",")] for line in made.stdout.splitlines()]
        if len(gpus) != 1:
            raise criu.Failed(f"{len(gpus)} GPUs are here, and what is on one alone can be frozen")
        name, its_uuid, driver, used, total = gpus[0]
        total = int(total) << 20
        # Where the driver does not say it, all may be.
        used = int(used) << 20 if used.isdigit() else total
        return {"name": name, "uuid": str(uuid_of(its_uuid)), "driver": driver}, used, total - used
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise criu.Failed(f"the GPU's driver does not answer: {error}") from None


def uuid_of(text):
    import uuid  # which nothing else needs

    return uuid.UUID(text.removeprefix("GPU-"))


def check():
    """Fails unless what a process has on this host's GPU can be brought away."""
    usable(gpu()[0])
    call("here", [], ANSWER)


def usable(here):
    major = here["driver"].partition(".")[0]
    if not major.isdigit() or int(major) < DRIVER:
        raise criu.Failed(f"version {DRIVER} of NVIDIA's driver is needed, or a later one: {here['driver']} is here")


def away(pids, end):
    """Brings what these processes have on the GPU to their own memory, until `end`; the GPU's record. If it
    fails, `back` is due."""
    here, used, _ = gpu()
    usable(here)
    if used > available():
        raise criu.Failed(f"the host's memory has no room for what is on the GPU, {used >> 20} MiB")
    if any(map(processes.has_stopped, pids)):
        raise criu.Failed("a process of it that has a GPU is stopped")
    for pid in pids:
        left = min(LOCK, end - time.monotonic())
        call("lock", [pid, max(1, int(left * 1000))], left + 1)
    for pid in pids:
        call("checkpoint", [pid], end - time.monotonic())
    return {**here, "bytes": max(0, used - gpu()[1])}


def back(pids, seconds, there=None):
    """Has these processes go on, with what they had on the GPU that was `there`, or on this one. Each goes on as
    far as it can; then the first failure of any."""
    end, failed, pair = time.monotonic() + seconds, None, []
    if there and pids:
        own = gpu()[0]["uuid"]
        pair = [f"{there['uuid']}={own}"] if there["uuid"] != own else []
    # First all: one that runs may wait for another.
    for verb, due, words in [("restore", AWAY, pair), ("unlock", LOCKED, [])]:
        for pid in pids:
            try:
                if state(pid) == due:
                    call(verb, [pid, *words], end - time.monotonic())
            except criu.Failed as error:
                failed = failed or error
    if failed:
        raise failed


def differs(there):
    """Why what was on another host's GPU cannot come back on this one's; none if it can."""
    try:
        here, _, free = gpu()
    except criu.Failed as error:
        return str(error)
    kinds = [" ".join(f"{it['name']}, driver {it['driver']}".split()) for it in (there, here)]
    if kinds[0] != kinds[1]:
        return f"it began on another GPU or driver ({kinds[0][:criu.LINE]}; here {kinds[1]})"
    return None if there["bytes"] <= free else "the GPU has no room for it"


def available():
    """The bytes of memory that this host has for programs."""
    with open("/proc/meminfo") as text:
        free = next(int(line.split()[1]) << 10 for line in text if line.startswith("MemAvailable:"))
    return max(0, free - SPARE)


def state(pid):
    try:
        return int(call("state", [pid], ANSWER))
    except ValueError:
        raise criu.Failed("the GPU's driver does not answer") from None


def call(verb, words, seconds):
    """Has a process of its own make a call, within so many seconds; what that prints."""
    command = [sys.executable, "-I", "-S", os.path.abspath(__file__), verb, *map(str, words)]
    try:
        made = subprocess.run(command, capture_output=True, timeout=max(0.01, seconds), text=True)
    except subprocess.TimeoutExpired:
        raise criu.Failed(f"the GPU's driver took too long ({verb})") from None
    except (OSError, ValueError) as error:
        raise criu.Failed(f"the GPU's driver cannot be asked: {error}") from None
    if made.returncode != 0:
        raise criu.Failed(f"the GPU's driver: {made.stderr.strip()[-criu.LINE :] or verb}")
    return made.stdout


# --- the process that makes a call


def main(verb="", pid="", word=None, *rest):
    library = loaded()
    if verb == "here" and not pid:
        return
    if verb not in CALLS or not pid.isdigit() or rest:
        sys.exit("usage: cuda.py lock|checkpoint|restore|unlock|state PID [WORD] | here")
    function = getattr(library, CALLS[verb])
    if verb == "state":
        state = ctypes.c_int()
        succeed(library, verb, function(int(pid), ctypes.byref(state)))
        return print(state.value)
    arguments = (ctypes.c_uint64 * ARGUMENTS)()
    if verb == "lock":
        arguments[0] = int(word)
    elif verb == "restore":
        # Else the GPU is to be kept initialised (persistence mode).
        succeed(library, "cuInit", library.cuInit(0))
        pair = b"".join(uuid_of(it).bytes for it in word.split("=")) if word else None
        pair = ctypes.create_string_buffer(pair, len(pair)) if pair else None
        if pair is not None:
            arguments[0], arguments[1] = ctypes.addressof(pair), 1
    succeed(library, verb, function(int(pid), ctypes.byref(arguments)))


def loaded():
    """The driver's library, which has all these calls."""
    try:
        library = ctypes.CDLL(LIBRARY)
        for name in CALLS.values():
            getattr(library, name)
        return library
    except (OSError, AttributeError) as error:
        sys.exit(f"{error} (version 580 of it is needed, or a later one)")


def succeed(library, verb, code):
    if code == 0:
        return
    name = ctypes.c_char_p()
    with contextlib.suppress(AttributeError):
        library.cuGetErrorName(code, ctypes.byref(name))
    sys.exit(f"{verb}: {(name.value or b'an error').decode(errors='replace')} ({code})")


if __name__ == "__main__":
    main(*sys.argv[1:])
