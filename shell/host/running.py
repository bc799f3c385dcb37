"""A command that runs on this host, as its keeper has it: its process, its outputs, its caller, its
record, and its next try. `command.py` has what callers ask for, and the frames.
"""

import json
import os
import re
import select
import socket
import struct
import time
import traceback

from caller import Caller
from client import Client
from criu import Failed
from deadline import OVERDUE, Deadline
from frozen import freeze
from keeper import closing
from notify import notify
from piped import PIPE, execute
from results import Results
from retry import Retries
from spool import CHUNK, record

AHEAD = 256 << 10  # bytes that wait for either side before the other one is no longer read
REPORT = 256 << 10  # bytes of input that the command is given before the caller is informed
QUIET = 0.2  # seconds after which it is informed of fewer
IS_GONE = re.compile(r"/run/xdrive/(words|environment)/").match  # a file of this host's, for its start
BEGIN = 5  # seconds that what starts a command may still take where that is to be frozen
LOOK = 1  # seconds between two looks whether the host closes, while the next try waits
LINGER = 7 * 86400  # seconds that an exit status is kept: no host waits longer for a client


def frame(kind, payload):
    return kind + struct.pack(">I", len(payload)) + payload


class Keeper:
    def __init__(self, listener, started, source, outputs):
        self.listener, self.started = listener, started
        self.input, self.outputs = source, outputs
        self.typed = bytearray()  # what the command has not read yet
        self.arrived = 0  # bytes of input in all
        self.is_input_over = False
        self.caller = None
        self.word = "new"  # the next caller's first line has it
        self.status = None
        self.linger = LINGER
        self.is_done = self.is_on_record = False
        self.client, self.deadline = Client(""), Deadline("", "", "")
        self.retries, self.command, self.results = Retries("", ""), [], Results("")
        self.began, self.ended = time.time(), None
        self.closing = None  # why the host had begun to close when the command ended
        self.is_end_on_record = False
        self.is_settled = False  # whether it has ended, and all that it wrote was read
        self.freezes = self.is_frozen = False

    def run(self):
        until = None
        while not self.is_done and (until is None or time.monotonic() < until):
            self.results.act()
            if self.status is None and self.retries.due is not None:
                self.try_again()
            if self.status is not None:
                self.close_empty()
                self.settle()
                # A caller may read as slowly as it likes.
                waits = self.caller or not self.is_settled
                until = None if waits else until or time.monotonic() + self.linger
            self.fill()
            reads, writes, _ = select.select(*self.wanted(), [], self.pause(until))
            self.handle(reads, writes)
            if not reads and not writes:
                self.report(1)
            if self.status is None:
                if self.is_running():
                    self.deadline.act(self.started.pid, self.outputs[1])
                if not self.caller and self.client.attach_if_due():
                    self.record()

    def pause(self, until):
        """How many seconds nothing is due although nothing is to be read or written; none: for ever."""
        due = self.results.pause()
        moments = [until, None if due is None else time.monotonic() + due]
        if self.status is None:
            moments.append(None if self.is_frozen else self.deadline.due)
            moments.append(None if self.caller else self.client.due())
            if self.unreported() > 0:
                moments.append(time.monotonic() + QUIET)
            if self.retries.due is not None:
                moments.append(time.monotonic() + LOOK)
        moments = [moment for moment in moments if moment is not None]
        return max(0, min(moments) - time.monotonic()) if moments else None

    def is_running(self):
        """Whether its process is there: it has not ended, is not frozen, and waits for no next try."""
        return self.status is None and self.retries.due is None and not self.is_frozen

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
        if self.results.is_at_end(self.outputs[1]):
            # The sync may take long, and the host may be lost meanwhile.
            if not self.is_end_on_record:
                self.is_end_on_record = True
                self.record_if_alone()
            return
        self.results.report(self.outputs[1])
        self.is_settled = True
        self.notify()
        self.record_if_alone()
        self.client.end()

    def notify(self):
        """Sends word of the command's end."""
        minutes = int(self.ended - self.began) // 60
        words = f"ended with {self.status} after {minutes // 60}:{minutes % 60:02} h"
        if self.status and self.closing is not None:
            words = f"was ended, because its host closes: {self.closing}"
        notify(self.name, words)

    def record_if_alone(self):
        """Leaves a record of the end, unless a caller waits for it."""
        if self.is_on_record or not self.caller:
            self.record()

    def record(self):
        self.is_on_record = True
        record(self.state(), self.outputs)

    def state(self, moment=0):
        return {
            "run": self.name,
            "command": self.label,
            "container": self.container,
            "try": self.retries.number,
            "began": self.began,
            "ended": self.ended,
            "status": self.status,
            "closing": self.closing,
            "results": self.results.state(),
            "bound": self.outputs[0].bound,
            "kept": [stream.kept_in_file() for stream in self.outputs],
            "written": [stream.written for stream in self.outputs],
            "first": [stream.first for stream in self.outputs],
            "since": [stream.since(moment) for stream in self.outputs],
            "is_settled": self.is_settled,
            "pid": self.started.pid,
            "freezes": self.freezes,
            "is_frozen": self.is_frozen,
        }

    def freeze(self, seconds):
        """Freezes the command, within so many seconds; what became of that."""
        end = time.monotonic() + seconds
        is_begun_now = self.is_running() and self.started.file
        if is_begun_now and select.select([self.started.end], [], [], min(BEGIN, seconds))[0]:
            self.reap()  # what starts it has done so
        if not self.freezes or not self.is_running():
            return {"why": "it does not run"}
        how = {
            "container": self.container,
            "label": self.label,
            "client": self.client.words(),
            "limit": self.deadline.words(),
            "retries": self.retries.words(is_elsewhere=any(map(IS_GONE, self.command))),
            "command": self.command,
            "began": self.began,
            "bound": self.outputs[0].bound,
        }
        try:
            size = freeze(self.name, self.started.pid, self.outputs, how, end - time.monotonic())
        except Exception as error:  # whatever it is, the command runs on
            if not isinstance(error, Failed):
                traceback.print_exc()
            return {"why": str(error)}
        self.is_frozen = True
        self.started.wait()
        for stream in self.outputs:
            stream.close()
        self.close_input()
        self.record()
        return {"bytes": size}

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
        if self.status is not None and is_over and self.is_settled:
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
            if self.is_running():
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
        if self.is_running() and self.started.end in reads:
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
        status = self.started.status()
        if status is None:
            return
        if self.deadline.has_passed:
            status = OVERDUE
        self.ended, self.closing = time.time(), closing()
        self.close_input()
        for stream in self.outputs:
            stream.limit = stream.written + PIPE
        failed_by_itself = self.closing is None and not self.deadline.has_passed
        if not failed_by_itself or not self.retries.follow(
            status, self.ended - self.began, self.outputs[1]
        ):
            self.status = status

    def try_again(self):
        """Between two tries: leaves the record of the one that failed, and begins the next when it is
        due. The next one is never begun if its host closes before, or its time is over."""
        self.close_empty()
        if any(stream.pipe is not None for stream in self.outputs):
            return
        retries = self.retries
        if not retries.is_taken:
            if not retries.take(self.state(), self.outputs):
                return self.give_up(retries.status)
            for stream in self.outputs:
                stream.first = stream.written
            self.began, self.ended = time.time(), None
            self.record()
        due = self.deadline.due
        if due is not None and time.monotonic() >= due:
            return self.give_up(OVERDUE)
        self.closing = closing()
        if self.closing is not None:
            return self.give_up(retries.status)
        if time.monotonic() < retries.due:
            return
        retries.due = None
        self.began = time.time()
        self.started, pipes = execute(retries.command(self.command))
        self.input = pipes[0]
        self.end_input()
        for stream, pipe in zip(self.outputs, pipes[1:]):
            stream.pipe = pipe
        self.record()

    def give_up(self, status):
        """Ends between two tries."""
        self.retries.due = None
        self.status = status
        self.ended = self.ended or time.time()

    def accept(self):
        """Accepts a caller, which takes over from the one before."""
        sock, _ = self.listener.accept()
        sock.settimeout(5)  # for one that connects and sends nothing
        try:
            words, streams, _, _ = socket.recv_fds(sock, 4096, 2)
            if words[:1] == b"?":
                sock.send(json.dumps(self.state(float(words[1:] or 0))).encode())
            if words[:1] == b"*":
                sock.send(json.dumps(self.freeze(float(words[1:]))).encode())
            if words[:1] == b"+":
                if self.status is None:
                    if words == b"+":  # its session ends it
                        self.retries.times = 0
                        if self.retries.due is not None:
                            self.give_up(self.retries.status)
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
