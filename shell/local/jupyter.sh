#!/bin/sh
# Build the image that local drives start with: JupyterLab on Debian, as an archive for `docker load`.
#
# usage: jupyter.sh            (as root; prints the archive's path on stdout, progress on stderr)
#
# The archive goes to $cache/jupyter-HASH.tar, and $cache/jupyter.tar points to it. HASH covers this
# script and the list of Python packages. No container registry and no Docker takes part: the
# system comes from debootstrap, the Python packages from the index that this machine's pip uses.
# Killed at any moment it leaves no half archive behind and keeps what it downloaded.
#
# It needs: debootstrap, debian-archive-keyring, util-linux (unshare, flock), Python with pip or
# with venv (Debian's python3-venv).
set -eu

release=bookworm
python=3.11
packages='python3,ca-certificates,procps,less'

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
cache=${XDRIVE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/xdrive}/local
arch=$(dpkg --print-architecture 2>/dev/null || uname -m)

. "$here/build.sh"
builder=jupyter

# pip of this machine, or of an environment made for it.
pip() {
    if python3 -m pip --version >/dev/null 2>&1; then
        python3 -m pip "$@"
    else
        [ -x "$cache/downloads/pip/bin/pip" ] || {
            rm -rf "$cache/downloads/pip"
            python3 -m venv "$cache/downloads/pip"
        }
        "$cache/downloads/pip/bin/pip" "$@"
    fi
}

# pip with what makes it choose packages for the image instead of for this machine.
pip_for_image() {
    case $arch in
    amd64) processor=x86_64 ;;
    arm64) processor=aarch64 ;;
    *) fail "there are no packages for $arch" ;;
    esac
    command=$1
    shift
    pip "$command" --quiet --no-deps --require-hashes --only-binary=:all: --implementation cp \
        --python-version "$python" --platform "manylinux2014_$processor" \
        --platform "manylinux_2_28_$processor" --requirement "$here/jupyter-requirements.txt" "$@"
}

# Installs them where Debian's Python looks for what its administrator added: /usr/local.
install_wheels() {
    site=$root/usr/local/lib/python$python/dist-packages
    pip_for_image install --no-index --find-links "$cache/downloads/wheels" --no-compile --target "$site"
    # With --target, pip puts everything below that one folder, and this machine's Python into
    # the programs' first lines.
    for folder in bin share etc; do
        [ -d "$site/$folder" ] || continue
        cp -R "$site/$folder" "$root/usr/local/"
        rm -rf "${site:?}/$folder"
    done
    sed -i '1s,^#!.*python.*,#!/usr/bin/python3,' "$root"/usr/local/bin/*
    # Other languages' dates and the types of a web framework: a fifth of the whole.
    find "$site/babel/locale-data" -type f ! -name 'root.dat' ! -name 'en*.dat' -delete
    rm -rf "$site/jedi/third_party/django-stubs"
    find "$site" -type d -name tests -prune -exec rm -rf {} +
    # Compiled, a container starts quicker and writes nothing into its own layer for it.
    chroot "$root" python3 -m compileall -q -x '/(pip|pydevd|third_party)/' \
        "/usr/local/lib/python$python/dist-packages"
}

# Leaves out what a container has no use for.
trim() {
    rm -rf "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/* "$root"/var/log/* "$root"/tmp/* \
        "$root"/usr/share/doc/* "$root"/usr/share/man/* "$root"/usr/share/info/* \
        "$root"/usr/share/locale/* "$root"/usr/share/lintian "$root"/usr/share/bug
    # The image has one Python and one user: `pip install` may add to it.
    rm -f "$root/usr/lib/python$python/EXTERNALLY-MANAGED"
    ln -s python3 "$root/usr/bin/python"
    : >"$root/etc/machine-id"
    # Jupyter's terminals and a plain `docker run -it` start here.
    printf 'PS1="\\w# "\nalias ls="ls --color=auto"\n' >"$root/root/.bashrc"
}

# Packs the tree as Docker's image archive (Docker image specification v1.2: manifest.json, a
# configuration named by its digest, one layer).
pack() {
    layer=$half/layer.tar
    tar --directory "$root" --numeric-owner --sort=name --mtime=@0 \
        --exclude='./proc/*' --exclude='./sys/*' --exclude='./dev/*' --create --file "$layer" .
    digest=$(sha256sum "$layer" | cut -d' ' -f1)
    cat >"$half/config.json" <<END
{"architecture": "$arch", "os": "linux", "created": "1970-01-01T00:00:00Z",
 "config": {"Cmd": ["/bin/bash"], "WorkingDir": "/root", "Env": [
   "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
   "LANG=C.UTF-8", "SHELL=/bin/bash", "PIP_ROOT_USER_ACTION=ignore"]},
 "rootfs": {"type": "layers", "diff_ids": ["sha256:$digest"]},
 "history": [{"created": "1970-01-01T00:00:00Z", "created_by": "shell/local/jupyter.sh"}]}
END
    config=$(sha256sum "$half/config.json" | cut -d' ' -f1)
    mv "$half/config.json" "$half/$config.json"
    printf '[{"Config": "%s.json", "RepoTags": ["xdrive/jupyter:%s"], "Layers": ["layer.tar"]}]\n' \
        "$config" "$hash" >"$half/manifest.json"
    tar --directory "$half" --numeric-owner --mtime=@0 --create --file "$half/image.tar" \
        manifest.json "$config.json" layer.tar
}

build() {
    half=$1 hash=$2 root=$1/root
    log=$cache/jupyter.log
    : >"$log"
    mkdir -p "$root" "$cache/downloads/debs" "$cache/downloads/wheels"
    # debootstrap's cache is read and written by one at a time.
    exec 8>"$cache/downloads/lock"
    flock 8

    doing='fetch the Python packages'
    say "Python packages"
    logged pip_for_image download --dest "$cache/downloads/wheels"

    doing='unpack the base system'
    say "$release base system with Python $python"
    # shellcheck disable=SC2046  # no mirror is no argument
    logged debootstrap --variant=minbase --include="$packages" \
        --cache-dir="$cache/downloads/debs" "$release" "$root" $(mirror)
    flock -u 8

    doing='install the Python packages'
    say "JupyterLab"
    logged install_wheels
    doing='pack the image'
    say "image archive"
    logged trim
    logged pack
    rm -rf "$root"
}

fingerprint() {
    { printf '%s\n' "$arch" && cat "$here/jupyter.sh" "$here/jupyter-requirements.txt"; } |
        sha256sum | cut -c1-17
}

main() {
    hash=$(fingerprint)
    image=$cache/jupyter-$hash.tar
    ready() { [ -f "$image" ]; }
    ready || {
        tools debootstrap unshare flock python3
        one_at_a_time
    }
    ready || {
        half=$image.half
        build_in_namespace "$half" "$hash"
        mv "$half/image.tar" "$image"
        rm -rf "$half"
        say "built in $(($(date +%s) - started)) s: $(du -sh "$image" | cut -f1)"
    }
    point jupyter.tar "${image##*/}" || {
        for old in "$cache"/jupyter-*.tar; do
            [ "$old" = "$image" ] || rm -f "$old"
        done
    }
    printf '%s\n' "$image"
}

if [ "${1:-}" = --build ]; then
    build "$2" "$3"
else
    main
fi
