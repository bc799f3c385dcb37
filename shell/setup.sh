#!/bin/sh
# setup.sh [WHAT…]: installs and builds the needs of building and trying xdrive on Debian or Ubuntu:
#   packages   the packages only
#   trees      the local machine tree and the image of new drives, like `xdrive local setup`; and
#              criu's archive, without which all but freezing works
#   test       both, the tests' packages and a second tree; prints the tests' Python
#   hub        the base of the hub's image, for the tests of its recipe; with npm, if there is none
#   bench      packages, trees and the AWS CLI for tests/bench/aws.rs; prints its path
# Without WHAT: packages, then trees. Quiet if nothing is missing. Run by build.sh and test.sh; safe
# to interrupt and to run again.
set -eu

TRY='gcc libc6-dev ca-certificates debootstrap debian-archive-keyring iproute2 nftables util-linux
  mount e2fsprogs xfsprogs kmod procps xz-utils python3 python3-venv'
TEST='openssh-server openssh-client git rsync shellcheck curl tmux iptables docker-registry
  busybox-static'
# A kernel with NFS, and a server, for tests/suite/nfs.sh.
NFS='user-mode-linux nfs-ganesha nfs-ganesha-vfs nfs-common'
# The AWS CLI, for tests/suite/session/along.rs and tests/bench/by-hand.sh.
CLI='awscli==1.46.3'
# boto3 is the independent client in tests/suite/boto.rs, moto the independent EC2 in
# tests/suite/moto/ (its server needs flask).
# distributed is an engine that computes on several machines (tests/suite/session/workers/wide.rs).
# kubernetes-validate knows what a cluster accepts (tests/suite/session/shares.rs).
PYTHON="boto3==1.44.5 moto[ec2]==5.2.1 flask==3.1.3 flask-cors==6.0.5 kubernetes-validate==1.37.0
  distributed==2026.8.0 $CLI"

say() { printf '%s\n' "$*" >&2; }

as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    say 'error: this needs root, and there is no sudo'
    say ''
    say 'hint: run it as root'
    exit 77
  fi
}

missing_packages() {
  for package in "$@"; do
    case $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) in
      installed) ;;
      *) printf '%s ' "$package" ;;
    esac
  done
}

# User Mode Linux is for x86 alone. What serves NFS stays off after the next boot, too.
nfs() {
  [ "$(dpkg --print-architecture)" = amd64 ] || return 0
  # shellcheck disable=SC2086 # a list of words
  [ -n "$(missing_packages $NFS)" ] || return 0
  # shellcheck disable=SC2086
  install_packages $NFS
  as_root systemctl disable nfs-ganesha.service rpcbind.service rpcbind.socket >/dev/null 2>&1 || :
}

# Installs the missing ones of these packages. Services stay off: xdrive needs programs only, and a
# machine should not begin to answer SSH because tests ran on it.
install_packages() {
  missing=$(missing_packages "$@")
  [ -n "$missing" ] || return 0
  say "installing $missing"
  policy=/usr/sbin/policy-rc.d
  if [ ! -e "$policy" ]; then
    as_root sh -c "printf '#!/bin/sh\nexit 101\n' >$policy && chmod 755 $policy"
    trap 'as_root rm -f /usr/sbin/policy-rc.d' EXIT
    trap 'exit 130' INT TERM HUP
  fi
  as_root apt-get update -qq
  # shellcheck disable=SC2086 # a list of words
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    $missing </dev/null >&2
  as_root rm -f "$policy"
  trap - EXIT INT TERM HUP
}

# python_with FOLDER PACKAGES: prints the path of a Python with these packages, made once for them.
python_with() {
  python=$1-$(printf %s "$2" | cksum | cut -d ' ' -f 1)
  if [ ! -e "$python/ready" ]; then
    say "installing $2"
    as_root rm -rf "$python"
    as_root python3 -m venv "$python"
    # shellcheck disable=SC2086 # each is a word of its own
    as_root "$python/bin/pip" install -q --disable-pip-version-check $2 >&2
    as_root touch "$python/ready"
  fi
  printf '%s\n' "$python"
}

# Builds both at once: one compresses while the other downloads.
trees() {
  as_root env XDRIVE_CACHE="$cache" "$top/shell/local/jupyter.sh" >&2 &
  image=$!
  as_root env XDRIVE_CACHE="$cache" "$top/shell/local/machine.sh" >&2 || machine=$?
  criu || say 'goes on without criu'
  wait "$image" || machine=$?
  return "${machine-0}"
}

criu() { as_root env XDRIVE_CACHE="$cache" "$top/shell/criu.sh" >&2; }

main() {
  top=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
  if ! command -v apt-get >/dev/null; then
    say 'error: this installs packages with apt-get, and there is none here'
    say ''
    say 'hint: use Debian or Ubuntu'
    exit 69
  fi
  cache=${XDRIVE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/xdrive}
  [ $# -gt 0 ] || set -- packages trees
  # shellcheck disable=SC2086 # lists of words
  for what in "$@"; do
    case $what in
      packages) install_packages $TRY ;;
      trees) trees ;;
      hub)
        install_packages $TRY
        # Whoever has another one keeps it.
        command -v npm >/dev/null || install_packages npm
        as_root env XDRIVE_CACHE="$cache" "$top/shell/local/hub.sh" >&2
        ;;
      test | bench)
        nfs
        install_packages $TRY $TEST
        trees
        ;;
    esac
    case $what in
      test)
        criu
        as_root env XDRIVE_CACHE="$cache" "$top/shell/local/second.sh" >&2
        printf '%s\n' "$(python_with "$cache/test/python" "$PYTHON")/bin/python"
        ;;
      bench) printf '%s\n' "$(python_with "$cache/bench/aws" "$CLI")/bin/aws" ;;
    esac
  done
}

main "$@"
