#!/bin/sh
# build.sh VERSION: that RocketMQ with name server, broker and mqadmin, and the clients of src/, into
# target/VERSION. Does nothing when nothing changed since.
set -eu
cd "$(dirname "$0")"
version=$1
server=$version
# Neither was published of 4.9.8.
[ "$version" != 4.9.8 ] || server=4.9.7
stamp=target/$version/built
changed() { [ ! -f "$stamp" ] || [ -n "$(find pom.xml build.sh src -newer "$stamp" -print -quit)" ]; }
changed || exit 0
mkdir -p target
# Two builds at once would write into the same directory.
exec 9>target/lock
flock 9
changed || exit 0
rm -rf "target/$version"
mvn -q -B -ntp -Dstyle.color=never -Drocketmq.version="$version" -Dserver.version="$server" package
touch "$stamp"
