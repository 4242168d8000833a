#!/usr/bin/env bash
# image.sh [BASE]: builds the image with buildah and tries it: no build tools in it, the demo under
# a read-only root as user 3000 and as a user that it does not know, SIGTERM, the health check.
#
# BASE is a base image; without it a Debian is made with mmdebstrap to stand in for one, so no
# registry of images is needed. As root; needs buildah, mmdebstrap. Minutes. REPUT_IMAGES is the
# directory for images, and can be removed afterwards.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
work=${REPUT_IMAGES:-/var/tmp/reput-images}
image=localhost/reput:test
mkdir -p "$work"
export STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot TMPDIR=$work
buildah() { command buildah --root "$work/storage" --runroot "$work/run" "$@"; }
step() { printf '== %s (%s s)\n' "$*" "$SECONDS"; }
fail() { printf 'image: %s\n' "$*" >&2; exit 1; }

base=${1:-localhost/reput-base:bookworm}
if [ $# = 0 ] && ! buildah inspect --type image "$base" >/dev/null 2>&1; then
    step "a stand-in for the base"
    [ -s "$work/base.tar" ] ||
        mmdebstrap --quiet --variant=minbase --include=ca-certificates bookworm "$work/base.tar"
    container=$(buildah from scratch)
    buildah add -q "$container" "$work/base.tar" /
    # A network may have a certificate of its own.
    buildah copy -q "$container" /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ >/dev/null
    buildah config --env PIP_CERT=/etc/ssl/certs/ca-certificates.crt "$container"
    buildah commit -q --rm "$container" "$base" >/dev/null
fi

step "build"
buildah build --pull-never --layers --format docker --build-arg "BASE=$base" --tag "$image" . >"$work/build.log" 2>&1 ||
        fail "$(tail -n 30 "$work/build.log")"

container=$(buildah from --pull-never "$image")
root=$(buildah mount "$container")
trap 'buildah umount "$container" >/dev/null; buildah rm "$container" >/dev/null' EXIT

step "what is in it"
du -sh --apparent-size "$root" | cut -f 1
for tool in gcc cc make pip pip3 git mvn javac; do
    ! chroot "$root" sh -c "command -v $tool" >/dev/null || fail "$tool is in the image"
done
chroot "$root" /opt/reput/venv/bin/python -c 'import json
bom = json.load(open("/opt/reput/sbom.cdx.json"))
kinds = [c["purl"].split("/")[0] for c in bom["components"]]
print({kind: kinds.count(kind) for kind in sorted(set(kinds))})'

# A runtime gives a container its names.
printf '127.0.0.1 localhost\n' >"$root/etc/hosts"

# inside USER COMMAND…: under a read-only root, with a /tmp of its own, as a container runs it.
inside() {
    local user=$1
    shift
    buildah inspect --type image --format '{{range .Docker.Config.Env}}{{println .}}{{end}}' "$image" |
        grep . >"$work/env"
    # shellcheck disable=SC2016
    env -i ROOT="$root" USER_GROUP="$user" unshare --mount --pid --fork --kill-child bash -euc '
        mount --make-rprivate /
        mount --bind "$ROOT" "$ROOT"
        mount -o remount,bind,ro "$ROOT"
        mount -t proc proc "$ROOT/proc"
        mount --rbind /dev "$ROOT/dev"
        mount -t tmpfs -o mode=1777 tmpfs "$ROOT/tmp"
        mapfile -t environment <"$0"
        exec chroot --userspec="$USER_GROUP" "$ROOT" \
            env -i "${environment[@]}" /usr/bin/tini -s -- /opt/reput/entrypoint.sh "$@"
    ' "$work/env" "$@"
}

step "the demo, as 3000, root read-only"
inside 3000:3000 demo --seconds "${DEMO_SECONDS:-10}" --directory /tmp/demo
step "the demo, as a user that the image does not know"
inside 4711:4711 demo --seconds 3 --json >"$work/demo.json" || fail "$(cat "$work/demo.json")"
step "kernels come from the image"
inside 3000:3000 --help >/dev/null
before=$(find "$root/opt/reput/kernels" -name '*.nb?' | wc -l)
[ "$before" -gt 10 ] || fail "only $before compiled kernels in the image"
printf '%s files of compiled kernels\n' "$before"
step done
