#!/usr/bin/env python3
"""licences.py TARGET: prints the licences of all crates in the program for TARGET. The texts are the
files in the crates' sources, each printed once, below the names of its crates."""

import json
import pathlib
import subprocess
import sys

# The beginnings of the names of files with licences and notices, in upper case.
NAMES = ("LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE")


def packages(target):
    """The crates in the program, sorted; those of tests and build scripts are not."""
    question = ["cargo", "metadata", "--locked", "--format-version=1", f"--filter-platform={target}"]
    metadata = json.loads(subprocess.run(question, check=True, stdout=subprocess.PIPE).stdout)
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    root = metadata["resolve"]["root"]
    found, todo = {root}, [root]
    while todo:
        for dependency in nodes[todo.pop()]["deps"]:
            kinds = [kind["kind"] for kind in dependency["dep_kinds"]]
            if None in kinds and dependency["pkg"] not in found:
                found.add(dependency["pkg"])
                todo.append(dependency["pkg"])
    # xdrive's own crates come from no registry.
    chosen = [package for package in metadata["packages"] if package["id"] in found and package["source"]]
    return sorted(chosen, key=lambda package: (package["name"], package["version"]))


def texts(package):
    """The texts of licences in the crate's folder."""
    folder = pathlib.Path(package["manifest_path"]).parent
    named = [path for path in folder.iterdir() if path.name.upper().startswith(NAMES) and path.is_file()]
    return [path.read_text(errors="replace").strip() for path in sorted(named)]


def main():
    of_text = {}
    print("xdrive contains these crates, under these licences:\n")
    for package in packages(sys.argv[1]):
        name = f"{package['name']} {package['version']}"
        print(f"  {name}: {package['license'] or 'see below'}")
        for text in texts(package):
            of_text.setdefault(text, []).append(name)
    for text, names in of_text.items():
        print(f"\n{'-' * 78}\n{', '.join(names)}:\n\n{text}")


if __name__ == "__main__":
    main()
