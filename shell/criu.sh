#!/bin/sh
# criu.sh [--exact]: makes the archive of criu for x86_64 machines, once, and prints its path, which is
# criu/criu-x86_64.tar.gz in xdrive's cache:
#
#   criu  setsid  the programs (setsid, since a container may have none)
#   ld.so  lib/   the loader and the libraries that they run with, whatever the machine has:
#                 ./ld.so --library-path lib --argv0 criu ./criu check
#   plugins/      empty, for --libdir: else criu loads the plugins that it finds in a container
#   licences/     each package's, the texts that these name, and SOURCES: where the source is
#
# All is from the Debian packages that criu.debs lists with their SHA-256, so the archive is the same
# bytes each time: those of criu.sum. Debian's mirrors have a package while it is current, and
# snapshot.debian.org has it ever after. If neither gives it, what is current in the same releases
# of Debian is taken, and said. With --exact, for a release of xdrive, that is an error.
#
# criu.sh --pin: writes criu.debs and criu.sum anew, with what is current.
#
# Two things are changed: ld.so reads no /etc/ld.so.preload, and criu no /run/criu.kdat, its notes of what
# the kernel can. In a container's mount namespace these files are the container's, and neither its code must
# run with the host's rights nor its notes be believed.
#
# It needs: apt, dpkg, debian-archive-keyring; no root. The machine may be of another architecture.
set -eu
# Packages have bytes and names of all kinds.
export LC_ALL=C

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
cache=${XDRIVE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/xdrive}/criu

. "$here/local/build.sh"
# shellcheck disable=SC2034  # of build.sh, as are $log and $doing
builder=criu
file=criu-x86_64.tar.gz

# Each package, its release of Debian, and what is taken of it. criu 4.1 is the first that starts on Linux
# 6.14 and later, and 4.2 the first that dumps TCP's sockets on 6.16 and later; trixie's is 4.1. Of
# base-files there are the texts of the licences.
contents() {
  cat <<END
criu            forky   usr/sbin/criu
libnet9         forky   libnet.so.9
libnl-3-200     forky   libnl-3.so.200
util-linux      trixie  usr/bin/setsid
libc6           trixie  ld-linux-x86-64.so.2 libc.so.6
libbsd0         trixie  libbsd.so.0
libffi8         trixie  libffi.so.8
libgmp10        trixie  libgmp.so.10
libgnutls30t64  trixie  libgnutls.so.30
libhogweed6t64  trixie  libhogweed.so.6
libidn2-0       trixie  libidn2.so.0
libjansson4     trixie  libjansson.so.4
libmd0          trixie  libmd.so.0
libmnl0         trixie  libmnl.so.0
libnettle8t64   trixie  libnettle.so.8
libnftables1    trixie  libnftables.so.1
libnftnl11      trixie  libnftnl.so.11
libp11-kit0     trixie  libp11-kit.so.0
libprotobuf-c1  trixie  libprotobuf-c.so.1
libtasn1-6      trixie  libtasn1.so.6
libunistring5   trixie  libunistring.so.5
libuuid1        trixie  libuuid.so.1
libxtables12    trixie  libxtables.so.12
base-files      trixie
END
}

fingerprint() {
  cat "$here/criu.sh" "$here/criu.debs" "$here/local/build.sh" | sha256sum | cut -c1-17
}

# debs: prints the checksum and the path on a mirror of each package in the list $1.
debs() { grep -v '^#' "$1"; }

# Fails unless the packages of the list $1 are there.
have() {
  debs "$1" | while read -r sum path; do
    echo "$sum  $cache/debs/${path##*/}"
  done | sha256sum --check --status 2>/dev/null
}

# download LIST BASE: fetches those packages of LIST that are not there. apt's own program knows how
# this machine reaches a mirror, and checks the sums.
download() {
  list=$1 from=$2
  set --
  # shellcheck disable=SC2013  # the words have no spaces
  for line in $(debs "$list" | tr -s ' ' =); do
    sum=${line%%=*} path=${line#*=}
    deb=$cache/debs/${path##*/}
    echo "$sum  $deb" | sha256sum --check --status 2>/dev/null || set -- "$@" "$from/$path" "$deb" "SHA256:$sum"
  done
  [ $# = 0 ] || /usr/lib/apt/apt-helper -o Acquire::http::Timeout=15 \
    download-file "$@" >>"$log" 2>&1
}

# Prints a list of the packages that are current in their releases, in the order of contents.
current() {
  mkdir -p "$cache/apt/lists/partial" "$cache/apt/archives/partial"
  : >"$cache/apt/status"
  contents | awk -v key=/usr/share/keyrings/debian-archive-keyring.gpg -v base="$base" \
    '!had[$2]++ { print "deb [arch=amd64 signed-by=" key "] " base, $2, "main" }' >"$cache/apt/sources.list"
  cat >"$cache/apt/conf" <<END
Dir::Etc::SourceList "$cache/apt/sources.list";
Dir::Etc::SourceParts "/dev/null";
Dir::State::Lists "$cache/apt/lists";
Dir::State::status "$cache/apt/status";
Dir::Cache "$cache/apt";
APT::Architecture "amd64";
APT::Architectures { "amd64"; };
Acquire::Languages "none";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
END
  doing="list Debian's packages"
  logged env APT_CONFIG="$cache/apt/conf" apt-get -q update
  echo "# Debian at $(date -u +%Y%m%dT000000Z), by criu.sh --pin: SHA-256, path on a mirror"
  # shellcheck disable=SC2046  # a list
  APT_CONFIG=$cache/apt/conf apt-cache show $(contents | awk '{ print $1 "/" $2 }') |
    awk '/^Filename: / { path = $2 } /^SHA256: / { sum = $2 } !NF { print sum, path }'
  rm -rf "$cache/apt"
}

# assemble LIST FOLDER: makes the archive of the packages of LIST in FOLDER.
assemble() {
  list=$1 half=$2 tree=$2/tree root=$2/root
  mkdir -p "$tree" "$root/lib" "$root/plugins" "$root/licences/texts"
  cat >"$root/licences/SOURCES" <<END
These programs and libraries are Debian's, from its releases trixie and forky, as the packages below
have them. In ld.so the path /etc/ld.so.preload is made empty, and in criu /run/criu.kdat; nothing else
is changed. criu is under version 2 of the GNU General Public License. The complete source of each package, with Debian's
changes, is at the address beside it. For at least three years after they last hand this file out,
those who publish xdrive also give the source to anyone who asks, on a medium that is usual for it,
for no more than that costs them: ask where xdrive's own source is published.

END
  contents | while read -r package _ files; do
    path=$(debs "$list" | sed -n "s,.* \(.*/${package}_.*\),\1,p")
    # shellcheck disable=SC2086  # a list
    take "$cache/debs/${path##*/}" "$package" $files
  done
  # The texts that are named, by these names.
  grep -oh -d skip 'common-licenses/[A-Za-z0-9.-]*[A-Za-z0-9]' "$root"/licences/* | sort -u |
    while IFS=/ read -r _ text; do
      cp "$tree/usr/share/common-licenses/$text" "$root/licences/texts/"
    done
  find "$root" -type f -exec chmod 644 {} +
  chmod 755 "$root/criu" "$root/setsid" "$root/ld.so"
  tar --directory "$root" --format=ustar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner \
    --create --file "$half/tar" criu ld.so lib licences plugins setsid
  gzip -9 -n <"$half/tar" >"$half/$file"
}

# take DEB PACKAGE FILE…: puts the files of the package into $root.
take() {
  deb=$1 package=$2
  shift 2
  dpkg-deb --extract "$deb" "$tree"
  for file; do
    case $file in
      ld-linux-*)
        sed 's,/etc/ld\.so\.preload,\x00etc/ld.so.preload,' "$tree/usr/lib/x86_64-linux-gnu/$file" >"$root/ld.so"
        ! cmp -s "$tree/usr/lib/x86_64-linux-gnu/$file" "$root/ld.so" || {
          echo "$file names no /etc/ld.so.preload"
          return 1
        }
        ;;
      */criu)
        sed 's,/run/criu\.kdat,\x00run/criu.kdat,' "$tree/$file" >"$root/criu"
        ! cmp -s "$tree/$file" "$root/criu" || {
          echo "$file names no /run/criu.kdat"
          return 1
        }
        ;;
      */*) cp "$tree/$file" "$root/" ;;
      *) cp -L "$tree/usr/lib/x86_64-linux-gnu/$file" "$root/lib/" ;;
    esac
  done
  [ $# != 0 ] || return 0
  cp "$tree/usr/share/doc/$package/copyright" "$root/licences/$package"
  # shellcheck disable=SC2016  # dpkg's variables
  dpkg-deb --show --showformat '${Package} ${Version} ${source:Package} ${source:Version}\n' "$deb" |
    while read -r name version source of; do
      of=$(printf %s "$of" | sed 's,+,%2B,g')
      printf '%-15s %-29s %s\n' "$name" "$version" "https://snapshot.debian.org/package/$source/$of/"
    done >>"$root/licences/SOURCES"
}

# Fails unless the programs of the folder $1 find all their libraries there. Known on x86_64 alone.
complete() {
  [ "$(uname -m)" = x86_64 ] || return 0
  for program in criu setsid; do
    "$1/ld.so" --library-path "$1/lib" --list "$1/$program" >"$1/../needs"
    ! grep -v -e "=> $1/" -e linux-vdso "$1/../needs" || return 1
  done
  "$1/ld.so" --library-path "$1/lib" --argv0 criu "$1/criu" --version
}

# Makes the archive of the list $1, once its packages are here, in the folder $2.
build() {
  doing='make the archive'
  say "$(debs "$1" | sed -n 's,.*/criu_\(.*\)_amd64.deb,criu \1,p') and its libraries"
  logged assemble "$1" "$2"
  # shellcheck disable=SC2034
  doing='find all libraries'
  logged complete "$2/root"
}

# Has the packages of criu.debs come, or those that are current, and sets $list.
packages() {
  list=$here/criu.debs
  at=$(sed -n 's,^# .* at \([0-9TZ]*\)\, .*,\1,p' "$list")
  have "$list" || say 'packages'
  for place in "$base" "http://snapshot.debian.org/archive/debian/$at"; do
    have "$list" || download "$list" "$place" || :
  done
  ! have "$list" || return 0
  [ -z "$exact" ] || fail 'packages of shell/criu.debs are neither on the mirror nor on snapshot.debian.org' \
    "if they are there no more: shell/criu.sh --pin; the output is in $log"
  say "Debian has other packages by now than shell/criu.debs names: takes those"
  list=$cache/current.debs
  current >"$list"
  download "$list" "$base" || :
  have "$list" || fail "could not download packages from $base" "the whole output is in $log; run this again to go on"
}

main() {
  exact='' pin=''
  case ${1-} in
    --exact) exact=1 ;;
    --pin) pin=1 ;;
  esac
  for tool in dpkg-deb apt-get flock; do
    command -v "$tool" >/dev/null || fail "$tool is missing" 'make it on Debian or Ubuntu'
  done
  [ -e /usr/share/keyrings/debian-archive-keyring.gpg ] ||
    fail "Debian's keys are missing" 'apt-get install debian-archive-keyring'
  one_at_a_time
  mkdir -p "$cache/debs"
  log=$cache/criu.log
  base=$(mirror)
  base=${base:-http://deb.debian.org/debian}
  [ -z "$pin" ] || {
    current >"$cache/pinned.debs"
    mv "$cache/pinned.debs" "$here/criu.debs"
  }
  archive=$cache/criu-$(fingerprint).tar.gz
  # Of other packages than the named ones it is good for everything but a release.
  [ -e "$archive" ] && [ -z "$exact$pin" ] || is_exact "$archive" || make
  [ -z "$pin" ] || sha256sum <"$archive" | sed "s, .*,  $file," >"$here/criu.sum"
  point "$file" "${archive##*/}" || find "$cache" -name 'criu-*.tar.gz' ! -name "$file" ! -path "$archive" -delete
  [ -z "$exact" ] || is_exact "$archive" ||
    fail "the archive has other bytes than shell/criu.sum says" 'make it on Debian'
  printf '%s\n' "$cache/$file"
}

make() {
  started=$(date +%s) half=$cache/half
  : >"$log"
  packages
  rm -rf "$half"
  build "$list" "$half"
  mv "$half/$file" "$archive"
  rm -rf "$half"
  say "made in $(($(date +%s) - started)) s: $(du -h "$archive" | cut -f1)"
}

# Whether the file $1 has the bytes that criu.sum says.
is_exact() {
  sum=$(cut -d ' ' -f 1 "$here/criu.sum")
  echo "$sum  $1" | sha256sum --check --status 2>/dev/null
}

main "$@"
