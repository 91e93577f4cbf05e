#!/bin/sh
# Makes the image of the stories: busybox, and the three programs in tools.
#   examples/stories/image.sh FILE
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
for tool in attach hello-fuse tunnel; do
    cc -Os -static -s -o "$work/$tool" "$here/tools/$tool.c"
done
"$here/../../scripts/busybox-image.sh" localhost/wardlet-stories:1 "$1" "$work"/*
