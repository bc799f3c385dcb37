#!/usr/bin/env python3
"""licences.py TARGET CRIU: prints the licences of all crates in the program for TARGET, and of what is in
criu's archive CRIU. The crates' texts are the files in their sources, each printed once, below the names of
its crates; the archive has its own.

licences.py --bill CRIU: adds what is in the archive to the bill of materials (CycloneDX) on standard input.
"""

import json
import pathlib
import subprocess
import sys
import tarfile
import urllib.parse

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


def sources(archive):
    """What criu's archive says of the packages in it: the words, then name, version and source of each."""
    with tarfile.open(archive) as tar:
        words, table = tar.extractfile("licences/SOURCES").read().decode().split("\n\n", 1)
    return words, [line.split() for line in table.splitlines()]


def component(name, version, source):
    """A package of criu's archive in a bill of materials. A library's licences are many: they are in the archive."""
    url = f"pkg:deb/debian/{name}@{urllib.parse.quote(version)}?arch=amd64"
    made = {"type": "application" if name == "criu" else "library", "bom-ref": url, "name": name}
    made |= {"version": version, "scope": "optional", "purl": url}
    if name == "criu":
        made["licenses"] = [{"license": {"id": "GPL-2.0-only"}}]
    made["externalReferences"] = [{"type": "distribution", "url": source, "comment": "its source"}]
    return made


def bill(archive):
    """Adds the packages of criu's archive to the bill on standard input, and prints it."""
    whole = json.load(sys.stdin)
    added = [component(*package) for package in sources(archive)[1]]
    refs = [part["bom-ref"] for part in added]
    whole["components"] += added
    whole["dependencies"] += [{"ref": refs[0], "dependsOn": sorted(refs[1:])}]
    whole["dependencies"] += [{"ref": ref, "dependsOn": []} for ref in refs[1:]]
    json.dump(whole, sys.stdout, indent=2, ensure_ascii=False)
    print()


def main():
    if sys.argv[1] == "--bill":
        return bill(sys.argv[2])
    of_text = {}
    print("xdrive contains these crates, under these licences:\n")
    for package in packages(sys.argv[1]):
        name = f"{package['name']} {package['version']}"
        print(f"  {name}: {package['license'] or 'see below'}")
        for text in texts(package):
            of_text.setdefault(text, []).append(name)
    words, others = sources(sys.argv[2])
    print("\nIn criu-x86_64.tar.gz, which is sent to hosts that freeze programs, are programs of their own, with their")
    print(f"licences in its folder `licences`.\n\n{words}\n")
    for package in others:
        print(f"  {' '.join(package)}")
    for text, names in of_text.items():
        print(f"\n{'-' * 78}\n{', '.join(names)}:\n\n{text}")


if __name__ == "__main__":
    main()
