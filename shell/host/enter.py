"""Runs a command in the drive's container, and ends with its exit status.

    enter.py [-g] [-t] [-e NAME[=VALUE]]… [-w FILE] CONTAINER COMMAND…

In /work, with the caller's standard streams; with `-t` in a terminal of the container's, which is
shown in the caller's. `-e` adds a variable to the container's own; without a VALUE it has the
caller's. `-w` names a file of this host's with more words for COMMAND, each with a NUL behind it
(`environment words`).

This is what `docker exec` does, without its way through dockerd: capabilities, profiles and
environment are those of the container's specification, from which dockerd takes them, too; limits,
cgroup and namespaces are the container's. So are user and groups, as they were at its start: `docker
exec` looks them up in its /etc/passwd and /etc/group each time. It needs runc as the container's
runtime, and no GPUs; with `-g`, for what may be frozen, also GPUs. Elsewhere, or where runc does not start
the command, it is `docker exec`.

runc gives the command the streams as they are, whose owner the command's user becomes: pipes, not
files of the host's. It ends at once, so no process stands between the command and its streams; the
process that started it becomes its parent (prctl(2), PR_SET_CHILD_SUBREAPER) and has its exit
status. The keepers, `command.py` and `terminal.py`, do that themselves: a command whose first words
are CALL is an Order for them.
"""

import fcntl
import os
import resource
import select
import signal
import socket
import sys
import termios

# Isolated mode (-I) leaves the scripts' own folder out, which is root's.
sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import inside  # noqa: E402

CALL = ["python3", "-I", "-S", f"{HERE}/enter.py"]
FOLDER = "/run/xdrive/entered"  # for each command that begins, a file for its process id
WORK = "/work"
SET_CHILD_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER (prctl(2))
LIMITS = {value for name, value in vars(resource).items() if name.startswith("RLIMIT_")}
TIMEOUT = 60  # seconds within which a terminal begins

# docker's detach keys. Docker's default, Ctrl-P Ctrl-Q, holds back Ctrl-P until the next key, and no
# setting disables detaching. Ctrl-@ shows no effect before the next key in any program (Emacs sets
# its mark), and four in a row are never typed.
DETACH_KEYS = "--detach-keys=ctrl-@,ctrl-^,ctrl-@,ctrl-_"


def main(*words):
    order = Order(words)
    if not order.command:
        sys.exit("usage: enter.py [-g] [-t] [-e NAME[=VALUE]]… [-w FILE] CONTAINER COMMAND…")
    if order.has_terminal:
        sys.exit(shown(order))
    started = Started.of([*CALL, *words])
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nothing, stream)
    sys.exit(started.wait())


class Order:
    """What is to run in the container."""

    def __init__(self, words):
        words = list(words)
        self.has_terminal = self.has_gpus = False
        self.variables, self.file = [], None
        while words and words[0].startswith("-"):
            flag = words.pop(0)
            if flag == "-t":
                self.has_terminal = True
            elif flag == "-g":
                self.has_gpus = True
            elif flag == "-e" and words:
                name, is_given, value = words.pop(0).partition("=")
                if is_given or name in os.environ:
                    value = value if is_given else os.environ[name]
                    self.variables += ["-e", f"{name}={value}"]
            elif flag == "-w" and words:
                self.file = words.pop(0)
            else:
                words = []
        self.container, self.command = (words or [""])[0], words[1:]

    @classmethod
    def of(cls, words):
        """The order that a command is; none if it is for this host."""
        return cls(words[len(CALL) :]) if list(words[: len(CALL)]) == CALL else None

    def words(self):
        """All words of the command."""
        if not self.file:
            return self.command
        with open(self.file, "rb") as file:
            return [*self.command, *map(os.fsdecode, file.read().split(b"\0")[:-1])]

    def docker(self):
        terminal = ["-t", DETACH_KEYS] if self.has_terminal else []
        flags = ["-i", *terminal, *self.variables, "-w", WORK]
        return ["docker", "exec", *flags, self.container, *self.words()]

    def runc(self, *flags):
        """The words for runc; none where `docker exec` has to do it."""
        state = inside.enterable(self.container, self.has_gpus)
        if not state or not take_limits_of(state.pid):
            return None
        runc = ["runc", "--root", state.folder, *state.flags, "exec"]
        terminal = ["-t"] if self.has_terminal else []
        flags = [*flags, *terminal, *self.variables, "--cwd", WORK]
        return [*runc, *flags, state.container, *self.words()]


def with_gpus(command):
    """The command, which is entered by runc also where its container has GPUs."""
    return [*CALL, "-g", *command[len(CALL) :]] if command[: len(CALL)] == CALL else command


def container_of(command):
    """The name of the drive's container that a command is for, empty for the main one: it follows two
    dots in docker's."""
    order = Order.of(command)
    return order.container.partition("..")[2] if order else ""


def forget(command):
    """Removes the file with the words of a command that was started."""
    order = Order.of(command)
    if order and order.file:
        try:
            os.unlink(order.file)
        except OSError:
            pass


def take_limits_of(init):
    """Gives this process what a command inherits from it, as the container has it from dockerd; false
    if it cannot have that."""
    try:
        os.umask(0o022)
        for limit in LIMITS:
            resource.setrlimit(limit, resource.prlimit(init, limit))
        return True
    except (OSError, ValueError):
        return False


class Started:
    """A command that was started: its process, which is a child of this one."""

    def __init__(self, pid, file=None):
        self.pid, self.file, self.was_killed = pid, file, False
        self.end = os.pidfd_open(pid)  # can be read once `status` has something to say

    @classmethod
    def of(cls, words, streams=(0, 1, 2)):
        """Starts it with these as its standard streams."""
        order = Order.of(words)
        file = order and adopts()
        pid = os.fork()
        if pid == 0:
            child(order, file, words, streams)
        return cls(pid, file)

    def status(self):
        """Reaps the process that has ended; the exit status as a shell has it. None if that process
        only started the command, which is this one's child now."""
        _, status = os.waitpid(self.pid, 0)
        os.close(self.end)
        self.end = None  # the number may be another file's from here on
        own = taken(self.file)
        if own:
            self.pid, self.file = own, None
            self.end = os.pidfd_open(own)
            return None
        code = os.waitstatus_to_exitcode(status)
        self.was_killed = code < 0
        return shell_status(code)

    def wait(self):
        while True:
            select.select([self.end], [], [])
            status = self.status()
            if status is not None:
                return status


def shell_status(code):
    return code if code >= 0 else 128 - code


def adopts():
    """Makes this process the parent of what its children leave; a file for the process id of that.
    None if it cannot be."""
    try:
        import ctypes  # which takes as long to load as all else

        if ctypes.CDLL(None).prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
            return None
        os.makedirs(FOLDER, mode=0o700, exist_ok=True)
        with open("/proc/sys/kernel/random/uuid") as name:
            return f"{FOLDER}/{name.read().strip()}"
    except (ImportError, OSError):
        return None


def taken(file):
    """The process id in the file, which is removed; none if there is none."""
    try:
        with open(file or "") as text:
            pid = int(text.read())
        os.unlink(file)
        return pid
    except (OSError, ValueError):
        return None


def child(order, file, words, streams):
    """In a new process: the command, or what starts it. Never returns."""
    try:
        ignores_nothing()
        for stream, end in enumerate(streams):
            os.dup2(end, stream)
        runc = file and order.runc("-d", "--pid-file", file)
        if runc:
            code = run(runc)
            if code == 0 or os.path.exists(file):
                os._exit(0)
            if code < 0:
                # It may have started the command: it is not started a second time.
                os.write(2, b"runc was killed\n")
                os._exit(shell_status(code))
        if order:
            words = order.docker()
        os.execvp(words[0], words)
    except OSError as error:
        os.write(2, f"{words[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(127)


def ignores_nothing():
    """Python ignores both, and what is ignored stays so for a command."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)


def run(words, ends_with_terminal=False):
    """Runs a command to its end; its exit status."""
    pid = os.spawnvp(os.P_NOWAIT, words[0], words)
    if ends_with_terminal:
        # The kernel's SIGHUP is for the leader of the terminal's session alone.
        end, ends = os.pidfd_open(pid), select.poll()
        ends.register(end, select.POLLIN)
        ends.register(0, 0)
        while end not in dict(ends.poll()):
            ends.unregister(0)
            os.kill(pid, signal.SIGHUP)
        os.close(end)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def shown(order):
    """Runs it in a terminal that is shown in the caller's; the exit status."""
    ignores_nothing()
    file = adopts()
    runc = file and order.runc("--pid-file", file)
    if runc:
        # A terminal sends them to runc, too, which passes them on.
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: None)
        code = run(runc, ends_with_terminal=True)
        # Killed, it may have started the command, which is not started a second time.
        if taken(file) or code < 0:
            return shell_status(code)
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
    words = order.docker()
    os.execvp(words[0], words)


def open_terminal(order, modes, size):
    """Starts it in a new terminal of these modes and this size, and returns it with the terminal's
    other side; none where `docker exec` has to do that. An error where that might start the command a
    second time."""
    file = adopts()
    if not file:
        return None
    nothing = os.open(os.devnull, os.O_RDWR)
    path = f"{file}.console"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        pid = os.fork()
        if pid == 0:
            try:
                ignores_nothing()
                for stream in range(3):
                    os.dup2(nothing, stream)
                runc = order.runc("-d", "--pid-file", file, "--console-socket", path)
                if runc:
                    os.execvp(runc[0], runc)
            finally:
                os._exit(127)
        os.close(nothing)
        started = Started(pid, file)
        master = None
        if listener in select.select([listener, started.end], [], [], TIMEOUT)[0]:
            master = sent(listener, modes, size)
        os.unlink(path)
    status = started.status()
    if status is None and master is not None:
        return started, master
    if master is not None:
        os.close(master)
    if status is None:
        os.kill(started.pid, signal.SIGKILL)
        started.wait()
        raise OSError("runc gave no terminal")
    if started.was_killed:
        raise OSError("runc was killed")
    return None


def sent(listener, modes, size):
    """The other side of a terminal, as runc sends it, once it has these modes and this size."""
    sender, _ = listener.accept()
    with sender:
        sender.settimeout(TIMEOUT)
        try:
            _, terminals, _, _ = socket.recv_fds(sender, 4096, 1)
            termios.tcsetattr(terminals[0], termios.TCSANOW, modes)
            fcntl.ioctl(terminals[0], termios.TIOCSWINSZ, size)
            return terminals[0]
        except (OSError, IndexError, termios.error):
            return None


if __name__ == "__main__":
    main(*sys.argv[1:])
