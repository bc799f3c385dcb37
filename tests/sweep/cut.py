"""Cuts the power of the one instance of a state directory: cut.py DIR, then a line on standard input.

A SIGKILL alone is no power cut: the kernel still writes what it holds and unmounts in order. So the
drive's file system is shut down first, without its journal (EXT4_IOC_SHUTDOWN with
EXT4_GOING_FLAGS_NOLOGFLUSH, fs/ext4/ext4.h), and then the instance's process 1 is killed, and all
others with it. Says on standard output what it found.
"""

import errno
import fcntl
import glob
import json
import os
import signal
import struct
import sys

SHUTDOWN = 0x8004587D
NOLOGFLUSH = struct.pack("I", 2)


def shut_down(drive):
    try:
        folder = os.open(drive, os.O_RDONLY)
    except FileNotFoundError:
        return "no mountpoint"
    try:
        fcntl.ioctl(folder, SHUTDOWN, NOLOGFLUSH)
    except OSError as error:
        # Below an empty mountpoint is the machine's own overlay.
        if error.errno == errno.ENOTTY:
            return "not mounted"
        raise
    finally:
        os.close(folder)
    return "cut"


def main():
    instances = os.path.join(sys.argv[1], "instances", "*", "init.json")
    print("ready", flush=True)
    sys.stdin.readline()
    found = []
    for path in glob.glob(instances):
        with open(path, encoding="utf-8") as file:
            init = json.load(file)["pid"]
        try:
            found.append(shut_down(f"/proc/{init}/root/v1"))
            os.kill(init, signal.SIGKILL)
        except ProcessLookupError:
            found.append("off already")
    print(", ".join(found) or "no instance", flush=True)


main()
