"""Makes a stopped container an image of one layer.

    flatten.py CONTAINER REPOSITORY

Prints the image's id; REPOSITORY:latest is that then. It has the container's whole configuration:
`docker import` takes only some of it, and no values of several lines, so the configuration is given
to dockerd itself (Docker Engine API, "Create a new image from a container").
"""

import http.client
import json
import socket
import subprocess
import sys
import urllib.parse

SOCKET = "/var/run/docker.sock"
HELPER = "xdrive..flatten"  # the container that has the layer; never started, and no drive's by its name


class Docker(http.client.HTTPConnection):
    """An HTTP connection to dockerd's socket."""

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.connect(SOCKET)


def ask(method, path, body=None):
    docker = Docker("docker")
    headers = {"Content-Type": "application/json"}
    docker.request(method, path, json.dumps(body) if body is not None else None, headers)
    answer = docker.getresponse()
    text = answer.read().decode(errors="replace")
    if answer.status >= 300:
        sys.exit(f"dockerd refused {method} {path}: {text}")
    return json.loads(text) if text else {}


def main(container, repository):
    settings = ask("GET", f"/containers/{container}/json")["Config"]
    # One that a former call left behind.
    subprocess.run(["docker", "rm", "-f", HELPER], capture_output=True, check=False)
    with subprocess.Popen(["docker", "export", container], stdout=subprocess.PIPE) as export:
        layer = subprocess.run(
            ["docker", "import", "-"], stdin=export.stdout, stdout=subprocess.PIPE, text=True, check=False
        )
    if export.returncode != 0 or layer.returncode != 0:
        sys.exit("docker could not make one layer of the container")
    ask("POST", f"/containers/create?name={HELPER}", {"Image": layer.stdout.strip(), "Cmd": ["sh"]})
    query = urllib.parse.urlencode({"container": HELPER, "repo": repository, "tag": "latest"})
    image = ask("POST", f"/commit?{query}", settings)["Id"]
    ask("DELETE", f"/containers/{HELPER}")
    print(image)


main(*sys.argv[1:])
