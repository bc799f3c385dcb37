#!/bin/sh
# fuzz.sh [SECONDS [TARGET…]]: fuzzes the readers of what comes from elsewhere, each for SECONDS (an
# hour), as many side by side as there are processors. Without TARGET all of them:
#
#   ext4          file systems of drives that are asleep     src/asleep
#   sftp          answers of a host's file server            src/host/sftp
#   facts         output of a host's scripts, client lines   src/host, src/access
#   runs          records of runs                            src/host
#   tags          tags of the account's resources            src/drive
#   rules         .gitignore, beside the git of this computer  src/transfer/rules
#   devcontainer  devcontainer.json                          src/launch/image
#
# What each reads and promises is in the file `fuzzing.rs` of its room. Inputs that reach something new are
# kept in target/fuzz/TARGET/corpus for the next time. An input that breaks a promise, hangs or takes too
# much memory is target/fuzz/TARGET/crash-…, timeout-… or oom-…: it is named, and this script fails. One
# input again: fuzz.sh TARGET FILE… (those of ext4 change the file systems in target/fuzz/ext4/images, which
# are kept). What was found becomes a test of its room.
#
# The fuzzer is LLVM's libFuzzer, by a stable compiler. Needs a C++ compiler, git and e2fsprogs.
set -eu

ALL='ext4 sftp facts runs tags rules devcontainer'
# For one input, and in MiB: none takes a tenth of it.
TIMEOUT=20
MEMORY=2048
# Inputs longer than that say nothing that shorter ones do not.
LONGEST=4096

say() { printf '%s\n' "$*" >&2; }

# A workspace of xdrive's manifest and lock file with the fuzzer as one more member, in $work. Its
# dependencies are those of the tests, and compiled once for both; the lock file is always this one's.
workspace() {
  mkdir -p "$work"
  sed 's|^members = \[|&"tests/fuzz", |' "$top/Cargo.toml" >"$work/Cargo.toml"
  grep -q '"tests/fuzz"' "$work/Cargo.toml" || {
    say 'error: the members of the workspace are not those that are known here'
    exit 1
  }
  cp "$top/Cargo.lock" "$work/Cargo.lock"
  for part in shell src tests; do
    ln -sfn "$top/$part" "$work/$part"
  done
}

# Compiles the fuzzer, and prints its path.
build() {
  workspace
  export CARGO_TARGET_DIR="$target" CARGO_INCREMENTAL=0
  RUSTC_WORKSPACE_WRAPPER=$top/tests/fuzz/instrument
  export RUSTC_WORKSPACE_WRAPPER
  (cd "$work" && cargo build -p xdrive -p xdrive-fuzz --bench fuzz --message-format=json) |
    sed -n 's/.*"name":"fuzz".*"executable":"\([^"]*\)".*/\1/p'
}

# The file systems that inputs of `ext4` change. They are made once: an input names places in one of
# them, and means nothing without it.
images() {
  [ ! -e "$images" ] || return 0
  files=$folder/files
  rm -rf "$images.new" "$files"
  mkdir -p "$images.new" "$files"
  mkdir -p "$files/work/a/b" "$files/many" "$files/etc"
  nth=0
  while [ "$nth" -lt 60 ]; do
    : >"$files/many/$nth-$(printf 'z%.0s' $(seq 1 $((nth % 30 + 1))))"
    nth=$((nth + 1))
  done
  for length in 10 100 3000 40000; do
    head -c "$length" /dev/zero | tr '\0' '\7' >"$files/work/bytes-$length"
  done
  nth=0
  while [ "$nth" -lt 100 ]; do
    head -c 512 /dev/zero | tr '\0' '\7' |
      dd of="$files/work/comb" bs=4096 seek="$nth" conv=notrunc status=none
    nth=$((nth + 1))
  done
  ln -sfn a "$files/work/short"
  ln -sfn "$(printf 'long/%.0s' $(seq 1 40))" "$files/work/long"
  docker "$files"
  image 0 -t ext4 -O ^metadata_csum,^64bit,^has_journal
  image 1 -t ext4 -O ^metadata_csum,^has_journal,inline_data,meta_bg,^resize_inode
  image 2 -t ext2
  image 3 -t ext4 -O ^has_journal
  image 4 -t ext4 -O ^metadata_csum,^64bit
  head -c 20480 /dev/zero | tr '\0' '\11' >"$folder/data"
  {
    echo jo
    echo "jw -b 3000-3019 $folder/data"
    echo 'jw -r 3004-3005'
    echo jc
  } >"$folder/commands"
  debugfs -w -f "$folder/commands" "$images.new/4" >/dev/null 2>&1
  image 5 -t ext4 -O ^metadata_csum,^has_journal,^extent,^64bit
  mv "$images.new" "$images"
}

# What a container has on a drive, in the folder $1.
docker() {
  mkdir -p "$1/xdrive/containers/tools" "$1/docker/containers/c1" "$1/docker/overlay2/l" \
    "$1/docker/overlay2/own/diff/etc" "$1/docker/overlay2/low/diff/etc/b" \
    "$1/docker/image/overlay2/layerdb/mounts/c1" "$1/docker/volumes/v/_data"
  echo 1 >"$1/xdrive/format"
  echo busybox >"$1/xdrive/source"
  echo tools >"$1/xdrive/containers/tools/source"
  echo rw:a:/data >"$1/xdrive/mounts"
  cat >"$1/docker/containers/c1/config.v2.json" <<'END'
{"Name": "/xdrive-demo", "MountPoints": {"/v": {"Destination": "/v", "Name": "v", "Driver": "local",
"Type": "volume"}}}
END
  printf own >"$1/docker/image/overlay2/layerdb/mounts/c1/mount-id"
  printf l/LOW >"$1/docker/overlay2/own/lower"
  ln -sfn ../low/diff "$1/docker/overlay2/l/LOW"
  echo 1 >"$1/docker/overlay2/low/diff/etc/file"
}

# Makes the image $1, by what else mke2fs is told: 4 MiB, most of it nothing.
image() {
  path=$images.new/$1
  shift
  E2FSPROGS_FAKE_TIME=1000000000 MKE2FS_SKIP_PROGRESS=1 mke2fs -q -F -b 1024 -N 400 \
    -U 01234567-89ab-cdef-0123-456789abcdef \
    -E hash_seed=01234567-89ab-cdef-0123-456789abcdef,nodiscard \
    "$@" -d "$files" "$path" 4M >/dev/null
}

# Puts what real parts answer, as the tests have it, to the corpus of target $1.
seeds() {
  "$top/tests/fuzz/seeds.py" "$1" "$folder/corpus" "$images"
}

# Runs target $1 for $2 seconds; with files after that, only with those.
run() {
  name=$1 seconds=$2
  shift 2
  folder=$target/fuzz/$name images=$target/fuzz/ext4/images
  mkdir -p "$folder/corpus"
  [ "$name" != ext4 ] || images
  seeds "$name"
  longest=$LONGEST
  [ "$name" != runs ] || longest=1024
  # Git reads and answers below a folder in memory.
  scratch=$(mktemp -d "${XDRIVE_FUZZ_SCRATCH:-/dev/shm}/xdrive-fuzz.XXXXXX")
  set -- -artifact_prefix="$folder/" -timeout="$TIMEOUT" -rss_limit_mb="$MEMORY" \
    -max_len="$longest" -print_final_stats=1 "$@"
  if [ "$seconds" != 0 ]; then
    set -- -max_total_time="$seconds" -dict="$top/tests/fuzz/words/$name" "$@" "$folder/corpus"
  fi
  if env XDRIVE_FUZZ="$name" XDRIVE_FUZZ_IMAGES="$images" XDRIVE_FUZZ_GIT="$scratch" \
    "$program" "$@" >"$folder/log" 2>&1; then
    status=0
  else
    status=$?
  fi
  rm -rf "$scratch"
  sed -n -e 's/^stat::/  /p' -e '/cov:/h' -e '$ { g; s/^/  /p; }' "$folder/log" >"$folder/summary"
  if [ "$status" = 0 ]; then
    say "$name: nothing in $seconds s"
  else
    say "$name: $(sed -n 's/.*Test unit written to //p' "$folder/log")"
    say "  $(grep -m 1 -A 2 -e 'panicked at' -e '^==.*ERROR' "$folder/log" | tr '\n' ' ')"
  fi
  cat "$folder/summary" >&2
  return "$status"
}

main() {
  top=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
  target=${CARGO_TARGET_DIR:-$top/target}
  work=$target/fuzz/workspace
  case ${1-} in
  '' | [0-9]*) ;;
  *)
    name=$1
    shift
    program=$(build)
    run "$name" 0 "$@" || status=$?
    cat "$target/fuzz/$name/log"
    exit "${status-0}"
    ;;
  esac
  seconds=${1:-3600}
  [ "$#" = 0 ] || shift
  [ "$#" != 0 ] || eval "set -- $ALL"
  program=$(build)
  [ -n "$program" ] || exit 1
  failed=
  while [ "$#" != 0 ]; do
    running=
    for _ in $(seq 1 "$(nproc)"); do
      [ "$#" != 0 ] || break
      (run "$1" "$seconds") &
      running="$running $!"
      shift
    done
    for process in $running; do
      wait "$process" || failed=1
    done
  done
  [ -z "$failed" ] || exit 1
}

main "$@"
