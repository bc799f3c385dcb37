#!/bin/sh
# Build the tree that local instances run on: Debian with systemd, cloud-init, sshd and Docker.
#
# usage: machine.sh [RELEASE]  (as root; prints the tree's path on stdout, progress on stderr)
#
# The tree goes to $cache/machine-HASH, and $cache/machine points to it. With RELEASE, Debian's, such as
# trixie, it is of that one, and $cache/RELEASE points to it: tests take a drive to a newer Docker. HASH
# covers this script, what it reads and everything below tree/, so that a change of these builds a new
# one and nothing else does.
# Killed at any moment it leaves no half tree behind and keeps what it downloaded; the next run
# goes on from there. It never touches a tree that an instance is running on.
#
# It needs: debootstrap, debian-archive-keyring, util-linux (unshare, flock).
set -eu

packages='systemd systemd-sysv cloud-init openssh-server docker.io iptables iproute2 iputils-ping
    ca-certificates curl e2fsprogs util-linux procps psmisc kmod sudo tmux less gzip
    python3-minimal libpython3-stdlib bindfs'

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
cache=${XDRIVE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/xdrive}/local
arch=$(dpkg --print-architecture 2>/dev/null || uname -m)

. "$here/build.sh"
builder=machine

# What the tree is made of, as 17 hex digits: enough for an image id.
fingerprint() {
    {
        printf '%s\n' "$arch" "$release"
        cat "$here/machine.sh" "$here/build.sh" "$here/masked-units"
        cd "$here/tree" && find . -type f | LC_ALL=C sort | while read -r file; do
            # Of its mode only what git keeps: the rest is this checkout's umask.
            if [ -x "$file" ]; then echo "$file runs"; else echo "$file"; fi
            cat "$file"
        done
    } | sha256sum | cut -c1-17
}

build() {
    tree=$1 release=$2
    log=$cache/machine.log
    : >"$log"
    mkdir -p "$cache/downloads/debs" "$tree"
    # While this is held no cleanup removes the tree.
    exec 6<"$tree"
    flock --shared 6
    # Of its own since trixie.
    [ "$release" = bookworm ] || packages="$packages docker-cli"
    # The downloaded packages are read and written by one at a time.
    exec 8>"$cache/downloads/lock"
    flock 8

    doing='unpack the base system'
    say "$release base system"
    # shellcheck disable=SC2046  # no mirror is no argument
    logged debootstrap --variant=minbase --cache-dir="$cache/downloads/debs" "$release" "$tree" $(mirror)

    doing='install the packages'
    say "packages: systemd, cloud-init, sshd, Docker"
    printf 'Acquire::Retries "3";\nAPT::Install-Recommends "false";\nAPT::Keep-Downloaded-Packages "true";\n' \
        >"$tree/etc/apt/apt.conf.d/90local"
    # Nobody needs a half tree after a power cut: no fsync for each file.
    echo force-unsafe-io >"$tree/etc/dpkg/dpkg.cfg.d/90local"
    printf 'path-exclude=/usr/share/%s/*\n' doc man locale info lintian >>"$tree/etc/dpkg/dpkg.cfg.d/90local"
    # shellcheck disable=SC2086  # a list
    install_in_tree $packages
    flock -u 8

    doing='set the tree up'
    say "set-up"
    logged settle "$tree"
}

# Makes the installed system an instance's: quick to start, and nothing in it that must be each
# instance's own.
settle() {
    tree=$1
    rm -f "$tree/usr/sbin/policy-rc.d" "$tree"/etc/ssh/ssh_host_*
    rm -rf "$tree"/var/lib/apt/lists/* "$tree"/usr/share/doc/* "$tree"/usr/share/man/* "$tree"/usr/share/locale/*
    tar --directory "$here/tree" --owner=0 --group=0 --mode=u=rwX,go=rX --create . |
        tar --directory "$tree" --same-permissions --no-overwrite-dir --extract
    chmod 440 "$tree"/etc/sudoers.d/*

    # Debian's default user on EC2.
    chroot "$tree" useradd --create-home --shell /bin/bash --user-group admin
    chroot "$tree" passwd --lock root
    chroot "$tree" passwd --lock admin

    chroot "$tree" systemctl set-default multi-user.target
    # Docker's data root is decided at the first login: it must not start before.
    chroot "$tree" systemctl disable docker.service docker.socket containerd.service
    # What has no hardware, no network or no purpose here only delays the login.
    # shellcheck disable=SC2046  # a list
    chroot "$tree" systemctl mask $(sed 's/#.*//' "$here/masked-units")
    # Since version 24.3 one process has all of cloud-init's stages, and waits for the start of each.
    [ ! -e "$tree/usr/lib/systemd/system/cloud-init-main.service" ] ||
        chroot "$tree" systemctl unmask cloud-init-local.service
    # Each is run at every `daemon-reload`. What is left is cloud-init's.
    mkdir -p "$tree/etc/systemd/system-generators"
    for generator in "$tree"/usr/lib/systemd/system-generators/systemd-*; do
        ln -s /dev/null "$tree/etc/systemd/system-generators/${generator##*/}"
    done
    # Where there is such a script, `systemctl disable` runs two programs, and each reloads.
    rm -f "$tree"/etc/init.d/docker "$tree"/etc/rc?.d/*docker
    : >"$tree/etc/machine-id"
    : >"$tree/etc/fstab"
    rm -f "$tree/var/lib/dbus/machine-id"
}

main() {
    release=${1:-bookworm} link=${1:-machine}
    tree=$cache/machine-$(fingerprint)
    [ -d "$tree" ] || {
        tools debootstrap unshare flock
        one_at_a_time
    }
    [ -d "$tree" ] || {
        build_in_namespace "$tree.half" "$release"
        mv -T "$tree.half" "$tree"
        say "built in $(($(date +%s) - started)) s: $(du -sh "$tree" | cut -f1)"
    }
    point "$link" "${tree##*/}" || prune
    printf '%s\n' "$tree"
}

if [ "${1:-}" = --build ]; then build "$2" "$3"; else main "$@"; fi
