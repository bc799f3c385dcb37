#!/bin/sh
# try.sh [ARGUMENT…]: from a fresh Debian or Ubuntu machine with Rust to a drive: installs what is
# missing, compiles xdrive while the local machine and image are built, and runs
# `xdrive --local connect demo ARGUMENT…`. For example: shell/try.sh -- python3 -c 'print(1)'
set -eu

main() {
  top=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
  xdrive=$("$top/shell/build.sh")
  if [ "$(id -u)" -eq 0 ]; then
    exec "$xdrive" --local connect demo "$@"
  fi
  # Root's own HOME would be another set of drives, keys and images.
  exec sudo --preserve-env=XDG_CACHE_HOME,XDG_DATA_HOME,XDG_CONFIG_HOME,XDRIVE_CACHE,XDRIVE_LOCAL_DIR,TERM \
    HOME="$HOME" "$xdrive" --local connect demo "$@"
}

main "$@"
