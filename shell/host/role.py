"""The role of this host's instance, for programs in a container of the drive: an endpoint as AWS's SDKs
look for in a container of ECS (AWS SDKs and tools reference guide, *Container credential provider*).

    role.py CONTAINER

Prints the lines `export NAME='VALUE'` by which SDKs find it, once it listens: on the loopback of the
network that CONTAINER has, and nowhere on this host. It answers whoever has its token. The metadata
service answers this host alone, one hop away, as user data has this host's key: so it is asked from
here, for the credentials and nothing else.

One process for each container, which ends with that; a second call finds it by its record.
"""

import contextlib
import ctypes
import fcntl
import hmac
import http.client
import http.server
import json
import os
import re
import secrets
import select
import socketserver
import sys
import threading
import time

# Isolated mode (-I) leaves the scripts' own folder out, which is root's.
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import inside  # noqa: E402

FOLDER = "/run/xdrive/roles"  # for each process a record, which it holds locked, of the lines
PATH = "/credentials"
IMDS = "169.254.169.254"
ROLES = "meta-data/iam/security-credentials/"
FIELDS = ["AccessKeyId", "SecretAccessKey", "Token", "Expiration"]
NEW_NETWORK = 0x40000000  # CLONE_NEWNET (setns(2))
TIMEOUT = 10  # seconds for a request, of either side
FRESH = 60  # seconds for which credentials are not asked for again; EC2 renews them 5 minutes early
MOST = 32  # connections at a time; the container's programs have no say in this host's memory
LONGEST = 64 << 10  # bytes of an answer of the metadata service


def main(container=""):
    pid = inside.init(container.partition("..")[2])
    if not pid:
        sys.exit("the container does not run")
    os.makedirs(FOLDER, mode=0o700, exist_ok=True)
    with open(f"{FOLDER}.lock", "w") as others, open(f"{FOLDER}/{pid}", "a+") as record:
        fcntl.flock(others, fcntl.LOCK_EX)
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(record, fcntl.LOCK_EX | fcntl.LOCK_NB)
            begin(pid, record, others)
        record.seek(0)
        print(record.read(), end="")


def begin(pid, record, others):
    """Starts the process, which holds the record from now on."""
    end = os.pidfd_open(pid)
    with network_of(pid):
        server = Server(("127.0.0.1", 0), Answer)
    server.token, server.role = secrets.token_hex(16), Role()
    port = server.server_address[1]
    record.truncate(0)
    record.write(f"export AWS_CONTAINER_CREDENTIALS_FULL_URI='http://127.0.0.1:{port}{PATH}'\n")
    record.write(f"export AWS_CONTAINER_AUTHORIZATION_TOKEN='{server.token}'\n")
    record.flush()
    if os.fork():
        return
    try:
        others.close()
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(nothing, stream)
        os.chdir("/")
        threading.Thread(target=server.serve_forever, daemon=True).start()
        select.select([end], [], [])
        os.unlink(record.name)
    finally:
        os._exit(0)


@contextlib.contextmanager
def network_of(pid):
    """What is made in it is in that process's network, and stays there."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open("/proc/self/ns/net") as own, open(f"/proc/{pid}/ns/net") as its:
        enter(libc, its)
        try:
            yield
        finally:
            enter(libc, own)


def enter(libc, network):
    if libc.setns(network.fileno(), NEW_NETWORK) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"setns: {os.strerror(error)}")


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True

    def verify_request(self, request, address):
        return threading.active_count() < MOST


class Answer(http.server.BaseHTTPRequestHandler):
    timeout = TIMEOUT
    server_version, sys_version = "xdrive", ""

    def do_GET(self):
        given = self.headers.get("Authorization", "").encode("latin-1", "replace")
        if not hmac.compare_digest(given, self.server.token.encode()):
            return self.answer(401, {"message": "the token is not this container's"})
        if self.path != PATH:
            return self.answer(404, {"message": "only credentials are here"})
        try:
            self.answer(200, self.server.role.credentials())
        except (OSError, ValueError, LookupError, TypeError, http.client.HTTPException) as error:
            self.answer(500, {"message": f"the metadata service has no credentials: {error}"})

    def answer(self, status, document):
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Role:
    def __init__(self):
        self.lock = threading.Lock()
        self.known, self.until = None, 0

    def credentials(self):
        """Those that are good now; asked for again before they end."""
        with self.lock:
            if time.monotonic() >= self.until:
                try:
                    self.known, self.until = asked(), time.monotonic() + FRESH
                except (OSError, ValueError, LookupError, TypeError, http.client.HTTPException):
                    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
                    if not self.known or self.known["Expiration"] <= now:
                        raise
            return self.known


def asked():
    token = request("PUT", "api/token", {"X-aws-ec2-metadata-token-ttl-seconds": "60"})
    headers = {"X-aws-ec2-metadata-token": token}
    role = request("GET", ROLES, headers).split("\n")[0]
    if not re.fullmatch(r"[\w+=,.@-]+", role, re.ASCII):
        raise ValueError("no name of a role")
    document = json.loads(request("GET", ROLES + role, headers))
    return {field: str(document[field]) for field in FIELDS}


def request(method, path, headers):
    connection = http.client.HTTPConnection(IMDS, timeout=TIMEOUT)
    with contextlib.closing(connection):
        connection.request(method, f"/latest/{path}", headers=headers)
        answer = connection.getresponse()
        if answer.status != 200:
            raise OSError(f"status {answer.status}")
        return answer.read(LONGEST).decode()


if __name__ == "__main__":
    main(*sys.argv[1:])
