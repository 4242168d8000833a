#!/bin/sh
# run.sh LOGS MAIN ARGS...: runs one main, RocketMQ's or one of src/, in place of this shell, so that
# its process id is the one the caller has. LOGS: a directory for its logs.
# HEAP: the heap's fixed size (256m); JOPTS: more JVM options.
set -eu
target=$(cd "$(dirname "$0")" && pwd)/target
logs=$1
main=$2
shift 2
heap=${HEAP:-256m}
# The client keeps its own log in the home directory unless it is told not to.
exec java "-Xms$heap" "-Xmx$heap" -XX:+UseG1GC -XX:MaxDirectMemorySize=512m ${JOPTS:-} \
    "-Duser.home=$logs" "-Drocketmq.home.dir=$logs" "-Dcluster.logs=$logs" \
    "-Drmq.logback.configurationFile=$target/classes/cluster.logback.xml" \
    -Drocketmq.client.logUseSlf4j=true \
    --add-opens java.base/java.nio=ALL-UNNAMED --add-opens java.base/sun.nio.ch=ALL-UNNAMED \
    --add-opens java.base/jdk.internal.ref=ALL-UNNAMED \
    --add-exports java.base/jdk.internal.ref=ALL-UNNAMED \
    --add-exports java.base/sun.nio.ch=ALL-UNNAMED --add-opens java.base/java.lang=ALL-UNNAMED \
    -cp "$target/classes:$target/lib/*" "$main" "$@"
