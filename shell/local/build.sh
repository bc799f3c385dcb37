# shellcheck shell=sh disable=SC2154,SC2034  # variables of the script that reads this
# What the builders of this folder have in common; they read it with `.`. A builder sets $builder
# (its name), $here, $cache, $log, and $doing before each step that is logged.

# What is built belongs to whom it runs for, whatever the caller keeps to himself.
umask 022

say() { printf '%s: %s\n' "$builder" "$*" >&2; }

fail() {
    printf 'error: %s: %s\n' "$builder" "$1" >&2
    [ -z "${2:-}" ] || printf '\nhint: %s\n' "$2" >&2
    exit 1
}

# The mirror this machine already uses if it is a Debian, else debootstrap's own default.
mirror() {
    # shellcheck source=/dev/null
    . /etc/os-release
    [ "${ID:-}" = debian ] || return 0
    cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources 2>/dev/null |
        sed -n -E 's,^(deb (\[[^]]*\] )?|URIs: *)(https?://[^ ]+/debian)/?( .*|$),\3,p' | head -n 1
}

# Runs a step with its words in the log, and shows the end of the log if it fails.
logged() {
    # In a subshell of its own `set -e` holds inside functions too.
    set +e
    (
        set -e
        "$@"
    ) >>"$log" 2>&1
    status=$?
    set -e
    [ "$status" = 0 ] || {
        tail -n 30 "$log" >&2
        fail "could not $doing" "the whole output is in $log; run this again to go on"
    }
}

# Refuses to begin what cannot end well.
tools() {
    [ "$(id -u)" = 0 ] || fail "building needs root" "sudo $0"
    for tool in "$@"; do
        command -v "$tool" >/dev/null || fail "$tool is missing" "shell/try.sh installs what is needed"
    done
}

# Waits for another run of the same builder.
one_at_a_time() {
    mkdir -p "$cache"
    exec 9>"$cache/$builder.lock"
    flock -n 9 || {
        say "another run is building it: waiting"
        flock 9
    }
}

# Runs `build HALF …` in a mount namespace of its own: what it mounts ends with it, however it ends.
# HALF, a folder, is removed unless that succeeds. The lock goes along: if this script alone is killed,
# the next run waits until nothing writes to HALF any more.
build_in_namespace() {
    started=$(date +%s)
    rm -rf "$1"
    # shellcheck disable=SC2064  # now
    trap "rm -rf '$1'" EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    unshare --mount --propagation private "$here/$builder.sh" --build "$@"
    trap - EXIT INT TERM HUP
}

# install_in_tree PACKAGE…: installs Debian packages in $tree, by way of those that were downloaded before
# (the caller holds their lock), and starts no service. For `build`: what is mounted here ends with its
# mount namespace. policy-rc.d stays, for whatever else is done in the tree.
install_in_tree() {
    printf '#!/bin/sh\nexit 101\n' >"$tree/usr/sbin/policy-rc.d"
    chmod 755 "$tree/usr/sbin/policy-rc.d"
    cat /etc/resolv.conf >"$tree/etc/resolv.conf"
    mount --bind "$cache/downloads/debs" "$tree/var/cache/apt/archives"
    mount -t proc proc "$tree/proc"
    logged chroot "$tree" apt-get -q update
    logged chroot "$tree" env DEBIAN_FRONTEND=noninteractive apt-get -q -y install "$@"
    umount "$tree/var/cache/apt/archives" "$tree/proc"
}

# Makes the link $cache/LINK point to TARGET; fails if it was changed.
point() {
    [ "$(readlink "$cache/$1" 2>/dev/null)" != "$2" ] || return 0
    ln -sfn "$2" "$cache/$1.new"
    mv -T "$cache/$1.new" "$cache/$1"
    return 1
}

# Removes the trees that no link points to any more, unless an instance runs on one.
prune() {
    for old in "$cache"/machine-*/; do
        old=${old%/}
        [ -d "$old" ] || continue
        ! is_pointed_to "${old##*/}" || continue
        # Who builds a tree, or looks after an instance that runs on it, holds a shared lock on it.
        flock --nonblock "$old" rm -rf "$old" || say "kept ${old##*/}: it is in use"
    done
}

is_pointed_to() {
    for link in "$cache"/*; do
        [ ! -L "$link" ] || [ "$(readlink "$link")" != "$1" ] || return 0
    done
    return 1
}
