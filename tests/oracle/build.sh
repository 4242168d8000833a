#!/bin/sh
# build.sh VERSION: compiles the driver against that RocketMQ into target/VERSION. Does nothing when
# nothing changed since: the tests call it before every use.
set -eu
cd "$(dirname "$0")"
version=$1
broker=$version
case $version in
    4.9.8) compat=v4 broker=4.9.7 ;; # broker, filter and namesrv 4.9.8 were never published
    4.*) compat=v4 ;;
    *) compat=v5 ;;
esac
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
mvn -q -B -ntp -Dstyle.color=never -Drocketmq.version="$version" -Dcompat="$compat" -Dbroker.version="$broker" \
    -DskipTests package
touch "$stamp"
