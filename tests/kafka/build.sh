#!/bin/sh
# build.sh [spark]: fetches the jars of a real Kafka broker into target/libs, or those of Spark's own
# Kafka sink into target/spark; does nothing when they are there.
set -eu
cd "$(dirname "$0")"
case ${1:-} in
    spark) pom=spark-pom.xml directory=spark ;;
    *) pom=pom.xml directory=libs ;;
esac
mkdir -p target
# Two at once would write into the same directory.
exec 9>"target/lock-$directory"
flock 9
if [ -f "target/built-$directory" ] && [ ! "$pom" -nt "target/built-$directory" ]; then
    exit 0
fi
mvn -q -B -ntp -Dstyle.color=never -f "$pom" dependency:copy-dependencies -DoutputDirectory="target/$directory"
touch "target/built-$directory"
