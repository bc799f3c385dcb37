"""An SFTP server for a container, whatever its image has.

    sftp.py PID [NAME]

Serves version 3 of the protocol (draft-ietf-secsh-filexfer-02), with the extensions that OpenSSH's
clients use (PROTOCOL in its sources) and those of xdrive's own (files.py), on standard input and
output. PID is the container's first process: the server has its files and is its user, from before
the first request on, without what else root could do. NAME is for finding this process.

It is a program of the host's, so an image needs none. It is started in the container's process
namespace: a server outside of it would keep the drive from being unmounted.
"""

import collections
import ctypes
import errno
import fcntl
import itertools
import os
import stat
import struct
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
# Before the files are the container's.
from files import File, Files, opened  # noqa: E402

WORK = b"/work"  # where it starts, as shells do
MOST = 255 << 10  # bytes of data in a packet
PACKET = 256 << 10  # bytes of a packet
READ = 1 << 20  # bytes that are read at once, and held
UNSENT = 64 << 10  # bytes of answers that wait for others
PARTS = 1000  # parts of answers that are sent at once: the kernel takes 1024
F_SETPIPE_SZ = 1031  # fcntl(2); Python 3.9 has no name for it
HANDLES = 1000  # open files and folders
LISTED = 100  # names in an answer

# What root of the container may do with files: CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FOWNER, CAP_FSETID
# (capabilities(7)).
CAPABILITIES = 1 << 0 | 1 << 1 | 1 << 3 | 1 << 4
CAPABILITY_VERSION_3 = 0x20080522
PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS = 4, 38  # prctl(2)

OK, END, NO_FILE, DENIED, FAILURE, BAD, UNSUPPORTED = 0, 1, 2, 3, 4, 5, 8
WORDS = {
    OK: "Success",
    END: "End of file",
    NO_FILE: "No such file",
    DENIED: "Permission denied",
    FAILURE: "Failure",
    BAD: "Bad message",
    UNSUPPORTED: "Operation unsupported",
}
OF_ERRNO = {
    errno.ENOENT: NO_FILE,
    errno.ENOTDIR: NO_FILE,
    errno.EBADF: NO_FILE,
    errno.ELOOP: NO_FILE,
    errno.EPERM: DENIED,
    errno.EACCES: DENIED,
    errno.ENAMETOOLONG: BAD,
    errno.EINVAL: BAD,
    errno.ENOSYS: UNSUPPORTED,
}
EXTENSIONS = [
    (b"posix-rename@openssh.com", b"1"),
    (b"statvfs@openssh.com", b"2"),
    (b"fstatvfs@openssh.com", b"2"),
    (b"hardlink@openssh.com", b"1"),
    (b"fsync@openssh.com", b"1"),
    (b"lsetstat@openssh.com", b"1"),
    (b"limits@openssh.com", b"1"),
    (b"expand-path@openssh.com", b"1"),
]


class Refused(Exception):
    """A request that is answered by this status."""


class Request:
    """What is left of a request."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def number(self, form=">I"):
        (number,) = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return number

    def view(self):
        """Bytes that are there until the next request is read."""
        length = self.number()
        if self.at + length > len(self.data):
            raise struct.error
        self.at += length
        return self.data[self.at - length : self.at]

    def text(self):
        return bytes(self.view())

    def path(self):
        return self.text() or b"."

    def attributes(self):
        flags = self.number()
        found = {}
        if flags & 1:
            found["size"] = self.number(">Q")
        if flags & 2:
            found["owner"] = self.number(), self.number()
        if flags & 4:
            found["mode"] = stat.S_IMODE(self.number())
        if flags & 8:
            found["times"] = self.number(), self.number()
        return found


def text(value):
    return struct.pack(">I", len(value)) + value


def attributes(found):
    flags = 1 | 2 | 4 | 8
    times = (max(0, min(int(at), 2**32 - 1)) for at in (found.st_atime, found.st_mtime))
    return struct.pack(
        ">IQIIIII", flags, found.st_size, found.st_uid, found.st_gid, found.st_mode, *times
    )


def change(target, wanted, follows=True):
    """Sets the attributes of a path or of a descriptor."""
    links = {} if follows else {"follow_symlinks": False}
    if "size" in wanted:
        os.truncate(target, wanted["size"])
    if "owner" in wanted:
        os.chown(target, *wanted["owner"], **links)
    if "mode" in wanted and follows:
        os.chmod(target, wanted["mode"])
    if "times" in wanted:
        os.utime(target, wanted["times"], **links)


class Folder:
    """An open folder."""

    def __init__(self, path):
        self.path, self.left = path, [b".", b"..", *os.listdir(path)]

    def close(self):
        pass


class Server:
    def __init__(self, home):
        self.home = home
        self.handles = {}
        self.opened = 0
        self.names = {}
        self.answers, self.unsent = collections.deque(), 0
        self.requests = {
            3: self.open,
            4: self.close,
            5: self.read,
            6: self.write,
            7: lambda request: self.stat(os.lstat, request.path()),
            8: lambda request: self.stat(os.fstat, self.file(request).descriptor),
            9: lambda request: change(request.path(), request.attributes()),
            10: lambda request: change(self.file(request).descriptor, request.attributes()),
            11: lambda request: self.handle(Folder(request.path())),
            12: self.list,
            13: lambda request: os.unlink(request.path()),
            14: self.make_folder,
            15: lambda request: os.rmdir(request.path()),
            16: lambda request: self.name(os.path.realpath(request.path())),
            17: lambda request: self.stat(os.stat, request.path()),
            18: self.rename,
            19: lambda request: self.name(os.readlink(request.path())),
            # In OpenSSH's order: the target first.
            20: lambda request: os.symlink(request.text(), request.path()),
            200: self.extended,
        }
        self.extensions = {
            b"posix-rename@openssh.com": lambda it: os.rename(it.path(), it.path()),
            b"statvfs@openssh.com": lambda it: self.room(it.path()),
            b"fstatvfs@openssh.com": lambda it: self.room(self.file(it).descriptor),
            b"hardlink@openssh.com": lambda it: os.link(
                it.path(), it.path(), follow_symlinks=False
            ),
            b"fsync@openssh.com": lambda it: os.fsync(self.file(it).descriptor),
            b"lsetstat@openssh.com": lambda it: change(it.path(), it.attributes(), False),
            b"limits@openssh.com": lambda _: (
                201,
                struct.pack(">QQQQ", PACKET, MOST, MOST, HANDLES),
            ),
            b"expand-path@openssh.com": lambda it: self.name(self.expanded(it.path())),
        }
        self.extensions.update(Files(self).requests)

    def serve(self):
        """Answers each request, in order, until there is none. Answers wait for those to requests
        that have arrived already."""
        held = memoryview(bytearray(READ))
        start = end = 0
        while True:
            if end - start >= 4:
                (length,) = struct.unpack_from(">I", held, start)
                if not 1 <= length <= PACKET:
                    sys.exit("sftp.py: not a packet of SFTP")
                if end - start >= 4 + length:
                    start += 4 + length
                    self.handle_packet(held[start - length : start])
                    continue
            self.send_answers()
            if start == end:
                start = end = 0
            elif start + 4 + PACKET > READ:
                held[: end - start] = bytes(held[start:end])
                start, end = 0, end - start
            if not (arrived := os.readv(0, [held[end:]])):
                return
            end += arrived

    def handle_packet(self, packet):
        request = Request(packet)
        kind = request.number(">B")
        if kind == 1:
            pairs = b"".join(text(word) for pair in EXTENSIONS for word in pair)
            self.send(2, struct.pack(">I", 3) + pairs)
            return
        if len(packet) < 5:
            sys.exit("sftp.py: not a packet of SFTP")
        request.at = 5
        answer, *parts = self.answer(kind, request)
        self.send(answer, packet[1:5], *parts)

    def send(self, kind, *parts):
        length = 1 + sum(map(len, parts))
        self.answers += struct.pack(">IB", length, kind), *map(bytes, parts)
        self.unsent += length
        if self.unsent >= UNSENT:
            self.send_answers()

    def send_answers(self):
        """Sends all answers, without copying their data again."""
        while self.answers:
            written = os.writev(1, list(itertools.islice(self.answers, PARTS)))
            while self.answers and written >= len(self.answers[0]):
                written -= len(self.answers.popleft())
            if written:
                self.answers[0] = memoryview(self.answers[0])[written:]
        self.unsent = 0

    def answer(self, kind, request):
        try:
            return self.requests.get(kind, unsupported)(request) or status(OK)
        except Refused as refused:
            return status(refused.args[0])
        except (struct.error, ValueError):
            return status(BAD)
        except OSError as error:
            return status(OF_ERRNO.get(error.errno, FAILURE), error.strerror)

    def extended(self, request):
        return self.extensions.get(request.text(), unsupported)(request)

    # --- files and folders

    def handle(self, thing):
        if len(self.handles) >= HANDLES:
            thing.close()
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        self.opened += 1
        name = str(self.opened).encode()
        self.handles[name] = thing
        return 102, text(name)

    def of_handle(self, request, kind):
        thing = self.handles.get(request.text())
        if not isinstance(thing, kind):
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return thing

    def file(self, request):
        return self.of_handle(request, File)

    def open(self, request):
        path, asked, wanted = request.path(), request.number(), request.attributes()
        flags = {1: os.O_RDONLY, 2: os.O_WRONLY, 3: os.O_RDWR}.get(asked & 3, os.O_RDONLY)
        flags |= (asked & 4 and os.O_APPEND) | (asked & 8 and os.O_CREAT)
        flags |= (asked & 16 and os.O_TRUNC) | (asked & 32 and os.O_EXCL)
        descriptor = opened(path, flags, wanted.get("mode", 0o666))
        return self.handle(File(descriptor, bool(asked & 4)))

    def close(self, request):
        thing = self.handles.pop(request.text(), None)
        if not thing:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        thing.close()

    def read(self, request):
        file, at = self.file(request), request.number(">Q")
        data = os.pread(file.descriptor, min(request.number(), MOST), at)
        return (103, struct.pack(">I", len(data)), data) if data else status(END)

    def write(self, request):
        file, at = self.file(request), request.number(">Q")
        left = request.view()
        while left:
            if file.appends:
                written = os.write(file.descriptor, left)
            else:
                written = os.pwrite(file.descriptor, left, at)
            at += written
            left = left[written:]

    def list(self, request):
        folder = self.of_handle(request, Folder)
        if not folder.left:
            return status(END)
        names, folder.left = folder.left[:LISTED], folder.left[LISTED:]
        listed = []
        for name in names:
            try:
                found = os.lstat(os.path.join(folder.path, name))
            except OSError:
                continue  # it is gone by now
            line = self.line(found, name)
            listed.append(text(name) + text(line) + attributes(found))
        return 104, struct.pack(">I", len(listed)) + b"".join(listed)

    def make_folder(self, request):
        os.mkdir(request.path(), request.attributes().get("mode", 0o777))

    def rename(self, request):
        """Version 3 replaces no file; its extension does."""
        old, new = request.path(), request.path()
        if os.path.lexists(new):
            raise Refused(FAILURE)
        os.rename(old, new)

    # --- what is there

    def stat(self, call, target):
        return 105, attributes(call(target))

    def room(self, target):
        it = os.statvfs(target)
        flags = (it.f_flag & os.ST_RDONLY and 1) | (it.f_flag & os.ST_NOSUID and 2)
        sizes = it.f_bsize, it.f_frsize, it.f_blocks, it.f_bfree, it.f_bavail
        files = it.f_files, it.f_ffree, it.f_favail, it.f_fsid
        return 201, struct.pack(">11Q", *sizes, *files, flags, it.f_namemax)

    def name(self, path):
        return 104, struct.pack(">I", 1) + text(path) + text(path) + struct.pack(">I", 0)

    def expanded(self, path):
        if path == b"~" or path.startswith(b"~/"):
            path = self.home + path[1:]
        return os.path.realpath(path)

    def line(self, found, name):
        """As `ls -l` has it."""
        user, group = self.named("passwd", found.st_uid), self.named("group", found.st_gid)
        at = time.localtime(found.st_mtime)
        is_recent = 0 <= time.time() - found.st_mtime < 180 * 86400
        when = time.strftime("%b %e %H:%M" if is_recent else "%b %e  %Y", at)
        mode = stat.filemode(found.st_mode)
        head = f"{mode} {found.st_nlink:4} {user:8} {group:8} {found.st_size:8} {when} "
        return head.encode() + name

    def named(self, table, number):
        """The name of a user or group, by the container's own files."""
        if table not in self.names:
            try:
                with open(f"/etc/{table}", errors="replace") as lines:
                    rows = [line.split(":") for line in lines if line.count(":") > 2]
            except OSError:
                rows = []
            self.names[table] = {row[2]: row[0] for row in rows}
        return self.names[table].get(str(number), str(number))


def unsupported(_):
    raise Refused(UNSUPPORTED)


def status(code, words=None):
    words = (words or WORDS[code]).encode()
    return 101, struct.pack(">I", code) + text(words) + text(b"")


def enter(pid):
    """Takes the files and the user of a process; returns its home folder."""
    with open(f"/proc/{pid}/status") as lines:
        ids = {key: rest.split() for key, _, rest in (line.partition(":") for line in lines)}
    with open(f"/proc/{pid}/environ", "rb") as variables:
        variables = dict(it.split(b"=", 1) for it in variables.read().split(b"\0") if b"=" in it)
    os.chroot(f"/proc/{pid}/root")
    os.setgroups([int(group) for group in ids["Groups"]])
    os.setgid(int(ids["Gid"][0]))
    os.setuid(int(ids["Uid"][0]))
    give_up_rights()
    # From here on a module would be the container's.
    sys.path.clear()
    os.umask(0o022)
    try:
        os.chdir(WORK)
    except OSError:
        os.chdir(b"/")
    return variables.get(b"HOME", b"/")


def give_up_rights():
    """Keeps of root's capabilities those for files alone. Without the others root of the container may
    trace a process that it sees, and would have this one's network and devices, which are the host's:
    one that is not dumpable is traced by nobody (ptrace(2))."""
    libc = ctypes.CDLL(None, use_errno=True)
    kept = CAPABILITIES if os.geteuid() == 0 else 0
    header = struct.pack("=Ii", CAPABILITY_VERSION_3, 0)
    sets = struct.pack("=6I", kept, kept, 0, 0, 0, 0)
    if (
        libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
        or libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        or libc.capset(header, sets)
    ):
        sys.exit(f"sftp.py: cannot give up rights: {os.strerror(ctypes.get_errno())}")


if __name__ == "__main__":
    for end in 0, 1:
        # As much as is read at once: sshd's own hold a quarter of a packet. Sockets cannot.
        try:
            fcntl.fcntl(end, F_SETPIPE_SZ, READ)
        except OSError:
            pass
    try:
        Server(enter(int(sys.argv[1]))).serve()
    except BrokenPipeError:
        pass  # the client is gone
