#!/bin/sh
# Builds the peers' programs that `make bench` drives:  testbed/peers/build.sh DIR
# A peer whose program is newer than its source is left alone.
set -eu
out=${1:?usage: $0 DIR}
mkdir -p "$out"
out=$(cd "$out" && pwd)
cd "$(dirname "$0")"

command -v go >/dev/null || { echo "error: the peers are Go programs and there is no go on PATH" >&2; exit 1; }
for peer in userns-manager selinux-cache atomic-writer; do
    if [ -x "$out/$peer" ] && [ -z "$(find "$peer" -newer "$out/$peer" -type f)" ]; then
        continue
    fi
    echo "building $peer" >&2
    (cd "$peer" && GOTOOLCHAIN=local go build -mod=readonly -buildvcs=false -trimpath -o "$out/$peer" .)
done
