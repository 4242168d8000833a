#!/bin/sh
# Prepares what a read-only image cannot hold, then becomes `reput`; as `driver` or `executor` it
# is what Spark on Kubernetes starts.
set -eu
: "${TMPDIR:=/tmp}"

# The kernels were compiled for this kind of processor; on an older one they are compiled anew.
if [ -z "${NUMBA_CPU_NAME:-}" ]; then
    case $(uname -m) in
        x86_64)
            if grep -q '^flags.*\<avx2\>' /proc/cpuinfo && grep -q '^flags.*\<pclmulqdq\>' /proc/cpuinfo; then
                export NUMBA_CPU_NAME=haswell
            fi
            ;;
        aarch64) export NUMBA_CPU_NAME=generic ;;
    esac
fi
# numba wants to write where it reads.
if [ -z "${NUMBA_CACHE_DIR:-}" ]; then
    export NUMBA_CACHE_DIR="$TMPDIR/numba"
    [ -d "$NUMBA_CACHE_DIR" ] || cp -r /opt/reput/kernels "$NUMBA_CACHE_DIR"
fi

# A user whom the image does not know: Java needs a name for it.
if ! getent passwd "$(id -u)" >/dev/null; then
    printf 'reput:x:%s:%s::/opt/reput/home:/bin/sh\n' "$(id -u)" "$(id -g)" >"$TMPDIR/passwd"
    export NSS_WRAPPER_PASSWD="$TMPDIR/passwd" NSS_WRAPPER_GROUP=/etc/group LD_PRELOAD=libnss_wrapper.so
fi

# The job is a child of spark-submit's JVM, which would end at once and leave it. Before the job is
# there, a signal waits for it.
pass_on() {
    tries=0
    while [ ! -s "$REPUT_PID_FILE" ] && [ "$tries" -lt 300 ]; do
        tries=$((tries + 1))
        sleep 0.2
    done
    kill -TERM "$(cat "$REPUT_PID_FILE" 2>/dev/null || echo "$spark")" 2>/dev/null || :
}

case ${1:-} in
    driver)
        shift
        export REPUT_PID_FILE="$TMPDIR/reput.pid"
        rm -f "$REPUT_PID_FILE"
        /opt/reput/venv/bin/spark-submit \
            --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" \
            --conf "spark.executorEnv.SPARK_DRIVER_POD_IP=$SPARK_DRIVER_BIND_ADDRESS" \
            --deploy-mode client "$@" &
        spark=$!
        trap pass_on TERM INT
        # A signal ends `wait`, and the job has yet to end in order.
        code=0
        wait "$spark" || code=$?
        while kill -0 "$spark" 2>/dev/null; do
            code=0
            wait "$spark" || code=$?
        done
        exit "$code"
        ;;
    executor)
        # Options of the JVM come as SPARK_JAVA_OPT_0, SPARK_JAVA_OPT_1, …
        set --
        number=0
        while option=$(printenv "SPARK_JAVA_OPT_$number"); do
            set -- "$@" "$option"
            number=$((number + 1))
        done
        exec java "$@" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
            -cp "$SPARK_HOME/jars/*" \
            org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
            --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" \
            --cores "$SPARK_EXECUTOR_CORES" --app-id "$SPARK_APPLICATION_ID" \
            --hostname "$SPARK_EXECUTOR_POD_IP" \
            --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
        ;;
    *) exec /opt/reput/venv/bin/reput "$@" ;;
esac
