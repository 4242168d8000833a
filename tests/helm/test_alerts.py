"""Each alert fires by what it is for, and nothing fires while all is well."""

import json

import pytest

from reput.streaming.observe.error_kinds import ERROR_KINDS
from tests.helm.helm_tools import CHART, ROOT, find_tool, run

yaml = pytest.importorskip("yaml")

RULES = ROOT / "helm" / "monitoring" / "reput.rules.yaml"
STORE = 'cluster="c",store="a",node_type="dispatcher"'
BROKER = 'node_id="a",storage_type="local",storage_medium="disk"'
BEHIND = f"rocketmq_storage_dispatch_behind_bytes{{{STORE},{BROKER}}}"
LATE = f"rocketmq_reput_oldest_undispatched_age_seconds{{{STORE}}}"
FREE = f"rocketmq_reput_output_free_bytes{{{STORE}}}"
SIZE = f"rocketmq_reput_output_size_bytes{{{STORE}}}"
HEAP_USED = 'rocketmq_reput_jvm_heap_used_bytes{job="reput",instance="10.0.0.1:9464"}'
HEAP_MAX = 'rocketmq_reput_jvm_heap_max_bytes{job="reput",instance="10.0.0.1:9464"}'
BYTES = f"rocketmq_reput_log_bytes_total{{{STORE}}}"
MISPLACED = f'rocketmq_consumequeue_entries_total{{{STORE},outcome="misplaced"}}'
CORRUPT = f"rocketmq_reput_corrupt_skipped{{{STORE}}}"
GAPS = f"rocketmq_reput_data_loss_gaps{{{STORE}}}"
WAITING = f"rocketmq_reput_record_waiting{{{STORE}}}"
FAILED = f"rocketmq_reput_store_failed{{{STORE}}}"
SILENT = f"rocketmq_reput_writer_silent_seconds{{{STORE}}}"
KAFKA_LAG = f"rocketmq_reput_kafka_lag_bytes{{{STORE}}}"
KAFKA_CONNECTED = f"rocketmq_reput_kafka_connected{{{STORE}}}"
KAFKA_DEAD = f"rocketmq_reput_kafka_dead_letters_total{{{STORE}}}"
KAFKA_HELD = f"rocketmq_reput_kafka_stopped{{{STORE}}}"
KAFKA_CUT = f"rocketmq_reput_kafka_truncations_total{{{STORE}}}"
UP = 'up{job="reput",namespace="rocketmq",pod="reput-a-0",instance="10.0.0.1:9464"}'
PROCESS = 'job="reput",namespace="rocketmq",pod="reput-a-0"'
OF_PROCESS = f'{STORE},{PROCESS},instance="10.0.0.1:9464"'
DEAD_OF_PROCESS = f"rocketmq_reput_kafka_dead_letters_total{{{OF_PROCESS}}}"
CUT_OF_PROCESS = f"rocketmq_reput_kafka_truncations_total{{{OF_PROCESS}}}"
MISPLACED_OF_PROCESS = f'rocketmq_consumequeue_entries_total{{{OF_PROCESS},outcome="misplaced"}}'
AWAITED = f"rocketmq_reput_first_message_awaited{{{OF_PROCESS}}}"
OTHER_AWAITED = AWAITED.replace('store="a"', 'store="b"')
STARTED = f'rocketmq_reput_start_timestamp_seconds{{{PROCESS},instance="10.0.0.1:9464"}}'
STARTED_ELSEWHERE = f'rocketmq_reput_start_timestamp_seconds{{{PROCESS},instance="10.0.0.2:9464"}}'
ACTIVE = f'rocketmq_reput_query_active{{{PROCESS},instance="10.0.0.1:9464"}}'
UNPLANNED = f'rocketmq_reput_unplanned_seconds{{{PROCESS},instance="10.0.0.1:9464"}}'
FAILED_OF_PROCESS = f"rocketmq_reput_store_failed{{{OF_PROCESS}}}"
SERVED = 'cluster="c",store="a",node_type="server"'
SERVE_READY = f"rocketmq_reput_serve_ready{{{SERVED}}}"
# Of another server, whose broker and cluster are called alike.
SERVE_ELSEWHERE = f'rocketmq_reput_serve_ready{{{SERVED},namespace="other"}}'
SERVE_WAITS = (
    'kube_pod_container_status_waiting_reason{namespace="n",pod="s-0",container="serve",'
    'reason="CrashLoopBackOff"}'
)
SERVE_ACL = f"rocketmq_reput_serve_acl_broken{{{SERVED}}}"
SERVE_TLS = f"rocketmq_reput_serve_tls_broken{{{SERVED}}}"
SERVE_GAPS = f"rocketmq_reput_serve_gaps{{{SERVED}}}"
SERVE_UNSAVED = f"rocketmq_reput_serve_offsets_unsaved_seconds{{{SERVED}}}"
SERVE_WANTED = f"rocketmq_reput_serve_name_servers_wanted{{{SERVED}}}"
SERVE_REGISTERED = f"rocketmq_reput_serve_name_servers{{{SERVED}}}"
SERVE_SLOW = f"rocketmq_reput_serve_slow_readers{{{SERVED}}}"
SERVE_TWICE = f"rocketmq_reput_serve_duplicate_clients_total{{{SERVED}}}"
GIB = 1 << 30


def served(name, **label):
    """Return a series of a server that has one more label."""
    ((key, value),) = label.items()
    return f'rocketmq_reput_serve_{name}_total{{{SERVED},{key}="{value}"}}'


SERVE_REFUSED = served("refused", reason="signature")
SERVE_SENT_BACK = served("sent_back", outcome="refused")
SERVE_FAILED = SERVE_REFUSED.replace("refused_total", "requests_total").replace(
    'reason="signature"', 'request="PULL_MESSAGE",answer="SYSTEM_ERROR"'
)
SERVE_KEPT = served("sent_back", outcome="kept")


def offset(which):
    return f'rocketmq_reput_offset_bytes{{{STORE},which="{which}"}}'


def errors(kind):
    return f'rocketmq_reput_errors_total{{{STORE},kind="{kind}"}}'


def errors_of_process(kind):
    return f'rocketmq_reput_errors_total{{{OF_PROCESS},kind="{kind}"}}'


# A store of which 60 MB a minute are dispatched, a few kB behind, recorded every minute.
HEALTHY = {
    BEHIND: "4096x120",
    LATE: "0.1x120",
    BYTES: "0+60000000x120",
    offset("log_begin"): "1000000000x120",
    offset("dispatched"): "50000000000+60000000x120",
    offset("recorded"): "49940000000+60000000x120",
    offset("log_end"): "50000004096+60000000x120",
    MISPLACED: "0x120",
    CORRUPT: "0x120",
    GAPS: "0x120",
    WAITING: "0x120",
    FAILED: "0x120",
    SILENT: "0.2x120",
    UNPLANNED: "1 2 3 4 5" + " 3x115",
    UP: "1x120",
    STARTED: "1000x120",
    ACTIVE: "1x120",
    AWAITED: "0x120",
    FREE: "600000000000x120",
    SIZE: "1000000000000x120",
    HEAP_USED: "100 200 300 400 500 100 200 300 400 500 100" + " 300x110",
    HEAP_MAX: "536x120",
    **{errors(kind): "0x120" for kind in ERROR_KINDS},
    KAFKA_LAG: "100000x120",
    KAFKA_CONNECTED: "1x120",
    KAFKA_DEAD: "3x120",
    KAFKA_CUT: "0x120",
    KAFKA_HELD: "0x120",
    SERVE_READY: "1x120",
    SERVE_ACL: "0x120",
    SERVE_TLS: "0x120",
    SERVE_GAPS: "0x120",
    SERVE_UNSAVED: "0 3.5" + " 2 0" * 59,
    SERVE_WANTED: "2x120",
    SERVE_REGISTERED: "0 2x119",
    SERVE_SLOW: "0 2 0x118",
    SERVE_TWICE: "3x120",
    SERVE_REFUSED: "40x120",
    SERVE_SENT_BACK: "0x120",
    SERVE_KEPT: "0+60x120",
}


def later(value, first="0"):
    """Values of a series that changes in minute 40."""
    return f"{first}x39 {value}x80"


# Two hours are not enough to tell a rate.
FOR_HOURS = {key: value.replace("x120", "x480") for key, value in HEALTHY.items()}
# 450 of 1,000 GB are free: 50 are written within 10 minutes, and that is all; or 240 within an hour,
# which are free again afterwards.
BURST = f"{45 * 10**10}-5000000000x10 {40 * 10**10}x470"
REPAIR = f"{45 * 10**10}x180 {45 * 10**10}-4000000000x60 {45 * 10**10}x240"
# An output that was begun in minute 35.
NEW = "_x35 52100000000+60000000x85"
# A process that began in minute 40, and had counted by its first scrape, a minute later.
FIRST_SCRAPED = {STARTED: "1000x39 _ 2400x80", DEAD_OF_PROCESS: "_x40 5x80"}
# A store of several: it failed in minute 40, and is dispatched again from minute 60 on.
OUT_FOR_A_WHILE = {FAILED: "_x120", FAILED_OF_PROCESS: "0x39 1x20 0x60"}
# (what happens, series that differ, minute, the alerts that fire then)
CASES = [
    ("all is well", {}, 60, ""),
    ("an idle store", {BEHIND: "0x120", BYTES: "7x120", LATE: "0x120"}, 60, ""),
    ("nothing moves", {BYTES: "0+60000000x40 2400000000x80"}, 52, "Stalled"),
    ("a pause of three minutes", {BYTES: "0+6x40 240x3 246+6x80"}, 46, ""),
    ("nothing moves, nothing waits", {BYTES: "9x120", BEHIND: "0x120"}, 60, ""),
    ("the query has ended", {ACTIVE: later(0, 1)}, 46, "QueryInactive"),
    ("no first message yet", {ACTIVE: "0x120", AWAITED: "1x120"}, 60, ""),
    (
        "no first message yet, of one of two stores",
        {ACTIVE: "0x120", AWAITED: "1x120", OTHER_AWAITED: "0x120"},
        60,
        "QueryInactive",
    ),
    ("a tenth of the disk is free", {FREE: later(10**11, 6 * 10**11)}, 60, "OutputFilling"),
    (
        "four per cent of the disk are free",
        {FREE: later(4 * 10**10, 6 * 10**11)},
        60,
        "OutputFilling OutputFull",
    ),
    ("full within a day", FOR_HOURS | {FREE: f"{49 * 10**10}-340000000x480"}, 240, "OutputFilling"),
    ("not known for hours yet", {FREE: f"{49 * 10**10}-340000000x120"}, 110, ""),
    ("full in a month", FOR_HOURS | {FREE: f"{49 * 10**10}-10000000x480"}, 240, ""),
    *(
        (f"{minute} minutes after a first rebuild", FOR_HOURS | {FREE: BURST}, minute, "")
        for minute in (11, 40, 70, 130, 190, 300)
    ),
    *(
        (f"a repair in between, minute {minute}", FOR_HOURS | {FREE: REPAIR}, minute, "")
        for minute in (215, 245, 275, 305, 365)
    ),
    (
        "filling for hours, and no longer since an hour",
        FOR_HOURS | {FREE: f"{45 * 10**10}-340000000x240 {3684 * 10**8}x240"},
        310,
        "",
    ),
    ("the heap is full", {HEAP_USED: later(530, 100)}, 80, "HeapFull"),
    ("the heap is full, and is swept", {HEAP_USED: "0x39" + " 530 520 510 90" * 20}, 80, ""),
    ("gone", {STARTED: "1000x40 stale", ACTIVE: "1x40 stale"}, 50, "Missing"),
    (
        "moved to another address",
        {STARTED: "1000x40 stale", STARTED_ELSEWHERE: "_x41 9000x80"},
        50,
        "",
    ),
    (
        "gone, and Prometheus knows its target",
        {UP: later(0, 1), STARTED: "1000x39 stale", ACTIVE: "1x39 stale"},
        50,
        "Missing",
    ),
    (
        "gone for longer than anybody looks back",
        {UP: "1x5 stale", STARTED: "1000x5 stale", ACTIVE: "1x5 stale", SERVE_READY: "_"},
        420,
        "Missing TooFew",
    ),
    (
        "never there",
        {UP: "_", STARTED: "_", ACTIVE: "_"},
        30,
        "TooFew",
    ),
    ("down for three minutes", {UP: "1x39 0x3 1x80", STARTED: "1000x39 stale _ _ 9000x80"}, 60, ""),
    (
        "restarts every two minutes",
        {STARTED: "1000x30 " + " ".join(f"{9000 + i} {9000 + i}" for i in range(0, 40, 2))},
        50,
        "RestartLoop",
    ),
    (
        "restarts every two minutes elsewhere",
        {
            STARTED: "1000x30 stale",
            STARTED_ELSEWHERE: "_x30 "
            + " ".join(f"{9000 + i} {9000 + i}" for i in range(0, 40, 2)),
        },
        50,
        "RestartLoop",
    ),
    ("an upgrade: one restart", {STARTED: later(9000, 1000)}, 45, ""),
    ("behind by 2 GiB", {BEHIND: later(2 * GIB)}, 75, "BehindBytes"),
    ("behind by 2 GiB for five minutes", {BEHIND: f"0x39 {2 * GIB}x5 0x80"}, 46, ""),
    ("it has caught up", {BEHIND: f"0x39 {2 * GIB}x40 0x80"}, 89, ""),
    ("behind by 20 GiB", {BEHIND: later(20 * GIB)}, 75, "BehindBytes BehindBytesCritical"),
    ("late by two minutes", {LATE: later(120)}, 75, "BehindSeconds"),
    ("late by twenty minutes", {LATE: later(1200)}, 75, "BehindSeconds BehindSecondsCritical"),
    ("late by a minute of two", {LATE: "0x39 120x3 0x80"}, 44, ""),
    (
        "most of the log waits, and no less",
        {BEHIND: f"{30 * GIB}x120", offset("dispatched"): f"{20 * 10**9}+60000000x120"},
        60,
        "BehindBytes BehindBytesCritical RetentionNear",
    ),
    (
        "most of the log waits, and it gets less",
        {BEHIND: f"{30 * GIB}-100000000x120"},
        60,
        "BehindBytes BehindBytesCritical",
    ),
    (
        "records expired",
        {GAPS: later(1)},
        45,
        "OutrunByRetention QueueOffsetsShifted",
    ),
    (
        "records expired long ago",
        {GAPS: "1x120"},
        100,
        "QueueOffsetsShifted",
    ),
    (
        "the log begins past dispatch",
        {offset("log_begin"): later(60 * 10**9, 10**9)},
        45,
        "OutrunByRetention",
    ),
    (
        "progress is not recorded",
        {offset("recorded"): "49940000000+60000000x40 52340000000x80"},
        70,
        "CheckpointStale",
    ),
    (
        "a new output, of which nothing is recorded yet",
        {offset("recorded"): "_x39 52340000000+60000000x80", offset("dispatched"): NEW},
        45,
        "",
    ),
    (
        "a new output, and nothing is recorded ever",
        {offset("recorded"): "_x120", offset("dispatched"): NEW},
        60,
        "CheckpointStale",
    ),
    (
        "a slow start over a log whose first files have expired",
        {offset("recorded"): "_x120", offset("dispatched"): "_x120", BYTES: "_x120"},
        60,
        "",
    ),
    (
        "a minute without a record",
        {offset("recorded"): "49940000000+60000000x40 52340000000x2 52640000000+60000000x80"},
        45,
        "",
    ),
    (
        "a corrupt record was passed over",
        {CORRUPT: later(1)},
        45,
        "CorruptRecord QueueOffsetsShifted",
    ),
    ("a place that was passed over is cut away", {CORRUPT: later(2, 3)}, 45, "QueueOffsetsShifted"),
    ("stopped at a corrupt record", {errors("corrupt"): "_x40 1x1"}, 45, "CorruptRecord"),
    ("the index cannot be written", {errors("index"): "_x40 1x1"}, 45, "IndexFailure"),
    ("an entry out of turn", {MISPLACED: later(3)}, 45, "ConsumeQueueGap"),
    ("stopped at a consume queue", {errors("consumequeue"): "_x40 1x1"}, 45, "ConsumeQueueGap"),
    ("a record waits", {WAITING: later(1)}, 52, "RecordWaiting"),
    ("a record waited for a minute", {WAITING: "0x39 1x1 0x80"}, 52, ""),
    ("the disk is full", {errors("io"): "_x40 1x1"}, 45, "WriteFailure"),
    ("stopped where records had expired", {errors("expired"): "_x40 1x1"}, 45, "OutrunByRetention"),
    ("not the output of this store", {errors("store"): "_x40 1x1"}, 45, "WriteFailure"),
    ("Kafka is behind by 2 GiB", {KAFKA_LAG: later(2 * GIB)}, 75, "KafkaBehind"),
    ("Kafka was behind by 2 GiB", {KAFKA_LAG: f"0x39 {2 * GIB}x5 0x80"}, 46, ""),
    ("Kafka is away", {KAFKA_CONNECTED: later(0, 1)}, 45, "KafkaAway"),
    ("Kafka was restarted", {KAFKA_CONNECTED: "1x39 0x1 1x80"}, 42, ""),
    ("a message was refused", {KAFKA_DEAD: later(4, 3)}, 45, "KafkaDeadLetters"),
    *(
        (f"refused before the first scrape of minute 41, minute {minute}", FIRST_SCRAPED, minute, a)
        for minute, a in ((41, "KafkaDeadLetters"), (90, "KafkaDeadLetters"), (110, ""))
    ),
    (
        "a way to Kafka that was cut before the first scrape of minute 41",
        FIRST_SCRAPED | {DEAD_OF_PROCESS: "_x120", CUT_OF_PROCESS: "_x40 1x80"},
        45,
        "KafkaStopped",
    ),
    (
        "an entry out of turn before the first scrape of minute 41",
        FIRST_SCRAPED | {DEAD_OF_PROCESS: "_x120", MISPLACED_OF_PROCESS: "_x40 3x80"},
        45,
        "ConsumeQueueGap",
    ),
    ("stopped by Kafka", {errors("kafka"): "_x40 1x1"}, 45, "KafkaStopped"),
    ("Kafka is held back", {KAFKA_HELD: later(1)}, 45, "KafkaStopped"),
    ("Kafka was never reached", {KAFKA_LAG: "_x120", KAFKA_CONNECTED: "0x120"}, 45, "KafkaAway"),
    ("the log was cut below what was sent", {KAFKA_CUT: later(1)}, 45, "KafkaStopped"),
    ("something else", {errors("other"): "_x40 1x1"}, 45, "WriteFailure"),
    *(
        (f"a store without room for a while, minute {minute}", OUT_FOR_A_WHILE | counted, minute, a)
        for counted in ({errors_of_process("io"): "0x39 1x80"},)
        for minute, a in (
            (42, "StoreFailed WriteFailure"),
            # It is counted once, and holds for as long as the store has failed.
            (59, "StoreFailed WriteFailure"),
            (62, ""),
            (100, ""),
        )
    ),
    (
        "a store that fails again, minute 75",
        OUT_FOR_A_WHILE | {errors_of_process("io"): "0x39 1x30 2x50"},
        75,
        "WriteFailure",
    ),
    (
        "a damaged store of several, hours later",
        {FAILED: "_x120", FAILED_OF_PROCESS: "1x120", errors_of_process("corrupt"): "1x120"},
        110,
        "CorruptRecord StoreFailed",
    ),
    (
        "a job with one store has ended at an error",
        {FAILED: "0x39 1 stale", errors("io"): "0x39 1 stale"},
        45,
        "WriteFailure",
    ),
    (
        "failed before the first scrape of a young process",
        {
            STARTED: "1000x39 _ 2400x80",
            FAILED: "_x120",
            FAILED_OF_PROCESS: "_x40 0x80",
            errors_of_process("store"): "_x40 1x80",
        },
        50,
        "WriteFailure",
    ),
    ("a writer hangs", {SILENT: "0.2x39 30+60x80"}, 43, "WriterSilent"),
    ("a slow flush", {SILENT: "0.2x39 25x80"}, 60, ""),
    ("a flush of a minute", {SILENT: "0.2x39 40 0.2x80"}, 41, ""),
    ("the planner stands still", {UNPLANNED: "3x39 0+60x80"}, 43, "PlannerStopped"),
    # The liveness probe has restarted the job.
    ("the planner stood still", {UNPLANNED: "3x39 60 120 3x80"}, 50, "PlannerStopped"),
    ("a server is gone", {SERVE_READY: "1x39 stale"}, 46, "ServeMissing"),
    (
        "a server is gone, and another one has its names",
        {SERVE_READY: "1x39 stale", SERVE_ELSEWHERE: "1x120"},
        46,
        "ServeMissing",
    ),
    ("a server is gone for an hour", {SERVE_READY: "1x39 stale"}, 110, "ServeMissing"),
    ("a server is upgraded", {SERVE_READY: "1x39 stale _x2 1x80"}, 43, ""),
    ("a server came back", {SERVE_READY: "1x39 stale _x20 1x80"}, 80, ""),
    ("a server is new", {SERVE_READY: "_x39 1x80"}, 47, ""),
    ("a server keeps crashing", {SERVE_READY: "1x39" + " stale _ _ _ 1" * 16}, 75, "ServeMissing"),
    ("a server never starts", {SERVE_WAITS: "1x120"}, 75, "ServeMissing"),
    ("clients are not served", {SERVE_READY: later(0, 1)}, 46, "ServeNotReady"),
    ("a server is restarted", {SERVE_READY: "1x39 0x2 1x80"}, 44, ""),
    ("a broker never gets registered", {SERVE_REGISTERED: "0x120"}, 8, "ServeRegisteredNowhere"),
    ("a name server is gone", {SERVE_REGISTERED: later(1, 2)}, 58, "ServeNotRegistered"),
    ("a name server is restarted", {SERVE_REGISTERED: "2x39 1x8 2x80"}, 47, ""),
    (
        "all name servers are gone",
        {SERVE_REGISTERED: later(0, 2)},
        58,
        "ServeNotRegistered ServeRegisteredNowhere",
    ),
    ("nothing is to be registered", {SERVE_WANTED: "0x120", SERVE_REGISTERED: "0x120"}, 58, ""),
    ("a file of a served log is lost", {SERVE_GAPS: later(1)}, 43, "ServeGaps"),
    ("a file of a served log cannot be read", {SERVE_FAILED: "0x39 40+40x80"}, 60, "ServeFailing"),
    ("a client asks for a wrong filter once", {SERVE_FAILED: "0x39 3x80"}, 60, ""),
    (
        "all files of a served store are away",
        {SERVE_FAILED: "0x39 40+40x80", SERVE_READY: later(0, 1)},
        60,
        "ServeNotReady",
    ),
    ("a new ACL is broken", {SERVE_ACL: later(1)}, 44, "ServeAclBroken"),
    ("a new certificate is broken", {SERVE_TLS: later(1)}, 47, "ServeTlsNotRenewed"),
    ("the ACL refuses a client for good", {SERVE_REFUSED: "0x39 10+20x80"}, 75, "ServeRefusing"),
    ("the ACL refuses a few requests", {SERVE_REFUSED: "0x39 30x80"}, 60, ""),
    ("a client does not read", {SERVE_SLOW: later(1)}, 58, "ServeSlowReaders"),
    ("a client reads slowly for a while", {SERVE_SLOW: "0x39 1x10 0x80"}, 48, ""),
    ("offsets are not saved", {SERVE_UNSAVED: "2x39 0+60x80"}, 45, "ServeOffsetsUnsaved"),
    ("a disk that hangs for a minute", {SERVE_UNSAVED: "2x39 60 100 2x80"}, 44, ""),
    ("two clients have one id", {SERVE_TWICE: later(4, 3)}, 45, "ServeDuplicateClients"),
    ("two clients had one id", {SERVE_TWICE: later(4, 3)}, 110, ""),
    ("nobody keeps what is sent back", {SERVE_SENT_BACK: later(9)}, 45, "ServeSentBackRefused"),
    ("a batch of half a minute", {UNPLANNED: "3x39 30 3x80"}, 45, ""),
]


def rules_of(path):
    """Return the alerts of a rule file."""
    groups = yaml.safe_load(path.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"] if "alert" in rule]


def group(name, changed, minute, alerts):
    """Return one test of promtool."""
    series = HEALTHY | changed
    fired = alerts.split()
    return {
        "name": name,
        "interval": "1m",
        "input_series": [{"series": key, "values": str(value)} for key, value in series.items()],
        "promql_expr_test": [
            {
                "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                "eval_time": f"{minute}m",
                "exp_samples": [
                    {"labels": f'{{alertname="Reput{alert}"}}', "value": 1} for alert in fired
                ],
            }
        ],
    }


def test_each_alert_fires_by_its_cause_and_by_nothing_else(tmp_path):
    """
    Series are those of a healthy store, but for what happens; exactly the named alerts fire.
    """
    cases = {
        "rule_files": [str(RULES)],
        "evaluation_interval": "1m",
        "tests": [group(*case) for case in CASES],
    }
    path = tmp_path / "cases.yaml"
    path.write_text(json.dumps(cases))

    result = run(find_tool("promtool"), "test", "rules", str(path))

    assert result.returncode == 0, result.stdout + result.stderr


# ---------------------------------------------------------------------------------------------
# The kubelet's back-off: 10 s, 20 s, 40 s … 5 minutes between the end of a container and the next.

_SCRAPE = 15
_HOURS = 4
_QUIET = 30 * 60
POD = 'namespace="rocketmq",pod="reput-a-0"'
RESTARTS = f'kube_pod_container_status_restarts_total{{{POD},container="reput"}}'
WAITS = (
    f'kube_pod_container_status_waiting_reason{{{POD},container="reput",reason="CrashLoopBackOff"}}'
)
# The rules of old, which a test of "restarts every two minutes" had passed.
OLD_RULES = {
    "groups": [
        {
            "name": "old",
            "rules": [
                {
                    "alert": "OldRestartLoop",
                    "expr": "changes((max by (job, namespace, pod)"
                    " (rocketmq_reput_start_timestamp_seconds))[20m:30s]) > 3",
                    "for": "1m",
                },
                {
                    "alert": "OldMissing",
                    "expr": "max by (job, namespace, pod)"
                    " (max_over_time(rocketmq_reput_start_timestamp_seconds[6h]))"
                    " unless max by (job, namespace, pod) (rocketmq_reput_start_timestamp_seconds)",
                    "for": "5m",
                },
            ],
        }
    ]
}


def crashing(life):
    """
    Return what is scraped of a pod that crashes `life` seconds after each start: its target, its
    start, and what kube-state-metrics says of it.
    """
    up, started, restarts, waits = [], [], [], []
    begin, restart, wait, runs = -1000, 0, 10, True
    change = _QUIET
    for second in range(0, _HOURS * 3600, _SCRAPE):
        while second >= change:
            if runs:
                change, wait = change + wait, min(2 * wait, 300)
            else:
                begin, restart, change = change, restart + 1, change + life
            runs = not runs
        # A process answers some seconds after its start.
        answers = runs and second - begin >= 10
        up.append("1" if answers else "0")
        started.append(str(10_000 + begin) if answers else "stale")
        restarts.append(str(restart))
        waits.append("stale" if runs else "1")
    return {UP: up, STARTED: started, RESTARTS: restarts, WAITS: waits}


def loop(life, without=(), also=None):
    """Return series of a crash loop as promtool takes them."""
    series = {key: " ".join(v) for key, v in crashing(life).items() if key not in without}
    return {**series, **(also or {})}


_SAMPLES = _HOURS * 3600 // _SCRAPE
_KUBE, _SCRAPED = (RESTARTS, WAITS), (UP, STARTED)
# (what happens, series, alerts that fire from 90 minutes on without a break)
LOOPS = [
    *(
        (
            f"killed for memory after {life} s",
            loop(life, without=_KUBE),
            "Missing RestartLoop TooFew",
        )
        for life in (45, 60, 90)
    ),
    ("nothing scraped it", loop(60, without=_SCRAPED), "Missing RestartLoop TooFew"),
    (
        "exit code 2 before it answers",
        loop(5, without=(STARTED, UP), also={UP: f"0x{_SAMPLES}"}),
        "Missing RestartLoop TooFew",
    ),
    ("a target that never answered", {UP: f"0x{_SAMPLES}"}, "Missing TooFew"),
    (
        "an image that is not there",
        {WAITS.replace("CrashLoopBackOff", "ImagePullBackOff"): f"1x{_SAMPLES}"},
        "Missing TooFew",
    ),
    ("no target at all", {}, "TooFew"),
    ("crashes after nine minutes", loop(540, without=_KUBE), "RestartLoop"),
    (
        "crashes while it is behind",
        loop(60, also={LATE: " ".join("9000" if v == "1" else "stale" for v in crashing(60)[UP])}),
        "Missing RestartLoop TooFew BehindSeconds BehindSecondsCritical",
    ),
    ("fine", {UP: f"1x{_SAMPLES}", STARTED: f"1000x{_SAMPLES}"}, ""),
]


def firing(function, alert):
    """Return a query of the number of alerts of a name that fired in the last 150 minutes."""
    count = f'(count(ALERTS{{alertname="{alert}",alertstate="firing"}}) or vector(0))'
    return f"{function}_over_time({count}[150m:1m])"


def test_a_crash_loop_stays_an_alert_for_hours(tmp_path):
    """
    At the kubelet's longest back-off, whatever is scraped between two crashes: the alert fires
    and does not end before the cause does. The rules of old are silent, or flap.
    """
    old = tmp_path / "old.yaml"
    old.write_text(json.dumps(OLD_RULES))
    names = {rule["alert"] for rule in rules_of(RULES)}
    tests = []
    for name, series, alerts in LOOPS:
        wanted = {f"Reput{alert}" for alert in alerts.split()}
        checks = [
            (firing("min", alert), 1) if alert in wanted else (firing("max", alert), 0)
            for alert in sorted(names)
        ]
        if "killed" in name:
            checks += [(firing("max", "OldRestartLoop"), 0), (firing("min", "OldMissing"), 0)]
        tests.append(
            {
                "name": name,
                "interval": f"{_SCRAPE}s",
                "input_series": [{"series": k, "values": v} for k, v in series.items()],
                "promql_expr_test": [
                    {
                        "expr": text,
                        "eval_time": f"{_HOURS}h",
                        "exp_samples": [{"labels": "{}", "value": value}],
                    }
                    for text, value in checks
                ],
            }
        )
    path = tmp_path / "cases.yaml"
    cases = {
        "rule_files": [str(RULES), str(old)],
        "evaluation_interval": "30s",
        "tests": tests,
    }
    path.write_text(json.dumps(cases))

    result = run(find_tool("promtool"), "test", "rules", str(path))

    assert result.returncode == 0, result.stdout + result.stderr


def test_every_alert_has_a_case():
    """
    An alert that no case makes fire may never fire.
    """
    rules = rules_of(RULES)
    fired = {f"Reput{name}" for case in CASES for name in case[3].split()}

    assert {rule["alert"] for rule in rules} == fired


def test_every_alert_has_a_page_and_every_page_an_alert():
    """
    Anybody who is woken finds what to do under the very name.
    """
    rules = rules_of(RULES)
    text = (ROOT / "docs" / "runbook.md").read_text()
    headings = {line[3:] for line in text.splitlines() if line.startswith("## Reput")}

    assert headings == {rule["alert"] for rule in rules}
    for rule in rules_of(CHART / "files" / "alerts.yaml"):
        assert rule["annotations"]["runbook_url"] == "${runbookUrl}#" + rule["alert"].lower()


def test_nothing_links_to_where_no_page_is():
    """
    The plain rules do not know where the runbook is published, so they have no link.
    """
    assert "runbook" not in RULES.read_text()


def test_the_rule_file_is_clean():
    """
    Prometheus takes it, and its linter has nothing to say.
    """
    result = run(find_tool("promtool"), "check", "rules", "--lint=all", "--lint-fatal", str(RULES))

    assert result.returncode == 0, result.stdout + result.stderr
