"""Where the texts of a whole record stand, whatever its hosts and its version."""

from __future__ import annotations

import pytest

from reput.formats.rocketmq.encode import Message, encode
from reput.stores.log.records import texts_of


@pytest.mark.parametrize("topic", ["t", "t" * 127, "t" * 128, "t" * 300])
@pytest.mark.parametrize("body", [b"", b"hello"])
@pytest.mark.parametrize("properties", [b"", b"KEYS\x01k1\x02"])
@pytest.mark.parametrize("born", ["10.0.0.9", "fe80::9"])
@pytest.mark.parametrize("stored", ["10.0.0.1", "fe80::1"])
def test_the_texts_are_those_that_were_written(topic, body, properties, born, stored):
    """
    A topic of more than 127 bytes has its length in two.
    """
    message = Message(topic, body, properties, born_host=born, store_host=stored)

    assert texts_of(encode(message, 1000)) == (topic.encode(), properties)


def test_a_record_may_have_none():
    """
    One that a disk has brought in part shows zeros in the rest.
    """
    assert texts_of(encode(Message("", b"hello", b""), 0)) == (b"", b"")
