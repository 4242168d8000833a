#!/bin/sh
# build.sh VERSION: compiles the judge of requests against that RocketMQ's ACL into target/VERSION.
# Does nothing when nothing changed since.
set -eu
cd "$(dirname "$0")"
version=$1
stamp=target/$version/built
if [ -f "$stamp" ] && [ -z "$(find pom.xml build.sh src -newer "$stamp" -print -quit)" ]; then
    exit 0
fi
mkdir -p target
# Two builds at once would write into the same directory.
exec 9>target/lock
flock 9
if [ -f "$stamp" ] && [ -z "$(find pom.xml build.sh src -newer "$stamp" -print -quit)" ]; then
    exit 0
fi
rm -rf "target/$version/classes" "$stamp"
mvn -q -B -ntp -Dstyle.color=never -Drocketmq.version="$version" -DskipTests package
touch "$stamp"
