#!/bin/sh
# Usage: tools/deps.sh build|test
# Makes sure that the packages glim is built from (and, with `test`, checked with) are installed. On Debian and Ubuntu it
# installs what is missing, after asking unless run by root or with YES=1. Elsewhere it says what to install.
set -eu

packages="gcc libc6-dev cmake ninja-build pkg-config libjansson-dev libssl-dev libxxhash-dev libcurl4-openssl-dev libedit-dev libevent-dev libsqlite3-dev libjs-marked node-dompurify python3 python3-pip"
commands="cc cmake pkg-config python3"
libraries="jansson libcrypto libssl libxxhash libcurl libedit libevent_core libevent_openssl sqlite3"
case "${1:-}" in
build) ;;
test)
    packages="$packages libcmocka-dev clang python3-jsonschema python3-numpy python3-pytest"
    commands="$commands clang"
    libraries="$libraries cmocka"
    ;;
*)
    echo "usage: tools/deps.sh build|test" >&2
    exit 2
    ;;
esac

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    lacking=""
    for c in $commands; do command -v "$c" >/dev/null || lacking="$lacking $c"; done
    for l in $libraries; do pkg-config --exists "$l" 2>/dev/null || lacking="$lacking $l"; done
    pkg-config --exists libllhttp 2>/dev/null || [ -f /usr/share/llhttp/llhttp.c ] || lacking="$lacking llhttp"
    [ -z "$lacking" ] && exit 0
    echo "deps.sh: cannot install packages: this system: have no apt-get, need Debian or Ubuntu, or these by hand:$lacking" >&2
    echo "deps.sh: on Debian the packages are: $packages libllhttp-dev (Debian 12: node-llhttp)" >&2
    exit 1
fi

installed() {
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# The sanitizer and fuzzer runtimes of clang are a package of their own, named after clang's version.
clang_runtime() {
    version=$(clang --version 2>/dev/null | sed -n 's/.*version \([0-9]*\).*/\1/p' | head -n 1)
    [ -n "$version" ] || version=$(apt-cache depends clang 2>/dev/null | sed -n 's/.*Depends: clang-\([0-9]*\)$/\1/p' | head -n 1)
    if [ -z "$version" ]; then
        return
    elif installed "libclang-rt-$version-dev" || apt-cache show "libclang-rt-$version-dev" >/dev/null 2>&1; then
        echo "libclang-rt-$version-dev"
    else
        echo "libclang-common-$version-dev" # where they were before clang 14
    fi
}

# llhttp: a library of its own in Debian 13 and Ubuntu 24.04, C source in the package node-llhttp before.
llhttp() {
    if installed libllhttp-dev || { ! installed node-llhttp && apt-cache show libllhttp-dev >/dev/null 2>&1; }; then
        echo libllhttp-dev
    else
        echo node-llhttp
    fi
}

# The browser that tests of the page drive; Ubuntu has it as a snap only, and those tests are left out there.
browser() {
    ! apt-cache show chromium >/dev/null 2>&1 || echo chromium
}

missing=""
check() {
    for p in "$@"; do installed "$p" || missing="$missing $p"; done
}
# shellcheck disable=SC2046,SC2086
check $packages $(llhttp)
# shellcheck disable=SC2046
[ "$1" = build ] || check $(clang_runtime) $(browser)
[ -z "$missing" ] && exit 0

root=""
if [ "$(id -u)" != 0 ]; then
    root=sudo
    if ! command -v sudo >/dev/null; then
        echo "deps.sh: cannot install packages: this user: have no sudo, need root to run: apt-get install$missing" >&2
        exit 1
    fi
    if [ "${YES:-}" != 1 ]; then
        printf 'glim needs these packages:%s\nInstall them now with sudo apt-get? [y/N] ' "$missing"
        read -r answer || answer=n
        case "$answer" in
        y | Y | yes) ;;
        *)
            echo "deps.sh: not installed; to do it by hand: sudo apt-get install$missing" >&2
            exit 1
            ;;
        esac
    fi
fi
echo "deps.sh: installing$missing"
$root apt-get update -qq
# A fresh machine knows clang's version, and how llhttp comes, only now.
missing=""
# shellcheck disable=SC2046,SC2086
check $packages $(llhttp) $([ "$1" = build ] || { clang_runtime; browser; })
# shellcheck disable=SC2086
$root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing
