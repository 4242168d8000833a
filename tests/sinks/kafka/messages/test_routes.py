"""Which topics are sent to Kafka, and how they are called there."""

from __future__ import annotations

import pytest

from reput.formats.errors import UsageError
from reput.sinks.kafka.client.settings import KafkaSettings
from reput.sinks.kafka.messages.routes import Routes, TagExpression, is_system, kafka_topic


@pytest.mark.parametrize(
    ("topic", "name"),
    [
        ("orders", "orders"),
        ("%RETRY%group", ".RETRY.group"),
        ("a|b", "a.b"),
        ("订单", "_e8aea2_e58d95"),
    ],
)
def test_names_are_what_kafka_takes(topic, name):
    assert kafka_topic("{topic}", topic, "s") == name
    assert kafka_topic("{store}-{topic}", topic, "s") == f"s-{name}"


def test_a_name_that_cannot_be_is_refused():
    for template, topic in (("{topic}", "x" * 250), ("{topic}", "."), ("{other}", "a"), ("{", "a")):
        with pytest.raises(UsageError):
            kafka_topic(template, topic, "s")


def routes(**settings):
    return Routes(KafkaSettings("k:1", **settings), "s", lambda _: 4)


def test_patterns_and_system_topics():
    chosen = routes(include=("orders*", "%RETRY%*", "SCHEDULE*"), exclude=("*-test",))

    assert chosen.takes("orders-eu")
    assert not chosen.takes("orders-test")
    assert not chosen.takes("other")
    assert not chosen.takes("%RETRY%orders")
    assert routes(include=("%RETRY%*",), system_topics=True).takes("%RETRY%orders")
    assert not routes(system_topics=True).takes("SCHEDULE_TOPIC_XXXX")
    assert not routes(system_topics=True).takes("RMQ_SYS_TRANS_HALF_TOPIC")


def test_what_is_rocketmqs_own():
    assert is_system("RMQ_SYS_TRACE_TOPIC")
    assert is_system("rmq_sys_REVIVE_LOG_x")
    assert is_system("%DLQ%group")
    assert not is_system("orders")


def test_expressions():
    assert TagExpression("*").takes_all
    assert TagExpression("").takes_all
    assert not TagExpression("A||B").takes_all
    with pytest.raises(UsageError):
        TagExpression("A || || B")
