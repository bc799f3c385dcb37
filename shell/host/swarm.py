"""What docker's own client cannot do for a host in the network of a drive and its workers.

    swarm.py join OWN LEADER                    the token on standard input
    swarm.py stay LEADER PORT SECONDS SCRIPTS
    swarm.py slices NUMBER RUNTIMES             nvidia-smi's list of GPUs on standard input

`join` has dockerd come to the swarm of LEADER (ADDRESS:PORT), as which it is reached at OWN: docker's client
takes the token as an argument, where every process of the machine reads it. `stay` looks whether LEADER
answers. After so many SECONDS without it `SCRIPTS/swarm end` closes this host.
`slices` prints the settings by which dockerd has each GPU as so many resources; RUNTIMES are those that it knows,
separated by commas.
"""

import http.client
import json
import re
import socket
import subprocess
import sys
import time

SOCKET = "/var/run/docker.sock"
# dockerd itself waits 20 seconds, says so, and goes on in the background.
GOES_ON = "continue in the background"
ANSWER = 60
MOST = 1 << 20
# A worker's look at its leader.
EVERY = 5


class Docker(http.client.HTTPConnection):
    """An HTTP connection to dockerd's socket."""

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(ANSWER)
        self.sock.connect(SOCKET)


def join(own, leader):
    order = {
        "ListenAddr": own,
        "AdvertiseAddr": own,
        "RemoteAddrs": [leader],
        "JoinToken": sys.stdin.readline().strip(),
    }
    status, words = ask("POST", "/swarm/join", json.dumps(order))
    end = time.monotonic() + ANSWER
    while GOES_ON in words and time.monotonic() < end:
        time.sleep(0.5)
        _, info = ask("GET", "/info")
        if json.loads(info)["Swarm"]["LocalNodeState"] == "active":
            return
    if status != 200:
        sys.exit(words.strip())


def ask(method, path, body=None):
    """The status and the text of dockerd's answer."""
    docker = Docker("docker")
    try:
        docker.request(method, path, body, {"Content-Type": "application/json"})
        answer = docker.getresponse()
        return answer.status, answer.read(MOST).decode(errors="replace")
    except (OSError, http.client.HTTPException) as error:
        sys.exit(f"dockerd does not answer: {error}")
    finally:
        docker.close()


def answers(leader, port):
    try:
        socket.create_connection((leader, port), EVERY).close()
    except OSError:
        return False
    return True


def stay(leader, port, alone, scripts):
    # The clock that goes on while a machine sleeps.
    last = time.clock_gettime(time.CLOCK_BOOTTIME)
    while True:
        now = time.clock_gettime(time.CLOCK_BOOTTIME)
        if answers(leader, port):
            last = now
        elif now - last >= alone:
            print(f"no leader at {leader} for {alone} seconds", flush=True)
            sys.exit(subprocess.run(["sh", f"{scripts}/swarm", "end"], check=False).returncode)
        time.sleep(EVERY)


def slices(number, runtimes):
    gpus = re.findall(r"\(UUID: (GPU-[0-9A-Fa-f-]+)\)", sys.stdin.read(MOST))
    if not gpus:
        sys.exit("there is no GPU in it")
    # An underscore, as there is none in a UUID.
    named = [f"gpu={gpu}_{count}" for gpu in gpus for count in range(1, number + 1)]
    settings = {"node-generic-resources": named}
    if "nvidia" in runtimes.split(","):
        settings["default-runtime"] = "nvidia"
    print(json.dumps(settings))


def main(verb, *words):
    if verb == "join":
        join(*words)
    elif verb == "slices":
        number, runtimes = words
        slices(int(number), runtimes)
    else:
        leader, port, alone, scripts = words
        stay(leader, int(port), int(alone), scripts)


main(*sys.argv[1:])
