# shellcheck shell=sh
# Boots an instance, in two stages. It is passed to `sh -c`; the supervisor reads stdout.
#
# usage: enter INSTANCE-FOLDER NAMESPACE "CGROUP-FOLDER=MOUNT-OPTIONS …" CONSOLE ROOT-DISK
#   joins the instance's cgroups and network, makes its other namespaces, and goes on in them
#
# usage: inside INSTANCE-FOLDER "CGROUP-FOLDER=MOUNT-OPTIONS …" CONSOLE ROOT-DISK
#   is process 1 of the new namespaces: mounts the root file system, moves into it, starts systemd
#
# On stdout: `pid N`, the number of the instance's process 1 on the host; then `up`, when systemd
# is about to start. INSTANCE-FOLDER holds upper, root, and root.img or lower and work. CONSOLE is a
# terminal, ROOT-DISK the name that a root disk has in the instance.
# Where the host has one cgroup v2 hierarchy, the list has one entry with the options `v2`.
set -eu

enter() {
    folder=$1 namespace=$2 cgroups=$3 console=$4 disk=$5
    for cgroup in $cgroups; do
        echo $$ >"${cgroup%%=*}/cgroup.procs"
    done
    exec nsenter --net="/run/netns/$namespace" \
        unshare --mount --propagation private --uts --ipc --cgroup --pid --fork --kill-child=KILL \
        sh -c "$script" boot inside "$folder" "$cgroups" "$console" "$disk"
}

# Copies of one image's disk have one UUID. What is the instance's own comes onto it at its first boot.
mount_disk() {
    mount -t xfs -o loop,nouuid,noatime root.img root
    [ -d upper ] || return 0
    cp -a upper/. root/
    rm -r upper
}

mount_overlay() {
    # A rebooting instance leaves it to mark that writes may be lost; here none are.
    rm -rf work/work/incompat
    # volatile: an instance's root disk is thrown away with it, so nothing waits for it to be written.
    mount -t overlay -o lowerdir=lower,upperdir=upper,workdir=work,volatile overlay root || {
        echo "the file system of $1 cannot hold an overlay (ext4, XFS, btrfs and tmpfs can)" >&2
        exit 1
    }
}

# A cgroup hierarchy mounts as the instance's own below its cgroup namespace's root.
mount_cgroups() {
    case $1 in
    *=v2)
        mount -t cgroup2 -o nosuid,nodev,noexec cgroup2 root/sys/fs/cgroup
        return
        ;;
    esac
    mount -t tmpfs -o nosuid,nodev,noexec,mode=755,size=64k cgroup root/sys/fs/cgroup
    for cgroup in $1; do
        options=${cgroup#*=} hierarchy=${cgroup%%=*}
        # Hybrid hosts have a v2 hierarchy without controllers too; v1 is complete without it.
        [ "$options" != v2-unified ] || continue
        hierarchy=${hierarchy%/*} hierarchy=root/sys/fs/cgroup/${hierarchy##*/}
        mkdir "$hierarchy"
        mount -t cgroup -o "nosuid,nodev,noexec,$options" cgroup "$hierarchy"
    done
}

mount_devices() {
    mount -t tmpfs -o nosuid,mode=755,size=1m dev root/dev
    for node in null:1:3 zero:1:5 full:1:7 random:1:8 urandom:1:9 tty:5:0; do
        name=${node%%:*} number=${node#*:}
        mknod -m 666 "root/dev/$name" c "${number%:*}" "${number#*:}"
    done
    [ ! -c /dev/fuse ] || mknod -m 666 root/dev/fuse c 10 229
    if [ -c /dev/net/tun ]; then
        mkdir root/dev/net
        mknod -m 666 root/dev/net/tun c 10 200
    fi
    if [ -e root.img ]; then
        number=$(mountpoint -d root)
        mknod -m 660 "root/dev/$2" b "${number%:*}" "${number#*:}"
    fi
    mkdir -p root/dev/pts root/dev/shm root/dev/mqueue root/dev/disk/by-id
    mount -t devpts -o nosuid,noexec,newinstance,mode=620,ptmxmode=666 devpts root/dev/pts
    mount -t tmpfs -o nosuid,nodev,mode=1777 shm root/dev/shm
    mount -t mqueue -o nosuid,nodev,noexec mqueue root/dev/mqueue
    ln -s pts/ptmx root/dev/ptmx
    ln -s /proc/self/fd root/dev/fd
    ln -s /proc/self/fd/0 root/dev/stdin
    ln -s /proc/self/fd/1 root/dev/stdout
    ln -s /proc/self/fd/2 root/dev/stderr
    : >root/dev/console
    mount --bind "$1" root/dev/console
}

# Makes what belongs to the host's kernel read-only: an instance may not set the host's sysctls
# (its network's are its own), press its SysRq keys or poke its devices through sysfs.
mount_kernel() {
    mount -t proc -o nosuid,nodev,noexec proc root/proc
    for path in sys sysrq-trigger irq bus; do
        [ -e "root/proc/$path" ] || continue
        mount --bind "root/proc/$path" "root/proc/$path"
        mount -o remount,bind,ro "root/proc/$path"
    done
    mount --bind root/proc/sys/net root/proc/sys/net
    mount -o remount,bind,rw root/proc/sys/net
    mount -t sysfs -o ro,nosuid,nodev,noexec sysfs root/sys
    mount_traces root/sys/kernel/tracing 2>/dev/null || :
    # The firmware names another machine than the one EC2's metadata describes.
    [ ! -d root/sys/devices/virtual/dmi/id ] ||
        mount -t tmpfs -o ro,size=4k dmi root/sys/devices/virtual/dmi/id
    mount_bus root/sys/bus/pci/devices
}

# Which blocks of its disk are read, the kernel alone knows: an instance may make traces of its own (hot.py), and
# change nothing else of the host's.
mount_traces() {
    mount -t tracefs -o nosuid,nodev,noexec tracefs "$1" &&
        mount --bind "$1/instances" "$1/instances" &&
        mount -o remount,bind,ro,nosuid,nodev,noexec "$1"
}

# The devices on the host's bus are not the instance's, which has those in its folder.
mount_bus() {
    if [ -d "$1" ]; then
        mount -t tmpfs -o nosuid,nodev,noexec,mode=755,size=256k pci "$1"
        cp -r pci/. "$1"
        mount -o remount,ro "$1"
    elif [ -n "$(ls pci)" ]; then
        echo "this computer's kernel has no PCI bus, on which a GPU could be stood in for" >&2
        exit 1
    fi
}

# The kernel settings that xdrive sets on a host would apply to all instances and this computer: a
# plain file in their place accepts the writes. (0 is the kernel's word for a limit in percent.)
mount_settings() {
    echo 0 >root/run/host/dirty_bytes
    mount --bind root/run/host/dirty_bytes root/proc/sys/vm/dirty_bytes
}

# The file systems of EFS, of which mount.nfs4 shows those that the instance reaches.
mount_shares() {
    mkdir -p ../../shares root/run/host/shares
    mount --bind ../../shares root/run/host/shares
}

inside() {
    cgroups=$2 console=$3 disk=$4
    # /proc is still the host's: the shell reads its own number there.
    read -r pid rest </proc/self/stat
    echo "pid $pid"
    : "$rest"
    cd "$1"
    if [ -e root.img ]; then mount_disk; else mount_overlay "$1"; fi
    mount_kernel
    mount_cgroups "$cgroups"
    mount_devices "$console" "$disk"
    mount -t tmpfs -o nosuid,nodev,mode=755 run root/run
    mount -t tmpfs -o nosuid,nodev,mode=1777 tmp root/tmp
    # systemd's container interface: systemd itself, and none of its children, sees a container.
    mkdir -p root/run/host root/run/lock
    mount_settings
    mount_shares
    echo xdrive >root/run/host/container-manager
    hostname "$(cat root/etc/hostname)"

    # Where the host has v1, systemd 256 and 257 take it only if it is asked for twice.
    legacy='systemd.unified_cgroup_hierarchy=0 SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1'
    case $cgroups in *=v2) legacy= ;; esac
    cd root
    pivot_root . mnt
    umount -l /mnt
    cd /
    echo up
    # The clock, the modules and the hardware are the host's too.
    # shellcheck disable=SC2086  # no argument if empty
    exec env -i PATH="$PATH" TERM=linux setpriv \
        --bounding-set=-sys_time,-sys_module,-sys_rawio,-syslog,-wake_alarm,-mac_admin,-mac_override \
        /sbin/init $legacy </dev/console >/dev/console 2>&1
}

export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
script=${script:-}
stage=$1
shift
"$stage" "$@"
