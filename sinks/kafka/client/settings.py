"""How messages go to Kafka: one frozen value, made once from a `[kafka]` table."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

MESSAGES, ARRIVALS = "messages", "arrivals"
# Not a choice of the operator: what refused messages and notices become.
DEAD_LETTERS = "dead letters"
QUEUE, KEY = "queue", "key"
STORED, DECOMPRESSED = "stored", "decompressed"
ALL, COORDINATES, NONE = "all", "coordinates", "none"
KEYS, UNIQ_KEY = "keys", "uniq_key"
TRANSACTIONS, IDEMPOTENT = "transactions", "idempotent"
STOP, DEAD_LETTER, CONTINUE = "stop", "dead-letter", "continue"
BEGIN = "begin"
EARLIEST, LATEST = "earliest", "latest"
HOLD = "hold"


@dataclass(frozen=True)
class KafkaSecurity:
    """How to get in. This has no secrets, only where they are found.

    Attributes:
        protocol: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.
        mechanism: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, GSSAPI or OAUTHBEARER; empty without SASL.
        username: for SASL.
        password_env: environment variable with the password.
        password_file: file with the password.
        ca_file: certificates to trust, PEM; the system's if empty.
        certificate_file: our own, PEM.
        key_file: its key, PEM.
        key_password_env: environment variable with the key's password.
        key_password_file: file with the key's password.
        checks_hostname: the broker's certificate has to be for the name it is reached by.
        token_provider: for OAUTHBEARER: `module:name` of what makes tokens.
    """

    protocol: str = "PLAINTEXT"
    mechanism: str = ""
    username: str = ""
    password_env: str = ""
    password_file: str = ""
    ca_file: str = ""
    certificate_file: str = ""
    key_file: str = ""
    key_password_env: str = ""
    key_password_file: str = ""
    checks_hostname: bool = True
    token_provider: str = ""


@dataclass(frozen=True)
class KafkaSettings:
    """What goes to Kafka, where to, and with which promise; docs/kafka.md explains each.

    Attributes:
        bootstrap: `host:port`, several with commas between.
        products: `MESSAGES`, `ARRIVALS` or both.
        topic: template of the topics that messages go to.
        arrivals_topic: template of the topics that arrival notices go to.
        include: patterns of RocketMQ topics, shell-like.
        exclude: likewise; goes before `include`.
        tags: tag expression, `*` for all.
        system_topics: those of RocketMQ itself too, and consumers' retry and dead-letter topics.
        partition_by: `QUEUE` or `KEY`.
        key: `KEYS`, `UNIQ_KEY` or `NONE`.
        body: `DECOMPRESSED` or `STORED`.
        headers: `ALL`, `COORDINATES` or `NONE`.
        mode: `TRANSACTIONS` or `IDEMPOTENT`.
        id_prefix: a store's transactional id is this and its name.
        progress_topic: where positions are committed.
        start: `EARLIEST` or `LATEST`, for a store that has no position yet.
        auto_create_topics: ask the broker to make topics that are missing.
        on_refusal: `STOP` or `DEAD_LETTER`.
        dead_letter_topic: where refused messages go.
        on_truncation: `STOP` or `CONTINUE` where the log is no longer the one that was sent.
        on_rename: `STOP`, `CONTINUE` or `BEGIN` where the log was sent under another id.
        on_failure: `HOLD`: what Kafka does not take holds back Kafka only; `STOP`: it ends the job.
        retry_seconds: how long Kafka may be away where an outage ends the job; 0: for ever.
        refusal_seconds: how long a topic that is missing or not allowed is asked for again.
        max_lag: bytes of log that dispatch may be ahead of Kafka; 0: any.
        batch_bytes: of records, for one partition.
        max_message_bytes: most bytes of a batch with a single record.
        transaction_bytes: of log, soft cap of one transaction.
        transaction_seconds: soft cap of the time for which a transaction takes in messages.
        transaction_timeout_seconds: after which Kafka aborts one by itself.
        buffer_bytes: sent, and not acknowledged yet.
        request_seconds: for one answer.
        compression: none, gzip, snappy, lz4 or zstd.
        client_id: the name by which Kafka's logs, metrics and quotas know the job.
        create_topics: make topics that are missing.
        new_topic_partitions: of a topic that is made; 0: the broker's default.
        new_topic_replication: replicas of a topic that is made; 0: the broker's default.
        client: settings of kafka-python that are passed on.
        security: how to get in.
    """

    bootstrap: str
    products: tuple[str, ...] = (MESSAGES,)
    topic: str = "{topic}"
    arrivals_topic: str = "rocketmq-arrivals"
    include: tuple[str, ...] = ("*",)
    exclude: tuple[str, ...] = ()
    tags: str = "*"
    system_topics: bool = False
    partition_by: str = QUEUE
    key: str = KEYS
    body: str = DECOMPRESSED
    headers: str = ALL
    mode: str = TRANSACTIONS
    id_prefix: str = "reput-"
    progress_topic: str = "reput-progress"
    start: str = EARLIEST
    auto_create_topics: bool = False
    on_refusal: str = STOP
    dead_letter_topic: str = "reput-dead-letters"
    on_truncation: str = STOP
    on_rename: str = STOP
    on_failure: str = HOLD
    retry_seconds: float = 600.0
    refusal_seconds: float = 10.0
    max_lag: int = 0
    batch_bytes: int = 256 << 10
    max_message_bytes: int = 1_000_000
    transaction_bytes: int = 16 << 20
    transaction_seconds: float = 1.0
    transaction_timeout_seconds: float = 60.0
    buffer_bytes: int = 32 << 20
    request_seconds: float = 30.0
    compression: str = NONE
    client_id: str = "reput"
    create_topics: bool = False
    new_topic_partitions: int = 0
    new_topic_replication: int = 0
    client: dict[str, Any] = field(default_factory=dict)
    security: KafkaSecurity = field(default_factory=KafkaSecurity)
