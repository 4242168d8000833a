#!/bin/sh
# run.sh VERSION MAIN ARGS...: runs one main of the driver that build.sh VERSION made.
# HEAP: the heap's fixed size (512m); JOPTS: more JVM options; LIMIT: seconds until it is ended (120);
# LOG: the level of RocketMQ's log, on standard error (OFF).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
target=$here/target/$1
main=$2
shift 2
heap=${HEAP:-512m}
set -- java "-Xms$heap" "-Xmx$heap" -XX:+UseG1GC ${JOPTS:-} \
    "-Duser.home=$target/home" "-Doracle.log=${LOG:-OFF}" \
    "-Drmq.logback.configurationFile=$target/classes/rmq.logback.xml" \
    --add-opens java.base/java.nio=ALL-UNNAMED --add-opens java.base/sun.nio.ch=ALL-UNNAMED \
    --add-opens java.base/jdk.internal.ref=ALL-UNNAMED \
    --add-exports java.base/jdk.internal.ref=ALL-UNNAMED \
    --add-exports java.base/sun.nio.ch=ALL-UNNAMED --add-opens java.base/java.lang=ALL-UNNAMED \
    --add-opens java.base/java.lang.reflect=ALL-UNNAMED \
    -cp "$target/classes:$target/lib/*" "oracle.$main" "$@"
# The store's HA service listens on all addresses: as root it gets a network namespace in which only
# a loopback exists.
if [ "$(id -u)" = 0 ] && unshare -n true 2>/dev/null; then
    set -- unshare -n sh -c 'python3 "$0" && exec "$@"' "$here/loopback_up.py" "$@"
else
    echo "run.sh: no network namespace (unshare -n) here: the store listens on a free port (haListenPort=0)" >&2
fi
exec timeout -k 5 "${LIMIT:-120}" "$@"
