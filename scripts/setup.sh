#!/bin/sh
# Installs the Debian packages that are needed. Does nothing if all are there.
#   scripts/setup.sh run    what `make build`, `make run` and the examples need
#   scripts/setup.sh        what the tests need
set -eu

# Each package with a program by which it is known to be there.
needs='busybox-static:busybox util-linux:unshare pkg-config:pkg-config iproute2:ip'
if [ "${1:-}" != run ]; then
    needs="$needs runc:runc strace:strace uidmap:getsubids
        e2fsprogs:mkfs.ext4 xfsprogs:mkfs.xfs btrfs-progs:mkfs.btrfs squashfs-tools:mksquashfs erofs-utils:mkfs.erofs
        chromium:chromium chromium-driver:chromedriver"
fi

# Administrators' programs count also where the caller's PATH leaves them out.
PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"

static_busybox() {
    [ -x /bin/busybox ] && ! head -c 4096 /bin/busybox | grep -qa '/ld-'
}

missing=
for need in $needs; do
    package=${need%%:*}
    program=${need#*:}
    case $package in
        busybox-static) static_busybox && continue ;;
        *) command -v "$program" >/dev/null && continue ;;
    esac
    missing="$missing $package"
done

# Libraries have no program to be known by.
[ -e /usr/include/seccomp.h ] || missing="$missing libseccomp-dev"
[ "${1:-}" = run ] || [ -x /usr/lib/cni/bridge ] || missing="$missing containernetworking-plugins"

if [ -z "$missing" ]; then
    exit 0
fi

if ! command -v apt-get >/dev/null; then
    echo "error: these Debian packages are missing and there is no apt-get to install them:$missing" >&2
    echo >&2
    echo "hint: install what corresponds to them with this system's own package manager" >&2
    exit 1
fi

if [ "$(id -u)" -ne 0 ]; then
    echo "error: these packages are missing and only root can install them:$missing" >&2
    echo >&2
    echo "hint: sudo $0 $*" >&2
    exit 1
fi

echo "installing:$missing" >&2
export DEBIAN_FRONTEND=noninteractive
apt-get -q update >&2
# shellcheck disable=SC2086 # the list is meant to be split into words
apt-get -q install -y --no-install-recommends $missing >&2
