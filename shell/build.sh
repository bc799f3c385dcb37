#!/bin/sh
# build.sh: compiles xdrive in the development profile and prints the program's path. Builds the local
# machine tree and image at the same time, once. Installs the packages for both first. Run by try.sh
# and test.sh; safe to interrupt and to run again.
set -eu

say() { printf '%s\n' "$*" >&2; }

# Prints the lines of standard input, each with the seconds since the start. On a terminal they
# replace the compiler's progress bar, which Cargo draws again.
timed() {
  clear=
  [ ! -t 2 ] || clear=$(printf '\r\033[K')
  while read -r line; do
    printf '%s%5d s  %s\n' "$clear" "$(($(date +%s) - began))" "$line" >&2
  done
}

main() {
  top=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
  target=${CARGO_TARGET_DIR:-$top/target}
  began=$(date +%s)
  "$top/shell/setup.sh" packages
  if [ ! -e "$target/debug/xdrive" ]; then
    say 'compiling xdrive; beside it the local machine tree and image are built: the first time'
    say 'some twelve minutes on two cores'
  fi
  mkdir -p "$target"
  log=$target/trees.log
  : >"$log"
  # Goes on if this script is interrupted: the next run waits for it instead of beginning again.
  "$top/shell/setup.sh" trees </dev/null >"$log" 2>&1 &
  trees=$!
  tail -n +1 -f --pid="$trees" "$log" | timed &
  printer=$!
  trap 'kill "$printer" 2>/dev/null' EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
  # The benchmark has Cargo use the features of the development dependencies. Without it, the
  # tests would compile most crates a second time.
  (cd "$top" && cargo build --locked --bin xdrive --bench life >&2)
  took=$(($(date +%s) - began))
  if wait "$trees"; then status=0; else status=$?; fi
  wait "$printer" || :
  trap - EXIT
  [ "$status" = 0 ] || exit "$status"
  [ "$took" -lt 5 ] || say "ready in $(($(date +%s) - began)) s, $took s of them for the compiler"
  printf '%s\n' "$target/debug/xdrive"
}

main "$@"
