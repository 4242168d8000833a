"""Makes topics that are missing: the one with the positions, and others if the operator asks."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from kafka import KafkaAdminClient, errors

from reput.sinks.kafka.client.errors import AccessError, AwayError, TopicError, describe
from reput.sinks.kafka.client.options import connection_options

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reput.sinks.kafka.client.settings import KafkaSettings

_PARTITIONS = 8
_TOPIC_CONFIG = {
    "cleanup.policy": "compact",
    # One record a transaction: closed and compacted before reading it takes long.
    "segment.bytes": str(16 << 20),
    "segment.ms": "3600000",
    "min.cleanable.dirty.ratio": "0.1",
}


def create_topic(
    settings: KafkaSettings, access: Mapping[str, Any], topic: str, wanted: Mapping[str, Any]
) -> None:
    """Make a topic, if it is not there yet.

    Args:
        settings: the operator's.
        access: kafka-python's settings of security.
        topic: its name.
        wanted: what kafka-python's `create_topics` takes.

    Raises:
        kafka.errors.KafkaError: it could not be made.
    """
    admin = KafkaAdminClient(**{**connection_options(settings), **access})
    try:
        with contextlib.suppress(errors.TopicAlreadyExistsError):
            admin.create_topics({topic: dict(wanted)})
    finally:
        admin.close()


def make_topic(settings: KafkaSettings, access: Mapping[str, Any]) -> None:
    """Make the progress topic.

    Raises:
        AccessError: that is not allowed.
        AwayError: Kafka does not answer.
    """
    wanted = {"num_partitions": _PARTITIONS, "configs": _TOPIC_CONFIG}
    try:
        create_topic(settings, access, settings.progress_topic, wanted)
    except (errors.ClusterAuthorizationFailedError, errors.TopicAuthorizationFailedError) as error:
        raise AccessError(
            f"topic {settings.progress_topic}, which holds the positions, is not there and we may "
            f"not make it. Make it with cleanup.policy=compact, or allow us to ({describe(error)})"
        ) from error
    except errors.KafkaError as error:
        raise AwayError(
            f"topic {settings.progress_topic} could not be made: {describe(error)}"
        ) from error


def make_wanted_topic(settings: KafkaSettings, access: Mapping[str, Any], topic: str) -> None:
    """Make a topic that messages go to.

    Raises:
        TopicError: it could not be made.
    """
    wanted = {
        "num_partitions": settings.new_topic_partitions or -1,
        "replication_factor": settings.new_topic_replication or -1,
    }
    try:
        create_topic(settings, access, topic, wanted)
    except errors.KafkaError as refused:
        raise TopicError(
            f"Kafka at {settings.bootstrap}: topic {topic} is missing, and could not be "
            f"made (create_topics): {describe(refused)}"
        ) from refused
