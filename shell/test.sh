#!/bin/sh
# test.sh [--all | --long] [FILTER…]: installs what is missing and runs tests, those that need root
# included. By default all that boot no machine, and for each promise and each feature those that show it
# on one; random choices have fixed seeds, which are printed. --all adds the modules called `wide`: variants
# of those, and the sweeps on machines (tests/sweep), with other seeds every time. --long is --all with
# every point of the sweeps, else a bounded number of them; the model is searched deeper; a release is made
# and lived from, and made again (XDRIVE_RELEASE=FOLDER takes one that shell/release.sh has made); the tree
# of a newer Debian is built, and a drive taken to its Docker and back. FILTER… goes to the test programs,
# as with `cargo test`: all that it names run, variants included.
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
  hub=
  case ${1-} in
    --all)
      shift
      hub=hub
      ;;
    --long)
      shift
      hub=hub
      export XDRIVE_LONG=1
      ;;
    *)
      # Of the sweeps, and of what proptest makes up.
      export XDRIVE_SWEEP_SEED="${XDRIVE_SWEEP_SEED:-1}" PROPTEST_RNG_SEED="${PROPTEST_RNG_SEED:-1}"
      echo "XDRIVE_SWEEP_SEED=$XDRIVE_SWEEP_SEED PROPTEST_RNG_SEED=$PROPTEST_RNG_SEED"
      # Who names a test means that one.
      [ "$#" -gt 0 ] || set -- --skip wide::
      ;;
  esac
  "$top/shell/build.sh" >/dev/null
  # shellcheck disable=SC2086 # a word, or none
  XDRIVE_TEST_PYTHON=$("$top/shell/setup.sh" $hub test)
  export XDRIVE_TEST_PYTHON
  cd "$top"
  # Most tests wait for machines that boot, sync and end: more tests than processors keep those
  # busy. With three for each they come to their limits of time, and no sooner to the end.
  RUST_TEST_THREADS=${RUST_TEST_THREADS:-$(($(nproc) * 2))}
  export RUST_TEST_THREADS
  # All programs run, so that one run shows everything that fails.
  env --default-signal=HUP,INT,QUIT,TERM \
    cargo test --workspace --locked --quiet --no-fail-fast -- --include-ignored "$@"
}

main "$@"
