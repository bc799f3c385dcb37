#!/bin/sh
# nfs.sh FOLDER: tries shell/host/share on NFS itself. Run as root, with an empty folder. Prints a line for
# each thing that is shown, and succeeds if all are.
#
# A kernel need not have an NFS client. User Mode Linux has one, and is a process: here it mounts what
# nfs-ganesha exports. Both are in namespaces of their own: no one else sees their network, two runs do not
# meet, and nothing is left at the end, however that comes. Needs the packages user-mode-linux, nfs-ganesha,
# nfs-ganesha-vfs, nfs-common, busybox-static, kmod, procps, iproute2 and util-linux.
set -u
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

SERVER=10.9.9.1
MACHINE=10.9.9.2
NOBODY=192.0.2.1 # what is sent there is dropped, as by a security group

# The caller's process. The first process of a process namespace takes all others with it, and dies with this
# one. They all hold the lock.
outside() {
    for program in linux.uml ganesha.nfsd mount.nfs4 busybox modprobe pkill ip; do
        command -v "$program" > /dev/null && continue
        echo "not there: $program" >&2
        exit 1
    done
    exec 9> "$FOLDER/lock"
    flock 9
    trap 'exit 143' INT TERM HUP
    trap 'end $?' EXIT
    setpriv --pdeathsig KILL timeout -s KILL 120 setpriv --pdeathsig KILL \
        unshare --net --mount --pid --fork --kill-child --mount-proc \
        sh "$SCRIPT" "$FOLDER" inside < /dev/null &
    inside=$!
    exec 9>&-
    wait "$inside"
}

end() {
    kill -KILL "$inside" 2> /dev/null
    flock -w 10 "$FOLDER/lock" true || echo "processes are left" >&2
    exit "$1"
}

# The server's side, which has the machine's console.
inside() {
    mkdir "$FOLDER/export" "$FOLDER/recovery" "$FOLDER/memory" "$FOLDER/uml"
    serve
    # The machine's memory is a file that is run from, and /dev/shm may be small, or noexec.
    mount -t tmpfs tmpfs "$FOLDER/memory"
    mkfifo "$FOLDER/answers"
    exec 3<> "$FOLDER/answers"
    # Its root is this machine's, by hostfs, and stays read-only. What is behind -- is for its first process.
    TMPDIR="$FOLDER/memory" linux.uml mem=256M root=/dev/root rootfstype=hostfs ro quiet \
        eth0=tuntap,tap0 con=null con0=fd:0,fd:1 uml_dir="$FOLDER/uml" umid=machine \
        init=/bin/sh -- "$SCRIPT" / machine <&3 2> "$FOLDER/uml.log" | attend
}

serve() {
    ip tuntap add tap0 mode tap
    ip address add "$SERVER/24" dev tap0
    ip link set tap0 up
    cat > "$FOLDER/ganesha.conf" << CONF
NFS_CORE_PARAM { Protocols = 4; Bind_addr = $SERVER; Enable_NLM = false; Enable_RQUOTA = false; }
NFS_KRB5 { Active_krb5 = false; CCacheDir = "$FOLDER/recovery"; }
NFSV4 { Minor_Versions = 0, 1; Graceless = true; RecoveryBackend = fs; RecoveryRoot = "$FOLDER/recovery"; }
EXPORT { Export_Id = 1; Path = "$FOLDER/export"; Pseudo = /; Protocols = 4; Transports = TCP;
    Access_Type = RW; Squash = No_Root_Squash; SecType = sys; FSAL { Name = VFS; } }
CONF
    ganesha.nfsd -F -f "$FOLDER/ganesha.conf" -p "$FOLDER/ganesha.pid" -L "$FOLDER/ganesha.log" &
    GANESHA=$!
}

# attend: does what the console asks for, and succeeds if all was shown. The console ends with the machine.
attend() {
    result=1
    # A console's lines end with a carriage return, too.
    while IFS="$(printf '\r')" read -r line; do
        printf '%s\n' "$line" >> "$FOLDER/console"
        case "$line" in
            "shown: "*) echo "$line" ;;
            "not shown: "*) echo "$line" >&2 ;;
            "ask: write "*) answer eval "echo 'of the server' > '$FOLDER/export/${line##* }'" ;;
            "ask: read "*) answer grep -qx "of the machine" "$FOLDER/export/${line##* }" ;;
            "ask: stop") answer kill -STOP "$GANESHA" ;;
            "all was shown") result=0 ;;
        esac
    done
    [ "$result" = 0 ] || tail -n 20 "$FOLDER/ganesha.log" "$FOLDER/uml.log" "$FOLDER/console" >&2
    [ "$result" = 0 ] && echo "shown: the machine powers off, with the server still stopped"
}

answer() { if "$@"; then echo yes; else echo no; fi >&3; }

# ask WHAT: of the server's side.
ask() {
    echo "ask: $*"
    read -r reply < /dev/console && [ "$reply" = yes ]
}

# show WHAT COMMAND…: that it succeeds. In a process of its own, which `fail` ends.
show() {
    what="$1"
    shift
    ("$@") && echo "shown: $what" && return
    echo "not shown: $what"
    exit 1
}

# The machine's first process.
machine() {
    trap 'busybox poweroff -f' EXIT
    mount -t proc proc /proc
    mount -t tmpfs tmpfs /run
    ip address add "$MACHINE/24" dev eth0
    ip link set eth0 up
    ip route add default via "$SERVER"
    mkdir -p /run/uml/lib /run/xdrive /run/bound
    ln -s /usr/lib/uml/modules /run/uml/lib/modules
    show "a kernel with NFS starts" modprobe -d /run/uml nfsv4
    # shellcheck disable=SC1091 # as it is on a host
    . "${SCRIPT%/*}/../../shell/host/prelude"
    # shellcheck disable=SC1091
    . "${SCRIPT%/*}/../../shell/host/share"
    DATA=$SHARES/data
    mounts
    silence
    nobody
    echo "all was shown"
}

# shellcheck disable=SC2034 # inputs of shell/host/share
mounts() {
    MOUNTS=nfs:rw:data:/data/data
    XDRIVE_TARGETS="data=$SERVER"
    show "mount_shares mounts" mount_shares
    line="$(grep " $DATA " /proc/mounts)"
    show "once" mount_shares
    show "as this: $line" [ "$line" = "$(grep nfs4 /proc/mounts)" ]
    for option in rw nodev vers=4.1 rsize=1048576 wsize=1048576 hard timeo=600 retrans=2 noresvport; do
        case "${line% 0 0}," in *[\ ,]"$option",*) ;; *) show "the option $option" false ;; esac
    done
    echo "of the machine" > "$DATA/ours"
    show "the server has what the machine writes" ask read ours
    ask write theirs
    show "the machine has what the server has" grep -qx "of the server" "$DATA/theirs"
    mount --bind "$DATA" /run/bound
    mount -o remount,bind,ro /run/bound
    show "a read-only bind has it, too" grep -qx "of the server" /run/bound/theirs
    said="$(touch /run/bound/new 2>&1)"
    show "and refuses a write: $said" [ "${said##*: }" = "Read-only file system" ]
    show "which the share itself takes" touch "$DATA/new"
    umount /run/bound
}

# A process with data in the cache that the server has not taken ends by no signal, before its requests are
# given up.
silence() {
    # As a container has it: bound elsewhere, in a mount namespace of its own.
    mount --bind "$DATA" /run/bound
    unshare --mount --propagation private sh -c 'while echo >> /run/count; do
        dd if=/dev/zero of=/run/bound/loop bs=4096 count=1 oflag=direct 2> /dev/null
    done' &
    loop=$!
    unshare --mount --propagation private sh -c 'exec 4> /run/bound/cached
        until [ -e /run/stopped ]; do sleep 0.1; done
        exec dd if=/dev/zero bs=65536 count=400 >&4 2> /dev/null' &
    cached=$!
    show "a loop writes" until_within 10 [ -s "$DATA/loop" ]
    show "and another program has a file open" until_within 10 [ -e "$DATA/cached" ]
    umount /run/bound
    show "the server is stopped meanwhile" ask stop
    touch /run/stopped
    sleep 1
    count="$(wc -l < /run/count)"
    sleep 2
    show "the loop hangs, at write $count" [ "$count" = "$(wc -l < /run/count)" ]
    show "and a second mount_shares does not" mount_shares
    began="$(now_ms)"
    settle_shares 3 > /run/said
    took=$(($(now_ms) - began))
    show "settle_shares takes less than 5 s: $took ms" [ "$took" -lt 5000 ]
    show "says that the share is silent" [ "$(cat /run/said)" = "xdrive: silent=data" ]
    kill -KILL "$loop" "$cached"
    pkill -KILL '^dd$'
    until_within 5 are_none '^dd$'
    show "SIGKILL ends who waits for it, also with unwritten data" are_none '^dd$'
    began="$(now_ms)"
    release_shares
    took=$(($(now_ms) - began))
    show "release_shares takes less than 4 s: $took ms" [ "$took" -lt 4000 ]
    show "and leaves no mount" [ -z "$(mounted_shares)" ]
}

are_none() { ! pgrep "$1" > /dev/null; }

# shellcheck disable=SC2034 # the input and the constant of shell/host/share
nobody() {
    XDRIVE_TARGETS="none=$NOBODY"
    MOUNTING=5
    began="$(now_ms)"
    said="$(mount_share none 2>&1)"
    show "where nobody answers, mount_share fails: $said" [ $? = "$FAILED" ]
    show "in its time: $(($(now_ms) - began)) ms" [ $(($(now_ms) - began)) -lt 10000 ]
    show "by its message" [ "${said#"the share none cannot be mounted from $NOBODY: "}" != "$said" ]
    show "and leaves no folder" [ ! -e "$SHARES/none" ]
}

FOLDER="$(cd "${1?a folder}" && pwd)" || exit 64
SCRIPT="$(cd "$(dirname "$0")" && pwd)/${0##*/}"
case "${2-}" in
    inside) inside ;;
    machine) machine ;;
    *) outside ;;
esac
