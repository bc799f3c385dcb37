#!/bin/sh
# Build the second tree, which tests run sessions on: made of the first one, but unlike it in whatever
# xdrive could take for granted on Debian. It is not Amazon Linux and is not called so; the ways in
# which it differs are those of the images that AWS publishes for ECS:
#
#   default user      ec2-user, whom cloud-init makes at the first boot; root is kept out
#   sshd              sshd.service, root for forced commands only, no folder of settings that it reads;
#                     nothing of System V's init
#   packages          dnf; no apt, no dpkg
#   shell             /bin/sh is bash; sudo looks for programs in other folders
#   Docker            starts at boot, has settings already, and an agent that starts it again
#   root              a disk with an XFS on it, instead of an overlay
#   ext4              made with features that other distributions' e2fsck refuses
#   SELinux           its tools (the kernel is this computer's)
#
# usage: second.sh             (as root; prints the folder's path on stdout, progress on stderr)
#
# The folder is $cache/machine-HASH, and $cache/second points to it: root.xfs, and what names the
# image. HASH covers the first tree, this script and everything below second/. Like the first it is
# built once, whole or not at all, and is never taken away from an instance that runs on it.
#
# It needs: what machine.sh needs, xfsprogs, util-linux (mount, unshare, flock, fstrim).
set -eu

packages='dnf selinux-utils'
without='apt tmux psmisc'

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
cache=${XDRIVE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/xdrive}/local

. "$here/build.sh"
builder=second

# What the tree is made of, as 17 hex digits: enough for an image id. Of the modes only what git keeps.
fingerprint() {
    {
        basename "$first"
        cat "$here/second.sh"
        tar --directory "$here/second" --sort=name --mtime=@0 --owner=0 --group=0 --mode=u=rwX,go=rX --create .
    } | sha256sum | cut -c1-17
}

build() {
    half=$1 first=$2 tree=$1/tree
    log=$cache/second.log
    : >"$log"
    mkdir -p "$tree" "$half/etc"
    # While these are held no cleanup removes the trees.
    exec 6<"$half" 7<"$first"
    flock --shared 6
    flock --shared 7

    doing='make the disk'
    say "XFS with the first tree on it"
    # As large as EC2 reports an image's root disk. What is deleted on it must not be copied.
    truncate -s 30G "$half/root.xfs"
    logged mkfs.xfs -q -L / "$half/root.xfs"
    # This process has a mount namespace of its own: what is mounted here ends with it.
    logged mount -o loop,discard,noatime "$half/root.xfs" "$tree"
    logged cp -a "$first/." "$tree"

    # The downloaded packages are read and written by one at a time.
    exec 8>"$cache/downloads/lock"
    flock 8
    doing='install the packages'
    say "packages: dnf, SELinux's tools"
    # shellcheck disable=SC2086  # a list
    install_in_tree $packages
    flock -u 8

    doing='set the tree up'
    say "set-up"
    logged settle "$tree"
    cp "$tree/etc/os-release" "$half/etc/"
    # It only takes less room: not every file system can give back the middle of a file.
    fstrim "$tree" 2>>"$log" || say "what was deleted still takes room"
    logged umount "$tree"
    rmdir "$tree"
}

settle() {
    tree=$1
    default_user
    sshd_service
    start_order
    less_of_docker
    no_apt
    overlay
    # Only now: whatever ran so far may have been written for the shell that was there.
    ln -sf bash "$tree/usr/bin/sh"
    rm -f "$tree/usr/bin/dash"
}

default_user() {
    chroot "$tree" userdel --remove admin
    rm "$tree/etc/sudoers.d/90-admin"
    chroot "$tree" groupadd --system wheel
    # Of several rules the last one holds: what cloud-init adds stands in the folder.
    sed -i -e 's,secure_path=.*,secure_path="/sbin:/bin:/usr/sbin:/usr/bin",' \
        -e 's,^@includedir,%wheel ALL=(ALL) ALL\n&,' "$tree/etc/sudoers"
}

# The same sshd by the name, and with the settings, that it has where it is not Debian's.
sshd_service() {
    chroot "$tree" systemctl disable ssh.service
    units=$tree/usr/lib/systemd/system
    sed -e '/^Alias=/d' -e 's,/etc/default/ssh,/etc/sysconfig/sshd,' -e "s,\\\$SSHD_OPTS,\$OPTIONS," \
        "$units/ssh.service" >"$units/sshd.service"
    rm -f "$units"/ssh.service "$units"/ssh.socket "$units"/ssh@.service "$tree/etc/default/ssh" \
        "$tree/etc/ssh/sshd_config.d/50-instance-connect.conf"
    chroot "$tree" systemctl enable sshd.service
    mkdir -p "$tree/opt/aws/bin"
    mv "$tree/usr/local/sbin/instance-connect-keys" "$tree/opt/aws/bin/eic_run_authorized_keys"
}

# Nothing of System V's. And Debian alone has cloud-init's last stage come after all services, of
# which the agent comes after that stage.
start_order() {
    rm -rf "$tree"/etc/init.d "$tree"/etc/rc?.d "$tree/usr/lib/systemd/systemd-sysv-install"
    sed -i '/^After=multi-user.target$/d' "$tree/usr/lib/systemd/system/cloud-final.service"
}

less_of_docker() {
    # Test programs of its makers', and shims for older ones: 70 MB that nothing here runs.
    rm -f "$tree"/usr/bin/dnet "$tree"/usr/bin/ovrouter "$tree"/usr/bin/ctr \
        "$tree"/usr/bin/containerd-shim "$tree"/usr/bin/containerd-shim-runc-v1
}

no_apt() {
    # shellcheck disable=SC2086  # a list
    chroot "$tree" dpkg --purge --force-all $without
    rm -rf "$tree"/usr/bin/dpkg* "$tree"/usr/bin/debconf* "$tree"/usr/sbin/dpkg* "$tree"/usr/sbin/policy-rc.d "$tree"/etc/apt \
        "$tree"/etc/dpkg "$tree"/var/lib/apt "$tree"/var/lib/dpkg "$tree"/var/cache/apt \
        "$tree"/var/cache/debconf "$tree"/usr/lib/apt "$tree"/usr/lib/dpkg
}

overlay() {
    tar --directory "$here/second" --owner=0 --group=0 --mode=u=rwX,go=rX --create . |
        tar --directory "$tree" --same-permissions --no-overwrite-dir --extract
    chroot "$tree" systemctl enable docker.service docker.socket containerd.service ecs.service
}

main() {
    first=$("$here/machine.sh")
    tree=$cache/machine-$(fingerprint)
    [ -d "$tree" ] || {
        tools mkfs.xfs unshare flock fstrim
        one_at_a_time
    }
    [ -d "$tree" ] || {
        build_in_namespace "$tree.half" "$first"
        mv -T "$tree.half" "$tree"
        say "built in $(($(date +%s) - started)) s: $(du -sh "$tree" | cut -f1)"
    }
    point second "${tree##*/}" || prune
    printf '%s\n' "$tree"
}

if [ "${1:-}" = --build ]; then build "$2" "$3"; else main; fi
