#!/bin/sh
# release.sh [--criu FILE] [--program FILE] [--archive] [FOLDER]: makes the files of a release for this
# kind of machine, in FOLDER (default: target/dist):
#
#   xdrive-VERSION-TARGET.tar.gz    the program, manual pages, completions, licences; criu for hosts
#   xdrive_VERSION-1_ARCH.deb       the same for Debian and Ubuntu (made on Linux only)
#   xdrive-VERSION-TARGET.cdx.json  the bill of materials (CycloneDX)
#   SHA256SUMS-TARGET               checksums of these
#
# The same commit, compiler and system make the same bytes, in any folder: times are the commit's,
# paths are replaced, versions are Cargo.lock's. It refuses a tree with changes.
#
# criu's archive is made by criu.sh, which needs Debian or Ubuntu: elsewhere --criu names it. It must be
# the bytes of criu.sum; only in a test may it be of later packages.
#
# For tests: --program takes FILE instead of compiling, also from a tree with changes; --archive makes
# the archive alone, without installing Cargo's tools.
#
# release.sh --check FILE: fails unless the program FILE runs with the C library of Amazon Linux 2023.
# release.sh --notes VERSION: prints what CHANGELOG.md says of VERSION; fails if it says nothing.
set -eu

CARGO_DEB=3.8.0
CARGO_CYCLONEDX=0.5.9
# The C library of Amazon Linux 2023, in which `tend --away` runs: the program runs with this version and
# later ones. It is built on Debian 12, of whose later one it needs nothing more.
GLIBC=2.34

say() { printf '%s\n' "$*" >&2; }

fail() {
  say "error: $1"
  [ -z "${2-}" ] || say "
hint: $2"
  exit 1
}

# tool NAME VERSION: installs Cargo's subcommand NAME of that version, once.
tool() {
  cargo install --quiet --locked --debug --root "$folder/tools" "cargo-$1@$2"
  PATH=$folder/tools/bin:$PATH
}

# Compiles the program, and sets $program. Replaces paths, which messages of panics and C's
# assertions contain.
compile() {
  home=${CARGO_HOME:-$HOME/.cargo}
  flags="$top=/xdrive $home=/cargo"
  RUSTFLAGS=${RUSTFLAGS-} CFLAGS=${CFLAGS-}
  for pair in $flags; do
    RUSTFLAGS="$RUSTFLAGS --remap-path-prefix=$pair"
    CFLAGS="$CFLAGS -ffile-prefix-map=$pair"
  done
  export RUSTFLAGS CFLAGS
  # Functions that have the same code are there once. Rust's linker on this target can do that.
  link=
  [ "$target" != x86_64-unknown-linux-gnu ] || link='-C link-arg=-Wl,--icf=all'
  # With a target, the flags are not used for build scripts.
  # shellcheck disable=SC2086 # a list of words
  cargo rustc --release --locked --target "$target" --bin xdrive -- $link >&2
  program=$folder/$target/release/xdrive
}

# Fails if the program needs a later C library than $GLIBC.
check_glibc() {
  symbols=$(objdump -T "$1")
  needs=$(printf '%s\n' "$symbols" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1)
  newest=$(printf '%s\n' "${needs#GLIBC_}" "$GLIBC" | sort -V | tail -n 1)
  # Such a need is not a symbol's, so the package's dependencies would not say it.
  abi=$(objdump -p "$1" | grep -o 'GLIBC_ABI_[A-Z_]*' | head -n 1)
  [ -z "$abi" ] || fail "the program needs $abi of glibc" 'link it without -z pack-relative-relocs'
  [ "$newest" = "$GLIBC" ] || fail "the program needs glibc ${needs#GLIBC_}, not $GLIBC" 'run this on Debian 12'
  say "needs glibc ${needs#GLIBC_}"
}

# notes VERSION: prints the section of VERSION in the changelog.
notes() {
  section=$(awk -v head="## [$1]" '
    /^## / { within = index($0, head) == 1; next }
    within && (NF || begun) { begun = 1; print }' "$top/CHANGELOG.md")
  [ -n "$section" ] || fail "CHANGELOG.md says nothing of $1" "rename what it calls Unreleased to $1"
  printf '%s\n' "$section"
}

# add_criu FOLDER: puts criu's archive there.
add_criu() {
  exact=--exact
  [ -z "$tested" ] || exact=
  # shellcheck disable=SC2086 # an option or none
  [ -n "$criu" ] || criu=$(shell/criu.sh $exact)
  cp "$criu" "$1/criu-x86_64.tar.gz"
  [ -z "$exact" ] || (cd "$1" && sha256 --check "$top/shell/criu.sum") >&2
}

# stage FOLDER: makes the files of the archive.
stage() {
  mkdir -p "$1/man" "$1/completions"
  install -m 755 "$program" "$1/xdrive"
  "$program" man --dir "$1/man"
  "$program" completions bash >"$1/completions/xdrive.bash"
  "$program" completions zsh >"$1/completions/_xdrive"
  "$program" completions fish >"$1/completions/xdrive.fish"
  cp README.md CHANGELOG.md LICENSE-APACHE LICENSE-MIT "$1"
  add_criu "$1"
  python3 shell/licences.py "$target" "$1/criu-x86_64.tar.gz" >"$1/LICENSES-THIRD-PARTY"
  chmod 644 "$1"/*.gz "$1"/*.md "$1"/LICENSE* "$1"/man/* "$1"/completions/*
}

# Makes the archive of the folder $name in $work. macOS's own tar lacks these options.
archive() {
  tar=$(command -v gtar || command -v tar)
  "$tar" --directory "$work" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 \
    --numeric-owner --create "$name" | gzip -9 -n >"$out/$name.tar.gz"
}

# Makes the package of the assets in Cargo.toml: puts them into a target folder, as Cargo would.
package() {
  release=$work/target/release
  mkdir -p "$release"
  cp -R "$work/$name/." "$release"
  gzip -9 -n "$release"/man/*
  CARGO_TARGET_DIR=$work/target cargo deb --quiet --locked --no-build --no-strip --output "$out"
}

# Makes the bill of materials. In a copy, because the tool writes into the folders of the crates.
bill() {
  mkdir "$work/copy"
  git archive HEAD | tar -x -C "$work/copy"
  (cd "$work/copy" && cargo cyclonedx --quiet --format json --spec-version 1.5 --target "$target" \
    --no-build-deps --override-filename bill)
  python3 shell/licences.py --bill "$work/$name/criu-x86_64.tar.gz" <"$work/copy/bill.json" >"$work/bill.json"
  # The copy's path is another one each time.
  sed "s,$work/copy,/xdrive,g" "$work/bill.json" >"$out/$name.cdx.json"
}

sums() {
  cd "$out"
  set -- "$name".*
  for package in "xdrive_$version"-*.deb; do
    [ ! -e "$package" ] || set -- "$@" "$package"
  done
  sha256 "$@" >"SHA256SUMS-$target"
}

# macOS has another program for them.
sha256() {
  if command -v sha256sum >/dev/null; then sha256sum "$@"; else shasum -a 256 "$@"; fi
}

# Prints the whole path of the file $1.
path() { printf '%s/%s\n' "$(CDPATH='' cd -- "$(dirname -- "$1")" && pwd)" "${1##*/}"; }

main() {
  top=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
  program='' only='' criu=''
  while :; do
    case ${1-} in
      --program)
        program=$(path "$2")
        shift 2
        ;;
      --criu)
        criu=$(path "$2")
        shift 2
        ;;
      --archive)
        only=archive
        shift
        ;;
      --check)
        check_glibc "$2"
        exit
        ;;
      --notes)
        notes "$2"
        exit
        ;;
      *) break ;;
    esac
  done
  folder=${CARGO_TARGET_DIR:-$top/target}
  out=${1:-$folder/dist}
  mkdir -p "$out"
  out=$(CDPATH='' cd -- "$out" && pwd)
  cd "$top"
  target=$(rustc -vV | sed -n 's/^host: //p')
  version=$(cargo pkgid | sed 's/.*[@#]//')
  name=xdrive-$version-$target
  SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
  export SOURCE_DATE_EPOCH
  umask 022
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP

  tested=$program
  if [ -z "$program" ]; then
    [ -z "$(git status --porcelain)" ] || fail 'this tree has changes' 'git stash -u'
    compile
  fi
  stage "$work/$name"
  archive
  if [ -z "$only" ]; then
    tool cyclonedx "$CARGO_CYCLONEDX"
    bill
    case $target in
      *-linux-*)
        check_glibc "$program"
        tool deb "$CARGO_DEB"
        package
        ;;
    esac
  fi
  sums
  say "made in $out:"
  cat "$out/SHA256SUMS-$target"
}

main "$@"
