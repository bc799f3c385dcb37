#!/bin/sh
# try.sh [ARGUMENT…]: from a fresh Debian or Ubuntu machine with Rust to a drive: installs what is
# missing, builds xdrive, builds the local machine and image once, and runs
# `xdrive --local connect demo ARGUMENT…`. For example: shell/try.sh -- python3 -c 'print(1)'
set -eu

main() {
  top=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
  "$top/shell/setup.sh"
  (cd "$top" && cargo build --release --locked)
  xdrive=${CARGO_TARGET_DIR:-$top/target}/release/xdrive
  if [ "$(id -u)" -eq 0 ]; then
    exec "$xdrive" --local connect demo "$@"
  fi
  # Root's own HOME would be another set of drives, keys and images.
  exec sudo --preserve-env=XDG_CACHE_HOME,XDG_DATA_HOME,XDG_CONFIG_HOME,XDRIVE_CACHE,XDRIVE_LOCAL_DIR,TERM \
    HOME="$HOME" "$xdrive" --local connect demo "$@"
}

main "$@"
