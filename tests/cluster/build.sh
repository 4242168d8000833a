#!/bin/sh
# build.sh: compiles the clients and fetches RocketMQ's artifacts into target/. Does nothing when
# nothing changed since.
set -eu
cd "$(dirname "$0")"
stamp=target/built
changed() { [ ! -f "$stamp" ] || [ -n "$(find pom.xml build.sh src -newer "$stamp" -print -quit)" ]; }
changed || exit 0
mkdir -p target
# Two builds at once would write into the same directory.
exec 9>target/lock
flock 9
changed || exit 0
rm -rf target/classes "$stamp"
mvn -q -B -ntp -Dstyle.color=never -DskipTests package
touch "$stamp"
