"""A command that outlives the connection it is run over.

    command.py start NAME BOUND LABEL CLIENT LIMIT TRY COMMAND…
    command.py begin NAME BOUND LABEL CLIENT LIMIT TRY COMMAND…
    command.py attach NAME OUTPUT ERRORS
    command.py leave NAME CLIENT

`start` starts COMMAND with the name NAME, unless there is one of that name already, and attaches
the caller to it. `begin` only starts it, without any input. A host that closes starts none: both
end with CLOSING then. LABEL is what people call it. CLIENT is the client that the host has while it
runs (`client.py`), LIMIT how long it may take (`deadline.py`), TRY its number if it is a try of a command
that may be begun again (`tries.py`), else empty. `leave` changes the client: no caller
waits for the command any more, or, where CLIENT is empty, its session ends it. `attach` attaches the
caller to the one that is there; OUTPUT and ERRORS are the numbers of bytes of its standard output and
standard error that the caller has already. The first line of output is the answer:

    xdrive: command=new|same|none OUTPUT ERRORS INPUT open|ended

OUTPUT and ERRORS are the bytes from which on the two streams follow: those that the caller asked
for, or later ones if those are not kept any more. INPUT is how many bytes of standard input have
arrived, and whether their end has. After that line both sides send frames: a letter, the length of
the payload in four bytes, the highest first, and the payload.

    to the caller     o   standard output
                      e   standard error
                      t   how much of standard input the command was given: eight bytes, the
                          highest first
                      x   the exit status, four bytes: the last frame
    from the caller   i   standard input
                      c   its end
                      d   the exit status has arrived: nothing needs to be kept any more

Input that a connection loses is sent again by the caller, from INPUT on. A connection that ends
without a `c` is no end of the input.

Each command is one process, the keeper: in a session of its own, with pipes to the command and a
socket in /run/xdrive/commands, for root only. A caller sends the keeper its own standard input and
output, so that bytes pass through no second process. A caller that goes away ends nothing; a new
one takes over, and the one before ends with TAKEN. Without a caller the keeper reads the output all
the same; with one it reads no faster than the caller does. The last BOUND bytes of each stream are
kept in a file of that length, written round and round. The keeper ends once a caller has the exit
status, or after its command has ended and LINGER has passed without a caller; or BRIEF, if it was
begun without one.

A command that is a client, or that ends without a caller, leaves a record and the end of its output
on the drive: `runs.py` reads both, and asks the keepers of those that run. One that is a client is
on record from then on: it is lost with its host if that vanishes. After it the host's lease ends
soon, unless the host is in use (`idle`).
"""

import fcntl
import json
import os
import select
import shutil
import socket
import struct
import sys
import time
import traceback

# Isolated mode (-I) leaves the scripts' own folder out, which is root's.
sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from caller import Caller  # noqa: E402
from client import Client  # noqa: E402
from deadline import OVERDUE, Deadline  # noqa: E402
from enter import container_of, forget  # noqa: E402
from keeper import CLOSING, GONE, closing, status  # noqa: E402
from piped import PIPE, execute  # noqa: E402
from spool import CHUNK, FOLDER, SPOOLS, STREAMS, Stream, record  # noqa: E402
from tries import take  # noqa: E402

AHEAD = 256 << 10  # bytes that wait for either side before the other one is no longer read
REPORT = 256 << 10  # bytes of input that the command is given before the caller is informed
QUIET = 0.2  # seconds after which it is informed of fewer
LINGER = 7 * 86400  # seconds that an exit status is kept: no host waits longer for a client
BRIEF = 900  # seconds that it is kept where the record is to be read


def main(verb="", name="", *rest):
    least = {"start": 6, "begin": 6, "attach": 2, "leave": 1}.get(verb, 9)
    if len(rest) < least or not name or "/" in name:
        sys.exit(
            "usage: command.py start|begin NAME BOUND LABEL CLIENT LIMIT TRY COMMAND… "
            "| attach NAME OUTPUT ERRORS | leave NAME CLIENT"
        )
    if verb == "attach":
        sys.exit(attach(name, rest[:2], None))
    if verb == "leave":
        sys.exit(leave(name, rest[0]))
    bound, label, client, limit, number, *command = rest
    number = int(number) if number else None
    order = (int(bound), label, client, limit, number, command, verb == "start")
    sys.exit(attach(name, ("0", "0"), order) if verb == "start" else begin(name, order))


def attach(name, seen, order):
    """The caller's side: until the command ends, or another caller takes over."""
    keeper = connect(name, order)
    if keeper is None:
        os.write(1, b"xdrive: command=none 0 0 0 ended\n")
        return GONE
    socket.send_fds(keeper, [" ".join(seen).encode()], [0, 1])
    return status(keeper)


def begin(name, order):
    """Starts the command; returns once it runs."""
    keeper = connect(name, order)
    keeper.send(b"?")
    if not keeper.recv(1 << 20):
        sys.exit("the process that keeps the command did not start")


def leave(name, client):
    """Changes the client that the host has while the command runs."""
    keeper = connect(name, None)
    if keeper is None:
        return 0  # it has ended, and its exit status was read
    keeper.send(b"+" + client.encode())
    return 0 if keeper.recv(16) else "the host does not keep the command"


def connect(name, order):
    """A socket to the command's keeper, which is started if there is an order for it."""
    os.makedirs(FOLDER, mode=0o700, exist_ok=True)
    path = f"{FOLDER}/{name}"
    keeper = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with open(f"{FOLDER}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            keeper.connect(path)
            return keeper
        except (FileNotFoundError, ConnectionRefusedError):
            # The command of a keeper that was killed is not run a second time.
            if not order or os.path.exists(path):
                return None
        refuse_if_closing(order)
        _, _, _, _, number, *_ = order
        if number:
            take(name, number)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.bind(path)
        listener.listen()
        keeper.connect(path)
        if os.fork() == 0:
            keeper.close()
            lock.close()
            keep(listener, name, *order)
    return keeper


def refuse_if_closing(order):
    """Ends this process on a host that closes: what is started now is not among the programs that
    are asked to end, and have time for that."""
    reason = closing()
    if reason is None:
        return
    *_, has_input = order
    if not has_input:  # else the first line is one to a caller that attaches
        print(f"xdrive: closing={reason}", flush=True)
    print(f"this host is closing: {reason}", file=sys.stderr)
    sys.exit(CLOSING)


def keep(listener, name, bound, label, client, limit, number, command, has_input):
    """The keeper's process: never returns."""
    spool = f"{SPOOLS}/{name}"
    try:
        os.setsid()
        # First: whatever is started here must not keep the caller's connection open.
        nothing = os.open(os.devnull, os.O_RDWR)
        log = os.open(f"{FOLDER}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for stream, end in enumerate([nothing, nothing, log]):
            os.dup2(end, stream)
        os.chdir("/")
        client = Client(client)
        started, pipes = execute(command)
        keeper = Keeper(listener, started, pipes, spool, bound)
        keeper.name, keeper.label, keeper.client, keeper.number = name, label, client, number
        keeper.container = container_of(command)
        keeper.deadline = Deadline(name, keeper.container, limit)
        if client.is_for_later:
            keeper.linger = BRIEF
        elif client.holds:
            keeper.record()
        if not has_input:
            keeper.word, keeper.linger, keeper.is_input_over = "same", BRIEF, True
            keeper.close_input()
        keeper.run()
        client.leave()
    except Exception:  # the process has no other way to report it
        traceback.print_exc()
    finally:
        os.unlink(f"{FOLDER}/{name}")
        forget(command)
        shutil.rmtree(spool, ignore_errors=True)
        os._exit(0)


def frame(kind, payload):
    return kind + struct.pack(">I", len(payload)) + payload


class Keeper:
    def __init__(self, listener, started, pipes, spool, bound):
        self.listener, self.started = listener, started
        self.input = pipes[0]
        self.outputs = [
            Stream(kind, pipe, f"{spool}/{name}", bound)
            for kind, pipe, name in zip([b"o", b"e"], pipes[1:], STREAMS)
        ]
        self.typed = bytearray()  # what the command has not read yet
        self.arrived = 0  # bytes of input in all
        self.is_input_over = False
        self.caller = None
        self.word = "new"  # the next caller's first line has it
        self.status = None
        self.linger = LINGER
        self.is_done = self.is_on_record = False
        self.client, self.deadline = Client(""), Deadline("", "", "")
        self.number = None  # of a try
        self.began, self.ended = time.time(), None
        self.closing = None  # why the host had begun to close when the command ended
        self.is_settled = False  # whether it has ended, and all that it wrote was read

    def run(self):
        until = None
        while not self.is_done and (until is None or time.monotonic() < until):
            if self.status is not None:
                # A caller may read as slowly as it likes.
                until = None if self.caller else until or time.monotonic() + self.linger
                self.close_empty()
                self.settle()
            self.fill()
            reads, writes, _ = select.select(*self.wanted(), [], self.pause(until))
            self.handle(reads, writes)
            if not reads and not writes:
                self.report(1)
            if self.status is None:
                self.deadline.act(self.started.pid, self.outputs[1])
                if not self.caller and self.client.attach_if_due():
                    self.record()

    def pause(self, until):
        """How many seconds nothing is due although nothing is to be read or written; none: for ever."""
        moments = [until]
        if self.status is None:
            moments += [self.deadline.due, None if self.caller else self.client.due()]
            if self.unreported() > 0:
                moments.append(time.monotonic() + QUIET)
        moments = [moment for moment in moments if moment is not None]
        return max(0, min(moments) - time.monotonic()) if moments else None

    def close_empty(self):
        """Closes the output of a command that has ended, once all of it was read. A process that it
        left behind may write on for ever."""
        for stream in self.outputs:
            while stream.pipe is not None and self.has_room(stream):
                if not stream.read() or stream.written >= stream.limit:
                    stream.close()

    def settle(self):
        """Once all output of a command that has ended was read: what follows if no caller
        waits for it."""
        if self.is_settled or any(stream.pipe is not None for stream in self.outputs):
            return
        self.is_settled = True
        if self.is_on_record or not self.caller:
            self.record()
        self.client.end()

    def record(self):
        self.is_on_record = True
        record(self.state(), self.outputs)

    def state(self, moment=0):
        return {
            "run": self.name,
            "command": self.label,
            "container": self.container,
            "try": self.number,
            "began": self.began,
            "ended": self.ended,
            "status": self.status,
            "closing": self.closing,
            "bound": self.outputs[0].bound,
            "kept": [stream.kept_in_file() for stream in self.outputs],
            "written": [stream.written for stream in self.outputs],
            "since": [stream.since(moment) for stream in self.outputs],
            "is_settled": self.is_settled,
        }

    def waiting(self, stream):
        """The number of bytes that the caller has not been given yet."""
        return stream.written - self.caller.given[stream.kind] if self.caller else 0

    def has_room(self, stream):
        waits = self.waiting(stream)
        return waits < AHEAD and not (waits and stream.is_lost)

    def fill(self):
        """Makes the next frames for the caller, once it has those before."""
        caller = self.caller
        if not caller or caller.pending or caller.has_status:
            return
        self.report(REPORT)
        for stream in self.outputs:
            given = caller.given[stream.kind]
            if given < stream.written:
                data = stream.from_byte(given)
                caller.given[stream.kind] += len(data)
                head = stream.kind + struct.pack(">I", len(data))
                caller.pending += [head, data]
        is_over = all(stream.pipe is None and not self.waiting(stream) for stream in self.outputs)
        if self.status is not None and is_over:
            caller.pending.append(frame(b"x", struct.pack(">I", self.status)))
            caller.has_status = True

    def unreported(self):
        """The bytes of input that the command was given and the caller does not know of."""
        if not self.caller or self.status is not None:
            return 0  # what a command leaves unread it was not given
        return self.arrived - len(self.typed) - self.caller.reported

    def report(self, least):
        """Informs the caller, if it is about so many bytes at least."""
        if self.unreported() >= least:
            self.caller.reported += self.unreported()
            self.caller.pending.append(frame(b"t", struct.pack(">Q", self.caller.reported)))

    def wanted(self):
        """What may be read, and what written, now."""
        reads, writes = [self.listener], []
        if self.status is None:
            reads.append(self.started.end)
            for stream in self.outputs:
                if stream.pipe is not None and self.has_room(stream):
                    reads.append(stream.pipe)
        if self.input is not None and self.typed:
            writes.append(self.input)
        if self.caller:
            reads.append(self.caller.sock)
            if len(self.typed) < AHEAD:
                reads.append(self.caller.source)
            if self.caller.pending:
                writes.append(self.caller.sink)
        return reads, writes

    def handle(self, reads, writes):
        for stream in self.outputs:
            if stream.pipe is not None and stream.pipe in reads:
                stream.read()
        if self.input in writes:
            self.write_input()
        caller = self.caller
        if caller and caller.sink in writes:
            self.write_frames()
        # The caller may have been detached just now.
        if self.caller and caller.source in reads:
            self.read_frames()
        if self.caller and caller.sock in reads:
            self.detach()
        if self.started.end in reads:
            self.reap()
        if self.listener in reads:
            self.accept()

    def write_input(self):
        try:
            del self.typed[: os.write(self.input, self.typed[:CHUNK])]
        except BlockingIOError:
            return
        except OSError:
            self.close_input()  # the command reads no more
        self.end_input()

    def end_input(self):
        """Ends the command's input once the last of it was written."""
        if self.is_input_over and not self.typed:
            self.close_input()

    def close_input(self):
        self.typed.clear()
        if self.input is not None:
            os.close(self.input)
            self.input = None

    def write_frames(self):
        caller = self.caller
        try:
            count = os.writev(caller.sink, caller.pending)
        except BlockingIOError:
            return
        except OSError:
            return self.detach()
        while count:
            piece = caller.pending[0]
            if count < len(piece):
                caller.pending[0] = memoryview(piece)[count:]
                return
            count -= len(piece)
            del caller.pending[0]

    def read_frames(self):
        """Reads what the caller sends."""
        caller = self.caller
        try:
            data = os.read(caller.source, CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            return self.detach()
        caller.arrived += data
        start = 0
        while len(caller.arrived) >= start + 5:
            kind = caller.arrived[start : start + 1]
            end = start + 5 + int.from_bytes(caller.arrived[start + 1 : start + 5], "big")
            if end > len(caller.arrived):
                break
            self.obey(kind, caller.arrived[start + 5 : end])
            start = end
        del caller.arrived[:start]

    def obey(self, kind, payload):
        if kind == b"i" and not self.is_input_over:
            self.arrived += len(payload)
            if self.input is not None:
                self.typed += payload
        elif kind == b"c":
            self.is_input_over = True
            self.end_input()
        elif kind == b"d" and self.status is not None:
            self.is_done = True
            # Only now: sshd closes the input of a process that has ended.
            self.caller.sock.send(str(self.status).encode())

    def reap(self):
        """Reads the exit status of the command that has ended, as a shell has it."""
        self.status = self.started.status()
        if self.status is None:
            return
        if self.deadline.has_passed:
            self.status = OVERDUE
        self.ended, self.closing = time.time(), closing()
        self.close_input()
        for stream in self.outputs:
            stream.limit = stream.written + PIPE

    def accept(self):
        """Accepts a caller, which takes over from the one before."""
        sock, _ = self.listener.accept()
        sock.settimeout(5)  # for one that connects and sends nothing
        try:
            words, streams, _, _ = socket.recv_fds(sock, 4096, 2)
            if words[:1] == b"?":
                sock.send(json.dumps(self.state(float(words[1:] or 0))).encode())
            if words[:1] == b"+":
                if self.status is None:
                    self.client.change(words[1:].decode())
                    if self.client.holds:
                        self.record()
                sock.send(b"kept")
            source, sink = streams
            seen = [int(word) for word in words.split()]
            given = {
                stream.kind: min(max(count, stream.kept), stream.written)
                for stream, count in zip(self.outputs, seen)
            }
        except (OSError, ValueError):
            sock.close()
            return
        if self.caller:
            self.caller.give_way()
        self.detach()
        self.client.come()
        self.caller = Caller(sock, source, sink, given)
        self.caller.reported = self.arrived
        state = "ended" if self.is_input_over else "open"
        numbers = f"{given[b'o']} {given[b'e']} {self.arrived} {state}"
        self.caller.pending.append(f"xdrive: command={self.word} {numbers}\n".encode())
        self.word = "same"

    def detach(self):
        if self.caller:
            self.caller.close()
            self.caller = None
            self.client.go()
            # It may have been gone when the command ended.
            if self.is_settled and not self.is_on_record and not self.is_done:
                self.record()


main(*sys.argv[1:])
