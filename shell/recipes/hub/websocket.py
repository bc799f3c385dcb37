"""A client of WebSocket (RFC 6455): text both ways, which is all that a notebook's kernel needs."""

import base64
import os
import socket
import struct
import urllib.parse

# A kernel that begins answers in seconds; on a machine that is full, in a minute.
ANSWER = 120
MOST = 1 << 24
TEXT, CLOSE, PING, PONG = 1, 8, 9, 10


class Channel:
    """A connection to `path` at the address `at`, with the cookies of its header."""

    def __init__(self, at, path, cookies, tls):
        url = urllib.parse.urlsplit(at)
        secure = url.scheme == "https"
        self.socket = socket.create_connection((url.hostname, url.port or (443 if secure else 80)), ANSWER)
        if secure:
            self.socket = tls.wrap_socket(self.socket, server_hostname=url.hostname)
        self.file = self.socket.makefile("rb")
        key = base64.b64encode(os.urandom(16)).decode()
        lines = [
            f"GET {path} HTTP/1.1",
            f"Host: {url.netloc}",
            f"Origin: {at}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            f"Sec-WebSocket-Key: {key}",
            "Sec-WebSocket-Version: 13",
            f"Cookie: {cookies}",
        ]
        self.socket.sendall("\r\n".join([*lines, "", ""]).encode())
        status = self.file.readline().decode(errors="replace").strip()
        if " 101 " not in f"{status} ":
            raise OSError(f"no WebSocket: {status}")
        while self.file.readline() not in (b"\r\n", b""):
            pass

    def send(self, text, kind=TEXT):
        """One frame. A client masks what it sends (section 5.3)."""
        data = text.encode() if isinstance(text, str) else text
        length = len(data)
        if length < 126:
            size = struct.pack("!B", 0x80 | length)
        elif length < 1 << 16:
            size = struct.pack("!BH", 0x80 | 126, length)
        else:
            size = struct.pack("!BQ", 0x80 | 127, length)
        mask = os.urandom(4)
        masked = bytes(byte ^ mask[index % 4] for index, byte in enumerate(data))
        self.socket.sendall(bytes([0x80 | kind]) + size + mask + masked)

    def receive(self):
        """The next message."""
        whole = b""
        while True:
            first, length = self.exactly(2)
            length &= 0x7F
            if length == 126:
                length = struct.unpack("!H", self.exactly(2))[0]
            elif length == 127:
                length = struct.unpack("!Q", self.exactly(8))[0]
            if length + len(whole) > MOST:
                raise OSError("a message that is too long")
            data = self.exactly(length)
            kind = first & 0x0F
            if kind == CLOSE:
                raise OSError("the other end closed it")
            if kind == PING:
                self.send(data, PONG)
            elif kind != PONG:
                whole += data
                if first & 0x80:
                    return whole.decode(errors="replace")

    def exactly(self, length):
        data = self.file.read(length)
        if len(data) != length:
            raise OSError("the connection was cut")
        return data

    def close(self):
        self.socket.close()
