"""The names of the series that the driver exports, as dashboard and alerts use them.

They stand in one place, so a test can compare them with what the driver really exports. `ALL` says
for each name which labels it has besides those of every store (`STORE_LABELS`). Those in `PROCESS`
belong to the process and have no store.
"""

from __future__ import annotations

BEHIND_BYTES = "rocketmq_storage_dispatch_behind_bytes"
BEHIND_SECONDS = "rocketmq_storage_dispatch_behind_seconds"
AGE = "rocketmq_reput_oldest_undispatched_age_seconds"
OFFSET = "rocketmq_reput_offset_bytes"
FREE = "rocketmq_reput_output_free_bytes"
SIZE = "rocketmq_reput_output_size_bytes"
HEAP_USED = "rocketmq_reput_jvm_heap_used_bytes"
HEAP_MAX = "rocketmq_reput_jvm_heap_max_bytes"
JVM_RESIDENT = "rocketmq_reput_jvm_resident_memory_bytes"
MESSAGES = "rocketmq_reput_messages_total"
LOG_BYTES = "rocketmq_reput_log_bytes_total"
BATCHES = "rocketmq_reput_batches_total"
BATCH_SECONDS = "rocketmq_reput_batch_duration_seconds"
LATENCY = "rocketmq_reput_latency_seconds"
ENTRIES = "rocketmq_consumequeue_entries_total"
INDEX_ITEMS = "rocketmq_index_items_total"
INDEX_FILL = "rocketmq_index_fill_ratio"
INDEX_FILES = "rocketmq_index_files_total"
CHECKPOINT = "rocketmq_checkpoint_timestamp_seconds"
CORRUPT = "rocketmq_reput_corrupt_skipped"
LOST_GAPS = "rocketmq_reput_data_loss_gaps"
LOST_BYTES = "rocketmq_reput_data_loss_bytes"
TRUNCATIONS = "rocketmq_reput_log_truncations_total"
STARTS = "rocketmq_reput_starts_total"
RECOVERIES = "rocketmq_reput_recoveries_total"
WAITING = "rocketmq_reput_record_waiting"
ERRORS = "rocketmq_reput_errors_total"
FAILED = "rocketmq_reput_store_failed"
SILENT = "rocketmq_reput_writer_silent_seconds"
KAFKA_LAG_BYTES = "rocketmq_reput_kafka_lag_bytes"
KAFKA_LAG_SECONDS = "rocketmq_reput_kafka_lag_seconds"
KAFKA_OFFSET = "rocketmq_reput_kafka_offset_bytes"
KAFKA_IN_FLIGHT = "rocketmq_reput_kafka_in_flight_bytes"
KAFKA_CONNECTED = "rocketmq_reput_kafka_connected"
KAFKA_HELD = "rocketmq_reput_kafka_stopped"
KAFKA_MESSAGES = "rocketmq_reput_kafka_messages_total"
KAFKA_BYTES = "rocketmq_reput_kafka_record_bytes_total"
KAFKA_DEAD = "rocketmq_reput_kafka_dead_letters_total"
KAFKA_RETRIES = "rocketmq_reput_kafka_retries_total"
KAFKA_TRUNCATIONS = "rocketmq_reput_kafka_truncations_total"
KAFKA_SECONDS = "rocketmq_reput_kafka_transaction_duration_seconds"
AWAITED = "rocketmq_reput_first_message_awaited"
LAST_BATCH = "rocketmq_reput_last_batch_timestamp_seconds"
ACTIVE = "rocketmq_reput_query_active"
UNPLANNED = "rocketmq_reput_unplanned_seconds"
STARTED = "rocketmq_reput_start_timestamp_seconds"
BUILD = "rocketmq_reput_build_info"
CPU = "process_cpu_seconds_total"
RESIDENT = "process_resident_memory_bytes"
OPEN_FILES = "process_open_fds"
# Of `reput serve`; their `node_type` is another.
SERVE_READY = "rocketmq_reput_serve_ready"
SERVE_CONNECTIONS = "rocketmq_reput_serve_connections"
SERVE_OPENED = "rocketmq_reput_serve_connections_opened_total"
SERVE_DROPPED = "rocketmq_reput_serve_connections_dropped_total"
SERVE_REQUESTS = "rocketmq_reput_serve_requests_total"
SERVE_BYTES = "rocketmq_reput_serve_answer_bytes_total"
SERVE_MESSAGES = "rocketmq_reput_serve_messages_total"
SERVE_HELD = "rocketmq_reput_serve_held_pulls"
SERVE_SLOW = "rocketmq_reput_serve_slow_readers"
SERVE_REFUSED = "rocketmq_reput_serve_refused_total"
SERVE_ACCOUNTS = "rocketmq_reput_serve_acl_accounts"
SERVE_ACL_BROKEN = "rocketmq_reput_serve_acl_broken"
SERVE_TLS_BROKEN = "rocketmq_reput_serve_tls_broken"
SERVE_SENT_BACK = "rocketmq_reput_serve_sent_back_total"
SERVE_DUPLICATES = "rocketmq_reput_serve_duplicate_clients_total"
SERVE_COLD = "rocketmq_reput_serve_cold_pulls_total"
SERVE_UNSAVED = "rocketmq_reput_serve_offsets_unsaved_seconds"
SERVE_GAPS = "rocketmq_reput_serve_gaps"
SERVE_BROKERS = "rocketmq_reput_serve_registered_brokers"
SERVE_WANTED = "rocketmq_reput_serve_name_servers_wanted"
SERVE_NAME_SERVERS = "rocketmq_reput_serve_name_servers"
SERVE_NOT_REGISTERED = "rocketmq_reput_serve_not_registered_total"
SERVE_GROUPS = "rocketmq_reput_serve_groups"
SERVE_LAG = "rocketmq_reput_serve_group_lag_messages"
# Of Prometheus itself, of the rules, and of kube-state-metrics.
UP = "up"
START = "reput:dispatcher:start_timestamp_seconds"
TARGET = "reput:dispatcher:up"
EXPECTED = "reput:dispatchers:expected"
KUBE_RESTARTS = "kube_pod_container_status_restarts_total"
KUBE_WAITING = "kube_pod_container_status_waiting_reason"

# The broker's own labels of its two series, which the others have not.
BROKER_LABELS = ("node_id", "storage_type", "storage_medium")
WITHOUT_BROKER = f"ignoring ({', '.join(BROKER_LABELS)})"
STORE_LABELS = ("cluster", "store", "node_type")
NODE = 'node_type="dispatcher"'

JVM = {HEAP_USED, HEAP_MAX, JVM_RESIDENT}
PROCESS = {ACTIVE, UNPLANNED, STARTED, BUILD, CPU, RESIDENT, OPEN_FILES, *JVM}
# What rules and dashboard ask for besides, and no dispatcher exports.
OTHERS = {UP, "ALERTS", START, TARGET, EXPECTED, KUBE_RESTARTS, KUBE_WAITING}
# Only of stores that are sent to Kafka.
KAFKA = {
    KAFKA_LAG_BYTES, KAFKA_LAG_SECONDS, KAFKA_OFFSET, KAFKA_IN_FLIGHT, KAFKA_CONNECTED, KAFKA_HELD,
    KAFKA_MESSAGES, KAFKA_BYTES, KAFKA_DEAD, KAFKA_RETRIES, KAFKA_TRUNCATIONS, KAFKA_SECONDS,
}  # fmt: skip
ALL: dict[str, tuple[str, ...]] = {
    BEHIND_BYTES: BROKER_LABELS,
    BEHIND_SECONDS: BROKER_LABELS,
    AGE: (),
    OFFSET: ("which",),
    FREE: (),
    SIZE: (),
    MESSAGES: (),
    LOG_BYTES: (),
    BATCHES: (),
    BATCH_SECONDS: ("phase",),
    LATENCY: (),
    ENTRIES: ("outcome",),
    INDEX_ITEMS: (),
    INDEX_FILL: (),
    INDEX_FILES: (),
    CHECKPOINT: ("kind",),
    CORRUPT: (),
    LOST_GAPS: (),
    LOST_BYTES: (),
    TRUNCATIONS: (),
    STARTS: (),
    RECOVERIES: (),
    WAITING: (),
    ERRORS: ("kind",),
    FAILED: (),
    SILENT: (),
    **dict.fromkeys(KAFKA, ()),
    KAFKA_MESSAGES: ("product",),
    AWAITED: (),
    LAST_BATCH: (),
    ACTIVE: (),
    UNPLANNED: (),
    STARTED: (),
    BUILD: ("version", "python", "spark", "broker_version"),
    CPU: (),
    RESIDENT: (),
    OPEN_FILES: (),
    **dict.fromkeys(JVM, ()),
}
SERVER = 'node_type="server"'
# What a server of stores exports.
SERVE: dict[str, tuple[str, ...]] = {
    SERVE_READY: (),
    SERVE_CONNECTIONS: (),
    SERVE_OPENED: (),
    SERVE_DROPPED: (),
    SERVE_REQUESTS: ("request", "answer"),
    SERVE_BYTES: (),
    SERVE_MESSAGES: (),
    SERVE_HELD: (),
    SERVE_SLOW: (),
    SERVE_REFUSED: ("reason",),
    SERVE_ACCOUNTS: (),
    SERVE_ACL_BROKEN: (),
    SERVE_TLS_BROKEN: (),
    SERVE_SENT_BACK: ("outcome",),
    SERVE_DUPLICATES: (),
    SERVE_COLD: (),
    SERVE_UNSAVED: (),
    SERVE_GAPS: (),
    SERVE_BROKERS: (),
    SERVE_WANTED: (),
    SERVE_NAME_SERVERS: (),
    SERVE_NOT_REGISTERED: ("reason",),
    SERVE_GROUPS: (),
    SERVE_LAG: ("group",),
}
