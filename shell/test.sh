#!/bin/sh
# test.sh [FILTER…]: installs what is missing and runs all tests, those that need root included.
# FILTER… goes to the test programs, as with `cargo test`.
set -eu

main() {
  top=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
  if [ "$(id -u)" -ne 0 ]; then
    echo 'error: the tests make namespaces, mounts and loop devices, which needs root' >&2
    echo >&2
    echo 'hint: sudo --preserve-env=PATH,HOME shell/test.sh' >&2
    exit 77
  fi
  XDRIVE_TEST_PYTHON=$("$top/shell/setup.sh" test)
  export XDRIVE_TEST_PYTHON
  cd "$top"
  cargo test --locked --quiet -- --include-ignored "$@"
}

main "$@"
