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
    xdrive --version
    for file in man/man1/xdrive.1.gz bash-completion/completions/xdrive doc/xdrive/LICENSE-MIT; do
        [ -s "/usr/share/$file" ] || fail "no $file"
    done
    step 'xdrive local setup'
    xdrive local setup
    step 'a new drive'
    xdrive --local connect demo -- sh -c 'echo kept >/work/note'
    step 'the drive on another instance'
    [ "$(xdrive --local connect demo -- cat /work/note)" = kept ] || fail 'the note is lost'
    xdrive --local list
    [ "$(xdrive --local list | grep -c 'i-0')" = 0 ] || fail 'an instance is left'
    step 'removing the package'
    apt-get -q -y remove xdrive
    [ ! -e /usr/bin/xdrive ] || fail 'the program is left'
    step 'done'
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
