"""Does Kafka get what is dispatched? Alerts about lag, refusals and stops."""

from __future__ import annotations

from helm.monitoring import series as s
from helm.monitoring.alerts.alert import CRITICAL, STORE, WARNING, Alert
from helm.monitoring.alerts.conditions import DISPATCHER, behind, errors, step

ALERTS = (
    Alert(
        "KafkaBehind",
        WARNING,
        "2m",
        behind(s.KAFKA_LAG_BYTES, "${kafkaBehindBytes}", "30m", "10m"),
        f"Kafka is behind the dispatch of {STORE}",
        "On average {{ $value | humanize1024 }}B were not sent over 30 minutes; the last 10"
        " minutes are above the threshold too.",
    ),
    Alert(
        "KafkaAway",
        WARNING,
        "3m",
        f"{s.KAFKA_CONNECTED}{DISPATCHER} == 0",
        f"Kafka does not take messages of {STORE}",
        "All attempts of the last minutes failed. Consume queues and index are not affected. Kafka"
        " gets the rest when it is back, unless the log expires first.",
    ),
    Alert(
        "KafkaDeadLetters",
        WARNING,
        "0s",
        step(s.KAFKA_DEAD),
        f"Kafka has refused messages of {STORE}",
        "{{ $value | humanize }} of the last hour are in the dead-letter topic.",
    ),
    Alert(
        "KafkaStopped",
        CRITICAL,
        "0s",
        f"{errors('kafka')}\nor {step(s.KAFKA_TRUNCATIONS)}\nor {s.KAFKA_HELD}{DISPATCHER} == 1",
        f"Kafka may not have what is in the log of {STORE}",
        "Kafka is held back until you act, because it refuses a message or another job sends this"
        " store; or the log was cut or expired below what Kafka was to have; or the job was"
        " configured to stop when Kafka fails.",
    ),
)
