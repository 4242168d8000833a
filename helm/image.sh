#!/usr/bin/env bash
# image.sh [BASE]: builds the image with buildah on BASE, or on a Debian made here to stand in for
# one, and tries it under a read-only root. As root; images land in REPUT_IMAGES.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
work=${REPUT_IMAGES:-/var/tmp/reput-images}
image=localhost/reput:test
mkdir -p "$work"
# vfs works wherever this runs; overlay takes a tenth of the space.
export STORAGE_DRIVER=${STORAGE_DRIVER:-vfs} BUILDAH_ISOLATION=chroot TMPDIR=$work
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

rm -rf "$work/volume"
mkdir -p "$work/volume/store" "$work/volume/output"
printf 'mappedFileSizeCommitLog=16777216\nmaxHashSlotNum=5000\nmaxIndexNum=20000\n' \
    >"$work/volume/output/broker.conf"
chown -R 3000:3000 "$work/volume/output"

# inside USER ARGUMENTS…: the entry point under a read-only root, with a /tmp of its own, and a store
# in /tmp/store (read-only) and a directory /tmp/volume, as a container has them.
inside() {
    local user=$1
    shift
    buildah inspect --type image --format '{{range .Docker.Config.Env}}{{println .}}{{end}}' "$image" |
        grep . >"$work/env"
    # shellcheck disable=SC2016
    env -i ROOT="$root" VOLUME="$work/volume" USER_GROUP="$user" unshare --mount --pid --fork --kill-child bash -euc '
        mount --make-rprivate /
        mount --bind "$ROOT" "$ROOT"
        mount -o remount,bind,ro "$ROOT"
        mount -t proc proc "$ROOT/proc"
        mount --rbind /dev "$ROOT/dev"
        mount -t tmpfs -o mode=1777 tmpfs "$ROOT/tmp"
        mkdir "$ROOT/tmp/volume" "$ROOT/tmp/store"
        mount --bind "$VOLUME/output" "$ROOT/tmp/volume"
        mount --bind "$VOLUME/store" "$ROOT/tmp/store"
        mount -o remount,bind,ro "$ROOT/tmp/store"
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
before=$(find "$root/opt/reput/kernels" -name '*.nb?' | wc -l)
[ "$before" -gt 10 ] || fail "only $before compiled kernels in the image"
printf '%s files of compiled kernels\n' "$before"

step "a store that grows: health check, SIGTERM, verify"
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
in_image() { chroot "$root" /usr/bin/env "REPUT_METRICS_PORT=$port" PYTHONDONTWRITEBYTECODE=1 \
    PATH=/opt/reput/venv/bin:/usr/bin:/bin "$@"; }
mapfile -t health < <(buildah inspect --type image \
    --format '{{range .Docker.Config.Healthcheck.Test}}{{println .}}{{end}}' "$image" | grep .)
[ "${health[0]:-}" = CMD ] || fail "the image has no health check"
! in_image "${health[@]:1}" 2>/dev/null || fail "healthy before it was started"
# The writer runs beside, as a broker does, and writes where the job only reads.
mkdir -p "$root/mnt/store"
mount --bind "$work/volume/store" "$root/mnt/store"
in_image python -m reput.streaming.demo.writer /mnt/store/commitlog 1000 "${DEMO_SECONDS:-10}" 16777216 &
writer=$!
inside 3000:3000 run --store /tmp/store --output /tmp/volume/out --broker-conf /tmp/volume/broker.conf \
    --metrics-port "$port" 2>"$work/run.log" &
job=$!
until in_image "${health[@]:1}" 2>/dev/null; do
    kill -0 "$job" || fail "$(tail -n 20 "$work/run.log")"
    sleep 0.2
done
wait "$writer"
umount "$root/mnt/store"
python3 - "$port" <<'PY'
import sys, time, urllib.request

end = time.monotonic() + 120
while True:
    text = urllib.request.urlopen(f"http://127.0.0.1:{sys.argv[1]}/metrics").read().decode()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    values = {line.split("{")[0]: float(line.split()[-1]) for line in lines}
    done = values.get("rocketmq_reput_messages_total", 0)
    if done and values.get("rocketmq_storage_dispatch_behind_bytes") == 0:
        break
    assert time.monotonic() < end, text
    time.sleep(0.5)
print(f"healthy, {done:.0f} messages dispatched, 0 bytes behind")
PY
began=$SECONDS
kill -TERM "$(pgrep -P "$(pgrep -P "$job" | head -n 1)" | head -n 1)"
wait "$job" || fail "SIGTERM: exit code $?: $(tail -n 20 "$work/run.log")"
[ ! -e "$work/volume/output/out/abort" ] || fail "SIGTERM: not closed in order"
printf 'SIGTERM: closed in order within %s s\n' $((SECONDS - began))
inside 3000:3000 verify --store /tmp/store --output /tmp/volume/out --broker-conf /tmp/volume/broker.conf
step done
