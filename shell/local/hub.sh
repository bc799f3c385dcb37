#!/bin/sh
# Build what the tests of the hub's recipe have in place of its Dockerfile's base, as a root file system: no
# container registry takes part. The versions are the recipe's own, but for Caddy, which is Debian's.
#
# usage: hub.sh                (as root; prints the archive's path on stdout, progress on stderr)
#
# The archive goes to $cache/hub-HASH.tar. HASH covers this script, and what the recipe pins. Killed at any
# moment it leaves no half archive behind.
#
# It needs: debootstrap, debian-archive-keyring, util-linux (unshare, flock), npm.
set -eu

release=trixie
packages='python3,python3-venv,git,ca-certificates,nodejs,caddy'

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
cache=${XDRIVE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/xdrive}/local
recipe=$here/../recipes/hub

. "$here/build.sh"
builder=hub

# By the index and the certificates that this machine has.
install_python() {
    cat /etc/resolv.conf >"$root/etc/resolv.conf"
    cat /etc/ssl/certs/ca-certificates.crt >"$root/etc/ssl/certs/ca-certificates.crt"
    cp "$recipe/requirements.txt" "$root/tmp/"
    chroot "$root" python3 -m venv /opt/hub
    chroot "$root" env PIP_CERT=/etc/ssl/certs/ca-certificates.crt PIP_FIND_LINKS= \
        /opt/hub/bin/pip install --quiet --no-cache-dir -r /tmp/requirements.txt
}

# Of the version that the Dockerfile installs.
install_proxy() {
    proxy=$(grep -o 'configurable-http-proxy@[0-9.]*' "$recipe/Dockerfile")
    mkdir "$half/proxy"
    (cd "$half/proxy" && npm install --silent "$proxy")
    cp -R "$half/proxy/node_modules" "$root/usr/local/lib/node_modules"
    ln -s ../lib/node_modules/configurable-http-proxy/bin/configurable-http-proxy "$root/usr/local/bin/"
    ln -s /usr/bin/caddy "$root/usr/local/bin/caddy"
}

pack() {
    rm -rf "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/* "$root"/var/log/* "$root"/tmp/* \
        "$root"/usr/share/doc/* "$root"/usr/share/man/* "$root"/usr/share/locale/*
    tar --directory "$root" --numeric-owner --sort=name --exclude='./proc/*' --exclude='./sys/*' \
        --exclude='./dev/*' --create --file "$half/image.tar" .
}

build() {
    half=$1 root=$1/root
    log=$cache/hub.log
    : >"$log"
    mkdir -p "$root" "$cache/downloads/debs-$release"
    exec 8>"$cache/downloads/lock"
    flock 8
    doing='unpack the base system'
    say "$release base system"
    # shellcheck disable=SC2046  # no mirror is no argument
    logged debootstrap --variant=minbase --include="$packages" \
        --cache-dir="$cache/downloads/debs-$release" "$release" "$root" $(mirror)
    flock -u 8
    doing='install the Python packages'
    say "JupyterHub"
    logged install_python
    doing='install the proxy'
    logged install_proxy
    doing='pack the archive'
    say "archive"
    logged pack
}

main() {
    hash=$(cat "$here/hub.sh" "$recipe/requirements.txt" "$recipe/Dockerfile" | sha256sum | cut -c1-17)
    image=$cache/hub-$hash.tar
    ready() { [ -f "$image" ]; }
    ready || {
        tools debootstrap unshare flock npm
        one_at_a_time
    }
    ready || {
        build_in_namespace "$image.half"
        mv "$image.half/image.tar" "$image"
        rm -rf "$image.half"
        say "built in $(($(date +%s) - started)) s: $(du -sh "$image" | cut -f1)"
        for old in "$cache"/hub-*.tar; do
            [ "$old" = "$image" ] || rm -f "$old"
        done
    }
    printf '%s\n' "$image"
}

if [ "${1:-}" = --build ]; then build "$2"; else main; fi
