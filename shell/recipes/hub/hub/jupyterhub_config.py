"""JupyterHub's configuration: all that differs between classes is in settings.py's hub.env."""

import sys

import aiohttp

sys.path.insert(0, "/hub")
import machine
import seats
import settings
import sign_in

c = get_config()  # noqa: F821
found = settings.load()
client = machine.connect()
own = machine.own_container(client)
_, on_host, has_share = settings.root(found)
# Seats reach the hub by its name in the workers' network, or by its address on this machine.
hub_at = "leader" if has_share else machine.address(own)

# The C library looks names up by the servers of now. aiohttp's other resolver keeps those of the hub's begin,
# and the workers' network, which brings its own, may come later.
aiohttp.connector.DefaultResolver = aiohttp.ThreadedResolver

# --- the hub: its state is on the drive, and comes along to another machine

c.JupyterHub.db_url = f"sqlite:///{settings.STATE}/hub.sqlite"
c.JupyterHub.cookie_secret_file = str(settings.STATE / "cookie_secret")
c.JupyterHub.hub_ip = "0.0.0.0"
c.JupyterHub.hub_connect_ip = "127.0.0.1"
c.JupyterHub.bind_url = "http://127.0.0.1:8000"
# `start` has the proxy, which goes on while the hub is away; so do seats.
c.ConfigurableHTTPProxy.should_start = False
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:8001"
c.JupyterHub.cleanup_servers = False
c.JupyterHub.cleanup_proxy = False
# What a student sees whose worker was lost.
c.JupyterHub.template_paths = ["/hub/templates"]
ends = settings.ends_at(found)
if ends:
    c.JupyterHub.template_vars = {"announcement": f"This class ends at {ends:%H:%M} on {ends:%d %B}. Files stay."}

# --- who may come in

sign_in.configure(c, found)

# --- seats

student = f"{seats.STUDENT}:{seats.STUDENT}"
spawner = seats.WorkerSeat if has_share else seats.HereSeat
c.JupyterHub.spawner_class = spawner
# An id: a worker takes the image that it has, and asks no registry.
c.DockerSpawner.image = own["Image"]
c.DockerSpawner.prefix = machine.SEAT
c.DockerSpawner.cmd = ["/hub/seat"]
c.HereSeat.remove = True
c.DockerSpawner.pull_policy = "skip"
c.DockerSpawner.hub_connect_url = f"http://{hub_at}:8081"
c.DockerSpawner.mem_limit = found["MEMORY"]
c.DockerSpawner.cpu_limit = float(found["CPUS"])
c.DockerSpawner.notebook_dir = "/home/student"
c.DockerSpawner.volumes = {
    f"{on_host}/homes/{{raw_username}}": "/home/student",
    f"{on_host}/shared": "/home/student/shared",
}
c.DockerSpawner.environment = {"HOME": "/home/student", "SHELL": "/bin/bash", "HUB_BRANCH": found["BRANCH"]}
c.DockerSpawner.environment["HUB_IDLE"] = found["IDLE"]
if found.get("LESSONS"):
    c.DockerSpawner.environment["HUB_LESSONS"] = f"git://{hub_at}/lessons.git"
c.Spawner.pre_spawn_hook = seats.make_home
# A place may take as long as a lesson. The second is also how long the seat of a lost worker may take to be up
# again where the hub itself begins anew meanwhile.
c.Spawner.start_timeout = 3600
c.Spawner.http_timeout = 900
if has_share:
    c.DockerSpawner.network_name = machine.NETWORK
    c.SwarmSpawner.mem_guarantee = found["MEMORY"]
    # The leader has the hub, and no seats.
    c.SwarmSpawner.extra_placement_spec = {"constraints": ["node.role == worker"]}
    # A name is the address of its task: no table of the kernel's in between.
    c.SwarmSpawner.extra_endpoint_spec = {"mode": "dnsrr"}
    c.SwarmSpawner.extra_container_spec = {"user": student, "init": True, "cap_drop": ["ALL"]}
    c.SwarmSpawner.extra_task_spec = {"restart_policy": seats.BEGIN_AGAIN}
    if found["GPU"] == "yes":
        c.SwarmSpawner.extra_resources_spec = {"generic_resources": {"gpu": 1}}
        # All of a machine's GPUs are in a container of NVIDIA's runtime; `seat` chooses its own.
        c.DockerSpawner.environment["NVIDIA_VISIBLE_DEVICES"] = "all"
else:
    c.DockerSpawner.network_name = "bridge"
    c.DockerSpawner.use_internal_ip = True
    c.DockerSpawner.extra_create_kwargs = {"user": student}
    c.DockerSpawner.extra_host_config = {"init": True, "cap_drop": ["ALL"], "security_opt": ["no-new-privileges"]}
    if found["GPU"] == "yes":
        c.DockerSpawner.extra_host_config["device_requests"] = [{"Driver": "", "Count": -1, "Capabilities": [["gpu"]]}]

# --- what asks the hub: `start` has these, for a hub that is killed would leave them behind, and have new ones

scopes = {
    "reaper": ["list:users", "read:servers"],
    "teacher": ["list:users", "read:servers", "delete:servers", "admin:users"],
}
c.JupyterHub.services = [{"name": name, "api_token": settings.token(name)} for name in scopes]
c.JupyterHub.load_roles = [{"name": name, "scopes": scopes[name], "services": [name]} for name in scopes]
