"""Requests for whole files and folders, which xdrive's own client sends to sftp.py.

Each is an extended request of SFTP's, NAME@xdrive. Where SFTP takes four requests for a small file
these take one, and times have nanoseconds. What is written has a name of its own (PART) until it is
whole: no file is ever there by half under the name that it is to have.

A file's attributes are its mode, its size and its time of change in nanoseconds (ATTRIBUTES).
"""

import errno
import fcntl
import hashlib
import os
import stat
import struct

ATTRIBUTES = struct.Struct(">IQq")
FIRST, LAST = -(2**63), 2**63 - 1  # nanoseconds: of 1677 and 2262
PART = b".xdrive-%d-%d.part"
LISTED = 200 << 10  # bytes of names in an answer
EXTENTS = 1000  # pieces of a file that one answer describes
PIECE = 1 << 20  # bytes that are hashed at once
REPLY = 201  # SSH_FXP_EXTENDED_REPLY


def text(value):
    return struct.pack(">I", len(value)) + value


def attributes(found):
    changed = max(FIRST, min(found.st_mtime_ns, LAST))
    return ATTRIBUTES.pack(found.st_mode, found.st_size, changed)


def opened(path, flags, mode=0o600):
    """A descriptor of a regular file. No device: the container's own rules for those are not in force
    here. No pipe: it would stop this server."""
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY, mode)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "not a regular file")


def described(found, path):
    """The attributes, and where a link leads."""
    target = os.readlink(path) if stat.S_ISLNK(found.st_mode) else b""
    return attributes(found) + text(target)


class File:
    """An open file."""

    def __init__(self, descriptor, appends):
        self.descriptor, self.appends = descriptor, appends

    def close(self):
        os.close(self.descriptor)


class Listing:
    """A folder that is being listed."""

    def __init__(self, path):
        self.entries = os.scandir(path)

    def close(self):
        self.entries.close()


class Files:
    def __init__(self, server):
        self.server = server
        self.parts = 0
        self.requests = {
            b"look@xdrive": self.look,
            b"list@xdrive": lambda it: self.listed(b"", Listing(it.path())),
            b"list-on@xdrive": self.list_on,
            b"folder@xdrive": self.folder,
            b"put@xdrive": self.put,
            b"get@xdrive": self.get,
            b"link@xdrive": self.link,
            b"set@xdrive": self.set,
            b"open@xdrive": self.open,
            b"stat@xdrive": self.stat,
            b"data@xdrive": self.data,
            b"part@xdrive": self.part,
            b"hash@xdrive": self.hash,
            b"finish@xdrive": self.finish,
        }

    def beside(self, path):
        """A name for what is to be `path`."""
        self.parts += 1
        return os.path.join(os.path.dirname(path), PART % (os.getpid(), self.parts))

    def look(self, request):
        """PATH, whether links are followed: attributes, target."""
        path, follows = request.path(), request.number(">B")
        return REPLY, described((os.stat if follows else os.lstat)(path), path)

    # --- folders

    def listed(self, handle, listing):
        """A handle if there is more, and then for each entry: name, attributes, target."""
        pieces, length = [], 0
        for entry in listing.entries:
            try:
                found = described(entry.stat(follow_symlinks=False), entry.path)
            except OSError:
                continue  # it is gone by now
            pieces.append(text(entry.name) + found)
            length += len(pieces[-1])
            if length >= LISTED:
                if not handle:
                    handle = self.server.handle(listing)[1][4:]
                return REPLY, text(handle) + b"".join(pieces)
        listing.close()
        self.server.handles.pop(handle, None)
        return REPLY, text(b"") + b"".join(pieces)

    def list_on(self, request):
        handle = request.text()
        listing = self.server.handles.get(handle)
        if not isinstance(listing, Listing):
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return self.listed(handle, listing)

    def folder(self, request):
        """PATH, mode: whether it was made; if not, it was there."""
        path, mode = request.path(), request.number()
        try:
            os.mkdir(path, mode)
        except FileExistsError:
            if not os.path.isdir(path):
                raise
            return REPLY, b"\0"
        return REPLY, b"\1"

    def set(self, request):
        """PATH, mode, time. A folder keeps its set-ID and sticky bits."""
        path, mode, changed = request.path(), request.number(), request.number(">q")
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY)
        try:
            found = os.fstat(descriptor).st_mode
            if not (stat.S_ISREG(found) or stat.S_ISDIR(found)):
                raise OSError(errno.EINVAL, "neither a regular file nor a folder")
            os.fchmod(descriptor, mode | (found & 0o7000 if stat.S_ISDIR(found) else 0))
            os.utime(descriptor, ns=(changed, changed))
        finally:
            os.close(descriptor)

    # --- files that fit into a request

    def put(self, request):
        """PATH, mode, time, content."""
        path, mode, changed = request.path(), request.number(), request.number(">q")
        content = request.view()
        part = self.beside(path)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        descriptor = os.open(part, flags, mode)
        try:
            try:
                while content:
                    content = content[os.write(descriptor, content) :]
                if mode & 0o022:  # withheld by the umask
                    os.fchmod(descriptor, mode)
                os.utime(descriptor, ns=(changed, changed))
            finally:
                os.close(descriptor)
            os.rename(part, path)
        except BaseException:
            os.unlink(part)
            raise

    def get(self, request):
        """PATH, most bytes: attributes, content; none if there are more bytes."""
        path, most = request.path(), request.number()
        descriptor = opened(path, os.O_RDONLY)
        try:
            found = os.fstat(descriptor)
            content = os.read(descriptor, most + 1)
            if not found.st_size:  # as in /proc, where a file comes in several reads
                while len(content) <= most and (piece := os.read(descriptor, most)):
                    content += piece
                if len(content) > most:
                    raise OSError(errno.EFBIG, "it is longer than its size says")
        finally:
            os.close(descriptor)
        if len(content) > most:
            return REPLY, b""
        return REPLY, attributes(found) + content

    def link(self, request):
        """Target, PATH, time."""
        target, path, changed = request.text(), request.path(), request.number(">q")
        part = self.beside(path)
        os.symlink(target, part)
        try:
            os.utime(part, ns=(changed, changed), follow_symlinks=False)
            os.rename(part, path)
        except BaseException:
            os.unlink(part)
            raise

    # --- larger ones

    def open(self, request):
        """PATH: attributes, and a handle to read it."""
        descriptor = opened(request.path(), os.O_RDONLY)
        found = attributes(os.fstat(descriptor))
        return REPLY, found + self.server.handle(File(descriptor, False))[1]

    def stat(self, request):
        """Handle: attributes."""
        return REPLY, attributes(os.fstat(self.server.file(request).descriptor))

    def data(self, request):
        """Handle, position: where what is no hole begins and ends, from there on; at most EXTENTS."""
        descriptor, at = self.server.file(request).descriptor, request.number(">Q")
        found = []
        try:
            while len(found) < EXTENTS:
                begin = os.lseek(descriptor, at, os.SEEK_DATA)
                at = os.lseek(descriptor, begin, os.SEEK_HOLE)
                found.append(struct.pack(">QQ", begin, at))
        except OSError as error:
            if error.errno != errno.ENXIO:  # the rest is a hole
                raise
        return REPLY, b"".join(found)

    def part(self, request):
        """The part's path: its size and a handle. No other server has it at the same time."""
        descriptor = opened(request.path(), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            size = os.fstat(descriptor).st_size
        except BaseException:
            os.close(descriptor)
            raise
        return REPLY, struct.pack(">Q", size) + self.server.handle(File(descriptor, False))[1]

    def hash(self, request):
        """Handle, position, length: the SHA-256 of so many bytes from there on."""
        descriptor = self.server.file(request).descriptor
        at, left = request.number(">Q"), request.number(">Q")
        digest = hashlib.sha256()
        while left and (piece := os.pread(descriptor, min(PIECE, left), at)):
            digest.update(piece)
            at, left = at + len(piece), left - len(piece)
        return REPLY, digest.digest()

    def finish(self, request):
        """Handle, size, the part's path, PATH, mode, time: the part becomes PATH."""
        descriptor, size = self.server.file(request).descriptor, request.number(">Q")
        part, path = request.path(), request.path()
        mode, changed = request.number(), request.number(">q")
        if os.fstat(descriptor).st_size != size:
            raise OSError(errno.EIO, "it is not whole")
        os.fchmod(descriptor, mode)
        os.utime(descriptor, ns=(changed, changed))
        os.rename(part, path)
