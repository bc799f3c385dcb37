"""A terminal that outlives the connection it is shown through.

    terminal.py attach NAME SEEN [[--freeze] COMMAND…]
    terminal.py arrive SESSION COMMAND…
    terminal.py left
    terminal.py thaw

`attach` attaches the caller's terminal to the terminal NAME and ends with its command's exit
status. Where there is no such terminal yet, it is started with COMMAND. The first line of output is
`xdrive: terminal=new|same FROM`. The command's output follows, from its byte FROM on: from SEEN,
the number of bytes that the caller has already shown, or from a later byte if that one is not kept any
more. Without a COMMAND and without such a terminal the first line is `terminal=none 0`. With `--freeze` a close may
freeze it (`frozen.py`).

`arrive` waits until SESSION is attached to this host and `session arrive` has chosen a terminal for
it. It attaches to that one, from the first byte that is kept.

`left` lists the terminals whose sessions are attached no longer, the latest first, as `xdrive:
left=NAME`. A terminal has the name of the session that started it; in a container with a name that
follows two dots. One whose command has ended is not listed. `thaw` has those go on that are frozen
on the drive, each once, as terminals that were left: for each there is a line as `command.py thaw`
has it.

Each terminal is one process, the keeper: in a session of its own, with the command in a
pseudo-terminal below it and a socket in /run/xdrive/terminals, for root only. A caller sends the
keeper its own terminal, so that bytes pass through no second process, unchanged. A caller that goes
away detaches and ends nothing; a new one takes the terminal over. The keeper reads the command's
output meanwhile and keeps the last of it. It ends LINGER after its command, so that a caller whose
connection was dead by then reads the exit status too.
"""

import fcntl
import os
import pty
import select
import socket
import sys
import termios
import time
import traceback
import tty

# Isolated mode (-I) leaves the scripts' own folder out, which is root's.
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from enter import Order, Started, forget, open_terminal, with_gpus  # noqa: E402
from keeper import GONE, SIZE, TERMINALS as FOLDER, announce_sizes, start_keeper, status  # noqa: E402

# `shells` and `frozen` are loaded where a shell is frozen: they take as long as all else.

CLIENTS = "/run/xdrive/clients"  # one file for each session, locked while its client is attached
ARRIVED = "/run/xdrive/arrived"  # one file for each session that arrived: the terminal for it
KEPT = 256 << 10  # bytes of output that a caller may have missed: some full screens
AHEAD = 64 << 10  # bytes that wait for either side before the other one is no longer read
LAST = 64 << 10  # bytes that are read after the command's end: more than a terminal holds
CHUNK = 64 << 10
LINGER = 900  # seconds that an exit status is kept: as long as a host waits by default
TIMEOUT = 20  # seconds that a session may take to arrive: as long as it waits for attach.lock
ANSWER = 3  # seconds that a keeper may take to answer
FREEZE = "--freeze"  # before a command that may be frozen


def main(verb, name="/", *rest):
    if verb == "left":
        return left()
    if verb == "thaw":
        import shells

        return shells.thaw(go_on)
    if verb not in ("attach", "arrive") or "/" in name or not rest or not os.isatty(0):
        sys.exit(
            "usage: terminal.py left | thaw, or in a terminal: terminal.py attach NAME SEEN [COMMAND…] "
            "| arrive SESSION COMMAND…"
        )
    if verb == "arrive":
        sys.exit(arrive(name, rest))
    sys.exit(attach(name, int(rest[0]), rest[1:]))


def left():
    try:
        sockets = sorted(os.scandir(FOLDER), key=lambda it: it.stat().st_mtime, reverse=True)
    except FileNotFoundError:
        return
    silent = ""
    for name in (it.name for it in sockets):
        keeper = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        keeper.settimeout(ANSWER)
        try:
            keeper.connect(f"{FOLDER}/{name}")
            keeper.send(b"?")
            if keeper.recv(16) != b"running":
                continue
        except (socket.timeout, BlockingIOError):
            silent = name  # its command may run
            continue
        except OSError:
            continue  # its keeper was killed
        finally:
            keeper.close()
        if not is_attached(name):
            print(f"xdrive: left={name}", flush=True)
    if silent:
        sys.exit(f"the process that keeps the terminal {silent} does not answer")


def is_attached(name):
    session = name.partition("..")[0]
    try:
        with open(f"{CLIENTS}/{session}") as client:
            fcntl.flock(client, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True


def arrive(session, command):
    """As `attach`, to the terminal that is chosen for a session once it is attached."""
    until = time.monotonic() + TIMEOUT
    name = None
    while name is None and time.monotonic() < until:
        try:
            with open(f"{ARRIVED}/{session}") as chosen:
                name = chosen.read().rstrip("\n")
        except FileNotFoundError:
            time.sleep(0.01)
    # No terminal is started for a session that is not attached.
    is_there = name not in (None, "none") and is_attached(session)
    return attach(name if is_there else None, 0, command)


def attach(name, seen, command):
    """The caller's side: until the command ends, or another caller takes over."""
    modes = termios.tcgetattr(0)
    tty.setraw(0)
    keeper = name and connect(name, modes, command)
    if keeper is None:
        os.write(1, b"xdrive: terminal=none 0\n")
        return GONE
    resized = announce_sizes()
    socket.send_fds(keeper, [str(seen).encode()], [0])
    return status(keeper, resized)


def connect(name, modes, command):
    """A socket to the keeper of the terminal, which is started if there is a command for it."""
    os.makedirs(FOLDER, mode=0o700, exist_ok=True)
    path = f"{FOLDER}/{name}"
    keeper = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with open(f"{FOLDER}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            keeper.connect(path)
            return keeper
        except (FileNotFoundError, ConnectionRefusedError):
            if not command:
                return None
        if os.path.exists(path):
            os.unlink(path)  # of a keeper that was killed
        start_keeper(keeper, lock, path, lambda it: keep(it, path, command, lambda: Keeper.of(command, modes)))
    return keeper


def go_on(name, again):
    """Has the terminal `name` be kept that `again` makes, of a shell that was frozen; whether it is."""
    os.makedirs(FOLDER, mode=0o700, exist_ok=True)
    path = f"{FOLDER}/{name}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as keeper:
        with open(f"{FOLDER}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            start_keeper(keeper, lock, path, lambda it: keep(it, path, [], lambda: Keeper.again(*again())))
        keeper.send(b"?")
        return keeper.recv(16) == b"running"


def keep(listener, path, command, begins):
    """The keeper's process: never returns."""
    try:
        os.setsid()
        keeper = begins()
        nothing = os.open(os.devnull, os.O_RDWR)
        log = os.open(f"{FOLDER}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for stream, end in enumerate([nothing, nothing, log]):
            os.dup2(end, stream)
        os.chdir("/")
        keeper.listener, keeper.name = listener, os.path.basename(path)
        if keeper.freezes:
            import frozen

            frozen.mark()
        keeper.run()
    except Exception:  # the process has no other way to report it
        traceback.print_exc()
    finally:
        os.unlink(path)
        forget(command[command[:1] == [FREEZE] :])
        os._exit(0)


def begin(command, modes, size):
    """Starts the command in a new terminal: it, and the terminal's other side."""
    order = Order.of(command)
    if order:
        opened = open_terminal(order, modes, size)
        if opened:
            return opened
        command = order.docker()
    child, master = pty.fork()
    if child == 0:
        execute(command, modes, size)
    return Started(child), master


def execute(command, modes, size):
    """In the new terminal: the command, with the modes that the caller's terminal had."""
    try:
        termios.tcsetattr(0, termios.TCSANOW, modes)
        fcntl.ioctl(0, termios.TIOCSWINSZ, size)
        os.execvp(command[0], command)
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(127)


class Caller:
    """The attached caller: a socket, a terminal, and the number of bytes of output it was given."""

    def __init__(self, sock, terminal, header, given):
        self.sock, self.terminal, self.header, self.given = sock, terminal, header, given
        os.set_blocking(terminal, False)

    def close(self):
        self.sock.close()
        os.close(self.terminal)


class Keeper:
    def __init__(self, started, master, command):
        self.started, self.master, self.command = started, master, command
        self.freezes = self.is_frozen = False
        self.output = bytearray()  # the last of what the command wrote,
        self.written = 0  # of so many bytes in all
        self.limit = None  # the most that there can be in all, once the command has ended
        self.typed = bytearray()  # what the command has not read yet
        self.caller = None
        self.word = "new"  # the next caller's first line has it
        self.status = None
        os.set_blocking(master, False)

    @classmethod
    def of(cls, command, modes):
        """Of a new terminal like the caller's."""
        freezes = command[0] == FREEZE
        command = with_gpus(command[1:]) if freezes else command
        size = fcntl.ioctl(0, termios.TIOCGWINSZ, bytes(SIZE))
        keeper = cls(*begin(command, modes, size), command)
        keeper.freezes = freezes
        return keeper

    @classmethod
    def again(cls, started, master, command, output, written):
        """Of one that goes on, of which these bytes of output are the last."""
        keeper = cls(started, master, command)
        keeper.output += output
        keeper.written, keeper.freezes, keeper.word = written, True, "same"
        return keeper

    def run(self):
        until = None
        while until is None or time.monotonic() < until:
            if self.status is not None:
                until = until or time.monotonic() + LINGER
                if self.caller and self.waiting() == 0:
                    self.send_status()
            left = until and max(0, until - time.monotonic())
            reads, writes, _ = select.select(*self.wanted(), [], left)
            self.handle(reads, writes)

    def end_frozen(self):
        """Of a shell that is frozen nothing more comes."""
        self.is_frozen = True
        self.started.wait()
        self.typed.clear()
        if self.master is not None:
            os.close(self.master)
            self.master = None

    def send_status(self):
        """To this caller, and to a next one: over a dead connection it never arrives."""
        try:
            self.caller.sock.send(str(self.status).encode())
        except OSError:
            pass  # the caller is gone
        self.detach()

    def waiting(self):
        """The number of bytes that the caller has not been given yet."""
        return len(self.caller.header) + self.written - self.caller.given if self.caller else 0

    def wanted(self):
        """What may be read, and what written, now."""
        reads, writes = [self.listener], []
        if self.status is None and not self.is_frozen:
            reads.append(self.started.end)
        if self.master is not None:
            if self.waiting() < AHEAD:
                reads.append(self.master)
            if self.typed:
                writes.append(self.master)
        if self.caller:
            reads.append(self.caller.sock)
            if len(self.typed) < AHEAD:
                reads.append(self.caller.terminal)
            if self.waiting():
                writes.append(self.caller.terminal)
        return reads, writes

    def handle(self, reads, writes):
        if self.master in reads:
            self.read_output()
        if self.master in writes:
            self.write_input()
        caller = self.caller
        if caller and caller.sock in reads:
            self.handle_request()
        # The caller may have been detached just now.
        if self.caller and caller.terminal in reads:
            self.read_input()
        if self.caller and caller.terminal in writes:
            self.write_output()
        if not self.is_frozen and self.started.end in reads:
            self.reap()
        if self.listener in reads:
            self.accept()

    def read_output(self):
        """Reads the command's output; false when there is none now."""
        try:
            data = os.read(self.master, CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            data = b""  # no process has the terminal open any more
        self.output += data
        self.written += len(data)
        if len(self.output) > 2 * KEPT:
            del self.output[:-KEPT]
        if not data or (self.limit is not None and self.written >= self.limit):
            os.close(self.master)
            self.master = None
        return self.master is not None

    def write_input(self):
        try:
            del self.typed[: os.write(self.master, self.typed)]
        except BlockingIOError:
            pass
        except OSError:
            self.typed.clear()

    def handle_request(self):
        """The caller's terminal has another size, or the caller is gone."""
        try:
            request = self.caller.sock.recv(16)
        except OSError:
            request = b""
        if not request:
            self.detach()
        elif self.master is not None and len(request) == SIZE:
            # Each size that was sent, although the next may be there: a program that is to draw
            # anew must see a change.
            fcntl.ioctl(self.master, termios.TIOCSWINSZ, request)

    def read_input(self):
        """Reads what the user types."""
        try:
            data = os.read(self.caller.terminal, CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self.typed += data
        else:
            self.detach()

    def write_output(self):
        caller = self.caller
        try:
            if caller.header:
                caller.header = caller.header[os.write(caller.terminal, caller.header) :]
                return
            start = len(self.output) - (self.written - caller.given)
            caller.given += os.write(caller.terminal, self.output[start : start + CHUNK])
        except BlockingIOError:
            pass
        except OSError:
            self.detach()

    def reap(self):
        """Reads the last output of the command that has ended, and its status as a shell has it. A
        process that it left behind may write on for ever."""
        self.limit = self.written + LAST
        while self.master is not None and self.read_output():
            pass
        self.status = self.started.status()

    def accept(self):
        """Accepts a caller, which takes over from the one before."""
        sock, _ = self.listener.accept()
        sock.settimeout(5)  # for one that connects and sends nothing
        try:
            seen, terminals, _, _ = socket.recv_fds(sock, 32, 1)
            if seen == b"?":
                sock.send(b"running" if self.status is None else b"ended")
            if seen == b"?0" or seen[:1] == b"*":
                import shells

                sock.send(shells.answer(self, seen))
            terminal = terminals[0]
            kept = self.written - len(self.output)
            given = min(max(int(seen), kept), self.written)
        except (OSError, ValueError, IndexError):
            sock.close()
            return
        self.detach()
        header = f"xdrive: terminal={self.word} {given}\n".encode()
        self.caller = Caller(sock, terminal, header, given)
        self.word = "same"
        self.resize()

    def resize(self):
        """Makes the command's terminal as large as the caller's; a change sends SIGWINCH."""
        if self.master is None:
            return
        try:
            size = fcntl.ioctl(self.caller.terminal, termios.TIOCGWINSZ, bytes(SIZE))
            fcntl.ioctl(self.master, termios.TIOCSWINSZ, size)
        except OSError:
            self.detach()

    def detach(self):
        if self.caller:
            self.caller.close()
            self.caller = None


main(*sys.argv[1:])
