#!/bin/sh
# A pod of two containers by wardlet-oci and runc, under strace, in a mount namespace of its own.
#   wrapper.sh DIRECTORY WARDLET-OCI CALLS
# DIRECTORY has config.yaml and the configurations sandbox.json and container.json; results are left in DIRECTORY/results.
set -eu
cd "$1"
oci=$2
calls=$3
export WARDLET_CONFIG="$1/config.yaml"

# Runs a command and keeps what it prints and its exit code.
step() {
    name=$1
    shift
    code=0
    "$@" >"results/$name.out" 2>"results/$name.err" </dev/null || code=$?
    echo "$name: $code" >>results/codes
}

mkdir -p results run root layer/bin layer/proc layer/sys layer/dev
mount -t tmpfs -o mode=755 tmpfs run
cp /bin/busybox layer/bin/busybox
ln -s busybox layer/bin/sleep
touch network
unshare --net="$1/network" true

for name in sandbox container; do
    mkdir -p "$name/rootfs" "$name/upper" "$name/work"
    mv "$name.json" "$name/config.json"
    mount -t overlay -o "lowerdir=$1/layer,upperdir=$1/$name/upper,workdir=$1/$name/work" overlay "$1/$name/rootfs"
    # The tracer is no parent of the program, so that what the runtime leaves does not keep this from going on.
    step "create $name" strace -D -ff -qq -y -s 4096 -e "$calls" -e signal=none -o "results/trace" \
        "$oci" --root "$1/root" create --bundle "$1/$name" --pid-file "$1/$name/pid" "compare-$name"
    step "state $name" "$oci" --root "$1/root" state "compare-$name"
    step "start $name" "$oci" --root "$1/root" start "compare-$name"
    if [ -s "$name/pid" ]; then
        pid=$(cat "$name/pid")
        step "users of $name" cat "/proc/$pid/uid_map"
        step "mounts of $name" cut -d' ' -f4- "/proc/$pid/mountinfo"
    fi
done
cp -a run results/run
[ ! -d state ] || cp -a state results/state
for name in container sandbox; do
    step "delete $name" "$oci" --root "$1/root" delete --force "compare-$name"
done
# Tracers end with the last process.
for _ in $(seq 100); do
    pgrep -f "strace -D .*$1/" >/dev/null || break
    sleep 0.1
done
