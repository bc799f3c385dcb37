#!/bin/sh
# test.sh [--long] [FILTER…]: installs what is missing and runs all tests, those that need root
# included. With --long the sweeps (tests/sweep) take every point, else a bounded number of them; the
# model is searched deeper; a release is made and lived from, and made again (XDRIVE_RELEASE=FOLDER
# takes one that shell/release.sh has made); the tree of a newer Debian is built, and a drive taken to
# its Docker and back. FILTER… goes to the test programs, as with `cargo test`.
#
# Signals that this process's parent ignored (SIGINT in the background of a script, SIGHUP below
# nohup) get their default back: xdrive leaves an ignored signal ignored, and the tests send it.
set -eu

main() {
  top=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
  if [ "$(id -u)" -ne 0 ]; then
    echo 'error: the tests make namespaces, mounts and loop devices, which needs root' >&2
    echo >&2
    echo 'hint: sudo --preserve-env=PATH,HOME shell/test.sh' >&2
    exit 77
  fi
  if [ "${1-}" = --long ]; then
    shift
    export XDRIVE_LONG=1
  fi
  "$top/shell/build.sh" >/dev/null
  XDRIVE_TEST_PYTHON=$("$top/shell/setup.sh" test)
  export XDRIVE_TEST_PYTHON
  cd "$top"
  # Most tests wait for machines that boot, sync and end: more tests than processors keep those
  # busy.
  RUST_TEST_THREADS=${RUST_TEST_THREADS:-$(($(nproc) * 2))}
  export RUST_TEST_THREADS
  env --default-signal=HUP,INT,QUIT,TERM cargo test --locked --quiet -- --include-ignored "$@"
}

main "$@"
