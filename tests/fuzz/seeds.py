#!/usr/bin/env python3
"""seeds.py TARGET FOLDER IMAGES: what real parts answer, as inputs of a fuzzer's target in FOLDER.

The texts are those of the tests, of `shell/host` and of the tags that xdrive writes. How an input is
read is in the file `fuzzing.rs` of its room.
"""

import hashlib
import json
import os
import struct
import sys


def text(value):
    """As a packet has it."""
    return struct.pack(">I", len(value)) + value


def attributes(mode, size):
    return struct.pack(">IQq", mode, size, 10**18)


def answer(how, body):
    """An answer: three bits are its kind, the others its length."""
    return bytes([how << 5 | len(body) >> 8, len(body) & 255]) + body


def sftp():
    file, folder, link = attributes(0o100644, 5), attributes(0o040755, 4096), attributes(0o120777, 1)
    entries = [(b"a", file, b""), (b"deep", folder, b""), (b"link", link, b"a"), (b"gr\xfcn", file, b"")]
    listing = b"".join(text(name) + kept + text(target) for name, kept, target in entries)
    last, more = text(b"") + listing, text(b"h") + text(b"b") + file + text(b"")
    done = answer(2, struct.pack(">I", 0) + text(b"") + text(b""))
    refused = answer(2, struct.pack(">I", 4) + text(b"Permission denied") + text(b""))
    missing = answer(2, struct.pack(">I", 2) + text(b"No such file") + text(b""))
    name = struct.pack(">I", 1) + text(b"/root") + text(b"/root") + struct.pack(">I", 0)
    yield bytes([0, 0, 0, 0]) + answer(0, more) + answer(0, last) + refused + missing
    yield bytes([1, 2, 1, 3]) + answer(0, file + text(b"")) + answer(0, link + text(b"a")) + missing + answer(4, name)
    yield bytes([4, 4, 5, 5]) + answer(0, file + b"small") + answer(0, b"") + answer(0, file + text(b"h")) + refused
    yield bytes([6, 6, 7, 7]) + answer(0, struct.pack(">4Q", 4, 9, 20, 30)) + answer(0, b"") + answer(3, text(b"data")) + missing
    yield bytes([8, 9, 10, 11]) + answer(0, struct.pack(">Q", 7) + text(b"h")) + answer(0, b"0" * 32) + answer(0, b"\1") + answer(0, file)
    yield bytes([12, 13, 12, 13]) + done + done + refused + answer(5, struct.pack(">I", 3))
    # Bytes as they are: a packet with the number of the first request, then one that comes in two parts.
    whole = struct.pack(">IBI", 5 + len(last), 201, 0) + last
    yield bytes([0, 2, 2, 2]) + answer(7, whole) + answer(7, b"\0\0\0\x09\x65") + answer(7, b"\0\0\0\1\0\0\0\2")


def facts():
    mounted = """volume=vol-0123456789abcdef0 uuid=01234567-89ab-cdef-0123-456789abcdef generation=4
        formatted=yes size=8589934592 room=8589934592@8000000000@524288@524000
        source=jupyter/minimal-notebook held=0 gpus=none dirty=2621440000 released=no ms.mount=120
        ms.fsck=33"""
    contact = """booted=yes closing=lease unmounted=yes whole=vol-1 volume=vol-2 frozen=yes room=4@3@2@1
        attached=s1@2026-01-02T03:04:05Z@me client=lead@s1@2026-01-02T03:04:05Z@arn:aws:iam::1:user/me
        client=guest@s2@2026-01-02T03:04:05Z@you@by@ssh lease=840
        notice=terminate@2026-01-02T03:04:05Z"""
    closed = "committed=yes why=no unmounted=yes whole=vol-1 room=4@3@2@1 frozen=no silent=data ms.commit=900 remain=1 sessions=1"
    closed += " froze=1f@1303@317320260@python3@-u@train.py not_frozen=2e@no@room"
    listed = """listed=running@main@busybox listed=stopped@tools@a@b listed=gone@py-3@x pulled=5@14@210@840
        event=notice@terminate@2026-01-02T03:04:05Z event=rebalance@2026-01-02T03:04:05Z
        event=closing@the@lease@ended event=unmounted event=froze@1f@1303@317320260@python3
        event=not_frozen@terminal-1f..gpu@no@room"""
    ports = [
        {"port": 6006, "addresses": ["127.0.0.1", "::1"], "program": "python3", "is_chosen": False, "is_forward": False},
        {"port": 1, "addresses": ["\u009b2J"], "program": "\u001b]2;t\u0007é", "is_chosen": True, "is_forward": False},
    ]
    lines = lambda words: "".join(f"xdrive: {word.replace('@', ' ')}\n" for word in words.split())
    for words in (mounted, contact, closed, listed):
        yield b"\0" + lines(words).encode() + b"\0some words\n"
    yield b"\0motd\n" + f"xdrive: listening={json.dumps(ports)}\n".encode()
    for status in range(4, 16):
        yield bytes([status]) + b"xdrive: closing=lease\nxdrive: busy=s1 2026-01-02T03:04:05Z me\nxdrive: problem=halfmade\n\0one\n\ntwo\n"
    frame = lambda kind, place, payload: kind + struct.pack(">QI", place, len(payload)) + payload
    frames = frame(b"o", 258, b"") + frame(b"e", 0, b"") + frame(b"o", 258, b"some output") + frame(b"x", 0, b"")
    yield b"\0\0" + frames
    yield b"\x0c\0Error: toomanyrequests: You have reached your pull rate limit\n"


def runs():
    run = {
        "run": "1f", "command": "sleep 1", "container": "tools", "began": 1.5, "ended": None, "status": None,
        "is_lost": False, "is_kept": True, "bound": 1, "kept": [0, 0], "written": [2, 0], "since": [0, 0],
        "last": "x",
    }
    yield json.dumps(run).encode()
    yield json.dumps({**run, "ended": 1767322800.25, "status": 143, "closing": "the lease ended"}).encode()
    yield json.dumps({**run, "is_lost": True, "last": "\u001b[2J", "command": "printf '%s' 'a b'"}).encode()
    yield json.dumps({**run, "began": 1e300, "ended": -1e300, "container": ""}).encode()


def tags():
    who = "xdrive:session=s1\nxdrive:owner=arn:aws:iam::1:user/me\nName=demo\nxdrive:drive=demo\n"
    volume = "xdrive:base=4\nxdrive:generation=5\nxdrive:uuid=01234567-89ab-cdef-0123-456789abcdef\n"
    settings = """xdrive:image=quay.io/jupyter/minimal-notebook:x
xdrive:type=t3.medium,m7i.large
xdrive:size=8
xdrive:throughput=300
xdrive:iops=4000
xdrive:warm=100
xdrive:arch=x86_64
xdrive:ami=ami-1
team=blue
"""
    record = "xdrive:host=t3.small spot in us-east-1a\nxdrive:since=2026-01-02T03:04:05Z\nxdrive:price=0.25\nxdrive:note=before\n"
    yield (who + volume + settings).encode()
    yield (who + volume + "xdrive:blank=yes\nxdrive:formatted=5\nxdrive:type=cpus=4,memory=16,gpus=1\n").encode()
    yield (who + volume.replace("=5", "=4") + "xdrive:discard=s9\n").encode()
    for kind in ("clean", "crashed", "checkpoint"):
        yield (who + volume + f"xdrive:kind={kind}\nxdrive:op=abc\nxdrive:number=2\n" + settings + record).encode()
    yield (who + "xdrive:disk=root\nxdrive:until=2026-01-02T03:04:05Z\nxdrive:host-key=ssh-ed25519 AAAA\n").encode()
    yield (who + "xdrive:renaming=other\nxdrive:forked-from=demo@12\nxdrive:image=@file\nxdrive:scratch=yes\n").encode()
    yield "".join(f"{letter}=1\n" for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ[]^_`a").encode()


def ext4(images):
    for base in range(6):
        # Nothing changed, and something in the superblock and behind it.
        yield bytes([base])
        for place in (0, 0x0400, 0x2000, 0x8000):
            yield bytes([base, 1]) + struct.pack("<H", place) + b"\xff\0"
    with open(os.path.join(images, "2"), "rb") as image:
        yield b"\xff" + image.read()[:4000]


def rules():
    paths = [b"a/b.log", b"abc", b"x-1/[a]", b"Ab.Log", b"a b", b"node_modules/x/y", b"target"]
    files = [
        b"*.log\n!a.log\n/target\nnode_modules/\n", b"**/b\na/**\na/**/c\n", b"[!a-c]*\n[[:alpha:]][[:upper:]-z]\n",
        b"\xef\xbb\xbf# no rule\n\\#a\n\\!b\na\\ \n", b"a/*\n!a/b.log\n*.py[co]\n", b"{a,b}\n?\\*\n[]a]\n[\\a-c]\n",
        b"/a/b\nb/\n***\n**a\n[a-]\n[[:foo:]]\n",
    ]
    for nth, (path, file) in enumerate(zip(paths, files)):
        for how in (nth & 1, 2):
            yield bytes([how]) + path + b"\n" + file


def devcontainer():
    yield b"""// A comment.
{
  "name": "x", /* another */
  "image": "mcr.microsoft.com/devcontainers/python:3.12",
  "containerEnv": {"A": "${localEnv:HOME}", "B": "${containerWorkspaceFolder}/x", "no-word": "1"},
  "remoteUser": "vscode",
  "forwardPorts": [8000, "db:5432", "9000"],
  "postCreateCommand": {"one": "pip install -r requirements.txt", "two": ["echo", "it's"]},
  "mounts": ["source=/work/data,target=/data,type=bind,readonly", {"source": "v", "target": "/v", "type": "volume"}],
  "customizations": {"vscode": {"extensions": ["a.b",],}},
}
"""
    yield b'{"build": {"dockerfile": "Dockerfile", "context": "..", "target": "dev", "args": {"V": "1"}, "cacheFrom": "x"}}'
    yield b'\xef\xbb\xbf{"dockerFile": "Dockerfile", "context": ".", "postCreateCommand": "make \\"x\\" \\\\"}'
    yield b'{"image": "a", "containerUser": "${localEnv:USER:me}", "postCreateCommand": ["a", "b\\u0000"], "forwardPorts": []}'
    yield b'{"dockerComposeFile": "compose.yml"}'


def main(target, folder, images):
    made = {"ext4": lambda: ext4(images)}.get(target) or globals()[target]
    for seed in made():
        name = hashlib.sha1(seed).hexdigest()
        with open(os.path.join(folder, name), "wb") as file:
            file.write(seed)


if __name__ == "__main__":
    main(*sys.argv[1:])
