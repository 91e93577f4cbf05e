#!/bin/sh
# Drives `podman kube play`:  podman.sh usable|start|stop|leave MANIFEST
# Everything podman keeps lies under WARDLET_BENCH_PODMAN. Without a network, so that the host's links and
# packet filters stay as they are; with runc, because Debian's crun refuses hybrid cgroups.
set -eu
home=${WARDLET_BENCH_PODMAN:-/var/tmp/wardlet-bench-podman}
image=localhost/wardlet-bench:1
export CONTAINERS_CONF="$home/containers.conf"
PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"

podman_here() {
    podman --root "$home/root" --runroot "$home/run" --tmpdir "$home/tmp" --cgroup-manager cgroupfs \
        --events-backend none --runtime "$(command -v runc)" "$@"
}

# "auto" takes its IDs from the entries of the user containers; where there are none, it cannot isolate.
user_namespace() {
    if grep -qs '^containers:' /etc/subuid; then echo auto; else echo host; fi
}

# Deepest first, so that each is empty when its turn comes.
cgroups() {
    find /sys/fs/cgroup -depth -type d -path '*/libpod_parent*'
}

case "$1" in
    usable)
        command -v podman >/dev/null || { echo "podman is not installed (Debian package podman)" >&2; exit 1; }
        command -v runc >/dev/null || { echo "runc is not installed (Debian package runc)" >&2; exit 1; }
        mkdir -p "$home/fs/bin"
        { cgroups; echo; } >"$home/cgroups"
        # Raising a hard limit needs CAP_SYS_RESOURCE, which not every root has.
        printf '[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]\n' >"$CONTAINERS_CONF"
        cp /bin/busybox "$home/fs/bin/busybox"
        tar -C "$home/fs" -c . | podman_here import --quiet - "$image" >/dev/null
        echo "podman kube play without a network, user namespace: $(user_namespace)"
        ;;
    start) podman_here kube play --quiet --network none --userns "$(user_namespace)" "$2" >/dev/null ;;
    stop) podman_here kube down "$2" >/dev/null ;;
    leave)
        [ -e "$home" ] || exit 0
        podman_here system reset --force >/dev/null 2>&1 || true
        # podman leaves its monitors' cgroups behind: those that were not there before us.
        cgroups | grep -vxFf "$home/cgroups" | while read -r ours; do rmdir "$ours" || true; done
        # Never through a mount: what is still mounted stays, and is said.
        if grep -q " $home/" /proc/self/mountinfo; then
            echo "something is still mounted below $home" >&2
            exit 1
        fi
        rm -rf "$home"
        ;;
    *) echo "usage: $0 usable|start|stop|leave MANIFEST" >&2; exit 2 ;;
esac
