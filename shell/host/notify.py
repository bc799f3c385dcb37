"""Words about a run, to the address in its order: a POST of plain text, as ntfy and webhooks take it.

    notify.py NAME WORDS

NAME is the command's, by which its order is found: the address may be a secret, and is no argument of
any process. `running.py` starts one for each event, and waits for none.
"""

import json
import os
import subprocess
import sys
import urllib.request

# Isolated mode (-I) leaves the scripts' own folder out, which is root's.
sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from spool import ORDER, RECORDS  # noqa: E402

TIMEOUT = 5  # seconds for each step of it


def main(name="", words=""):
    if not name or "/" in name or not words:
        sys.exit("usage: notify.py NAME WORDS")
    order = ordered(name)
    if order is None:
        return
    headers = {"Title": f"xdrive: {order['drive']}", "Content-Type": "text/plain; charset=utf-8"}
    request = urllib.request.Request(order["address"], words.encode(), headers)
    with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
        answer.read(1)


def ordered(name):
    """The address for a command's words, and the drive's name; none if it has none."""
    try:
        with open(f"{RECORDS}/{name}/{ORDER}") as file:
            order = json.load(file)["notify"]
        is_address = order["address"].startswith(("https://", "http://"))
        return order if is_address and isinstance(order["drive"], str) else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def notify(name, words):
    """Begins to send words about the command `name`; nothing waits for them. What the command is they do
    not say: whoever knows the address may read them."""
    if ordered(name) is None:
        return
    arguments = [sys.executable, "-I", "-S", f"{HERE}/notify.py", name, f"run {name} {words}"]
    nothing = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
    try:
        subprocess.Popen(arguments, start_new_session=True, **nothing)
    except OSError as error:
        print(f"nobody was notified: {error}", file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
