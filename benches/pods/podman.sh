#!/bin/sh
# Drives `podman kube play`:  podman.sh usable|start|stop|leave MANIFEST
# Everything podman keeps lies under WARDLET_BENCH_PODMAN. It has mounts and a network of its own, kept by a process
# that does nothing, so that the host's links, packet filters, subordinate IDs and runtime directory stay as they
# are; with runc, because Debian's crun refuses hybrid cgroups.
set -eu
home=${WARDLET_BENCH_PODMAN:-/var/tmp/wardlet-bench-podman}
image=localhost/wardlet-bench:1
export CONTAINERS_CONF="$home/containers.conf"
PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"

podman_here() {
    nsenter --net --mount --target "$(cat "$home/keeper")" \
        podman --root "$home/root" --runroot "$home/run" --tmpdir "$home/tmp" --network-config-dir "$home/networks" \
        --cgroup-manager cgroupfs --events-backend none --runtime "$(command -v runc)" "$@"
}

# Its "auto" takes IDs from the entries of the user containers.
keep() {
    echo "containers:2147483648:16777216" >"$home/subid"
    mkdir -p "$home/host-run"
    # Shared among its own, so that what is unmounted once is unmounted for containers, too.
    unshare --net --mount sh -c '
        mount --make-rprivate / && mount --make-rshared / && ip link set lo up &&
        mount --bind "$0/subid" /etc/subuid && mount --bind "$0/subid" /etc/subgid &&
        mount --bind "$0/host-run" /run && touch "$0/kept" && exec sleep infinity' "$home" >/dev/null 2>&1 &
    echo $! >"$home/keeper"
    for _ in $(seq 100); do
        [ ! -e "$home/kept" ] || return 0
        sleep 0.05
    done
    echo "podman's mounts and network cannot be made" >&2
    exit 1
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
        keep
        { cgroups; echo; } >"$home/cgroups"
        # Raising a hard limit needs CAP_SYS_RESOURCE, which not every root has.
        printf '[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]\n[network]\nnetwork_backend = "netavark"\n' \
            >"$CONTAINERS_CONF"
        cp /bin/busybox "$home/fs/bin/busybox"
        tar -C "$home/fs" -c . | podman_here import --quiet - "$image" >/dev/null
        echo "podman kube play with its bridge and user namespaces of its own choice (auto)"
        ;;
    start) podman_here kube play --quiet --userns auto "$2" >/dev/null ;;
    stop) podman_here kube down "$2" >/dev/null ;;
    leave)
        [ -e "$home" ] || exit 0
        podman_here system reset --force >/dev/null 2>&1 || true
        # Its mounts and its network go with the one who keeps them.
        kill "$(cat "$home/keeper")" 2>/dev/null || true
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
