#!/bin/sh
# build.sh: fetches the jars of a real Kafka broker into target/libs; does nothing when they are there.
set -eu
cd "$(dirname "$0")"
mkdir -p target
# Two at once would write into the same directory.
exec 9>target/lock
flock 9
if [ -f target/built ] && [ ! pom.xml -nt target/built ]; then
    exit 0
fi
mvn -q -B -ntp -Dstyle.color=never dependency:copy-dependencies -DoutputDirectory=target/libs
touch target/built
