"""A command that outlives the connection it is run over.

    command.py start NAME BOUND LABEL CLIENT LIMIT TRY FREEZE COMMAND…
    command.py begin NAME BOUND LABEL CLIENT LIMIT TRY FREEZE COMMAND…
    command.py thaw
    command.py attach NAME OUTPUT ERRORS
    command.py leave NAME CLIENT

`start` starts COMMAND with the name NAME, unless there is one of that name already, and attaches
the caller to it. `begin` only starts it, without any input. A host that closes starts none: both
end with CLOSING then. LABEL is what people call it. CLIENT is the client that the host has while it
runs (`client.py`), LIMIT how long it may take (`deadline.py`), TRY the words of a try if the command may
be begun again (`tries.py`, `retry.py`), else empty. FREEZE is `freeze` if a close may freeze it
(`frozen.py`), else empty. `thaw` has all that are frozen on the drive go on, each once; for each there is a
line `xdrive: thawed=NAME SECONDS LABEL`, `xdrive: stays=NAME WHY` or `xdrive: left=NAME WHY`. `leave`
changes the client: no caller waits for the command any more, or, where CLIENT is empty, its session ends it.
`attach` attaches the caller to the one that is there; OUTPUT and ERRORS are the numbers of bytes of its standard output and
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
soon, unless the host is in use (`unused`).
"""

import contextlib
import fcntl
import os
import shutil
import socket
import sys
import traceback

# Isolated mode (-I) leaves the scripts' own folder out, which is root's.
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import frozen  # noqa: E402
from client import Client  # noqa: E402
from deadline import Deadline  # noqa: E402
from enter import container_of, forget, with_gpus  # noqa: E402
from keeper import CLOSING, GONE, closing, start_keeper, status  # noqa: E402
from notify import notify  # noqa: E402
from piped import execute  # noqa: E402
from results import Results  # noqa: E402
from retry import Retries  # noqa: E402
from running import Keeper  # noqa: E402
from spool import FOLDER, KINDS, SPOOLS, STREAMS, Stream  # noqa: E402
from tries import take  # noqa: E402

BRIEF = 900  # seconds that an exit status is kept where the record is to be read


def main(verb="", name="", *rest):
    if verb == "thaw" and not name:
        sys.exit(frozen.each(frozen.ID, thaw))
    least = {"start": 7, "begin": 7, "attach": 2, "leave": 1}.get(verb, 9)
    if len(rest) < least or not name or "/" in name:
        sys.exit(
            "usage: command.py start|begin NAME BOUND LABEL CLIENT LIMIT TRY FREEZE COMMAND… "
            "| thaw | attach NAME OUTPUT ERRORS | leave NAME CLIENT"
        )
    if verb == "attach":
        sys.exit(attach(name, rest[:2], None))
    if verb == "leave":
        sys.exit(leave(name, rest[0]))
    bound, label, client, limit, attempt, freeze, *command = rest
    command = with_gpus(command) if freeze else command
    order = Order(int(bound), label, client, limit, Retries(name, attempt), freeze, command)
    order.has_input = verb == "start"
    sys.exit(attach(name, ("0", "0"), order) if verb == "start" else begin(name, order))


class Order:
    """A request to run a command."""

    def __init__(self, bound, label, client, limit, retries, freeze, command):
        self.bound, self.label, self.client, self.limit = bound, label, client, limit
        self.retries, self.freezes, self.command = retries, bool(freeze), command
        self.has_input = False
        self.frozen = None  # how it goes on, if it was frozen

    @classmethod
    def frozen_before(cls, name, how):
        """The order of a command that goes on."""
        words = [how[word] for word in ["bound", "label", "client", "limit"]]
        order = cls(*words, Retries(name, how["retries"]), "freeze", how["command"])
        order.frozen = how
        return order


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
        if order.retries.number and not order.frozen:
            take(name, order.retries.number)
            with contextlib.suppress(FileNotFoundError):
                frozen.disown(name)  # the try before: not even later does it go on beside this one
                frozen.forget(name)
        start_keeper(keeper, lock, path, lambda listener: keep(listener, name, order))
    return keeper


def refuse_if_closing(order):
    """Ends this process on a host that closes: what is started now is not among the programs that
    are asked to end, and have time for that."""
    reason = closing()
    if reason is None:
        return
    if not order.has_input:  # else the first line is one to a caller that attaches
        print(f"xdrive: closing={reason}", flush=True)
    print(f"this host is closing: {reason}", file=sys.stderr)
    sys.exit(CLOSING)


def keep(listener, name, order):
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
        client = Client(order.client)
        retries = order.retries
        started, source, outputs = begun(name, order)
        keeper = Keeper(listener, started, source, outputs)
        keeper.name, keeper.label, keeper.client = name, order.label, client
        keeper.retries, keeper.command, keeper.results = retries, order.command, Results(name)
        keeper.freezes = order.freezes
        if order.freezes:
            frozen.mark()
        if order.frozen:
            keeper.began = order.frozen["began"]
        elif (retries.number or 1) > 1:
            notify(name, f"goes on on another instance: try {retries.number}")
        keeper.results.begin(is_first=retries.number in [None, 1] and not order.frozen)
        keeper.container = container_of(order.command)
        keeper.deadline = Deadline(name, keeper.container, order.limit)
        if client.is_for_later:
            keeper.linger = BRIEF
        elif client.holds:
            keeper.record()
        if not order.has_input:
            keeper.word, keeper.linger, keeper.is_input_over = "same", BRIEF, True
            keeper.close_input()
        keeper.run()
        client.leave()
        keeper.results.close()
    except Exception:  # the process has no other way to report it
        traceback.print_exc()
    finally:
        os.unlink(f"{FOLDER}/{name}")
        forget(order.command)
        shutil.rmtree(spool, ignore_errors=True)
        os._exit(0)


def begun(name, order):
    """Begins the command, or has it go on; its process, this side's end of its input, and its outputs."""
    if order.frozen:
        return frozen.thaw(name, order.frozen)
    started, pipes = execute(order.command)
    outputs = [
        Stream(kind, pipe, f"{SPOOLS}/{name}/{output}", order.bound)
        for kind, pipe, output in zip(KINDS, pipes[1:], STREAMS)
    ]
    return started, pipes[0], outputs


def thaw(name, how):
    """Has the command go on that was frozen; what it is called."""
    order = Order.frozen_before(name, how)
    keeper = connect(name, order)
    if keeper is None:
        raise frozen.Left("a command of this name was here")
    keeper.send(b"?")
    if not keeper.recv(1 << 20):
        raise frozen.Left(frozen.why(name))
    return order.label


main(*sys.argv[1:])
