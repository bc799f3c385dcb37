"""notebook.py URL CODE [new|same [begin]]: runs CODE in a new kernel of the Jupyter at URL (with ?token=…), or in
the one that it has, and prints what it prints; with `begin` it does not wait for more than its begin.
Standard library only: REST for the kernel, a WebSocket (RFC 6455) to it."""

import base64
import http.client
import json
import os
import socket
import struct
import sys
import uuid
from urllib.parse import parse_qs, urlsplit

LIMIT = 150  # seconds for any one answer


def find_kernel(address, token, which):
    api = http.client.HTTPConnection(*address, timeout=LIMIT)
    verb, body = ("POST", "{}") if which == "new" else ("GET", None)
    api.request(verb, "/api/kernels", body, {"Authorization": f"token {token}"})
    answer = api.getresponse()
    body = answer.read()
    if answer.status not in [200, 201]:
        sys.exit(f"no kernel: {answer.status} {body!r}")
    found = json.loads(body)
    return found["id"] if which == "new" else found[0]["id"]


def open_channel(address, token, kernel):
    connection = socket.create_connection(address, timeout=LIMIT)
    key = base64.b64encode(os.urandom(16)).decode()
    connection.sendall(
        f"GET /api/kernels/{kernel}/channels HTTP/1.1\r\n"
        f"Host: {address[0]}:{address[1]}\r\n"
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        f"Sec-WebSocket-Key: {key}\r\nAuthorization: token {token}\r\n\r\n".encode()
    )
    stream = connection.makefile("rb")
    status = stream.readline()
    if b" 101 " not in status:
        sys.exit(f"no websocket: {status!r}")
    while stream.readline() not in (b"\r\n", b""):
        pass
    return connection, stream


def send(connection, text):
    data = text.encode()
    mask = os.urandom(4)
    masked = bytes(byte ^ mask[index % 4] for index, byte in enumerate(data))
    connection.sendall(struct.pack("!BBH", 0x81, 0x80 | 126, len(data)) + mask + masked)


def receive(stream):
    first, length = stream.read(2)
    length &= 0x7F
    if length == 126:
        (length,) = struct.unpack("!H", stream.read(2))
    elif length == 127:
        (length,) = struct.unpack("!Q", stream.read(8))
    return first & 0x0F, stream.read(length)


def main(url, code, which="new", until="end"):
    parts = urlsplit(url)
    address = (parts.hostname, parts.port)
    token = parse_qs(parts.query)["token"][0]
    kernel = find_kernel(address, token, which)
    connection, stream = open_channel(address, token, kernel)
    request = {
        "header": {
            "msg_id": uuid.uuid4().hex,
            "msg_type": "execute_request",
            "session": uuid.uuid4().hex,
            "username": "tester",
            "version": "5.3",
        },
        "parent_header": {},
        "metadata": {},
        "channel": "shell",
        "content": {"code": code, "silent": False, "store_history": False},
    }
    send(connection, json.dumps(request))
    while True:
        kind, data = receive(stream)
        if kind != 1:
            continue
        message = json.loads(data)
        if message["parent_header"].get("msg_id") != request["header"]["msg_id"]:
            continue
        content = message["content"]
        if message["msg_type"] == "execute_input" and until == "begin":
            return
        if message["msg_type"] == "stream":
            print(content["text"], end="")
        elif message["msg_type"] == "error":
            sys.exit(f"{content['ename']}: {content['evalue']}")
        # The reply comes by another socket and may overtake the output; this follows all of it.
        elif message["msg_type"] == "status" and content["execution_state"] == "idle":
            return


main(*sys.argv[1:])
