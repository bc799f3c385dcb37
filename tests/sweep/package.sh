#!/bin/sh
# package.sh PACKAGE FOLDER DOWNLOADS: makes a fresh Debian in FOLDER, without Rust, installs the Debian
# package PACKAGE of xdrive there, and takes a local drive through its life. Needs root. DOWNLOADS is
# the folder of that name in the cache for `--local`. Prints a line for each step.
set -eu

top=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
# For mirror.
. "$top/shell/local/build.sh"

step() { printf '%5d s  %s\n' "$(($(date +%s) - began))" "$*"; }

fail() {
    printf 'error: %s\n' "$1" >&2
    exit 1
}

# In new mount and process namespaces, so that nothing outlives it.
debian() {
    tree=$1 downloads=$2
    mount --bind "$tree" "$tree"
    cd "$tree"
    mount -t proc proc proc
    mount --rbind /sys sys
    mount --rbind /dev dev
    mount -t tmpfs run run
    # The locks are the computer's, which other tests use too.
    mkdir -p /run/lock run/lock root/.cache/xdrive/local/downloads old
    mount --bind /run/lock run/lock
    mount --bind "$downloads" root/.cache/xdrive/local/downloads
    pivot_root . old
    umount -l /old
    cd /
    life
}

life() {
    for program in cargo rustc gcc; do
        ! command -v "$program" || fail "$program is here"
    done
    step 'installing the package and what it recommends'
    apt-get -q update
    DEBIAN_FRONTEND=noninteractive apt-get -q -y install /root/xdrive.deb
    version=$(dpkg-query --show --showformat='${Version}' xdrive)
    [ "$(xdrive --version)" = "xdrive ${version%-*}" ] || fail "the package of $version has another program"
    for file in bash-completion/completions/xdrive zsh/vendor-completions/_xdrive \
        fish/vendor_completions.d/xdrive.fish doc/xdrive/LICENSE-MIT doc/xdrive/LICENSES-THIRD-PARTY; do
        [ -s "/usr/share/$file" ] || fail "no $file"
    done
    pages
    step 'xdrive local setup'
    xdrive local setup
    step 'a new drive'
    xdrive --local connect demo -- sh -c 'echo kept >/work/note'
    step 'the drive on another instance'
    [ "$(xdrive --local connect demo -- cat /work/note)" = kept ] || fail 'the note is lost'
    completes
    step 'what is left'
    nothing_is_left
    step 'removing the package'
    apt-get -q -y remove xdrive
    left=$(find /usr -path '*xdrive*')
    [ -z "$left" ] || fail "of the package is left: $left"
    step 'done'
}

# Fails unless the program's and the topics' manual pages are there. They are shown where there is a man.
pages() {
    for page in man1/xdrive.1 man7/xdrive-aws.7 man7/xdrive-local.7; do
        zcat "/usr/share/man/$page.gz" | grep -q '^\.SH NAME' || fail "no manual page $page"
        command -v man >/dev/null || continue
        name=${page#*/}
        man "${name%.*}" | grep -q '^NAME' || fail "man does not show $page"
    done
}

# Fails unless Tab completes the name of the drive in bash. A busy computer may not answer in the time
# that a shell has, and is asked again after a minute.
completes() {
    for _ in $(seq 200); do
        # shellcheck disable=SC2016  # bash's own
        completed=$(bash -c '
            . /usr/share/bash-completion/completions/xdrive
            COMP_WORDS=(xdrive --local connect de) COMP_CWORD=3 COMP_TYPE=9
            _clap_complete_xdrive xdrive de connect
            echo "${COMPREPLY[@]}"')
        [ "$completed" != demo ] || return 0
        sleep 1
    done
    fail "Tab after 'xdrive --local connect de' completes to '$completed'"
}

# Fails if a process of an instance is left, or gc leaves more of the drive than its saves, or work.
nothing_is_left() {
    # Who looks after an instance goes a little later than it.
    for _ in $(seq 60); do
        pgrep -x xdrive >/dev/null || break
        sleep 1
    done
    ! pgrep -a -x xdrive || fail 'programs of xdrive are left'
    xdrive --local gc
    xdrive --local gc --dry-run --json >/root/left.json
    python3 - /root/left.json <<'END'
import json, sys
left = json.load(open(sys.argv[1]))
[drive] = left["drives"]
kinds = {thing["kind"] for thing in drive["left"]["things"]}
clean = drive["result"] == "saved" and kinds == {"snapshot"}
assert clean and not (drive["steps"] or drive["notes"] or left["groups"]), left
END
}

main() {
    tree=$2/tree
    mkdir -p "$tree" "$3/debs"
    exec 8>"$3/lock"
    flock 8
    step 'making a Debian'
    # shellcheck disable=SC2046  # no mirror is no argument
    debootstrap --variant=minbase --cache-dir="$3/debs" bookworm "$tree" $(mirror) >"$2/debootstrap.log"
    flock -u 8
    exec 8>&-
    cp "$1" "$tree/root/xdrive.deb"
    # Names, authorities and package indexes are this computer's.
    mkdir -p "$tree/usr/local/share/ca-certificates"
    for file in /etc/resolv.conf /etc/pip.conf /usr/local/share/ca-certificates/*.crt; do
        [ ! -e "$file" ] || cat "$file" >"$tree$file"
    done
    unshare --mount --propagation private --pid --fork --kill-child=KILL \
        env -i HOME=/root TERM=dumb PATH="$PATH" LC_ALL=C.UTF-8 began="$began" "$self" --inside "$tree" "$3"
}

began=${began-$(date +%s)}
self=$top/tests/sweep/${0##*/}
if [ "$1" = --inside ]; then debian "$2" "$3"; else main "$@"; fi
