"""An SSH agent for a container: the one that is forwarded to this host.

    agent.py PID NAME [COMMAND…]

Listens at /run/xdrive/NAME of the container whose first process is PID, for that one's user alone,
and leads each connection to the agent at SSH_AUTH_SOCK, while COMMAND runs. Ends with its exit
status. Without a COMMAND: prints `xdrive: agent=/run/xdrive/NAME` once it listens, and ends with its
standard input. A later agent with the same NAME takes its place. Where that folder is not the
container's own tmpfs it listens nowhere, and ends.
"""

import os
import signal
import socket
import subprocess
import sys
import threading

# Isolated mode (-I) leaves the scripts' own folder out, which is root's.
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import inside  # noqa: E402

CHUNK = 16 << 10


def main(pid, name, *command):
    with open(f"/proc/{pid}/status") as lines:
        ids = {key: rest.split() for key, _, rest in (line.partition(":") for line in lines)}
    try:
        folder = inside.tmpfs(f"/proc/{pid}/root")
        listener = listen(folder, name, int(ids["Uid"][0]), int(ids["Gid"][0]))
    except OSError as error:
        sys.exit(f"no agent in the container: {error}")
    own = os.stat(name, dir_fd=folder, follow_symlinks=False)
    threading.Thread(target=accept, args=[listener], daemon=True).start()
    if command:
        # A signal that ends the command ends this, too, once the command has ended.
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: None)
        status = subprocess.call(command)
    else:
        print(f"xdrive: agent=/run/xdrive/{name}", flush=True)
        status = 0
        while os.read(0, CHUNK):
            pass
    # Another connection of the same session may have taken the place.
    if is_same(folder, name, own):
        inside.remove(folder, name)
    sys.exit(status if status >= 0 else 128 - status)


def listen(folder, name, user, group):
    """A socket that listens as `name` in a folder of the container's, for that user. The container
    may replace what is there at any moment: no link of that name is followed."""
    inside.remove(folder, name)
    os.umask(0o177)
    listener = socket.socket(socket.AF_UNIX)
    # bind(2) follows no link in the last name, and its address has no other form for a folder that
    # is open.
    listener.bind(f"/proc/self/fd/{folder}/{name}")
    os.chown(name, user, group, dir_fd=folder, follow_symlinks=False)
    listener.listen()
    return listener


def is_same(folder, name, own):
    try:
        return os.path.samestat(os.stat(name, dir_fd=folder, follow_symlinks=False), own)
    except OSError:
        return False


def accept(listener):
    while True:
        asking, _ = listener.accept()
        threading.Thread(target=relay, args=[asking], daemon=True).start()


def relay(asking):
    agent = socket.socket(socket.AF_UNIX)
    try:
        agent.connect(os.environ["SSH_AUTH_SOCK"])
    except OSError:
        asking.close()
        return
    threading.Thread(target=copy, args=[agent, asking], daemon=True).start()
    copy(asking, agent)


def copy(source, target):
    try:
        while data := source.recv(CHUNK):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # either end is gone


main(*sys.argv[1:])
