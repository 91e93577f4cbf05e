#!/bin/sh
# `make run`: the example pod on the built-in runtime, in its own block of host IDs, and the proof of it.
#   scripts/run.sh DIRECTORY-OF-OUR-PROGRAMS
set -eu
cd "$(dirname "$0")/.."
bin=$(cd "$1" && pwd)
if [ "$(id -u)" -ne 0 ]; then
    echo "error: pods are started by root" >&2
    echo >&2
    echo "hint: sudo make run" >&2
    exit 2
fi

# A network of its own: the host's links and packet filters stay as they are.
if [ -z "${WARDLET_RUN_INSIDE:-}" ]; then
    WARDLET_RUN_INSIDE=1 exec unshare --net "$0" "$bin"
fi

ip link set lo up

# Short, for the sake of sockets; all of it is gone in the end.
home=$(mktemp -d /var/tmp/wardlet-run.XXXXXX)
chmod 711 "$home"
wardlet() { "$bin/wardlet" --state-dir "$home/state" "$@"; }
leave() {
    [ -z "${pod:-}" ] || { kill "$pod" 2>/dev/null && wait "$pod" || true; }
    # Never through a mount: what is still mounted stays, and is said.
    if grep -q " $home/" /proc/self/mountinfo; then
        echo "error: something is still mounted below $home" >&2
        exit 1
    fi
    rm -rf "$home"
}
trap leave EXIT
trap 'exit 130' INT TERM

scripts/busybox-image.sh localhost/wardlet-busybox:1 "$home/busybox.tar"
wardlet image import "$home/busybox.tar" >/dev/null

# The program itself and not a shell around it: the signal in the end is for it.
"$bin/wardlet" --state-dir "$home/state" run --run-dir "$home/run" examples/first-pod.yaml >"$home/said" 2>"$home/words" &
pod=$!
for _ in $(seq 600); do
    grep -q scratch: "$home/said" && grep -q 'HOST IDS' "$home/words" && break
    kill -0 "$pod" 2>/dev/null || { cat "$home/words" >&2; exit 1; }
    sleep 0.1
done
grep -v '^runtime: ' "$home/words" || true
echo
cat "$home/said"
echo
wardlet verify first
