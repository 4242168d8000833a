#!/bin/sh
# build.sh VERSION: copies mqadmin of that RocketMQ, with all that it needs, into target/VERSION.
# Does nothing when nothing changed since: the tests call it before every use.
set -eu
cd "$(dirname "$0")"
version=$1
stamp=target/$version/built
if [ -f "$stamp" ] && [ -z "$(find pom.xml build.sh -newer "$stamp" -print -quit)" ]; then
    exit 0
fi
mkdir -p target
# Two builds at once would write into the same directory.
exec 9>target/lock
flock 9
if [ -f "$stamp" ] && [ -z "$(find pom.xml build.sh -newer "$stamp" -print -quit)" ]; then
    exit 0
fi
rm -rf "target/$version"
mvn -q -B -ntp -Dstyle.color=never -Drocketmq.version="$version" package
touch "$stamp"
