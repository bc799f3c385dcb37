"""criu inside a container: writes a process and all that it started to files, and makes them again.

It runs in the container's namespaces and cgroups, so that nothing of the container itself is written:
not its mounts, its network, its profiles. The container needs no part of it: the folder of the images
and that of criu, with its own libraries and loader, are open files of the process that begins it. What
is made again is a child of the process that asked for it, which must be one that adopts (`enter.adopts`),
as a command is that runc begins.

See criu(8); options as of 4.2, the first that knows the sockets of Linux 6.18.
"""

import contextlib
import hashlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time

# Isolated mode (-I) leaves the scripts' own folder out, which is root's.
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import processes  # noqa: E402

FOLDER = "/var/lib/xdrive/criu"  # gone with the machine
CGROUPS = "/sys/fs/cgroup"
GHOST = "1G"  # a deleted file that is open goes into the images up to that size; criu's default is 1M
STACK = 51  # AT_MINSIGSTKSZ (getauxval(3)), which grows with the processor's XSAVE area
SYS_TIME = 25  # CAP_SYS_TIME (capabilities(7))
TIMENS = "timens-0.img"
LAST = "inventory.img"  # the last image that criu begins
NOTICE = "/run/xdrive/notice"  # there once EC2 has announced that it takes the machine
LOOK = 0.1  # seconds between two looks for it
UNDO = 1  # second in which it takes back what it did to the processes
ASIDE = ("tun: ", "rlimit: ")  # what it says of tunnels and limits that it lacks ends nothing
LINE = 300  # characters of criu's own words that are passed on


class Failed(Exception):
    """criu did not do it, with the reason."""


def is_here():
    return os.path.exists(f"{FOLDER}/criu")


def load(archive):
    """Unpacks criu's archive, a file."""
    new = f"{FOLDER}.new"
    shutil.rmtree(new, ignore_errors=True)
    os.makedirs(new, mode=0o700)
    words = ["tar", "-xzf", "-", "-C", new, "--no-same-owner"]
    subprocess.run(words, stdin=archive, check=True)
    shutil.rmtree(FOLDER, ignore_errors=True)
    os.rename(new, FOLDER)


def processor():
    """What has to be the same where a process is made again: programs look once at what their processor
    can, and at the size of its state."""
    fields = {}
    with open("/proc/cpuinfo") as text:
        for line in text:
            name, _, value = line.partition(":")
            if not name.strip():
                break
            fields[name.strip()] = value.strip()
    known = [fields.get(name, "") for name in ["vendor_id", "cpu family", "model", "flags"]]
    known.append(auxiliary(STACK))
    digest = hashlib.sha256(json.dumps(known).encode()).hexdigest()
    return {"name": fields.get("model name", ""), "digest": digest}


def auxiliary(wanted):
    """An entry of this process's auxiliary vector (getauxval(3)); 0 if there is none."""
    with open("/proc/self/auxv", "rb") as vector:
        words = memoryview(vector.read()).cast("N")
    return dict(zip(words[::2], words[1::2])).get(wanted, 0)


def dump(init, process, images, flags, seconds):
    """Writes a process of the container whose first process is `init`, and what it started, into the folder
    `images`, and ends them. If this fails, or takes longer than so many seconds, or EC2's notice comes
    meanwhile, they are as they were."""
    started = processes.family(process)
    number = processes.number_within(process, init)
    try:
        run(init, "dump", images, ["-t", str(number), *flags], seconds)
    except Failed:
        # It ends them, this one first, once all is written, and waits until the memory of all is free, which
        # may take seconds. If it was cut off there, only that is left to be done.
        if not os.path.exists(f"{images}/{LAST}") or not processes.is_ending(process):
            raise
        processes.send(started, signal.SIGKILL)
    if not has_capability(SYS_TIME):
        # Only who may set clocks gives the processes their own; without that file they have the
        # container's (an instance of `--local` has the computer's in any case).
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{images}/{TIMENS}")


def restore(init, images, flags, passed, seconds, *, is_child=True):
    """Makes the processes again that are in the folder `images`; `passed` are descriptors that `flags`
    speak of. The first one is a child of this process's, or of the container's first one."""
    run(init, "restore", images, ["-d", *(["--restore-sibling"] if is_child else []), *flags], seconds, passed)


def run(init, verb, images, flags, seconds, passed=()):
    folder, tools = (os.open(path, os.O_RDONLY | os.O_DIRECTORY) for path in [images, FOLDER])
    here = f"/proc/self/fd/{tools}"
    loader = [f"{here}/ld.so", "--library-path", f"{here}/lib"]
    words = [shutil.which("nsenter") or "nsenter", "-t", str(init)]
    words += ["-m", "-u", "-i", "-n", "-p", "-C", "-r", "-w", "--", *loader]
    # In a session of its own: one from outside the container could not be written a second time.
    words += [f"{here}/setsid", *loader, "--argv0", "criu", f"{here}/criu", verb]
    # Else criu reads a configuration that it finds in the container, and loads plugins from there.
    words += ["--no-default-config", "--libdir", f"{here}/plugins"]
    words += ["-D", f"/proc/self/fd/{folder}", "-o", f"{verb}.log", "-v1", "--manage-cgroups=ignore"]
    words += ["--shell-job", "--file-locks", "--ghost-limit", GHOST, *flags]
    with open(f"{images}/{verb}.out", "wb") as out:
        began = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            pass_fds=[folder, tools, *passed],
            # It looks for iptables there, among others, which would be the container's.
            env={"PATH": f"{here}/none"},
            # A write past a limit fails then, as `give_up` needs it: Python ignores that signal.
            restore_signals=False,
            preexec_fn=lambda: join_cgroups(init),
        )
    for descriptor in [folder, tools]:
        os.close(descriptor)
    try:
        late = wait(began, time.monotonic() + seconds)
    except BaseException:  # this process is to end: criu must not go on alone
        give_up(began)
        raise
    if late:
        give_up(began)
    if began.returncode != 0:
        raise Failed(f"criu {verb}: {late or why(images, verb) or f'exit code {began.returncode}'}")


def give_up(began):
    """Ends criu: by an error at its next write, since one that is killed leaves the TCP connections of the
    processes locked. One that has nothing left to write comes to its own end."""
    for child in processes.children(began.pid):
        with contextlib.suppress(OSError):
            resource.prlimit(child, resource.RLIMIT_FSIZE, (0, 0))
    with contextlib.suppress(subprocess.TimeoutExpired):
        began.wait(UNDO)
    if began.returncode is None:
        # criu itself first: it leaves the processes as they are. Those that it has made are half there.
        processes.send(processes.family(began.pid)[1:], signal.SIGKILL)
        began.kill()
        began.wait()


def wait(began, end):
    """Waits for a process until `end`; why it is late, none if it has ended. One without a notice has less
    time once that comes."""
    was_noticed = os.path.exists(NOTICE)
    while began.poll() is None:
        if time.monotonic() >= end:
            return "it took too long"
        if not was_noticed and os.path.exists(NOTICE):
            return "EC2's notice came meanwhile"
        with contextlib.suppress(subprocess.TimeoutExpired):
            began.wait(LOOK)
    return None


def ended(began, end):
    """As `wait`, of a process that is killed if it is late."""
    late = wait(began, end)
    if late:
        began.kill()
        began.wait()
    return late


def join_cgroups(init):
    """Moves this process into the cgroups of the container: a private cgroup namespace has no others."""
    with open(f"/proc/{init}/cgroup") as text:
        groups = [line.rstrip("\n").split(":", 2) for line in text]
    for _, controllers, path in groups:
        name = controllers[5:] if controllers.startswith("name=") else controllers
        folders = [f"{CGROUPS}/{name}{path}"] if name else [f"{CGROUPS}/unified{path}", f"{CGROUPS}{path}"]
        for folder in folders:
            if os.path.exists(f"{folder}/cgroup.procs"):
                with open(f"{folder}/cgroup.procs", "w") as processes:
                    processes.write("0")
                break


def why(images, verb):
    """The first error in criu's log."""
    with contextlib.suppress(OSError):
        for name in [f"{verb}.log", f"{verb}.out"]:
            with open(f"{images}/{name}", errors="replace") as log:
                for line in log:
                    _, found, words = line.rpartition("Error (")
                    if any(aside in words for aside in ASIDE):
                        continue
                    if found or name.endswith(".out"):
                        return words.strip()[:LINE]
    return ""


def has_capability(number):
    with open("/proc/self/status") as text:
        for line in text:
            if line.startswith("CapEff:"):
                return bool(int(line.split()[1], 16) >> number & 1)
    return False
