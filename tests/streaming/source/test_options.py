"""Options: any case, Spark's words, and an error that names what is wrong."""

from __future__ import annotations

import dataclasses
import json

import pytest

from reput.formats.errors import UsageError
from reput.formats.rocketmq.broker import BrokerSettings
from reput.streaming.source import options
from reput.streaming.source.options import Bound, parse
from reput.streaming.source.store_options import BROKER_NAMES


def test_defaults_read_all_of_one_store(tmp_path):
    parsed = parse({"path": str(tmp_path / "broker-a")})

    (store,) = parsed.stores
    assert (store.name, store.starting, store.ending) == (
        "broker-a",
        Bound(options.EARLIEST),
        Bound(options.LATEST),
    )
    assert (parsed.rows, parsed.max_bytes, parsed.max_records) == (options.MESSAGES, None, None)
    assert parsed.fail_on_data_loss


def test_names_come_without_their_case():
    """
    Spark hands them over in lower case; RocketMQ's own names get theirs back.
    """
    parsed = parse(
        {"PATH": "/a", "broker.mappedfilesizecommitlog": "4096", "MAXBYTESPERTRIGGER": "2m"}
    )

    assert parsed.stores[0].settings.commitlog_file_size == 4096
    assert parsed.max_bytes == 2 << 20


def test_settings_of_a_store_go_before_the_querys(tmp_path):
    conf = tmp_path / "broker.conf"
    conf.write_text("mappedFileSizeCommitLog=1000\nmaxMessageSize=2000\n")
    stores = {
        "a": "/a",
        "b": {"path": "/b", "brokerVersion": "4.9.8", "broker": {"maxMessageSize": 5}},
    }
    parsed = parse(
        {
            "stores": json.dumps(stores),
            "brokerConf": str(conf),
            "broker.mappedFileSizeCommitLog": "3000",
            "startingOffsets": '{"a": "latest", "b": 77}',
        }
    )
    a, b = parsed.stores

    assert (a.settings.version.family, b.settings.version.family) == ("5.5", "4.9")
    assert (a.settings.commitlog_file_size, a.settings.max_message_size) == (3000, 2000)
    assert b.settings.max_message_size == 5
    assert (a.starting, b.starting) == (Bound("latest"), Bound("offset", 77))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1700000000000", 1_700_000_000_000),
        ("2023-11-14T22:13:20Z", 1_700_000_000_000),
        ("2023-11-15T00:13:20.5+02:00", 1_700_000_000_500),
    ],
)
def test_moments(text, value):
    (store,) = parse({"path": "/a", "startingTimestamp": text}).stores

    assert store.starting == Bound("timestamp", value)
    (store,) = parse({"path": "/a", "endingOffsets": f"timestamp:{text}"}).stores
    assert store.ending == Bound("timestamp", value)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "option path is missing"),
        ({"path": "/a/s,/b/s"}, "two stores are called 's'"),
        ({"path": "/a", "statingOffsets": "1"}, "did you mean startingOffsets?"),
        ({"path": "/a", "broker.mapedFileSizeCommitLog": "1"}, "broker.mappedFileSizeCommitLog?"),
        ({"path": "/a", "colour": "red"}, "option 'colour' is not known; known are path"),
        ({"path": "/a", "rows": "all"}, "rows='all': it is messages or ranges"),
        ({"path": "/a", "maxRecordsPerTrigger": "0"}, "maxRecordsPerTrigger='0'"),
        ({"path": "/a", "minPartitions": "x"}, "minPartitions='x'"),
        ({"path": "/a", "failOnDataLoss": "maybe"}, "failOnDataLoss='maybe'"),
        ({"path": "/a", "endingOffsets": "earliest"}, "endingOffsets='earliest': it is latest"),
        ({"path": "/a", "startingTimestamp": "noon"}, "startingTimestamp='noon' is neither"),
        ({"path": "/a", "startingOffsets": "1", "startingTimestamp": "1"}, "not both"),
        ({"path": "/a", "startingOffsets": '{"b": 1}'}, "startingOffsets: no store is called 'b'"),
        ({"path": "/a,/b", "startingOffsets": '{"b": 1}'}, "store 'a' is missing"),
        ({"path": "/a", "startingOffsets": "{"}, "startingOffsets='{' is not JSON"),
        ({"stores": "[]"}, "stores must be JSON such as"),
        ({"stores": '{"a": {"pth": "/a"}}'}, "stores: a: unknown key 'pth'"),
        ({"stores": '{"a": {}}'}, "stores: a: path is missing"),
        ({"path": "/a", "brokerVersion": "6.0"}, "broker version '6.0' is not known"),
        ({"path": "/a", "brokerConf": "/none"}, "broker_conf /none cannot be read"),
    ],
)
def test_mistakes_are_named(given, message):
    with pytest.raises(UsageError) as raised:
        parse(given)
    assert message in str(raised.value)


def test_known_ends_are_of_stores_by_name(tmp_path):
    parsed = parse(
        {"stores": '{"a": "/a", "b": "/b"}', "rows": "ranges", "knownEnds": '{"b": [9, 4, 5, 77]}'}
    )

    a, b = parsed.stores
    assert a.known_end is None
    assert b.known_end == options.KnownEnd(end=9, physical_offset=4, size=5, hash=77)


@pytest.mark.parametrize(
    "text", ["[]", '{"c": [9, 4, 5, 77]}', '{"a": [9, 4, 5]}', '{"a": 9}', '{"a": [9, 4, 5, "7"]}']
)
def test_known_ends_that_are_none_are_refused(text):
    with pytest.raises(UsageError, match=r"knownEnds must be JSON such as"):
        parse({"stores": '{"a": "/a"}', "knownEnds": text})


def test_each_broker_setting_that_is_read_has_an_option():
    """
    Spark hands names over in lower case: a setting that is not listed would be refused.
    """
    read = {each.metadata.get("name") for each in dataclasses.fields(BrokerSettings)} - {None}

    assert len(read) > 10
    assert read <= set(BROKER_NAMES)
