#!/bin/sh
# Makes an image of Debian's static busybox without any registry: an archive for `wardlet image import`.
# Further programs, static ones, go beside busybox. BUSYBOX names another static busybox than /bin/busybox.
#   scripts/busybox-image.sh NAME FILE [PROGRAM…]
set -eu
name=$1
out=$2
shift 2
busybox=${BUSYBOX:-/bin/busybox}
if [ ! -x "$busybox" ] || head -c 4096 "$busybox" | grep -qa '/ld-'; then
    echo "error: $busybox is not there, or is not linked statically" >&2
    echo >&2
    echo "hint: scripts/setup.sh run (installs Debian's busybox-static), as root" >&2
    exit 1
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM

mkdir -p "$work/root/bin" "$work/root/etc" "$work/root/proc" "$work/root/sys" "$work/root/dev" "$work/root/root" "$work/root/tmp"
chmod 1777 "$work/root/tmp"
cp "$busybox" "$work/root/bin/busybox"
for applet in $("$busybox" --list); do
    [ "$applet" = busybox ] || ln -s busybox "$work/root/bin/$applet"
done
[ $# -eq 0 ] || cp "$@" "$work/root/bin/"
echo 'root:x:0:0:root:/root:/bin/sh' >"$work/root/etc/passwd"
echo 'root:x:0:' >"$work/root/etc/group"

tar -C "$work/root" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -cf "$work/layer.tar" .
diff=$(sha256sum "$work/layer.tar" | cut -d' ' -f1)
case $(uname -m) in
    aarch64) arch=arm64 ;;
    *) arch=amd64 ;;
esac
printf '{"architecture":"%s","os":"linux","config":{"Env":["PATH=/bin"],"Cmd":["sh"]},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' \
    "$arch" "$diff" >"$work/config.json"
printf '[{"Config":"config.json","RepoTags":["%s"],"Layers":["layer.tar"]}]' "$name" >"$work/manifest.json"
tar -C "$work" -cf "$out" manifest.json config.json layer.tar
